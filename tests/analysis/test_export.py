"""Exported runs: each format is read by the software that it is for.

docs/run.schema.json is made from the records of the manifest and of the rows. To write it again: make docs-names
"""

import ast
import dataclasses
import inspect
import io
import json
import os
import textwrap
import types
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import huggingface_hub
import jsonschema
import numpy as np
import pandas
import pyarrow.parquet
import pytest
import torch

from lvmrs import Duels, SmoothedClassifier, data, models, runs
from lvmrs.analysis import certified_accuracy, import_results, results_of
from lvmrs.analysis.export import VERSION, export_run
from lvmrs.errors import RunError
from lvmrs.kernel.method import Goal
from lvmrs.record import COLUMNS, Manifest, Row, Run
from lvmrs.record.result_file import OF_A_GOAL, OF_ROUTED

SCHEMA = Path(__file__).parents[2] / "docs" / "run.schema.json"
RADII = (0.0, 0.25, 0.5)

# ---- the schema

# Descriptions of fields that have no docstring of their own.
WORDS = {
    "ModelRecord.name": "The name with which the model was loaded.",
    "ModelRecord.denoiser": "The denoiser before the classifier, if there is one.",
    "DenoiserRecord.name": "The name with which the denoiser was loaded.",
    "DenoiserRecord.weights_hash": "Hash of its weights; null if unknown.",
    "DataRecord.split": "The split of the data set.",
    "MethodRecord.settings": "The settings of the method by name.",
    "TermsRecord.seed": "The seed of the noise; null for imported results.",
    "Row.temperature": "The temperature of the map.",
    "Manifest.model": "The classifier.",
    "Manifest.data": "The data set.",
    "Manifest.method": "The certification method.",
    "Manifest.terms": "Noise, risk and samples.",
    "Manifest.selection": "The inputs of the run.",
    "Manifest.origin": "When, how and from which files the run was made.",
}
PLAIN = {int: "integer", float: "number", str: "string", bool: "boolean", types.NoneType: "null"}


def docstrings(record: type) -> dict[str, str]:
    """The docstrings below the fields of a class."""
    body = ast.parse(textwrap.dedent(inspect.getsource(record))).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            assert isinstance(field.target, ast.Name)
            found[field.target.id] = " ".join(str(text.value.value).replace("``", "").split())
    return found


