"""Golden rows: the same command writes the same bytes, for any batch size, order of inputs, shards and workers.

``LVMRS_GOLDEN=write`` stores them again. If rows change on purpose, raise ``ROWS_OF`` and say why in CHANGELOG.md.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from lvmrs.kernel import noise as noises
from lvmrs.kernel.noise import Noise
from tests.golden_rows import (
    CONSTANT,
    GOALS,
    METHODS,
    NOISES,
    Outcome,
    Transcript,
    certify,
    check,
    command,
    manifest,
    model,
    rows,
    scores,
    tear,
    typed,
)

SAMPLING = [(noise, method) for noise in NOISES for method in METHODS] + [("gaussian", method) for method in CONSTANT]
ANYTIME = ("target radius", "tolerance")
# Of these, also goals from kept scores, other batch sizes, shards and resumed runs are looked at.
VARIED = ("cohen", "duels", "lvm-bernstein", "fixed-softmax-r2", "duels-chosen")
DETERMINISTIC = f"{model('gaussian').partition(' --sigma')[0]} --method lipschitz-deterministic --lipschitz 5.0"


class Runs:
    """Makes runs in a folder, each of its own name, and writes down their rows."""

    def __init__(self, folder: Path) -> None:
        self.transcript = Transcript()
        self._folder = folder
        self._made = 0

    def place(self) -> Path:
        """A directory that is not there yet."""
        self._made += 1
        return self._folder / str(self._made)

    def add(self, shown: str, make: Callable[[Path], Outcome], *more: Callable[[Path], str]) -> Path:
        """Make a run with a command, and add its rows and more of it to the transcript."""
        out = self.place()
        outcome = make(out)
        assert outcome.code == 0, outcome.err
        self.transcript.add(shown, "".join(part(out) for part in (rows, *more)))
        return out


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """Runs with kept scores, by noise and method; each is made once."""
    folder = tmp_path_factory.mktemp("kept")

    def found(noise: str, method: str) -> Path:
        out = folder / f"{noise}-{method}"
        if not out.exists():
            assert certify(noise, f"{typed(method)} --keep-scores", out).code == 0
        return out

    return found


def goals_of(method: str) -> dict[str, str]:
    """The goals that a method can have: where sampling stops early, the bound cannot be chosen."""
    return {name: goal for name, goal in GOALS.items() if "--bound" not in typed(method) or name not in ANYTIME}


def doing(line: str) -> Callable[[Path], Outcome]:
    return lambda out: command(f"{line} --out {out}")


def certifying(noise: str, options: str, batch: int = 64) -> Callable[[Path], Outcome]:
    return lambda out: certify(noise, options, out, batch)


def merged(noise: str, options: str, runs: Runs) -> Callable[[Path], Outcome]:
    shards = [runs.place(), runs.place()]
    for number, shard in zip((2, 1), shards, strict=True):
        assert certify(noise, f"{options} --shard {number}/2", shard).code == 0
    return doing(f"merge {shards[0]} {shards[1]}")


def resumed(noise: str, options: str) -> Callable[[Path], Outcome]:
    def make(out: Path) -> Outcome:
        assert certify(noise, options, out).code == 0
        tear(out)
        return certify(noise, f"{options} --resume", out)

    return make


@pytest.mark.parametrize(("noise", "method"), SAMPLING)
def test_methods(noise: str, method: str, runs: Runs, kept: Callable[[str, str], Path]) -> None:
    options, goals = typed(method), goals_of(method)
    for goal in goals.values():
        runs.add(f"certify {goal}", certifying(noise, f"{options} {goal}"))
    source = kept(noise, "duels-chosen" if method in CONSTANT else "duels")
    for goal in goals.values() if method in VARIED else ("",):
        runs.add(f"recertify {goal}", doing(f"recertify {source} {(METHODS | CONSTANT)[method]} {goal}"))
    if method in VARIED:
        for batch in (7, 1000):
            runs.add(f"certify --batch {batch}", certifying(noise, options, batch))
        for goal in (goals[name] for name in goals if name in ("fixed n", "target radius")):
            runs.add(f"merge of two shards {goal}", merged(noise, f"{options} {goal}", runs))
            runs.add(f"certify --resume {goal}", resumed(noise, f"{options} {goal}"))
        runs.add(f"certify --resume {goals['budget']}", resumed(noise, f"{options} {goals['budget']}"))
    check(f"{noise}-{method}", runs.transcript.text)


@pytest.mark.parametrize(("noise", "method"), [("gaussian", "duels"), ("exact", "duels"), ("gaussian", "duels-chosen")])
def test_kept_scores(noise: str, method: str, runs: Runs) -> None:
    keep = f"{typed(method)} --keep-scores"
    source = runs.add("certify --keep-scores", certifying(noise, keep), scores)
    fewer = "--alpha 0.05 --n0 30 --n 200"
    runs.add(f"recertify {fewer}", doing(f"recertify {source} {fewer}"))
    runs.add("merge of two shards --keep-scores", merged(noise, keep, runs), scores)
    runs.add("certify --keep-scores --resume", resumed(noise, keep), scores)
    goal = GOALS["target radius"]
    early = runs.add(f"certify --keep-scores {goal}", certifying(noise, f"{keep} {goal}"), scores)
    runs.add(f"recertify of {goal}", doing(f"recertify {early}"))
    check(f"{noise}-{method}-kept", runs.transcript.text)


def test_a_method_without_noise(runs: Runs) -> None:
    whole = runs.add("certify", doing(DETERMINISTIC))
    shards = [runs.place(), runs.place()]
    for number, shard in enumerate(shards, start=1):
        assert doing(f"{DETERMINISTIC} --shard {number}/2")(shard).code == 0
    runs.add("merge of two shards", doing(f"merge {shards[0]} {shards[1]}"))
    tear(whole)
    assert doing(f"{DETERMINISTIC} --resume")(whole).code == 0
    runs.transcript.add("certify --resume", rows(whole))
    check("deterministic", runs.transcript.text)


def test_manifests(runs: Runs) -> None:
    """Of methods that are chosen by default, too."""
    said = Transcript()
    for noise, options in (
        *(("gaussian", goal) for goal in GOALS.values()),
        ("gaussian", "--lipschitz 5.0 --keep-scores"),
        ("gaussian", f"{typed('lvm-constant')} --shard 1/2"),
        ("exact", ""),
        ("exact", f"{typed('fixed-softmax-r2')} --skip 2 --max 4"),
    ):
        out = runs.add(f"certify --noise {noise} {options}", certifying(noise, options))
        said.add(f"certify --noise {noise} {options}", manifest(out))
        if "--keep-scores" in options:
            again = runs.add("recertify", doing(f"recertify {out} --method cohen"))
            said.add("recertify --method cohen", manifest(again))
    out = runs.add("certify --method lipschitz-deterministic", doing(DETERMINISTIC))
    said.add("certify --method lipschitz-deterministic", manifest(out))
    check("default", runs.transcript.text)
    check("manifests", said.text)


@pytest.mark.parametrize("noise", NOISES)
def test_one_classifier_for_all_inputs(noise: str, runs: Runs) -> None:
    """``predict`` and ``calibrate``."""
    said = Transcript()

    def say(shown: str, line: str) -> None:
        outcome = command(line)
        assert outcome.code == 0, outcome.err
        said.add(shown, outcome.out)

    names = [name for found, name in SAMPLING if found == noise and not name.startswith(("lvm", "paper"))]
    for options in (typed(name) for name in names if name != "duels-chosen"):
        for more in ("", "--radius --n0 40"):
            line = f"{options} {more}".strip()
            say(f"predict {line}", f"{model(noise, 'predict')} --alpha 0.01 --n 400 --batch 64 {line}")
    fixed = "--method fixed --alpha 0.01 --n 400"
    constants = ("", " --lipschitz 5.0") if noise == "gaussian" else ("",)
    for options in ("", fixed, f"{fixed} --objective accuracy --epsilon 0.25", f"{fixed} --map softmax"):
        for line in (f"{options}{constant}".strip() for constant in constants):
            say(f"calibrate {line}", f"{model(noise, 'calibrate')} --n0 40 --batch 64 {line}")
    settings = runs.place()
    assert command(f"{model(noise, 'calibrate')} --n0 40 --batch 64 --out {settings}").code == 0
    like = runs.add("certify --settings", certifying(noise, f"--settings {settings}"))
    said.add("certify --settings", rows(like))
    named = model(noise, "predict").partition(" --sigma")[0]
    say("predict --like", f"{named} --like {like} --n 400 --batch 64")
    check(f"{noise}-predict-calibrate", said.text)


def test_refusals(runs: Runs, kept: Callable[[str, str], Path]) -> None:
    said = Transcript()

    def refuse(shown: str, make: Callable[[Path], Outcome]) -> None:
        outcome = make(runs.place())
        assert outcome.code != 0, shown
        said.add(shown, f"{outcome.refusal}\n")

    for method in METHODS:
        for name, goal in GOALS.items():
            if name not in goals_of(method):
                refuse(f"certify {typed(method)} {goal}", certifying("gaussian", f"{typed(method)} {goal}"))
    for method in CONSTANT:
        refuse(f"certify --noise exact:64 {typed(method)}", certifying("exact", typed(method)))
        if method not in ("lvm-constant", "fixed-sparsemax-ramp"):  # these can do without
            refuse(f"certify --noise exact:64 {CONSTANT[method]}", certifying("exact", CONSTANT[method]))
            refuse(f"recertify {CONSTANT[method]}", doing(f"recertify {kept('exact', 'duels')} {CONSTANT[method]}"))
    for more in (*filter(None, GOALS.values()), "--sigma 0.5", "--noise gaussian", "--n 100", "--keep-scores"):
        refuse(f"certify deterministic {more}", doing(f"{DETERMINISTIC} {more}"))
    for more in ("--workers 2", "--shard 1/2", "--keep-scores", "--tolerance 0.1", "--beta 0.01"):
        refuse(f"certify {GOALS['budget']} {more}", certifying("gaussian", f"{GOALS['budget']} {more}"))
    for more in ("--n 401", "--n0 41", "--method lipschitz-deterministic", "--method lipschitz-both"):
        refuse(f"recertify {more}", doing(f"recertify {kept('gaussian', 'duels')} {more}"))
    check("refusals", said.text)


def same_with_workers(noise: str, method: str, goal: str, runs: Runs) -> None:
    options = f"{typed(method)} {goal}"
    alone, several = runs.place(), runs.place()
    assert certify(noise, options, alone).code == 0
    outcome = certify(noise, f"{options} --workers 2", several)
    assert outcome.code == 0, outcome.err
    assert "workers 2\n" in outcome.err
    assert rows(several) == rows(alone)


def test_rows_are_the_same_by_worker_processes(runs: Runs) -> None:
    same_with_workers("gaussian", "duels-chosen", GOALS["target radius"], runs)


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "method"), SAMPLING)
def test_rows_of_every_method_are_the_same_by_worker_processes(
    noise: str, method: str, runs: Runs, kept: Callable[[str, str], Path]
) -> None:
    for name, goal in goals_of(method).items():
        if name != "budget":
            same_with_workers(noise, method, goal, runs)
    source, alone, several = kept(noise, "duels-chosen" if method in CONSTANT else "duels"), runs.place(), runs.place()
    line = f"recertify {source} {(METHODS | CONSTANT)[method]}"
    assert command(f"{line} --out {alone}").code == command(f"{line} --workers 2 --out {several}").code == 0
    assert rows(several) == rows(alone)


@pytest.mark.parametrize("goal", GOALS)
def test_noise_drawn_as_on_other_devices_gives_the_same_rows(
    goal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = f"{typed('duels')} {GOALS[goal]} --keep-scores" if goal != "budget" else f"{typed('duels')} {GOALS[goal]}"
    assert certify("exact", options, tmp_path / "here").code == 0
    drawn = []

    def counted(noise: Noise, device: torch.device) -> bool:
        drawn.append(device)
        return noise.drawn_on_device

    monkeypatch.setattr(noises, "_drawn_on_device", counted)
    assert certify("exact", options, tmp_path / "there").code == 0
    assert drawn
    assert rows(tmp_path / "there") == rows(tmp_path / "here")
    assert scores(tmp_path / "there") == scores(tmp_path / "here")
