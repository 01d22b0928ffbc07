"""Writes a run for other programs: a model card, JSON with a schema, Parquet, or the TSV of Cohen's code."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Sequence
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

from lvmrs._util.settings import member_names
from lvmrs._util.text import optional, outward, percent, printable
from lvmrs.analysis.metrics import Estimate
from lvmrs.analysis.report.settings import guarantee, kinds_of_rows
from lvmrs.analysis.results import Results, results_of
from lvmrs.analysis.summary import summarise
from lvmrs.analysis.tables import formatted
from lvmrs.errors import RunError
from lvmrs.kernel import checks
from lvmrs.kernel.method import Goal
from lvmrs.kernel.radius import rounded_down
from lvmrs.record import Row, Run
from lvmrs.record.result_file import KINDS, Kind, escaped
from lvmrs.registry import MODELS

FORMATS = ("card", "json", "parquet", "tsv")
VERSION = 1
"""The version of the JSON document, which docs/run.schema.json describes."""
_AVERAGE = "average certified radius"
_COHEN = ("idx", "label", "predict", "radius", "correct", "time")
# Sources of models and data whose names after the colon are public; for others they are paths of this machine or code.
_PUBLIC = ("hf", "ready", "timm", "torchvision")


def export_run(run: Run, form: str, radii: Sequence[float], *, confidence: float = 0.95) -> bytes:
    """The content of a file about the present rows of a run, in the order of the inputs.

    Args:
        run: The run, which has at least one row.
        form: ``card``, ``json``, ``parquet`` or ``tsv``.
        radii: The radii of the certified accuracies in the card and in JSON.
        confidence: Confidence level of the intervals for the finite test set.

    Returns:
        The content. Raises a RunError if labels are missing that the format needs.
    """
    checks.one_of("format", form, FORMATS)
    results = results_of(run)
    rows = sorted(run.rows(), key=lambda row: row.idx)
    labelled = all(row.label is not None for row in rows)
    if form in ("card", "tsv") and not labelled:
        raise RunError(f"{run.directory} has inputs without labels, which the format {form} needs; export json instead")
    if form == "tsv":
        return _tsv(rows)
    about = _about(run, results, _measures(results, radii, confidence) if labelled else None)
    if form == "card":
        return _card(run, about).encode()
    columns = [{name: _plain(name, getattr(row, name)) for name in run.columns} for row in rows]
    if form == "json":
        return f"{_json({**about, 'rows': columns})}\n".encode()
    return _parquet(run, about, columns)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=1)


def _about(run: Run, results: Results, measures: dict[str, Any] | None) -> dict[str, Any]:
    """The document without its rows."""
    goal = run.manifest.terms.goal
    return {
        "format": VERSION,
        "lvmrs": version("lvmrs"),
        "run": printable(run.directory.resolve().name),
        "missing": results.missing,
        "guarantee": guarantee(run.manifest, kinds_of_rows(run)),
        "goal": None if goal is None else _about_goal(goal),
        "measures": measures,
        "manifest": json.loads(run.manifest.to_json()),
    }


def _about_goal(goal: Goal) -> str:
    """How a goal limits the radii, as a sentence."""
    if goal.targets:
        less = f"the targets, up to {max(goal.targets):g}, truncate the radii, and more samples certify larger ones"
    else:
        less = "the number of samples differs between inputs"
    return f"Sampling for an input stopped {goal.words}: {less}."


def _measures(results: Results, radii: Sequence[float], confidence: float) -> dict[str, Any]:
    found = summarise(results, radii, confidence=confidence)
    return {
        "inputs": found.inputs,
        "confidence": found.confidence,
        "certified_accuracy": [
            {"radius": radius, **_estimate(share)}
            for radius, share in zip(found.radii, found.certified_accuracy, strict=True)
        ],
        "average_certified_radius": _estimate(found.average_certified_radius),
        "clean_accuracy": None if found.clean_accuracy is None else _estimate(found.clean_accuracy),
        "abstention": _estimate(found.abstention),
    }


def _estimate(estimate: Estimate) -> dict[str, float | None]:
    """A measure with its interval, whose ends are None where they are infinite."""
    return {name: value if math.isfinite(value) else None for name, value in estimate._asdict().items()}


def _plain(name: str, value: Any) -> Any:
    """A value of a row for JSON: unknown numbers become None, and names have the escapes of certificates.tsv."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return escaped(value) if name == "name" and value is not None else value


