"""Files with random damage: each is refused with one sentence, or what is read of it is what stands in it.

``FORMATS`` has for each format how a whole file is made from the world, how it is damaged, and how it is read and
compared. File number k of a format is always the same, so that a failure can be made again with ``tried``: the path of
the world and the times at which it was made are replaced before a file is damaged.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import safetensors.torch
import torch

from lvmrs import analysis, data, models, runs
from lvmrs.analysis.report import write_report
from lvmrs.errors import LvmrsError
from lvmrs.planners import Duels
from lvmrs.record import Run
from lvmrs.record.attacks import Attack
from lvmrs.record.manifest import ClassifierRecord
from lvmrs.training import Gaussian, Settings, train
from tests.hostile import mutations
from tests.hostile.commands import check_sentence, limited
from tests.hostile.public_rooms import arrays, classifier

__all__ = ["FORMATS", "Format", "tried"]


class Format(NamedTuple):
    """How files of a format are made, damaged and read."""

    share: int
    """How many of a hundred damaged files are of this format."""
    whole: Callable[[Path], bytes]
    damaged: Callable[[Random, bytes], bytes]
    read: Callable[[Path, Path, bytes], None]
    """Reads the damaged bytes in a directory of their own, and compares; the world is the first argument."""


def tried(format_: Format, name: str, number: int, world: Path, given: Path) -> str | None:
    """What is wrong with how this file is read; None if it is refused or read well."""
    damaged = format_.damaged(Random(f"{name} {number}"), format_.whole(world))  # noqa: S311
    shutil.rmtree(given, ignore_errors=True)
    given.mkdir()
    try:
        with limited(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            format_.read(world, given, damaged)
    except LvmrsError as error:
        try:
            check_sentence(str(error))
        except AssertionError as fault:
            return f"{name} {number}: {fault}"
    except AssertionError as error:
        return f"{name} {number}: accepted, but {error}"
    except Exception as error:  # what must not happen; shown with what happened to the other files
        return f"{name} {number}: {type(error).__name__}: {str(error)[:200]}"
    return None


_WORLD = "/world"
"""Stands for the path of the world in a file that is to be damaged."""


def _settled(text: str, world: Path) -> str:
    """JSON without what differs from world to world: its path, and times."""
    text = text.replace(str(world), _WORLD)
    text = re.sub(r'("begun": )"[^"]*"', r'\1"2026-01-01T00:00:00+0000"', text)
    return re.sub(r'("seconds": )[0-9.e-]+', r"\g<1>0.5", text)


def _written_rows(world: Path) -> bytes:
    header, *lines = [line.split("\t") for line in (world / "run" / "certificates.tsv").read_text().splitlines()]
    for line in lines:
        line[header.index("time")] = "0.25"
    return "".join("\t".join(line) + "\n" for line in (header, *lines)).encode()


def _copied(world: Path, given: Path, file: str, content: bytes) -> Run:
    shutil.copytree(world / "run", given / "run")
    (given / "run" / file).write_bytes(content)
    return Run(given / "run")


def _manifest(world: Path, given: Path, content: bytes) -> None:
    content = content.replace(_WORLD.encode(), str(world).encode())
    run = _copied(world, given, "manifest.json", content)
    found, written = json.loads(run.manifest.to_json()), json.loads(content)
    assert found == written, f"it is read as {_difference(found, written)}"
    summary = analysis.summarise(analysis.results_of(run), [0.0, 0.5])
    assert math.isfinite(summary.average_certified_radius.value), "the average radius is not a number"
    write_report([run], given / "a.html", radii=[0.0])


def _difference(found: Any, written: Any) -> str:
    if isinstance(found, dict) and isinstance(written, dict):
        return "; ".join(
            f"{k}: {found.get(k)!r:.80} for {written.get(k)!r:.80}"
            for k in {**found, **written}
            if found.get(k) != written.get(k)
        )
    return f"{found!r:.80} for {written!r:.80}"


def _same(found: object, text: str) -> bool:
    """Whether a field was read as what stands in the file."""
    if found is None:
        return text == "-"
    if isinstance(found, str):
        return found == text
    assert isinstance(found, int | float)
    return found == float(text) and math.isfinite(found)


def _complete_lines(content: bytes) -> list[list[str]]:
    lines = content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return [line.split("\t") for line in lines[:-1]]


def _rows(world: Path, given: Path, content: bytes) -> None:
    run = _copied(world, given, "certificates.tsv", content)
    found = run.rows()
    results = analysis.results_of(run)
    assert len(results) == len(found)
    header, *lines = _complete_lines(content)
    lines = [line for line in lines if line != [""]]
    assert len(found) == len(lines), f"{len(found)} rows of {len(lines)} lines"
    names = [name.strip() for name in header]
    for row, line in zip(found, lines, strict=True):
        for name, text in zip(names, line, strict=True):
            assert _same(getattr(row, name), text), f"{name} is {getattr(row, name)!r} for {text!r:.60}"


def _written_attack_rows(world: Path) -> bytes:
    header, *lines = [line.split("\t") for line in (world / "attacked" / "attack.tsv").read_text().splitlines()]
    for line in lines:
        line[header.index("seconds")] = "0.25"
    return "".join("\t".join(line) + "\n" for line in (header, *lines)).encode()


def _written(file: str) -> Callable[[Path], bytes]:
    return lambda world: _settled((world / file).read_text(), world).encode()


def _attacked(world: Path, given: Path, file: str, content: bytes) -> Attack | None:
    shutil.copytree(world / "attacked", given / "attacked")
    (given / "attacked" / file).write_bytes(content)
    run = Run(given / "attacked")
    analysis.summarise(analysis.results_of(run), [0.0, 0.5])
    return Attack.of(run)


def _attack(world: Path, given: Path, content: bytes) -> None:
    attack = _attacked(world, given, "attack.json", content)
    assert attack is not None
    found, written = json.loads(attack.record.to_json()), json.loads(content)
    assert found == written, f"it is read as {_difference(found, written)}"


def _attack_rows(world: Path, given: Path, content: bytes) -> None:
    attack = _attacked(world, given, "attack.tsv", content)
    assert attack is not None
    found = attack.rows()
    _, *lines = _complete_lines(content) or [[]]
    lines = [line for line in lines if line != [""]]
    assert len(found) == len(lines), f"{len(found)} rows of {len(lines)} lines"
    for row, line in zip(found, lines, strict=True):
        for value, text in zip(vars(row).values(), line, strict=True):
            assert _same(value, text), f"{value!r} for {text!r:.60}"


def _classifier(world: Path, given: Path, content: bytes) -> None:
    (given / "settings.json").write_bytes(content)
    found, written = json.loads(ClassifierRecord.read(given / "settings.json").to_json()), json.loads(content)
    assert found == written, f"it is read as {_difference(found, written)}"


def _results(world: Path, given: Path, content: bytes) -> None:
    (given / "other.tsv").write_bytes(content)
    found = analysis.read(given / "other.tsv")
    whole = content if content.endswith((b"\n", b"\r")) else content + b"\n"
    header, *lines = _complete_lines(whole)
    names = [name.strip() for name in header]
    lines = [line for line in lines if line != [""]]
    assert len(found) == len(lines), f"{len(found)} rows of {len(lines)} lines"
    for k, line in enumerate(lines):
        for name in ("idx", "label", "predict", "radius"):
            if (values := getattr(found, name)) is None:  # labels, if that of one input is not known
                assert "-" in [other[names.index(name)].strip() for other in lines], f"{name}: no label is missing"
                continue
            assert _same(values[k].item(), line[names.index(name)]), f"{name} of line {k}: {line}"


def _scores(stage: str) -> Callable[[Path, Path, bytes], None]:
    def read(world: Path, given: Path, content: bytes) -> None:
        run = _copied(world, given, f"scores-{stage}.npy", content)
        made = runs.recertify(run, given / "again", Duels())
        assert [_certified(row) for row in made.rows()] == [_certified(row) for row in Run(world / "run").rows()], (
            "other rows are certified"
        )

    return read


def _certified(row: Any) -> tuple[Any, ...]:
    return row.idx, row.predict, row.radius, row.p_lower, row.p_upper, row.top


def _weights(world: Path, given: Path, content: bytes) -> None:
    (given / "net.safetensors").write_bytes(content)
    model = models.load(f"trained:{given / 'net.safetensors'}").model
    held = safetensors.torch.load(content)
    inner = getattr(model, "model", model)
    assert isinstance(inner, torch.nn.Module)
    for key, value in inner.state_dict().items():
        assert torch.equal(value, held[key]), f"{key} has other values"
        assert torch.isfinite(value).all(), f"{key} is not finite"


_HEADER = 8


def _written_weights(world: Path) -> bytes:
    whole = (world / "net.safetensors").read_bytes()
    size = int.from_bytes(whole[:_HEADER], "little")
    header = json.loads(whole[_HEADER : _HEADER + size])
    header["__metadata__"]["lvmrs"] = _settled(header["__metadata__"]["lvmrs"], world)
    text = json.dumps(header).encode()
    return len(text).to_bytes(_HEADER, "little") + text + whole[_HEADER + size :]


def _damaged_weights(random: Random, whole: bytes) -> bytes:
    """Damage the header, which is JSON, or any bytes."""
    if random.random() < 0.4:
        return mutations.of_bytes(random, whole)
    size = int.from_bytes(whole[:_HEADER], "little")
    header = json.loads(whole[_HEADER : _HEADER + size])
    if random.random() < 0.6:  # what lvmrs train wrote about the network
        about = mutations.of_json(random, header["__metadata__"]["lvmrs"].encode())
        header["__metadata__"]["lvmrs"] = about.decode("utf-8", errors="replace")
        text = json.dumps(header).encode()
    else:
        text = mutations.of_json(random, json.dumps(header).encode())
    return len(text).to_bytes(_HEADER, "little") + text + whole[_HEADER + size :]


def _damaged_scores(random: Random, whole: bytes) -> bytes:
    """Damage the header, or any bytes."""
    if random.random() < 0.5:
        head = whole.index(b"\n") + 1
        return mutations.of_bytes(random, whole[:head]) + whole[head:]
    return mutations.of_bytes(random, whole)


def _archive(world: Path, given: Path, content: bytes) -> None:
    (given / "data.npz").write_bytes(content)
    found = data.load(f"npz:{given / 'data.npz'}")
    whole = data.load(f"npz:{world / 'data.npz'}")
    assert isinstance(found, data.Arrays)
    assert isinstance(whole, data.Arrays)
    assert np.array_equal(found.inputs, whole.inputs), "other inputs are read"
    assert found.labels is not None
    assert whole.labels is not None
    assert np.array_equal(found.labels, whole.labels), "other labels are read"


class _StopError(Exception):
    """Ends a training after an epoch."""


def _checkpoint_of(world: Path) -> bytes:
    place = world.parent / f"{world.name}.checkpoint"
    if not place.exists():

        def stop(epoch: object) -> None:
            raise _StopError

        with contextlib.suppress(_StopError):
            train(classifier(), arrays(), Gaussian(0.5), _SETTINGS, saved=place, device="cpu", on_epoch=stop)
    return place.read_bytes()


_SETTINGS = Settings(epochs=2, batch=6)


def _checkpoint(world: Path, given: Path, content: bytes) -> None:
    saved = given / "a.checkpoint"
    saved.write_bytes(content)
    model = classifier()
    history = train(model, arrays(), Gaussian(0.5), _SETTINGS, saved=saved, resume=True, device="cpu")
    assert [epoch.number for epoch in history] == [1, 2], "epochs are lost"
    whole = _trained_whole()
    for key, value in model.state_dict().items():
        assert torch.equal(value, whole[key]), f"the training ends with another {key}"


def _trained_whole() -> dict[str, Any]:
    model = classifier()
    train(model, arrays(), Gaussian(0.5), _SETTINGS, device="cpu")
    return dict(model.state_dict())


def _of(file: str) -> Callable[[Path], bytes]:
    return lambda world: (world / file).read_bytes()


FORMATS: dict[str, Format] = {
    "manifest": Format(19, _written("run/manifest.json"), mutations.of_json, _manifest),
    "rows": Format(15, _written_rows, mutations.of_table, _rows),
    "results": Format(8, _of("other.tsv"), mutations.of_table, _results),
    "selection scores": Format(8, _of("run/scores-selection.npy"), _damaged_scores, _scores("selection")),
    "certification scores": Format(8, _of("run/scores-certification.npy"), _damaged_scores, _scores("certification")),
    "weights": Format(11, _written_weights, _damaged_weights, _weights),
    "attack": Format(5, _written("attacked/attack.json"), mutations.of_json, _attack),
    "attack rows": Format(5, _written_attack_rows, mutations.of_table, _attack_rows),
    "settings": Format(9, _written("settings.json"), mutations.of_json, _classifier),
    "archive": Format(6, _of("data.npz"), mutations.of_bytes, _archive),
    "checkpoint": Format(6, _checkpoint_of, mutations.of_bytes, _checkpoint),
}
