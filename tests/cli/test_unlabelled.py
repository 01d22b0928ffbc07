"""Commands on inputs without labels: answers and shares of certified inputs, and nothing about accuracy."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lvmrs import analysis
from lvmrs.data import DataFacts
from lvmrs.errors import RunError
from lvmrs.record import Run
from tests.cli.helpers import run

Command = Callable[[str], tuple[int, str, str]]
OWN = "from tests.tiny_models import RowByRow\ndef model():\n    return RowByRow()\n"
QUICK = "--n0 30 --n 80 --alpha 0.01 --batch 40"


@pytest.fixture
def lvmrs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Commands in a directory with a model and the same inputs with labels and without; MODEL stands for the model."""
    monkeypatch.chdir(tmp_path)
    inputs = np.random.default_rng(0).random((6, 12), dtype=np.float32)
    np.save("x.npy", inputs)
    np.savez("xy.npz", x=inputs, y=np.arange(6) % 3)
    np.savez("names.npz", x=inputs, names=np.array([f"photo-{k}.png" for k in range(6)]))
    Path("own.py").write_text(OWN, encoding="utf-8")
    return lambda line: run(line.replace("MODEL", f"--model python:own.py:model --sigma 0.5 {QUICK}"), capsys)


def test_answers_have_no_label_and_no_correctness(lvmrs: Command) -> None:
    code, out, err = lvmrs("predict MODEL --data npz:names.npz")
    lines = [line.split("\t") for line in out.splitlines()]
    assert (code, lines[0], lines[1][2]) == (0, ["idx", "predict", "name"], "photo-0.png")
    assert "its inputs have no labels" in err
    assert "correct" not in out + err
    labelled = [line.split("\t") for line in lvmrs("predict MODEL --data npz:xy.npz")[1].splitlines()]
    assert [line[1] for line in lines] == [line[2] for line in labelled]
    _, out, _ = lvmrs("predict MODEL --data npy:x.npy --radius --json")
    assert list(json.loads(out.splitlines()[0])) == ["idx", "predict", "radius", "p_lower", "p_upper", "name"]


def test_rows_say_that_the_label_is_unknown(lvmrs: Command) -> None:
    code, out, err = lvmrs("certify MODEL --data npy:x.npy --out a --keep-scores")
    lvmrs("certify MODEL --data npz:xy.npz --out b")
    rows, known = Run("a").rows(), Run("b").rows()
    share = sum(row.predict >= 0 for row in rows) / 6
    mean = analysis.average_certified_radius(analysis.results_of(Run("a"))).value
    assert mean == pytest.approx(sum(row.radius for row in rows) / 6)
    assert code == 0
    assert out.startswith(
        f"a: 6 inputs without labels, certified share {100 * share:.1f} %, average certified radius 0."
    )
    assert "accuracy" not in out + err
    assert {(row.label, row.correct) for row in rows} == {(None, None)}
    assert [(row.predict, row.radius, row.clean) for row in rows] == [(r.predict, r.radius, r.clean) for r in known]
    fields = [line.split("\t")[1:5:3] for line in Run("a").file.read_text().splitlines()]
    assert fields == [["label", "correct"], *[["-", "-"]] * 6]
    assert Run("a").manifest.data.facts == DataFacts(labels="none")
    assert json.loads(lvmrs("certify MODEL --data npy:x.npy --budget 500 --out c --json")[1])["certified share"] <= 1
    assert lvmrs("certify MODEL --data npy:x.npy --out a --keep-scores --resume")[1] == out