def _parquet(run: Run, about: dict[str, Any], columns: list[dict[str, Any]]) -> bytes:
    arrow = optional("pyarrow", extra="parquet", error=RunError)
    parquet = optional("pyarrow.parquet", extra="parquet", error=RunError)
    types = dict.fromkeys((Kind.WHOLE, Kind.MEASURED), arrow.int64())
    types |= dict.fromkeys((Kind.NUMBER, Kind.FOUND), arrow.float64())
    fields = [arrow.field(name, types.get(KINDS[name], arrow.string())) for name in run.columns]
    file = io.BytesIO()
    table = arrow.Table.from_pylist(columns, schema=arrow.schema(fields, metadata={"lvmrs": _json(about)}))
    parquet.write_table(table, file)
    return file.getvalue()


def _tsv(rows: Sequence[Row]) -> bytes:
    """The file that Cohen's code writes, with all digits of the radii."""
    values = ((row.idx, row.label, row.predict, row.radius, row.correct, timedelta(seconds=row.time)) for row in rows)
    return "\n".join(["\t".join(_COHEN), *("\t".join(map(str, each)) for each in values), ""]).encode()


def _card(run: Run, about: dict[str, Any]) -> str:
    """A section of a model card in Markdown, with the measures as ``model-index`` in its metadata (YAML)."""
    terms, data, measures = run.manifest.terms, run.manifest.data, about["measures"]
    known = {name: getattr(terms, name) for name in ("sigma", "alpha", "n0", "n", "noise", "distance")}
    average = float(rounded_down(measures["average_certified_radius"]["value"]))
    metrics = [
        {
            "type": "certified_accuracy",
            "name": f"certified accuracy at radius {share['radius']:g}",
            "value": share["value"],
            "args": {"radius": share["radius"], **known},
        }
        for share in measures["certified_accuracy"]
    ]
    metrics.append({"type": _AVERAGE.replace(" ", "_"), "name": _AVERAGE, "value": average, "args": known})
    name, source = _public(run.manifest.model.name), _public(data.name or "unknown")
    index = {
        "name": name,
        "results": [
            {
                "task": {"type": "image-classification", "name": "certified classification by randomized smoothing"},
                "dataset": {"type": source, "name": source, "split": printable(data.split)},
                "metrics": metrics,
            }
        ],
    }
    table = [["radius", "certified accuracy in %", f"interval at {measures['confidence']:g}"]]
    for share in measures["certified_accuracy"]:
        interval = outward(100 * share["low"], 100 * share["high"], 1)
        table.append([f"{share['radius']:g}", percent(share["value"]), interval])
    missing = f" {about['missing']} inputs have no certificate yet, and are not counted." * bool(about["missing"])
    settings = {"method": run.manifest.method.name, **known}
    said = ", ".join(f"{key} {value}" for key, value in settings.items() if value is not None)
    made_by = run.manifest.origin.versions.get("lvmrs", about["lvmrs"])
    cells = formatted(table, "markdown")
    paragraphs = [
        f"---\nmodel-index: {_json([index])}\n---\n## Certified robustness",
        f"Measured on {measures['inputs']} inputs of {source}, split {data.split}.{missing}",
        cells,
        f"The {_AVERAGE} is {average:.4f}, where wrong answers and abstentions count as 0.",
        *([] if about["goal"] is None else [about["goal"]]),
        about["guarantee"],
        f"Settings: {said}. Certified with lvmrs {made_by}.",
    ]
    return "\n\n".join([paragraphs[0], *(part if part is cells else printable(part) for part in paragraphs[1:]), ""])


def _public(name: str) -> str:
    """The name of a model or data set without paths of this machine; those of the members for an ensemble.

    >>> _public("hf:microsoft/resnet-50"), _public("trained:nets/a.safetensors"), _public("cifar10:/data/cifar10.npz")
    ('microsoft/resnet-50', 'a', 'cifar10')
    >>> _public("ensemble:trained:nets/a.safetensors+trained:nets/b.safetensors")
    'a + b'
    """
    if len(members := member_names(MODELS, name)) > 1:
        return " + ".join(map(_public, members))
    source, _, rest = name.partition(":")
    if source in _PUBLIC and rest and not rest.startswith((".", "/", "~")):
        return printable(rest)
    is_file = source in ("trained", "onnx", "export", "npz", "imagefolder", *_PUBLIC) and rest
    return printable(Path(rest).stem if is_file else rest.rpartition(":")[2] if source == "python" else source)
