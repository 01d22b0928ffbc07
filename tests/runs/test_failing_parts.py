"""Models and parts of the user's own that fail, early or late: one sentence, no traceback, and never a silent end."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lvmrs import Fixed, SmoothedClassifier, Votes, runs
from lvmrs.errors import InvalidArgumentError, LvmrsError, ModelError, ProofError
from lvmrs.kernel.bounds import Bound
from lvmrs.kernel.maps import SimplexMap
from lvmrs.kernel.noise import Noise
from lvmrs.kernel.radius import Form
from lvmrs.planners import Planner
from lvmrs.record import Selection
from lvmrs.registry import BOUNDS, FORMS, MAPS, NOISES
from lvmrs.runs.job import method_record
from tests.cli.helpers import run as command
from tests.runs.helpers import DATA, INPUTS, job_of


def ends() -> Any:
    sys.exit(0)


def raises() -> Any:
    raise KeyError("lost\nand more")


WAYS = [(ends, "(it calls sys.exit)"), (raises, "(KeyError: 'lost\\nand more')")]
BOTH = pytest.mark.parametrize(("way", "words"), WAYS, ids=["exit", "error"])


class Late(nn.Module):
    """It fails at its n-th call."""

    def __init__(self, way: Callable[[], Any], calls: int) -> None:
        super().__init__()
        self.way, self.left = way, calls

    def forward(self, x: Tensor) -> Tensor:
        self.left -= 1
        return x.flatten(1)[:, :3] if self.left else self.way()


@BOTH
@pytest.mark.parametrize("calls", [1, 2, 4, 5, 30])
def test_a_model_at_any_call(tmp_path: Path, way: Callable[[], Any], words: str, calls: int) -> None:
    job = job_of(model=Late(way, calls), selection=Selection(INPUTS, max=3))
    with pytest.raises(ModelError) as caught:
        runs.certify(job, tmp_path / "a")
    assert "the model fails on a batch of shape" in str(caught.value)
    assert str(caught.value).endswith(words)


@BOTH
def test_every_use_of_a_model(way: Callable[[], Any], words: str) -> None:
    x = torch.rand(12)
    uses: list[Callable[[SmoothedClassifier], object]] = [
        lambda smoothed: smoothed.certify(x, n0=10, n=20),
        lambda smoothed: smoothed.predict(x, n=20),
        lambda smoothed: smoothed.predict(x, Votes(), n=20),
        lambda smoothed: smoothed.answer(x),
        lambda smoothed: smoothed.classes(x),
        lambda smoothed: smoothed.prepare(x),
        lambda smoothed: smoothed.calibrate_duels([x], n0=10),
        lambda smoothed: list(runs.predict(smoothed, DATA, Selection(INPUTS))),
    ]
    for use in uses:
        for calls in (1, 4):
            with pytest.raises(ModelError) as caught:
                use(SmoothedClassifier(Late(way, calls), 0.5, batch=4))
            assert str(caught.value).endswith(words)


def test_control_c_in_a_model_passes() -> None:
    def interrupted() -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SmoothedClassifier(Late(interrupted, 5), 0.5, batch=4).certify(torch.rand(12), n0=10, n=20)


LOGITS: dict[str, tuple[Callable[[Tensor], Any], str]] = {
    "none": (lambda x: None, "the model returned NoneType, not a tensor of logits"),
    "tuple": (lambda x: (x.flatten(1), x), "the model returned tuple, not a tensor of logits"),
    "int64": (lambda x: x.flatten(1).long(), "the model returned torch.int64; expected floating-point logits"),
    "complex": (lambda x: x.flatten(1).to(torch.complex64), "the model returned torch.complex64"),
    "bool": (lambda x: x.flatten(1) > 0, "the model returned torch.bool"),
    "sparse": (lambda x: x.flatten(1).to_sparse(), "the model returned a tensor of layout torch.sparse_coo"),
    "no classes": (lambda x: x.flatten(1)[:, :0], "fewer than two classes"),
    "NaN": (lambda x: x.flatten(1) * float("nan"), "the model returned NaN or infinity"),
}


@pytest.mark.parametrize("case", LOGITS)
def test_odd_answers_of_a_model(case: str) -> None:
    model, sentence = LOGITS[case]
    with pytest.raises(ModelError) as caught:
        SmoothedClassifier(model, 0.5, batch=4).certify(torch.rand(12), n0=10, n=20)
    assert sentence in str(caught.value)


def parts(way: Callable[[], Any]) -> dict[str, Any]:
    """Methods, each with one part that fails."""

    class BadMap(SimplexMap):
        name: ClassVar[str] = "bad-map"

        def apply(self, logits: Tensor) -> Tensor:
            return way()  # type: ignore[no-any-return]

        @classmethod
        def constants(cls, lipschitz: Any, *, temperature: Any = 1.0, mass: Any = 1.0) -> Any:
            return way()

    @dataclass(frozen=True)
    class BadBound(Bound):
        name: ClassVar[str] = "bad-bound"

        def tally(self, n: int, risks: Any, upper: Any) -> Any:
            return way()

        def forecast(self, mean: Any, variance: Any, n: int, risk: float) -> Any:
            return way()

    @dataclass(frozen=True)
    class BadForm(Form):
        name: ClassVar[str] = "bad-form"
        noises: ClassVar[tuple[str, ...]] = ("gaussian",)

        def radius(self, p_a: Any, p_b: Any, *, sigma: float, slopes: Any) -> Any:
            return way()

    class BadPlanner(Planner):
        def choose(self, logits: Any, terms: Any) -> Any:
            return way()

    return {"map": BadMap, "bound": BadBound, "form": BadForm, "planner": BadPlanner}


@BOTH
@pytest.mark.parametrize("part", ["map", "bound", "form", "planner"])
def test_parts_of_a_certificate(monkeypatch: pytest.MonkeyPatch, part: str, way: Callable[[], Any], words: str) -> None:
    bad = parts(way)[part]
    table = {"map": MAPS, "bound": BOUNDS, "form": FORMS}.get(part)
    if table is not None:
        monkeypatch.setattr(table, "_added", {**table._added, bad.name: bad})
    smoothed = SmoothedClassifier(lambda x: x.flatten(1)[:, :3], 0.5, batch=4)
    makers: dict[str, Callable[[], Planner]] = {
        "map": lambda: Fixed(bad.name),
        "bound": lambda: Fixed("softmax", bounds=(bad.name,)),
        "form": lambda: Fixed("softmax", form=bad.name),
        "planner": bad,
    }
    with pytest.raises(LvmrsError) as caught:
        smoothed.certify(torch.rand(12), makers[part](), n0=10, n=20)
    assert isinstance(caught.value, ProofError | InvalidArgumentError)
    assert str(caught.value).endswith(words)


@BOTH
def test_a_noise(monkeypatch: pytest.MonkeyPatch, way: Callable[[], Any], words: str) -> None:
    @dataclass(frozen=True)
    class BadNoise(Noise):
        name: ClassVar[str] = "bad-noise"
        distance: ClassVar[str] = "nothing"
        length: ClassVar[str] = "0"

        def fill(self, out: NDArray[Any], generator: np.random.Generator, sigma: float) -> None:
            way()

        def words(self, sigma: float) -> str:
            return str(way())

    monkeypatch.setattr(NOISES, "_added", {**NOISES._added, "bad-noise": BadNoise})
    smoothed = SmoothedClassifier(lambda x: x.flatten(1)[:, :3], 0.5, batch=4, noise=BadNoise())
    with pytest.raises(ProofError) as caught:
        smoothed.certify(torch.rand(12), n0=10, n=20)
    assert str(caught.value) == f"the noise bad-noise fails {words}"
    with pytest.raises(InvalidArgumentError, match="the settings and words of Duels and bad-noise noise fail"):
        method_record(smoothed.default_method, BadNoise(), 0.5)


CODE = """
import sys
import torch
calls = 0
if {at} == 0:
    sys.exit(0)
def net():
    if {at} == 1:
        sys.exit(0)
    def forward(x):
        global calls
        calls += 1
        if calls == {at}:
            sys.exit(0)
        return x.flatten(1)[:, :10]
    return forward
"""


@pytest.mark.parametrize("at", [0, 1, 2, 3, 9])
@pytest.mark.parametrize("verb", ["certify --out a --n0 10 --n 20 --batch 4", "predict --n 20 --batch 4"])
def test_a_command_never_ends_well_without_a_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], verb: str, at: int
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(f"exits_{at}.py").write_text(CODE.format(at=at))
    code, out, err = command(f"{verb} --model python:exits_{at}.py:net --data digits --sigma 0.5 --max 2", capsys)
    assert code == 1
    assert "(it calls sys.exit)" in err.splitlines()[-1]
    assert "Traceback" not in err
    assert not out
