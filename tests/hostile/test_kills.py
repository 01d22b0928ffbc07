"""Kills at random moments: no row, score or weight is lost or wrong, and no process or file is left."""

from pathlib import Path

import numpy as np
import pytest

from tests.hostile.commands import ended
from tests.hostile.killing import WORKS, kills_and_resumes

QUICK, ALL = 15, 200


@pytest.fixture(scope="session")
def needed(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network, data and kept scores for seconds of work."""
    place = tmp_path_factory.mktemp("needed")
    (place / "net.safetensors").write_bytes((world / "net.safetensors").read_bytes())
    random = np.random.default_rng(1)
    labels = np.arange(15) % 3
    x = (0.1 + 0.3 * labels[:, None, None, None] + 0.2 * random.random((15, 1, 8, 8))).astype(np.float32)
    np.savez(place / "many.npz", x_train=x[::-1], y_train=labels[::-1], x_test=x, y_test=labels)
    words = ("--model", f"trained:{place}/net.safetensors", "--data", f"npz:{place}/many.npz", "--sigma", "0.5")
    sizes = ("--n0", "100", "--n", "3000", "--batch", "100", "--device", "cpu", "--method", "cohen")
    assert ended(("certify", *words, *sizes, "--keep-scores", "--out", f"{place}/kept"))[0] == 0
    return place


@pytest.mark.parametrize("name", WORKS)
def test_some_kills(name: str, needed: Path, tmp_path: Path) -> None:
    kills_and_resumes(WORKS[name], needed, tmp_path, QUICK // len(WORKS), f"some {name}")


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKS)
def test_two_hundred_kills(name: str, needed: Path, tmp_path: Path) -> None:
    kills_and_resumes(WORKS[name], needed, tmp_path, ALL // len(WORKS), f"many {name}")
