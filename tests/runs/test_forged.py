"""Each field of a manifest and of a row is changed by hand: it is found, or it is listed here as a remark."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lvmrs import Deterministic, Duels, Votes
from lvmrs import runs as jobs
from lvmrs.data import Arrays
from lvmrs.errors import LvmrsError
from lvmrs.kernel.exact_noise import ExactGaussian
from lvmrs.kernel.method import Goal
from lvmrs.kernel.noise import GAUSSIAN
from lvmrs.models import Loaded
from lvmrs.planners import LVM
from lvmrs.record import Row, Run, Selection
from lvmrs.runs.verify import other_batch, verify
from lvmrs.smoothed import SmoothedClassifier
from tests.runs.helpers import LEVELS

pytestmark = pytest.mark.usefixtures("no_measuring")

SIZE = 6
GRID = np.random.default_rng(0).integers(0, LEVELS + 1, (SIZE, 12)) / LEVELS
DATA = Arrays(
    "tiny", "test", GRID, np.arange(SIZE) % 3, classes=("cat", "dog", "cow"),
    names=np.array([f"{k}.png" for k in range(SIZE)]), levels=LEVELS,
)  # fmt: skip
KINDS: dict[str, dict[str, Any]] = {
    "search, scores kept": {"method": LVM(temperatures=(0.3, 1.0, 3.0)), "keep": True},
    "votes, scores kept": {"method": Votes(), "keep": True},
    "soft duels": {"method": Duels(0.5)},
    "exact noise": {"method": Duels(), "noise": ExactGaussian(LEVELS)},
    "goal": {"method": Duels(), "goal": Goal(targets=(0.1, 0.4))},
    "no noise": {"method": Deterministic()},
}
# Other values of fields that are null, or whose value says little about what else it could be.
OTHERS: dict[str, list[Any]] = {
    "format": [3],
    "model.code_hash": ["c0de"],
    "model.normalisation": [{"mean": [0.5], "std": [0.25]}],
    "model.denoiser": [{"name": "trained:d.safetensors", "weights_hash": "d0"}],
    "model.facts.named_by": ["checkpoint"],
    "model.facts.mean": [[0.5]],
    "model.facts.std": [[0.5]],
    "model.facts.normalised_by": ["training"],
    "model.facts.resized_to": [[8, 8]],
    "model.facts.denoiser": [{"name": "trained:d.safetensors", "step": None, "steps": None, "trained": None}],
    "model.facts.file_batch": [4],
    "model.device": ["cuda"],
    "model.precision": ["bfloat16"],
    "data.image_size": [32],
    "data.facts.labels": ["folder order"],
    "method.name": ["Votes", "Duels", "Cohen"],
    "method.own_code": [{"mine.Map": "f00"}],
    "method.scope": ["this input", "all inputs", None],
    "method.settings.maps.*": ["hardmax"],
    "method.settings.bounds.*": ["hoeffding"],
    "terms.sigma": [0.25, 0.75],
    "terms.alpha": [0.001, 0.02],
    "terms.n0": [1],
    "terms.lipschitz": [None, 1.0, 9.0],
    "terms.noise": ["gaussian", f"exact:{LEVELS}", "exact"],
    "terms.dimensions": [None, 11],
    "terms.rounding": [None, 1.0],
    "terms.goal": [{"targets": [0.5], "tolerance": None, "beta": 0.001, "budget": None, "seconds": None}, None],
    "terms.goal.tolerance": [0.1],
    "terms.goal.budget": [1000],
    "terms.goal.seconds": [1.0],
    "selection.max": [3, 5],
    "selection.only": [[0, 1, 2, 3], [0, 1, 3]],
    "running": [None],
    "origin.scores_of": ["elsewhere"],
    "origin.shards": [["elsewhere"]],
    "origin.imported": ["other.tsv"],
}
# Fields that may be changed without being found, and why.
REMARKS = {
    "origin.command": "the text that was typed; the settings that it led to are compared",
    "origin.begun": "a date",
    "origin.threads": "decides the last digits of logits at most",
    "origin.scores_of": "a place on a disk; rows are computed again from the network",
    "origin.shards": "places on a disk; rows are computed again from the network",
    "origin.versions.*": "software that decides the last digits of logits at most; lvmrs and torch are compared",
    "running*": "decides the last digits of logits at most; rows are computed again in another batch size",
    "model.compiled": "decides the last digits of logits at most",
    "terms.lipschitz → None": "a run that states no constant claims less, and no row relies on it",
    "terms.rounding → 1.0": "larger, where no row relies on it",
}
# The same in runs of one kind.
REMARKS_OF_KIND = {
    "no noise": {"terms.seed": "no noise is drawn", "terms.sigma": "no noise is drawn"},
    # With the other value, the same rows are computed: no row shows which of the two it was.
    "search, scores kept": {
        "method.settings.maps.1": "no row chose it",
        "method.settings.temperatures.[12]": "no row chose it",
        "method.settings.bounds.2": "no row chose it",
    },
    "soft duels": {"terms.n0": "the same top classes are found with one sample"},
    "goal": {"terms.goal.targets.0 → 0.15*": "decided at the same samples"},
}
Place = tuple[str | int, ...]


def model() -> Loaded:
    torch.manual_seed(0)
    return Loaded.of(torch.nn.Linear(12, 3), "a linear model")


MODEL = model()


def made(out: Path, *, method: Any, keep: bool = False, noise: Any = GAUSSIAN, goal: Goal | None = None) -> Run:
    smoothed = SmoothedClassifier(MODEL.model, 0.5, 3.0, batch=64, noise=noise)
    sampling = jobs.Sampling(alpha=0.01, n0=50, n=300, seed=0, goal=goal)
    job = jobs.Job(MODEL, DATA, smoothed, method, sampling, Selection(SIZE, max=4), keep)
    return jobs.certify(job, out, command="lvmrs certify")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """A run of each kind."""
    with pytest.MonkeyPatch.context():
        return {kind: made(tmp_path_factory.mktemp("run") / "a", **how) for kind, how in KINDS.items()}


def copied(run: Run, to: Path) -> Path:
    shutil.copytree(run.directory, to / "a")
    return to / "a"


def found(directory: Path) -> set[str]:
    """Sentences that say what is wrong with a run, or what to know of it."""
    try:
        run = Run(directory)
        job = jobs.job_of_run(run, model=MODEL, data=DATA, batch=other_batch(run) or 32, device="cpu")
        verification = verify(run, job, rows=None)
    except LvmrsError as error:
        return {str(error)}
    wrong = {str(row.why) for row in verification.rows if row.verdict == "different"}
    missing = {f"{verification.missing} missing"} if verification.missing else set()
    return wrong | missing | set(verification.notes)


def leaves(stored: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Every value that is no object and no list, every null, and each empty object or list; with its place."""
    inner = stored.items() if isinstance(stored, dict) else enumerate(stored) if isinstance(stored, list) else ()
    for key, value in inner:
        yield from leaves(value, (*place, key))
    if not isinstance(stored, (dict, list)) or not stored or place == ("running",) or place == ("terms", "goal"):
        yield place, stored


