"""Damaged files of every format, and the commands that read them.

``READERS`` has the commands for each format. To add a case, add a line to a table of damages: what it makes must be
wrong for every reader of its format.
"""
# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Iterator

from tests.hostile.damage import Damage
from tests.hostile.damaged_attacks import damaged_attacks
from tests.hostile.damaged_inputs import damaged_inputs
from tests.hostile.damaged_runs import damaged_runs
from tests.hostile.user_code import damaged_code

__all__ = ["READERS", "file_cases"]

_SAMPLED = "--sigma 0.5 --n0 20 --n 60 --batch 20 --max 2 --device cpu"
_NET = "--model trained:{world}/net.safetensors"
_DATA = "--data npz:{world}/data.npz"
READERS: dict[str, tuple[str, ...]] = {
    "manifest": (
        "analyze {given}/run",
        "recertify {given}/run --out a",
        "report {given}/run --data none -o a.html",
        f"predict {_NET} {_DATA} --like {{given}}/run --n0 20 --n 60 --batch 20 --max 2 --device cpu",
        "verify {given}/run --rows 1",
    ),
    "settings": (
        f"predict {_NET} {_DATA} --settings {{given}}/settings.json --n0 20 --n 60 --batch 20 --max 2 --device cpu",
        f"certify {_NET} {_DATA} --settings {{given}}/settings.json --n0 20 --n 60 --batch 20 --max 2 --device cpu --out a",
    ),
    "field": ("analyze {given}/run",),
    "rows": (
        "analyze {given}/run",
        "recertify {given}/run --out a",
        "report {given}/run --data none -o a.html",
        "compare {given}/run {world}/plain",
        "plot {given}/run -o a.png",
        "verify {given}/run --rows 1",
    ),
    "other columns": ("recertify {given}/run --out a", "verify {given}/run --rows 1"),
    "scores": ("recertify {given}/run --out a",),
    "attack": (
        "analyze {given}/attacked",
        "attack {given}/attacked --steps 1 --restarts 1 --samples 2 --n 20 --max 2 --device cpu",
        "report {given}/attacked --data none -o a.html",
        "plot {given}/attacked -o a.png",
    ),
    "weights": (
        f"certify --model trained:{{given}}/net.safetensors {_DATA} {_SAMPLED} --out a",
        "lipschitz --model trained:{given}/net.safetensors --shape 1,8,8",
        f"train --model trained:{{given}}/net.safetensors {_DATA} --sigma 0.5 --epochs 1 --device cpu --out a.safetensors",
    ),
    "torch weights": (
        f"predict --model ready:small_cnn,width=2,classes=3 --weights {{given}}/net.pt {_DATA} {_SAMPLED}",
        "lipschitz --model trained:{given}/net.pt --shape 1,8,8",
    ),
    "npz": (
        f"certify {_NET} --data npz:{{given}}/data.npz {_SAMPLED} --out a",
        f"predict {_NET} --data npz:{{given}}/data.npz {_SAMPLED}",
        "train --model ready:small_cnn --data npz:{given}/data.npz --sigma 0.5 --epochs 1 --device cpu "
        "--test-split none --out a.safetensors",
    ),
    "results": (
        "analyze {given}/other.tsv",
        "import {given}/other.tsv --sigma 0.5 --out a",
        "compare {given}/other.tsv {world}/other.tsv",
        "plot {given}/other.tsv -o a.png",
    ),
    "pictures": (f"certify {_NET} --data imagefolder:{{given}}/pictures {_SAMPLED} --out a",),
    "cifar10": (f"predict {_NET} --data cifar10:{{given}}/cifar {_SAMPLED}",),
    "onnx": (f"predict --model onnx:{{given}}/net.onnx {_DATA} {_SAMPLED}",),
    "export": (f"predict --model export:{{given}}/net.pt2 {_DATA} {_SAMPLED}",),
    "code of a model": tuple(
        f"{command} --model python:{{given}}/mine.py:model {_DATA} {_SAMPLED}{end}"
        for command, end in (("certify", " --out a"), ("predict", ""))
    ),
    "code of data": tuple(
        f"{command} {_NET} --data python:{{given}}/mine.py:data {_SAMPLED}{end}"
        for command, end in (("certify", " --out a"), ("predict", ""))
    ),
    "hash of data": (f"certify {_NET} --data python:{{given}}/mine.py:data {_SAMPLED} --out a",),
    "code of a planner": (f"certify {_NET} {_DATA} {_SAMPLED} --method python:{{given}}/mine.py:Mine --out a",),
    "code of a map": (f"certify {_NET} {_DATA} {_SAMPLED} --method lvm --map python:{{given}}/mine.py:Mine --out a",),
    "code of a noise": (f"certify {_NET} {_DATA} {_SAMPLED} --noise python:{{given}}/mine.py:Mine --out a",),
    "code of an objective": (
        f"train --model ready:small_cnn,width=2 {_DATA} --sigma 0.5 --epochs 1 --device cpu --out a.safetensors "
        "--objective python:{given}/mine.py:Mine",
    ),
}


def file_cases() -> Iterator[tuple[str, Damage, list[str]]]:
    """The name, the damage and the words of each case: the first reader of each format, and the others in turn."""
    for number, damage in enumerate((*damaged_runs(), *damaged_attacks(), *damaged_inputs(), *damaged_code())):
        first, *others = READERS[damage.format]
        for line in (first, *others[number % len(others) :][:1]) if others else (first,):
            yield f"{line.partition(' ')[0]} {damage.format} {damage.label}", damage, line.split()
