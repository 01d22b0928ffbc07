"""``lvmrs verify``: exit codes, what is printed, and that a run cannot make it run code."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from lvmrs import Duels, Fixed, registry
from lvmrs._util import signals
from tests.cli.helpers import run as lvmrs
from tests.quick import without_trials
from tests.runs.named_runs import NETWORK, altered_manifest, make_files, named_run

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    without_trials(monkeypatch)
    make_files()


def test_rows_that_stand(capsys: Captured) -> None:
    named_run(keep=True)
    code, out, err = lvmrs("verify a --rows 2", capsys)
    assert code == 0
    head, *rows = (line.split("\t") for line in out.splitlines())
    assert head == ["idx", "verdict", "why", "radius", "p_lower", "p_upper", "logits"]
    assert [row[1:3] for row in rows] in ([["equal", "-"]] * 2, [["rounding", "-"], ["equal", "-"]])
    assert re.search(r"^2 of 4 rows computed again, in batches of 8 instead of 16: 2 equal$", err, flags=re.MULTILINE)
    assert "kept scores are those of the model up to " in err
    assert re.search(
        r"^2 of 4 rows were drawn with seed \d+: a run with 3 or more forged rows \(75 %\) would have been found with "
        r"probability at least 1 − 0\.01, if its author did not know the seed; fewer may have been missed$",
        err,
        flags=re.MULTILINE,
    )
    found = json.loads(lvmrs("verify a --rows 2 --seed 5 --json", capsys)[1])
    assert (found["seed"], found["risk"], found["forged rows found"], found["forged share found"]) == (5, 0.01, 3, 0.75)
    code, out, _ = lvmrs("verify a --rows all --batch 3 --json", capsys)
    found = json.loads(out)
    assert (code, found["stands"], found["computed"], found["batch"], found["changed"]) == (0, True, 4, 3, [])
    assert [row["idx"] for row in found["rows"]] == [0, 1, 2, 3]
    assert found["largest difference"]["logits"] < 1e-5
    assert (found["seed"], found["forged rows found"]) == (None, 1)
    assert (
        lvmrs("verify a --rows 1 --seed 1 --json", capsys)[1] != lvmrs("verify a --rows 1 --seed 0 --json", capsys)[1]
    )


def test_a_run_that_was_altered_by_hand(capsys: Captured) -> None:
    run = named_run()
    lines = run.file.read_text().split("\n")
    fields = lines[3].split("\t")
    lines[3] = "\t".join([*fields[:3], str(float(fields[3]) + 0.1), *fields[4:]])
    run.file.write_text("\n".join(lines))
    code, out, err = lvmrs("verify a --rows 1", capsys)
    assert code == 1
    assert re.search(r"^2\tdifferent\tits (radius|class) is ", out, flags=re.MULTILINE)
    assert "1 rows do not stand" in err
    code, out, _ = lvmrs("verify a --rows 1 --json", capsys)
    assert (code, json.loads(out)["stands"]) == (1, False)


def test_words_that_were_altered_by_hand(capsys: Captured) -> None:
    altered_manifest(named_run(), lambda stored: stored["method"].update(classifier="the network itself"))
    code, out, err = lvmrs("verify a", capsys)
    assert (code, out) == (1, "")
    assert (
        'a was made with other files or settings: method classifier: "the network itself", now "the classifier that '
        in err
    )


def test_an_unfinished_run_stands_as_far_as_it_goes(capsys: Captured) -> None:
    run = named_run()
    run.file.write_text("\n".join(run.file.read_text().split("\n")[:3]) + "\n")
    code, _, err = lvmrs("verify a", capsys)
    assert code == 3
    assert "the run is unfinished: 2 rows are missing" in err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--model trained:other.safetensors", 'lvmrs: a was made with other files or settings: model weights hash: "'),
        (f"--model {NETWORK} --weights other.safetensors", "lvmrs: a was made with other files or settings: model "),
        ("--data npz:labels.npz", 'lvmrs: a was made with other files or settings: data hash: "'),
    ],
)
def test_other_weights_and_data(capsys: Captured, options: str, sentence: str) -> None:
    named_run()
    with np.load("data.npz") as held:
        arrays = dict(held)
    np.savez("labels.npz", x_test=arrays["x_test"], y_test=arrays["y_test"][::-1])
    code, out, err = lvmrs(f"verify a {options}", capsys)
    assert (code, out) == (1, "")
    assert sentence in err
    code, out, _ = lvmrs(f"verify a {options} --json", capsys)
    assert code == 1
    found = json.loads(out)
    assert (found["stands"], found["rows"]) == (False, [])
    assert found["changed"]


def test_code_is_run_only_if_it_is_typed(capsys: Captured) -> None:
    run = named_run()
    altered_manifest(run, lambda stored: stored["model"].update(name="python:mine.py:make"))
    code, out, err = lvmrs("verify a", capsys)
    assert (code, out) == (2, "")
    assert err == (
        "lvmrs: python:mine.py:make could run code, and a run must not choose code; if you trust it, name it yourself: "
        "--model python:mine.py:make\n"
    )
    altered_manifest(run, lambda stored: stored["model"].update(name="python:a b\x1b[31m'.py:make"))
    assert "--model 'python:a b\\x1b[31m'\"'\"'.py:make'\n" in lvmrs("verify a", capsys)[2]
    altered_manifest(run, lambda stored: stored["model"].update(name="trained:net.safetensors"))
    altered_manifest(run, lambda stored: stored["data"].update(name="python:mine.py:inputs"))
    code, _, err = lvmrs("verify a", capsys)
    assert code == 2
    assert err.endswith("name it yourself: --data python:mine.py:inputs\n")
    assert not Path("code-was-run").exists()
    assert lvmrs("verify a --data npz:data.npz", capsys)[0] == 0
    assert not Path("code-was-run").exists()


def test_code_of_the_user_and_its_changes(capsys: Captured) -> None:
    named_run("python:mine.py:make", "python:mine.py:inputs")
    typed = "verify a --model python:mine.py:make --data python:mine.py:inputs"
    assert lvmrs(typed, capsys)[0] == 0
    Path("mine.py").write_text(f"# another line\n{Path('mine.py').read_text()}")
    code, _, err = lvmrs(typed, capsys)
    assert code == 1
    assert "model code hash: " in err


def test_weights_that_the_run_does_not_name(capsys: Captured) -> None:
    named_run(NETWORK, weights="net.safetensors")
    code, _, err = lvmrs("verify a", capsys)
    assert code == 2
    assert err.endswith("whose path it has not recorded; name that file: --weights …\n")
    assert lvmrs("verify a --weights net.safetensors", capsys)[0] == 0


def test_a_map_of_ones_own(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    for names in registry.PARTS:
        monkeypatch.setattr(names, "_added", {})
    Path("parts.py").write_text(
        "import lvmrs.kernel.maps\n\n\nclass Mine(lvmrs.kernel.maps.Softmax):\n    name = 'mine'\n"
    )
    from lvmrs.cli.setup import known_name

    known_name(registry.MAPS, "python:parts.py:Mine")
    named_run(method=Fixed("mine", 0.5))
    monkeypatch.setattr(registry.MAPS, "_added", {})
    code, _, err = lvmrs("verify a", capsys)
    assert code == 2
    assert err.startswith("lvmrs: the map mine (its code is parts.Mine) does not come with lvmrs")
    assert err.endswith("name it: --map …\n")
    assert lvmrs("verify a --map python:parts.py:Mine", capsys)[0] == 0
    code, _, err = lvmrs("verify a --map softmax", capsys)
    assert code == 2
    assert "map must be python:MODULE:NAME here, got 'softmax'; else the run decides it" in err


def test_mistakes(capsys: Captured) -> None:
    named_run(method=Duels(0.5))
    for options, sentence in {
        "a --rows 0": "rows must be a whole number of at least 1, or all, got '0'",
        "a --rows some": "rows must be a whole number of at least 1, or all, got 'some'",
        "a --batch 0": "batch must be a whole number of at least 1",
        "a --method lvm": "method must be python:MODULE:NAME here, got 'lvm'; else the run decides it",
        "a --class-index x.json": "class_index goes with data; name the data, too",
    }.items():
        code, out, err = lvmrs(f"verify {options}", capsys)
        assert (code, out) == (2, ""), options
        assert err.splitlines()[-1].startswith(f"lvmrs: {sentence}"), err
    code, _, err = lvmrs("verify nowhere", capsys)
    assert (code, err) == (1, "lvmrs: nowhere is not a run: the directory does not exist\n")
    Path("other.tsv").write_text("idx\tlabel\tpredict\tradius\n0\t1\t1\t0.5\n")
    lvmrs("import other.tsv --sigma 0.5 --out imported", capsys)
    code, _, err = lvmrs("verify imported", capsys)
    assert code == 1
    assert "was imported from another project's file; there is nothing to verify it with" in err


def test_it_can_be_stopped(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal after the second row, as ``_stopping`` tells it to whoever works."""
    named_run()
    calls = iter([None, KeyboardInterrupt()])

    def check() -> None:
        if (stop := next(calls)) is not None:
            raise stop

    monkeypatch.setattr(signals, "check", check)
    code, out, err = lvmrs("verify a", capsys)
    assert (code, err) == (3, "stopped after 2 rows; nothing was written\n")
    assert len(out.splitlines()) == 3
