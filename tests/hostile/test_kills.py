"""Kills at random moments: no row, score or weight is lost or wrong, and no process or file is left."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.hostile.commands import ended
from tests.hostile.killing import WORKS, kills_and_resumes

QUICK, ALL = 10, 200


def data_of(inputs: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    labels = np.arange(inputs) % 3
    noise = np.random.default_rng(1).random((inputs, 1, 8, 8))
    return (0.1 + 0.3 * labels[:, None, None, None] + 0.2 * noise).astype(np.float32), labels


@pytest.fixture(scope="session")
def needed(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network, data for seconds of work, and kept scores that are worth several processes."""
    place = tmp_path_factory.mktemp("needed")
    (place / "net.safetensors").write_bytes((world / "net.safetensors").read_bytes())
    few, many = data_of(15), data_of(100)
    np.savez(place / "few.npz", x_train=few[0][::-1], y_train=few[1][::-1], x_test=few[0], y_test=few[1])
    np.savez(place / "many.npz", x_test=many[0], y_test=many[1])
    words = ("--model", f"trained:{place}/net.safetensors", "--data", f"npz:{place}/many.npz", "--sigma", "0.5")
    sizes = ("--n0", "50", "--n", "400", "--batch", "450", "--device", "cpu", "--method", "cohen")
    assert ended(("certify", *words, *sizes, "--keep-scores", "--out", f"{place}/kept"))[0] == 0
    return place


@pytest.mark.parametrize("name", WORKS)
def test_some_kills(name: str, needed: Path, tmp_path: Path) -> None:
    kills_and_resumes(WORKS[name], needed, tmp_path, QUICK // len(WORKS), f"some {name}")


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKS)
def test_two_hundred_kills(name: str, needed: Path, tmp_path: Path) -> None:
    kills_and_resumes(WORKS[name], needed, tmp_path, ALL // len(WORKS), f"many {name}")
