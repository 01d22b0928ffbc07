"""One classifier from its calibration to its answers: records of it, what is compared, and what is refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

from lvmrs import LVM, Cohen, Deterministic, Duels, Fixed, Lipschitz, SmoothedClassifier, Votes, runs
from lvmrs.data import Arrays
from lvmrs.engine.way import Way
from lvmrs.errors import InvalidArgumentError, LvmrsError, RunError
from lvmrs.kernel.method import Method
from lvmrs.models import Loaded
from lvmrs.record import ClassifierRecord, Selection
from lvmrs.record.manifest import DenoiserRecord
from tests.own_parts import LargestMean
from tests.runs.helpers import DATA, INPUTS, fill, job_of

METHODS: dict[str, Method] = {
    "duels": Duels(),
    "soft duels": Duels(0.1 + 0.2),
    "votes": Votes(),
    "cohen": Cohen(),
    "softmax": Fixed("softmax", 1 / 3, form="ramp"),
    "lipschitz": Lipschitz("both", temperature=0.7),
    "deterministic": Deterministic(),
}


def record(method: Method | None = None, **goal: Any) -> ClassifierRecord:
    job = job_of(Fixed("softmax", 1 / 3) if method is None else method, Selection(INPUTS, max=4))
    return runs.calibration_record(job, **{"objective": "accuracy", "epsilon": 0.1, **goal})


@pytest.mark.parametrize("name", METHODS)
def test_answers_with_radii_are_the_rows_of_the_run(name: str, tmp_path: Path) -> None:
    """With the same seed and samples: so it is the same classifier, noise, σ and constant."""
    some = Selection(INPUTS, skip=3)
    run = fill(tmp_path / "a", planner=METHODS[name], selection=some)
    known, job = ClassifierRecord.of_run(run.manifest), job_of(LVM(), some)
    method = runs.recorded_method(known, "a")
    assert method == METHODS[name]
    runs.check_same_classifier(known, "a", job.model, job.smoothed, method)
    if method.samples:
        job.settle_rounding(known.terms.rounding)
    settings = job.sampling.of_all
    answers = list(runs.predict(job.smoothed, DATA, job.selection, method, radius=True, **settings))
    shown = ("idx", "label", "predict", "correct", "name", "radius", "p_lower", "p_upper")
    assert [[getattr(each, field) for field in shown] for each in answers] == [
        [getattr(row, field) for field in shown] for row in run.rows()
    ]
    plain = list(runs.predict(job.smoothed, DATA, job.selection, method, **{**settings, "n0": None}))
    assert {each.radius for each in plain} == {None}
    assert all(-1 in (a.predict, b.predict) or a.predict == b.predict for a, b in zip(answers, plain, strict=True))
    assert sum(each.predict >= 0 for each in plain) >= 2


@pytest.mark.parametrize("name", METHODS)
def test_a_record_is_read_as_it_was_written(name: str, tmp_path: Path) -> None:
    made = record(METHODS[name])
    file = tmp_path / "settings.json"
    file.write_text(made.to_json(), encoding="utf-8")
    assert ClassifierRecord.read(file) == made
    assert runs.recorded_method(ClassifierRecord.read(file), "settings") == METHODS[name]


def test_a_calibrated_map_and_width_are_those_of_the_smoothed_classifier() -> None:
    job = job_of(Votes(), Selection(INPUTS, max=4))
    inputs, labels = [DATA[k][0] for k in range(4)], [DATA[k][1] for k in range(4)]
    terms = {"n0": 20, "n": 90, "alpha": 0.01, "seed": 3}
    found = runs.calibrate(job.smoothed, DATA, job.selection, objective="accuracy", epsilon=0.2, **terms)  # type: ignore[arg-type]
    again = job.smoothed.calibrate(inputs, labels=labels, objective="accuracy", epsilon=0.2, **terms)  # type: ignore[arg-type]
    assert found == again
    only = runs.calibrate(job.smoothed, DATA, job.selection, maps=("sparsemax",), temperatures=(2.0,), n0=20, n=90)
    assert (only.map, only.temperature) == ("sparsemax", 2.0)
    width = runs.calibrate_duels(job.smoothed, DATA, job.selection, n0=50, seed=3)
    assert width == job.smoothed.calibrate_duels(inputs, n0=50, seed=3)


def test_the_record_says_how_the_settings_were_found() -> None:
    made = record()
    assert made.calibration is not None
    assert (made.calibration.objective, made.calibration.epsilon) == ("accuracy", 0.1)
    assert made.calibration.selection.max == 4
    assert (made.terms.sigma, made.terms.n, made.terms.alpha, made.terms.lipschitz) == (0.5, 300, 0.01, 3.0)
    duels = record(Duels(1.5), objective=None)
    assert duels.calibration is not None
    assert (duels.calibration.objective, duels.calibration.epsilon) == (None, None)
    assert (duels.terms.n0, duels.terms.n, duels.terms.alpha) == (50, None, None)
    with pytest.raises(InvalidArgumentError, match="LVM chooses a map for each input as it is set"):
        record(LVM())


OTHERS: dict[str, tuple[Callable[[runs.Job], tuple[Loaded, SmoothedClassifier, Method]], str]] = {
    "method": (lambda job: (job.model, job.smoothed, Votes()), "its method is 'Fixed', and here it is 'Votes'"),
    "temperature": (
        lambda job: (job.model, job.smoothed, Fixed("softmax", 1 / 3 + 1e-16)),
        "its setting temperature is 0.3333333333333333, and here it is 0.3333333333333334",
    ),
    "sigma": (
        lambda job: (job.model, SmoothedClassifier(job.model.model, 0.25), job.method),
        "its sigma is 0.5, and here it is 0.25",
    ),
    "weights": (
        lambda job: _of(nn.Sequential(nn.Flatten(), nn.Linear(12, 3)), job.method),
        "its hash of the weights of the model is None, and here it is",
    ),
}
# What a record says of a model, and what is said about it here.
MODELS: dict[str, tuple[dict[str, Any], str]] = {
    "normalisation": ({"normalisation": {"mean": [0.5], "std": [0.5]}}, "its normalisation is {'mean': [0.5], 'std'"),
    "precision": ({"precision": "bfloat16"}, "its precision is 'bfloat16', and here it is None"),
    "denoiser": ({"denoiser": DenoiserRecord("trained:d")}, "its denoiser is 'trained:d', and here it is None"),
    "code": ({"code_hash": "abc"}, "its hash of the code of the model is 'abc', and here it is None"),
    "name": ({"name": "onnx:other"}, "its model is 'onnx:other', and here it is 'python:tests.models:RowByRow'"),
}


def _of(model: nn.Module, method: Method) -> tuple[Loaded, SmoothedClassifier, Method]:
    loaded = Loaded.of(model, "other")
    return loaded, SmoothedClassifier(model, 0.5), method


@pytest.mark.parametrize("what", OTHERS)
def test_another_classifier_is_refused(what: str) -> None:
    made, job = record(), job_of(Fixed("softmax", 1 / 3))
    runs.check_same_classifier(made, "settings.json", job.model, job.smoothed, job.method)
    other, words = OTHERS[what]
    with pytest.raises(InvalidArgumentError) as caught:
        runs.check_same_classifier(made, "settings.json", *other(job))
    assert str(caught.value).startswith(f"this is not the classifier of settings.json: {words}")


@pytest.mark.parametrize("what", MODELS)
def test_another_model_is_refused(what: str) -> None:
    made, job = record(), job_of(Fixed("softmax", 1 / 3))
    changed, words = MODELS[what]
    known = replace(made, model=replace(made.model, **changed))
    with pytest.raises(InvalidArgumentError) as caught:
        runs.check_same_classifier(known, "a", job.model, job.smoothed, job.method)
    assert str(caught.value).startswith(f"this is not the classifier of a: {words}")


def test_a_file_names_no_code() -> None:
    job = job_of(replace(LargestMean()))
    known = ClassifierRecord.of_run(job.manifest(Way(1)))
    with pytest.raises(InvalidArgumentError, match=r"a was made with code of your own \(tests\.own_parts\.LargestMean"):
        runs.recorded_method(known, "a")


def test_a_run_of_a_map_for_each_input_has_no_one_classifier(tmp_path: Path) -> None:
    run = fill(tmp_path / "a", selection=Selection(INPUTS, max=1))
    with pytest.raises(InvalidArgumentError, match="LVM chooses a map for each input as it is set"):
        runs.recorded_method(ClassifierRecord.of_run(run.manifest), "a")


def test_inputs_that_were_calibrated_on_are_counted() -> None:
    made = record()
    assert runs.calibrated_on(made, DATA, Selection(INPUTS)) == 4
    assert runs.calibrated_on(made, DATA, Selection(INPUTS, skip=3)) == 2
    assert (
        runs.calibrated_on(
            made, Arrays("others", "test", np.zeros((INPUTS, 12)), np.zeros(INPUTS, int)), Selection(INPUTS)
        )
        == 0
    )
    assert runs.calibrated_on(replace(made, calibration=None), DATA, Selection(INPUTS)) == 0


DAMAGES: dict[str, tuple[tuple[str, ...], Any]] = {
    "a method of nobody": (("method", "name"), "Magic"),
    "code as a method": (("method", "name"), "python:evil.py:Planner"),
    "code as a map": (("method", "settings", "map"), "python:evil.py:Map"),
    "an unknown map": (("method", "settings", "map"), "magic"),
    "an unknown setting": (("method", "settings", "magic"), 1),
    "a temperature of 0": (("method", "settings", "temperature"), 0),
    "a temperature that is a text": (("method", "settings", "temperature"), "0.5"),
    "a temperature that is a list": (("method", "settings", "temperature"), [0.5]),
    "a temperature beyond all numbers": (("method", "settings", "temperature"), 10**400),
    "bounds that are a text": (("method", "settings", "bounds"), "betting"),
    "bounds for votes alone": (("method", "settings", "bounds"), ["clopper_pearson"]),
    "an unknown form": (("method", "settings", "form"), "r9"),
    "settings that are a list": (("method", "settings"), []),
    "a negative sigma": (("terms", "sigma"), -0.5),
    "an unknown field": (("magic",), 1),
    "another format": (("format",), 2),
    "an objective of nobody": (("calibration", "objective"), "fame"),
    "no epsilon": (("calibration", "epsilon"), None),
    "no calibration": (("calibration",), None),
    "a selection of nothing": (("calibration", "selection", "skip"), 0),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_record_is_refused_in_one_sentence(damage: str) -> None:
    stored = json.loads(record().to_json())
    (*path, last), value = DAMAGES[damage]
    place = stored
    for name in path:
        place = place[name]
    place[last] = value
    with pytest.raises(LvmrsError) as caught:
        runs.recorded_method(ClassifierRecord.parse(json.dumps(stored), "settings.json"), "settings.json")
    assert "settings.json" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_are_no_records(tmp_path: Path) -> None:
    wrong = {"text": b"hello", "bytes": b"\xff\xfe", "large": b"[" * (2 << 20), "twice": b'{"a":1,"a":1}'}
    for name, content in wrong.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(RunError, match="is not a file of settings"):
            ClassifierRecord.read(tmp_path / name)
    with pytest.raises(RunError, match="does not exist; lvmrs calibrate writes such files"):
        ClassifierRecord.read(tmp_path / "nowhere")
    with pytest.raises(RunError, match="cannot be read: Is a directory"):
        ClassifierRecord.read(tmp_path)


def test_a_record_that_does_not_say_its_goal_is_refused() -> None:
    stored = json.loads(record().to_json())
    assert stored["terms"].pop("goal") is None
    with pytest.raises(RunError, match="is damaged: goal is missing"):
        ClassifierRecord.parse(json.dumps(stored), "settings.json")