def schema_of(hint: Any, defs: dict[str, Any]) -> dict[str, Any]:
    """The schema of a type; records are in ``defs``, since one refers to itself."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return {"anyOf": [schema_of(part, defs) for part in parts]}
    if origin is Literal:
        return {"enum": list(parts)}
    if origin in (list, tuple):
        return {"type": "array", "items": schema_of(parts[0], defs)}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(parts[1], defs)}
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        if hint.__name__ not in defs:
            defs[hint.__name__] = {}
            defs[hint.__name__] = record_schema(hint, defs)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    return {} if hint is Any else {"type": PLAIN[hint]}


def record_schema(record: type, defs: dict[str, Any], *, nullable: tuple[type, ...] = ()) -> dict[str, Any]:
    hints, said = get_type_hints(record), docstrings(record)
    properties = {}
    for field in dataclasses.fields(record):
        hint = hints[field.name]
        hint = hint | None if hint in nullable else hint
        words = said.get(field.name) or WORDS[f"{record.__name__}.{field.name}"]
        properties[field.name] = {"description": words, **schema_of(hint, defs)}
    return described(properties)


def described(properties: dict[str, Any], *, optional: frozenset[str] = frozenset()) -> dict[str, Any]:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def text(description: str, kind: str | list[str] = "string") -> dict[str, Any]:
    return {"description": description, "type": kind}


def estimate(description: str, **more: Any) -> dict[str, Any]:
    ends = {"low": text("Lower end of the interval; null if infinite.", ["number", "null"])}
    ends |= {"high": text("Upper end of the interval; null if infinite.", ["number", "null"])}
    return {"description": description, **described({**more, "value": text("The measure.", "number"), **ends})}


def schema() -> dict[str, Any]:
    defs: dict[str, Any] = {}
    manifest = record_schema(Manifest, defs)
    version = {"description": "Version of the manifest.", "const": Manifest.format}
    manifest["properties"] = {"format": version, **manifest["properties"]}
    manifest["required"].insert(0, "format")
    row = record_schema(Row, defs, nullable=(float,))
    row["required"] = [name for name in row["required"] if name not in OF_A_GOAL | OF_ROUTED]
    for name in ("label", "correct"):
        row["properties"][name] = {"description": row["properties"][name]["description"], "type": ["integer", "null"]}
    radius = text("The radius.", "number")
    clean = estimate("Accuracy of the base classifier without noise; null if it was not measured.")
    share = estimate("Share of inputs with a correct answer and at least this radius, from 0 to 1.", radius=radius)
    measures = {
        "inputs": text("Number of inputs with a row; shares are shares of these.", "integer"),
        "confidence": text("Confidence level of all intervals for the finite test set.", "number"),
        "certified_accuracy": {"description": "One for each radius.", "type": "array", "items": share},
        "average_certified_radius": estimate("Mean radius, with 0 for wrong answers and abstentions."),
        "clean_accuracy": {**clean, "type": ["object", "null"]},
        "abstention": estimate("Share of inputs without a certificate."),
    }
    whole = {
        "format": {"description": "Version of this document.", "const": VERSION},
        "lvmrs": text("The version of lvmrs that wrote the document."),
        "run": text("The name of the run directory."),
        "missing": text("Number of inputs of the run without a row.", "integer"),
        "guarantee": text("What each row guarantees, in words."),
        "goal": text("How a goal of sampling limits the radii; null if there is none.", ["string", "null"]),
        "measures": {"description": "Null if labels are unknown.", **described(measures), "type": ["object", "null"]},
        "manifest": {"description": "All settings; docs/runs.md explains them.", **manifest},
        "rows": {"description": "The certificates, in the order of the inputs.", "type": "array", "items": row},
    }
    top = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A run of lvmrs, as JSON"}
    return {**top, **described(whole), "$defs": defs}


def test_the_schema_is_that_of_the_records() -> None:
    made = json.dumps(schema(), ensure_ascii=False, indent=1) + "\n"
    if os.environ.get("LVMRS_GOLDEN") == "write":
        SCHEMA.write_text(made, encoding="utf-8")
    assert SCHEMA.read_text(encoding="utf-8") == made, "write it again with: make docs-names"
    assert set(schema()["properties"]["rows"]["items"]["properties"]) == set(COLUMNS)


# ---- the formats


def run_of(tmp_path: Path, *, goal: Goal | None = None) -> Run:
    """Six inputs, of which some are certified."""
    inputs = data.Arrays("corners", "test", np.eye(6), np.array([0, 1, 2, 3, 0, 1]))
    model = models.Loaded.of(torch.nn.Identity(), "trained:somewhere/net.safetensors")
    sampling = runs.Sampling(n0=50, n=500, goal=goal)
    smoothed = SmoothedClassifier(model.model, 0.5, batch=100)
    return runs.certify(runs.Job(model, inputs, smoothed, Duels(), sampling, runs.Selection(6)), tmp_path / "run")


def imported(tmp_path: Path) -> Run:
    file = tmp_path / "other.tsv"
    file.write_text("idx\tlabel\tpredict\tradius\n0\t3\t3\t0.25\n4\t1\t-1\t0\n")
    return import_results(file, tmp_path / "imported", sigma=0.5)


def document(run: Run) -> dict[str, Any]:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    found: dict[str, Any] = json.loads(export_run(run, "json", RADII), parse_constant=refuse)
    return found


@pytest.mark.parametrize("goal", [None, Goal((0.25,)), Goal(tolerance=0.1), Goal(budget=2000)])
def test_json_has_the_published_schema(tmp_path: Path, goal: Goal | None) -> None:
    run = run_of(tmp_path, goal=goal)
    found = document(run)
    jsonschema.Draft202012Validator.check_schema(json.loads(SCHEMA.read_text()))
    jsonschema.validate(found, json.loads(SCHEMA.read_text()))
    assert [row["radius"] for row in found["rows"]] == [row.radius for row in run.rows()]
    shares = [share["value"] for share in found["measures"]["certified_accuracy"]]
    assert shares == certified_accuracy(results_of(run), RADII)
    assert 0 < shares[0] < 1
    assert Manifest.parse(json.dumps(found["manifest"]), "it") == run.manifest
    assert (found["goal"] is None) == (goal is None)
    if goal is not None and goal.targets:
        assert "the targets, up to 0.25, truncate the radii" in found["goal"]


def test_unknown_numbers_are_null(tmp_path: Path) -> None:
    found = document(imported(tmp_path))
    jsonschema.validate(found, json.loads(SCHEMA.read_text()))
    assert [row["p_lower"] for row in found["rows"]] == [None, None]
    assert found["manifest"]["terms"]["alpha"] is None
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**found, "extra": 1}, json.loads(SCHEMA.read_text()))


def test_parquet_has_the_columns_of_the_rows(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    table = pyarrow.parquet.read_table(io.BytesIO(export_run(run, "parquet", RADII)))
    assert table.column_names == list(run.columns)
    assert [Row(**row) for row in table.to_pylist()] == run.rows()
    kinds = {"idx": "int64", "radius": "double", "clean": "int64", "rounding": "double", "map": "string"}
    assert {name: str(table.schema.field(name).type) for name in kinds} == kinds
    about = json.loads(table.schema.metadata[b"lvmrs"])
    assert Manifest.parse(json.dumps(about["manifest"]), "it") == run.manifest
    lacking = pyarrow.parquet.read_table(io.BytesIO(export_run(imported(tmp_path), "parquet", RADII)))
    assert lacking.column("p_lower").null_count == 2


def test_tsv_is_read_by_the_analysis_of_cohen_and_imported_again(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    file = tmp_path / "run.tsv"
    file.write_bytes(export_run(run, "tsv", RADII))
    frame = pandas.read_csv(file, delimiter="\t")
    assert list(frame.columns) == ["idx", "label", "predict", "radius", "correct", "time"]
    # ApproximateAccuracy.at_radius of locuslab/smoothing
    assert (frame["correct"] & (frame["radius"] >= 0.25)).mean() == certified_accuracy(results_of(run), [0.25])[0]
    assert pandas.to_timedelta(frame["time"]).dt.total_seconds().tolist() == [row.time for row in run.rows()]
    again = import_results(file, tmp_path / "again", sigma=0.5)
    names = ("idx", "label", "predict", "radius", "correct")
    taken = [[tuple(getattr(row, name) for name in names) for row in each.rows()] for each in (run, again)]
    assert taken[0] == taken[1]


def test_a_card_is_accepted_by_the_hub(tmp_path: Path) -> None:
    run = run_of(tmp_path, goal=Goal((0.25,)))
    card: Any = huggingface_hub.ModelCard(export_run(run, "card", RADII).decode())
    assert card.data.model_name == "net"
    found = card.data.eval_results
    assert found is not None
    results = results_of(run)
    assert [result.metric_value for result in found[:-1]] == certified_accuracy(results, RADII)
    assert [result.metric_args["radius"] for result in found[:-1] if result.metric_args] == list(RADII)
    assert found[-1].metric_type == "average_certified_radius"
    assert 0 < found[-1].metric_value < 1
    assert {result.dataset_type for result in found} == {"corners"}
    assert huggingface_hub.repocard_data.eval_results_to_model_index("net", found)
    assert "truncate the radii" in card.text
    assert "Each certificate is right with probability" in card.text
    assert "somewhere" not in str(card)


def test_names_cannot_format_a_card(tmp_path: Path) -> None:
    file = tmp_path / "other.tsv"
    file.write_text("idx\tlabel\tpredict\tradius\n0\t3\t3\t0.25\n")
    run = import_results(file, tmp_path / "imported", sigma=0.5, method="a|b\x1b[31m\n# A heading")
    card = export_run(run, "card", RADII).decode()
    assert "method a|b\\x1b[31m\\n# A heading, sigma 0.5" in card
    assert "\x1b" not in card


def test_what_needs_labels_is_refused_without_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of(tmp_path)
    rows = [dataclasses.replace(row, label=None, correct=None) for row in run.rows()]
    monkeypatch.setattr(Run, "rows", lambda self: rows)
    for form in ("card", "tsv"):
        with pytest.raises(RunError, match=f"has inputs without labels, which the format {form} needs"):
            export_run(run, form, RADII)
    found = document(run)
    jsonschema.validate(found, json.loads(SCHEMA.read_text()))
    assert found["measures"] is None
    assert found["rows"][0]["label"] is None
    table = pyarrow.parquet.read_table(io.BytesIO(export_run(run, "parquet", RADII)))
    assert table.column("label").null_count == 6