def others(name: str, value: Any) -> list[Any]:
    """Other values that a field could have."""
    for pattern, known in OTHERS.items():
        if fnmatch(name, pattern):
            return [each for each in known if each != value]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1]
    if isinstance(value, float):
        return [value * 1.5]
    return ["something else"]


def changed(stored: Any, place: Place, value: Any) -> Any:
    """The JSON object with another value in one place."""
    stored = copy.deepcopy(stored)
    inner = stored
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return stored


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_a_manifest_is_checked_or_a_remark(tmp_path: Path, runs: dict[str, Run], kind: str) -> None:
    file = copied(runs[kind], tmp_path) / "manifest.json"
    directory, stored, known = file.parent, json.loads(file.read_text()), found(file.parent)
    remarks = REMARKS | REMARKS_OF_KIND.get(kind, {})
    unnoticed = []
    for place, value in leaves(stored):
        name = ".".join(map(str, place))
        for other in others(name, value):
            file.write_text(json.dumps(changed(stored, place, other)))
            if not found(directory) - known and not any(
                fnmatch(name, remark) or fnmatch(f"{name} → {other}", remark) for remark in remarks
            ):
                unnoticed.append(f"{name}: {value!r} → {other!r}")
    assert "\n".join(unnoticed) == ""


# Columns of a row that may be changed without being found, and why.
ROW_REMARKS = {
    "time": "nothing can show how long a row took",
    "rounding → 1.0": "a row that allows for more rounding claims less",
}
OTHER_FIELDS: dict[str, list[Any]] = {
    "map": ["-", "mine", "hardmax", "softmax"],
    "bound": ["-", "mine", "bernstein", "betting"],
    "form": ["-", "mine", "r3", "deterministic"],
    "scope": ["-", "this input", "all inputs"],
    "groups": ["-", "each", "0;*"],
    "risk_groups": ["-", "0.005", "0.02"],
    "scores": ["-", 32 * "0"],
    "clean": [None, 0, 1, 2],
    "name": [None, "other.png"],
    "rounding": [None, 1e-12, 1.0],
    "limit": [None, 0.01, 9.0],
    "samples": [None, 1, 299],
    "predict": [-1, 0, 1, 2],
    "temperature": [0.3, 1.0, 1.1],
    "mass": [0.9, 2.0],
    "risk_top": [0.0, 0.005, 0.01, 0.02],
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_a_row_is_checked_or_a_remark(tmp_path: Path, runs: dict[str, Run], kind: str) -> None:
    run = Run(copied(runs[kind], tmp_path))
    rows, known = run.rows(), found(run.directory)
    certified = max(rows, key=lambda row: row.radius)
    assert certified.radius > 0
    unnoticed = []
    for name in run.columns:
        value = getattr(certified, name)
        for other in OTHER_FIELDS.get(name) or others(name, value):
            if other == value:
                continue
            write(run, [replace(certified, **{name: other}) if row is certified else row for row in rows])
            if not found(run.directory) - known and not {name, f"{name} → {other}"} & ROW_REMARKS.keys():
                unnoticed.append(f"{name}: {value!r} → {other!r}")
    assert "\n".join(unnoticed) == ""


@pytest.mark.parametrize("kind", KINDS)
def test_a_radius_is_found_whatever_hides_it(tmp_path: Path, runs: dict[str, Run], kind: str) -> None:
    """A part that is not known has no formula for the radius; the radius is compared all the same."""
    run = Run(copied(runs[kind], tmp_path))
    rows, known = run.rows(), found(run.directory)
    parts: list[dict[str, Any]] = [
        {}, {"map": "-"}, {"form": "-"}, {"map": "mine", "form": "mine"}, {"scope": "-", "bound": "-"},
    ]  # fmt: skip
    for hidden in parts:
        write(run, [replace(row, **hidden, radius=2 * row.radius) for row in rows])
        assert found(run.directory) - known, hidden


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_that_is_left_out_is_found(tmp_path: Path, runs: dict[str, Run], kind: str) -> None:
    run = Run(copied(runs[kind], tmp_path))
    rows, columns, known = run.rows(), run.columns, found(run.directory)
    for name in columns:
        write(run, rows, [each for each in columns if each != name])
        assert found(run.directory) - known, name


def write(run: Run, rows: list[Row], columns: Sequence[str] | None = None) -> None:
    """Write the file of the rows by hand."""
    columns = run.columns if columns is None else columns
    run.file.write_text("\n".join(["\t".join(columns), *(row.text(columns) for row in rows), ""]))
