"""``--target-radius``, ``--tolerance`` and ``--beta``: what is printed, and what is refused in one sentence."""

import json
from pathlib import Path

import pytest
import torch

from lvmrs.record import Run
from tests.cli.helpers import run

DIGITS = "certify --model python:lvmrs.models.networks:small_cnn --data digits --sigma 0.5 --batch 100 --max 4"


def test_targets_from_the_command_line_to_the_table(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, told = run(f"{DIGITS} --n 400 --target-radius 0.1,0.5 --beta 0.01 --keep-scores --out a", capsys)
    assert code == 0
    assert (
        "goal   sampling for an input stops when it is decided whether 0.1 and 0.5 can be certified, or after" in told
    )
    assert "4 inputs × at most 464 samples" in told
    first, spent, *verdicts = out.splitlines()
    assert first.startswith("a: 4 inputs, certified accuracy")
    assert "samples an input (median" in spent
    assert [line.partition(":")[0] for line in verdicts] == ["0.1", "0.5"]
    terms = Run(tmp_path / "a").manifest.terms
    assert terms.goal is not None
    assert (terms.n0, terms.n, terms.goal.targets, terms.goal.beta) == (64, 400, (0.1, 0.5), 0.01)
    code, out, _ = run("recertify a --method votes --tolerance 0.5 --out b --json", capsys)
    assert code == 0
    assert json.loads(out)["samples"]["targets"] == []
    code, out, _ = run("analyze a --radii 0,0.5", capsys)
    assert code == 0
    assert verdicts[0] in out


def test_a_budget_from_the_command_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)  # the network is not trained: its weights are those of this seed
    code, _, told = run(f"{DIGITS} --max 40 --skip 1 --n 2000 --n0 32 --budget 5000 --out a", capsys)
    assert code == 0
    assert "after a number allocated in advance, which divides 5000 samples among all inputs" in told
    rows = Run(tmp_path / "a").rows()
    assert sum((row.samples or 0) + 32 for row in rows) == 5000
    assert {row.samples for row in rows if row.top != row.label} == {32}
    assert any((row.samples or 0) > 32 for row in rows if row.top == row.label)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--target-radius 0.5 --tolerance 0.1", "a goal has either targets or a tolerance"),
        ("--target-radius half", "target-radius must be numbers with commas between them"),
        ("--target-radius 0", "targets must be"),
        ("--tolerance -1", "tolerance must be"),
        ("--beta 0.1", "beta has no effect without a goal"),
        ("--budget 100000 --beta 0.1", "beta has no effect where numbers of samples are planned before"),
        ("--budget 100000 --target-radius 0.5", "budget is for the average radius, and target-radius decides each"),
        ("--budget 100000 --tolerance 0.5", "budget is for the average radius, and tolerance stops each input"),
        ("--target-radius 0.5 --bound hoeffding", "bound has no effect where sampling stops at a goal"),
        ("--target-radius 0.5 --beta 2", "beta must lie strictly between 0 and 1"),
    ],
)
def test_what_is_refused(options: str, sentence: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, told = run(f"{DIGITS} {options} --out {tmp_path / 'a'}", capsys)
    assert (code, out) == (2, "")
    assert sentence in told
    assert len(told.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--budget 5000 --shard 1/2", "each shard would spend it"),
        ("--budget 5000 --keep-scores", "scores cannot be kept, since inputs share a budget"),
        ("--budget 100", "budget must be at least 256 samples for a first look at 4 inputs"),
    ],
)
def test_budgets_that_do_not_fit_the_inputs_are_refused_once_these_are_known(
    options: str, sentence: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out, told = run(f"{DIGITS} {options} --out {tmp_path / 'a'}", capsys)
    assert (code, out) == (2, "")
    assert sentence in told.splitlines()[-1]
    assert not (tmp_path / "a").exists()