def test_certify_again_verify_merge_attack_and_import(lvmrs: Command) -> None:
    lvmrs("certify MODEL --data npy:x.npy --out a --keep-scores")
    assert lvmrs("recertify a --method cohen --out b")[1].startswith("b: 6 inputs without labels, certified share ")
    assert lvmrs("recertify a --budget 600 --n0 20 --out c")[0] == 0
    assert lvmrs("verify a --model python:own.py:model --rows all")[1].count("\tequal\t") == 6
    for k in (1, 2):
        assert lvmrs(f"certify MODEL --data npy:x.npy --shard {k}/2 --out s{k}")[0] == 0
    assert lvmrs("merge s1 s2 --out m")[0] == 0
    assert [row.radius for row in Run("m").rows()] == [row.radius for row in Run("a").rows()]
    attack = "attack a --model python:own.py:model --max 2 --steps 1 --restarts 1 --n 200 --samples 4"
    for most in (2, 3):  # the rows of the first attack are read by the second
        assert lvmrs(attack.replace("--max 2", f"--max {most}"))[0] == 0
    (shown,) = json.loads(lvmrs("analyze a --json")[1])
    assert len(shown["attack"]["attacked share"]) == len(shown["certified share"])
    assert lvmrs("import a/certificates.tsv --sigma 0.5 --out i")[1].startswith("i: 6 inputs without labels, ")
    assert {row.correct for row in Run("i").rows()} == {None}


def test_a_label_that_was_added_to_a_row_is_found(lvmrs: Command) -> None:
    lvmrs("certify MODEL --data npy:x.npy --out a")
    lines = Run("a").file.read_text().splitlines()
    cells = lines[2].split("\t")
    cells[1], cells[4] = "0", str(int(cells[2] == "0"))
    Run("a").file.write_text("\n".join([*lines[:2], "\t".join(cells), *lines[3:], ""]))
    code, out, _ = lvmrs("verify a --model python:own.py:model --rows 1")
    assert code == 1
    assert "its label is 0, and npy:x.npy has None" in out


def test_shares_are_named_so_and_do_not_stand_beside_accuracy(lvmrs: Command) -> None:
    for name, data in (("a", "npy:x.npy"), ("b", "npz:xy.npz"), ("c", "npy:x.npy --seed 1")):
        lvmrs(f"certify MODEL --data {data} --out {name}")
    table = lvmrs("analyze a c --radii 0,0.25")[1]
    assert table.split("\n")[0].split("  ")[-4].strip() == "share at 0.25"
    for form in ("csv", "json"):
        shown = lvmrs(f"analyze a --envelope --format {form}")[1]
        assert "certified share" in shown
        assert "certified accuracy" not in shown
    assert "6 inputs without labels, certified share in %; ACR" in lvmrs("compare a c")[1]
    assert json.loads(lvmrs("compare a c --json")[1])["measure"] == "certified share"
    assert lvmrs("plot a -o a.svg")[0] == lvmrs("plot a --kind radii -o r.svg")[0] == 0
    assert lvmrs("report a -o a.html")[0] == 0
    assert '"measure": "certified share"' in Path("a.html").read_text(encoding="utf-8")
    sentence = "b has labels, and a has none, so that accuracies would stand beside shares of certified inputs"
    for line in ("analyze a b", "compare b a", "plot a b -o d.svg", "plot a b -o d.svg --kind radii", "report a b"):
        code, _, err = lvmrs(line)
        assert (code, sentence in err) == (1, True), line
    with pytest.raises(RunError, match="a has no labels, so that accuracy is unknown"):
        analysis.certified_accuracy(analysis.read("a"), [0.0])


def test_settings_are_calibrated_on_all_answers_and_training_is_refused(lvmrs: Command) -> None:
    model = "--model python:own.py:model --sigma 0.5 --n0 30 --data npy:x.npy --method fixed --map softmax"
    code, out, _ = lvmrs(f"calibrate {model} --out s.json")
    assert (code, out.startswith("--method fixed --map softmax")) == (0, True)
    train = "train --model ready:small_cnn --sigma 0.5 --epochs 1 --test-split none --out n.safetensors"
    code, _, err = lvmrs(f"{train} --data npy:x.npy")
    assert (code, "its inputs have no labels, which this needs" in err) == (1, True), err
