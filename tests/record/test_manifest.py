"""Manifests are typed: each field is read with its type and range checked, and compared unless it is a note."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from lvmrs._util.facts import DataFacts, DenoiserFacts, ModelFacts
from lvmrs.engine.way import Way
from lvmrs.errors import RunError
from lvmrs.planners import Cohen
from lvmrs.record import Manifest
from lvmrs.record.manifest import DataRecord, DenoiserRecord, ModelRecord, Origin, TermsRecord
from lvmrs.record.records import read_record
from tests.runs.helpers import job_of

MANIFEST = job_of(Cohen()).manifest(Way(64), "lvmrs certify …")


def written(tmp_path: Path, stored: object) -> Path:
    file = tmp_path / "manifest.json"
    file.write_text(json.dumps(stored))
    return file


def test_what_is_written_is_read(tmp_path: Path) -> None:
    file = tmp_path / "manifest.json"
    full = dataclasses.replace(
        MANIFEST,
        model=ModelRecord(
            "onnx:a.onnx",
            "f00",
            "c0de",
            {"mean": [0.5], "std": [0.25]},
            DenoiserRecord("trained:d", "d0"),
            ModelFacts(
                mean=(0.5, 1.0), resized_to=(8, 9), denoiser=DenoiserFacts("trained:d", trained=ModelFacts(std=(0.25,)))
            ),
        ),
        data=DataRecord("test", "digits", "da7a", 224, DataFacts(image_column="x"), ["zero", "one"]),
        origin=Origin("lvmrs merge", shards=["a", "b"], imported="x.tsv", scores_of="c"),
    )
    for manifest in (MANIFEST, full):
        file.write_text(manifest.to_json())
        assert Manifest.read(file) == manifest
        assert not Manifest.read(file).difference(manifest)


def leaves(stored: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every field, with those of inner records."""
    inner = {"model", "data", "method", "terms", "selection", "origin", "facts"}
    found: list[tuple[str, ...]] = []
    for key, value in stored.items():
        found += leaves(value, (*path, key)) if key in inner and isinstance(value, dict) else [(*path, key)]
    return found


@pytest.mark.parametrize("path", leaves(dataclasses.asdict(MANIFEST)), ids=".".join)
def test_every_field_is_checked(tmp_path: Path, path: tuple[str, ...]) -> None:
    """A value of another type is refused by the name of its field; so is a NaN, and a field that is not known."""
    for wrong in ({"an": object.__name__, "x": [{}]}, float("nan")) if path[-1] != "settings" else (3,):
        stored = json.loads(MANIFEST.to_json())
        place = stored
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = wrong
        with pytest.raises(RunError) as caught:
            Manifest.read(written(tmp_path, stored))
        assert path[-1] in str(caught.value)
        assert "is damaged" in str(caught.value)
        assert "\n" not in str(caught.value)
    stored = json.loads(MANIFEST.to_json())
    place = stored
    for key in path[:-1]:
        place = place[key]
    place[f"{path[-1]}_too"] = 1
    with pytest.raises(RunError, match=f"{path[-1]}_too is not known to this version of lvmrs"):
        Manifest.read(written(tmp_path, stored))
    del place[f"{path[-1]}_too"], place[path[-1]]
    with pytest.raises(RunError, match=f"is damaged: {path[-1]} is missing"):
        Manifest.read(written(tmp_path, stored))


@pytest.mark.parametrize("path", [("model",), ("model", "name"), ("terms", "sigma"), ("data", "split"), ("selection",)])
def test_a_field_that_is_missing_is_named(tmp_path: Path, path: tuple[str, ...]) -> None:
    stored = json.loads(MANIFEST.to_json())
    place = stored
    for key in path[:-1]:
        place = place[key]
    del place[path[-1]]
    with pytest.raises(RunError, match=f"is damaged: {path[-1]} is missing"):
        Manifest.read(written(tmp_path, stored))


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("sigma", -1.0, "sigma must be positive, got -1.0"),
        ("sigma", 0, "sigma must be positive"),
        ("alpha", 1.5, "alpha must be from 0 to less than 1"),
        ("n", -3, "n must be from 0 to 2⁶³ − 1"),
        ("seed", 2**70, "seed must be from 0 to 2⁶³ − 1"),
        ("sigma", 10**400, "sigma, is damaged: expected a finite number"),
        ("alpha", 0, "alpha must be 0 if nothing was sampled"),
        ("alpha", None, "alpha, n0, n and seed may be unknown only for imported results"),
        ("seed", True, "seed, is damaged: expected a whole number or null, got True"),
        ("lipschitz", 0.0, "lipschitz must be positive"),
        ("rounding", -1.0, "rounding must be at least 0"),
    ],
)
def test_numbers_out_of_range(tmp_path: Path, field: str, value: object, sentence: str) -> None:
    stored = json.loads(MANIFEST.to_json())
    stored["terms"][field] = value
    with pytest.raises(RunError, match=sentence):
        Manifest.read(written(tmp_path, stored))


def test_what_decides_rows_is_compared_and_notes_are_not() -> None:
    def changed(**records: dict[str, Any]) -> Manifest:
        parts = {name: dataclasses.replace(getattr(MANIFEST, name), **fields) for name, fields in records.items()}
        return dataclasses.replace(MANIFEST, **parts)

    same = [
        changed(data={"name": "elsewhere", "classes": ["a"]}),
        changed(method={"classifier": "in other words"}),
        changed(origin={"command": "another"}),
        dataclasses.replace(MANIFEST, running=Way(1)),
    ]
    assert [MANIFEST.difference(other) for other in same] == [[]] * len(same)
    other = changed(
        model={"weights_hash": "b", "facts": ModelFacts(output="x", mean=(0.5,))},
        data={"hash": "c"},
        method={"settings": {"x": 1}},
        terms={"sigma": 0.25, "noise": "uniform"},
        selection={"skip": 2},
    )
    names = [line.partition(":")[0] for line in MANIFEST.difference(other)]
    assert names == [
        "model weights hash", "model facts mean", "model facts takes pixels", "model facts output", "data hash",
        "method settings", "sigma", "noise", "skip",
    ]  # fmt: skip


def test_records_of_records() -> None:
    read = read_record(TermsRecord, dataclasses.asdict(MANIFEST.terms) | {"sigma": 1}, "here")
    assert (read.sigma, type(read.sigma)) == (1.0, float)
    with pytest.raises(RunError, match="here is damaged: expected an object, got 3"):
        read_record(TermsRecord, 3, "here")


def test_settings_that_differ_in_their_last_digits_are_the_same() -> None:
    """Machines compute powers with different last digits; a run goes on from one machine to another."""
    here, there, other = (
        dataclasses.replace(
            MANIFEST, method=dataclasses.replace(MANIFEST.method, settings={"deep": {"temperatures": [value, 1.0]}})
        )
        for value in (0.014157232601517624, 0.014157232601517623, 0.0141572327)
    )
    assert not here.difference(there)
    assert here.difference(other)
