"""Parts of a user's own, used through the library and the command line, without touching src."""

import hashlib
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmrs import LVM, Fixed, Run, SmoothedClassifier, Terms, registry
from lvmrs.errors import InvalidArgumentError, ProofError
from lvmrs.kernel import maps
from lvmrs.kernel.maps import SimplexMap
from lvmrs.kernel.noise import Gaussian, Noise
from lvmrs.kernel.proof import prove
from lvmrs.planners import search
from lvmrs.registry import BOUNDS, FORMS, MAPS, METHODS, NOISES, PARTS, simplex_map
from lvmrs.testing import check_planner
from tests.cli.helpers import run as command
from tests.oracles import random_logits
from tests.own_parts import Careful, LargestMean, Squares, Uniform, UniformForm
from tests.tiny_models import RowByRow

OWN = Path(__file__).parent / "own_parts.py"
X = torch.linspace(0, 1, 12)


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts are known for the time of a test."""
    for names, part in ((MAPS, Squares), (BOUNDS, Careful), (NOISES, Uniform), (FORMS, UniformForm)):
        monkeypatch.setattr(names, "_added", {})
        names.add(part)


@pytest.mark.usefixtures("added")
def test_a_map_and_a_bound_through_the_library() -> None:
    assert MAPS.find("squares") is Squares
    z = random_logits(50, 4)
    torch.testing.assert_close(Squares(0.7, 2.0).apply(z), maps.softmax(z, temperature=0.35, mass=2.0))
    moments = search.sweep(simplex_map("squares"), z, [0.5, 2.0])
    np.testing.assert_allclose(moments.mean[1], maps.softmax(z, temperature=1.0).mean(dim=0), atol=1e-12)
    smoothed = SmoothedClassifier(RowByRow(), 0.25, 9.0)
    for planner in (LVM(maps=("hardmax", "squares"), bounds=("careful",)), Fixed("squares", 0.4, bounds=("careful",))):
        certificate = smoothed.certify(X, planner, n0=200, n=1000, alpha=0.01)
    assert certificate.plan is not None
    assert (certificate.plan.map.name, certificate.plan.bound.name) == ("squares", "careful")
    assert "and squares at temperature 0.4 (the same for all inputs)" in certificate.guarantee
    soft = smoothed.certify(X, Fixed("softmax", 0.2, bounds=("hoeffding",)), n0=200, n=1000, alpha=0.005)
    assert certificate.p_lower == pytest.approx(soft.p_lower, abs=1e-6)  # the same map, and the same risk
    check_planner(Fixed("squares", 0.4, bounds=("careful",)), repeats=10, families=["close pair", "heavy tails"])


def first_number(x: Tensor) -> Tensor:
    """Class 0 if the first number is positive: the distance to the boundary is that number, in any norm."""
    return torch.stack([x[:, 0], -x[:, 0]], dim=1)


@pytest.mark.usefixtures("added")
def test_a_noise_and_its_form_through_the_library() -> None:
    smoothed = SmoothedClassifier(first_number, 1.0, noise=Uniform())
    x = torch.tensor([0.3, 0.0, 0.0])
    certificate = smoothed.certify(x, Fixed("hardmax", form="uniform-l1"), n0=100, n=20_000)
    assert certificate.prediction == 0
    assert 0.25 < certificate.radius < 0.3  # the true radius is 0.3
    assert "for every x' with ‖x' − x‖₁ < 0.2" in certificate.guarantee
    assert "smoothed with uniform noise in [−1, 1] and hardmax" in certificate.guarantee
    with pytest.raises(ProofError, match="r3 is a theorem about gaussian noise, and this is uniform noise"):
        smoothed.certify(x, n0=100, n=1000)
    with pytest.raises(ProofError, match="uniform-l1 is a theorem about uniform noise, and this is gaussian noise"):
        SmoothedClassifier(first_number, 1.0).certify(x, Fixed("hardmax", form="uniform-l1"), n0=100, n=1000)


class Quiet(Gaussian):
    """It says that it is Gaussian, and is nothing at all."""

    def fill(self, out: NDArray[Any], generator: np.random.Generator, sigma: float) -> None:
        out[...] = 0


@dataclass(frozen=True)
class Scaled(Uniform):
    """A noise with a setting, which its spelling does not tell."""

    name: ClassVar[str] = "scaled"
    factor: float = 1.0


@pytest.mark.usefixtures("added")
def test_a_name_stands_for_one_noise() -> None:
    with pytest.raises(InvalidArgumentError, match="Quiet is not the noise 'gaussian' of the registry"):
        SmoothedClassifier(first_number, 1.0, noise=Quiet())
    with pytest.raises(InvalidArgumentError, match="Quiet has the name 'gaussian' of Gaussian"):
        Terms(1.0, 0.01, 100, noise=Quiet())
    NOISES.add(Scaled)
    with pytest.raises(InvalidArgumentError, match="Scaled has settings that its spelling 'scaled' leaves out"):
        SmoothedClassifier(first_number, 1.0, noise=Scaled(0.1))
    with pytest.raises(InvalidArgumentError, match=r"Wordless has no distance; write it: see lvmrs\.kernel\.noise"):
        NOISES.add(type("Wordless", (Noise,), {"name": "wordless", "length": "", "fill": None, "words": None}))


def test_a_scope_that_is_none_is_refused() -> None:
    scores = SmoothedClassifier(first_number, 1.0).scores(X, 100, stage="selection")
    loose = type("Loose", (LargestMean,), {"scope": "This input"})
    with pytest.raises(InvalidArgumentError, match="scope must be one of this input, all inputs, got 'This input'"):
        loose().plan(scores, Terms(1.0, 0.01, 100))


@pytest.mark.usefixtures("added")
def test_scores_of_another_noise_are_refused() -> None:
    uniform = SmoothedClassifier(first_number, 1.0, noise=Uniform())
    plan = Fixed("hardmax").plan(uniform.scores(X, 100, stage="selection"), Terms(1.0, 0.01, 100))
    with pytest.raises(ProofError, match="the scores have uniform noise, and the terms say gaussian noise"):
        prove(plan, Terms(1.0, 0.01, 100), uniform.scores(X, 100))


def test_a_planner_through_the_library() -> None:
    certificate = SmoothedClassifier(RowByRow(), 0.25).certify(X, LargestMean(0.3), n0=100, n=1000)
    assert certificate.plan is not None
    assert (certificate.plan.planner, certificate.plan.map.temperature) == ("LargestMean", 0.3)
    check_planner(LargestMean(), repeats=10, families=["close pair", "heavy tails"])


@pytest.mark.usefixtures("added")
def test_parts_through_the_command_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for names in (MAPS, BOUNDS, NOISES, FORMS):
        names._added.clear()  # as in a new process
    (tmp_path / "mine.py").write_text(OWN.read_text())

    def lvmrs(line: str) -> tuple[int, str, str]:
        return command(line, capsys)

    digits = "--model ready:small_cnn --data digits --sigma 0.5 --n0 20 --n 100 --max 4"
    lvmrs(f"certify {digits} --method python:mine.py:LargestMean --temperature 0.5 --keep-scores --out a")
    (row, *_) = Run("a").rows()
    assert (row.map, row.temperature, row.bound) == ("softmax", 0.5, "betting")
    hashed = hashlib.sha256(OWN.read_bytes()).hexdigest()
    method = Run("a").manifest.method
    assert (method.name, method.settings) == ("LargestMean", {"temperature": 0.5})
    assert list(method.own_code.values()) == [hashed]  # so that no run is resumed with other code
    assert [name.rpartition(".")[2] for name in method.own_code] == ["LargestMean"]
    lvmrs("recertify a --method lvm --map python:mine.py:Squares --bound python:mine.py:Careful --out b")
    assert {(row.map, row.bound) for row in Run("b").rows()} == {("squares", "careful")}
    code, _, err = lvmrs("recertify a --out c")  # what a manifest names is not run
    assert code == 2
    assert "method LargestMean does not come with lvmrs; choose a method" in err
    noisy = "--noise python:mine.py:Uniform --method fixed --map hardmax --form python:mine.py:UniformForm"
    code, _, err = lvmrs(f"certify {digits} {noisy} --out d")
    assert code == 0, err
    assert {row.form for row in Run("d").rows()} == {"uniform-l1"}
    terms = Run("d").manifest.terms
    assert (terms.noise, terms.distance) == ("uniform", "the sum of absolute differences")
    own = Run("d").manifest.method.own_code
    assert {name.rpartition(".")[2] for name in own} == {"Uniform", "UniformForm"}
    again = "--method fixed --map hardmax --form python:mine.py:UniformForm"
    lvmrs(f"certify {digits} {noisy} --out e --keep-scores")
    assert lvmrs(f"recertify e {again} --noise python:mine.py:Uniform --out f")[0] == 0
    assert [row.radius for row in Run("f").rows()] == [row.radius for row in Run("e").rows()]
    code, _, err = lvmrs("certify --method python:mine.py:MINE --temperature 2 --out g " + digits)
    assert (code, "temperature cannot be chosen with method python:mine.py:MINE" in err) == (2, True)
    code, _, _ = lvmrs("report a b d -o r.html")
    assert code == 0
    assert "in the sum of absolute differences of pixels" in Path("r.html").read_text()


def test_own_parts_in_processes_of_their_own(tmp_path: Path) -> None:
    """As the command line does it for many inputs, in a fresh process: two parts from one file."""
    (tmp_path / "mine.py").write_text(OWN.read_text())
    code = (
        "from lvmrs import Run, runs as jobs\n"
        "from lvmrs.runs.workers import Processes\n"
        "from lvmrs.cli.setup import chosen_method\n"
        "from tests.runs.helpers import fill\n"
        "from pathlib import Path\n"
        "if __name__ == '__main__':\n"
        "    own = {'map': 'python:mine.py:Squares', 'bound': 'python:mine.py:Careful', 'temperature': 1.0}\n"
        "    run = fill(Path('a'), keep=True)\n"
        "    made = jobs.recertify(run, 'b', chosen_method('lvm', **own), workers=Processes(2))\n"
        "    print({(row.map, row.bound) for row in made.rows()})\n"
        "    mine = chosen_method('python:mine.py:LargestMean')\n"
        "    assert jobs.recertify(run, 'c', mine, workers=Processes(2)).complete\n"
    )
    (tmp_path / "main.py").write_text(code)
    root = str(Path(__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [sys.executable, "main.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "{('squares', 'careful')}"


def test_what_cannot_be_added() -> None:
    with pytest.raises(InvalidArgumentError, match="a map must be a class derived from Map, got <class"):
        MAPS.add(Careful)
    with pytest.raises(InvalidArgumentError, match="there is a map softmax already; give Copy another name"):
        MAPS.add(type("Copy", (Squares,), {"name": "softmax"}))
    with pytest.raises(InvalidArgumentError, match="Nameless has no name; give the class an attribute name"):
        MAPS.add(type("Nameless", (Squares,), {"name": ""}))
    with pytest.raises(InvalidArgumentError, match="Tabbed has no name; give the class an attribute name"):
        MAPS.add(type("Tabbed", (Squares,), {"name": "a\tb"}))
    with pytest.raises(InvalidArgumentError, match=r"Half has no method apply; write it: see lvmrs\.kernel\.maps"):
        MAPS.add(type("Half", (SimplexMap,), {"name": "half"}))


def test_tables_say_what_the_parts_are() -> None:
    """Names, facts and homes in the tables, which need no torch, are those of the classes."""
    for names in PARTS:
        for name in names:
            assert names.find(name).name == name
    for fact in ("simplex", "tempered"):
        assert MAPS.having(fact) == tuple(name for name in MAPS if getattr(MAPS.find(name), fact))
    for name in METHODS:
        assert METHODS.words(name)
        assert (name in METHODS.having("without_samples")) != METHODS.find(name).samples
        assert METHODS.find(name)
    for table in (*PARTS, METHODS):
        with pytest.raises(InvalidArgumentError, match=f"{table.kind} must be one of .*, got 'unheard-of'"):
            table.find("unheard-of")


def test_no_part_is_asked_for_by_its_name() -> None:
    """Names of maps, bounds and forms are compared in the tables alone."""
    words = "|".join(name for table in PARTS for name in table)
    source = Path(registry.__file__).parent
    for file in source.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        found = re.findall(rf"(?:==|!=|\bin\b) *(?:\([^()\n]*)?[\"'](?:{words})[\"']", text)
        assert not found, f"{file.relative_to(source)} compares a name: {found}"
