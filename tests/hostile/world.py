"""The small world in which every bad input is tried: one network, one data set, runs and files of other projects.

It is made once per session by the commands themselves, and no case may change it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import numpy as np

from lvmrs.record import Run
from tests.hostile.commands import ended

__all__ = ["INPUTS", "build", "state"]

INPUTS = 6


def build(world: Path) -> None:
    """Make everything that cases name as ``{world}/…``."""
    random = np.random.default_rng(0)
    labels = np.arange(INPUTS) % 3
    shades = 0.1 + 0.3 * labels[:, None, None, None]  # each class is a shade of grey, so that the network learns it
    images = (shades + 0.2 * random.random((INPUTS, 1, 8, 8))).astype(np.float32)
    np.savez(world / "data.npz", x_train=images[::-1], y_train=labels[::-1], x_test=images, y_test=labels)
    sampled = (
        "--model", f"trained:{world}/net.safetensors", "--data", f"npz:{world}/data.npz", "--sigma", "0.5",
        "--n0", "20", "--n", "60", "--batch", "20", "--device", "cpu",
    )  # fmt: skip
    training = ("--model", "ready:small_cnn,width=2", "--data", f"npz:{world}/data.npz", "--sigma", "0.5")
    _well("train", *training, "--epochs", "60", "--lr", "0.05", "--device", "cpu", "--out", f"{world}/net.safetensors")
    _well("certify", *sampled, "--keep-scores", "--out", f"{world}/run")
    shutil.copytree(world / "run", world / "attacked")
    lightly = ("--steps", "1", "--restarts", "1", "--samples", "2", "--n", "20", "--max", "2", "--device", "cpu")
    _well("attack", f"{world}/attacked", *lightly)
    _well("certify", *sampled, "--method", "cohen", "--out", f"{world}/plain")
    smoothed = ("--model", f"trained:{world}/net.safetensors", "--data", f"npz:{world}/data.npz", "--sigma", "0.5")
    found = ("--method", "fixed", "--map", "softmax", "--n0", "20", "--n", "60", "--out", f"{world}/settings.json")
    _well("calibrate", *smoothed, *found, "--batch", "20", "--device", "cpu")
    for shard in (1, 2):
        _well("certify", *sampled, "--shard", f"{shard}/2", "--out", f"{world}/shard-{shard}")
    lines = [f"{k}\t{k % 3}\t{k % 2}\t0.{k}\t1\t0:00:01" for k in range(INPUTS)]
    (world / "other.tsv").write_text("\n".join(["idx\tlabel\tpredict\tradius\tcorrect\ttime", *lines]) + "\n")
    (world / "code").mkdir()
    (world / "text.txt").write_text("This is a text, and nothing else.\n")
    (world / "rows-only").mkdir()
    (world / "rows-only" / "certificates.tsv").write_bytes(Run(world / "run").file.read_bytes())
    (world / "empty").mkdir()
    (world / "broken").symlink_to(world / "nowhere")
    for name in ("pipe", "pipe.py"):
        os.mkfifo(world / name)
    (world / "loop").symlink_to(world / "loop")
    _pictures(world / "pictures")


def _pictures(folder: Path) -> None:
    from PIL import Image

    for label in ("0", "1"):
        (folder / label).mkdir(parents=True)
        Image.fromarray(np.full((8, 8), 100 * int(label), np.uint8)).save(folder / label / "a.png")


def _well(*words: str) -> None:
    code, _, err = ended(words)
    if code:
        raise AssertionError(f"lvmrs {' '.join(words)} ended with {code}: {err}")


def state(world: Path) -> dict[str, str]:
    """A hash of each file, to see that nothing was changed."""
    return {
        str(path.relative_to(world)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(world.rglob("*"))
        if path.is_file() and not os.path.islink(path) and "__pycache__" not in path.parts  # noqa: PTH114
    }
