"""Each command: exact output, exit code, and one sentence for each mistake."""

import json
import re
import signal
from functools import partial
from importlib.metadata import version
from pathlib import Path

import pytest

from lvmrs import record as runs
from lvmrs.cli import demo as demo
from lvmrs.cli import main, options
from lvmrs.cli.progress import Watcher, duration
from tests.cli.helpers import run
from tests.processes import running, until

DIGITS = "--model python:lvmrs.models.networks:small_cnn --data digits --sigma 0.5 --batch 100"
QUICK = "--n0 50 --n 200 --max 6"


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network that knows some digits."""
    file = tmp_path_factory.mktemp("weights") / "w.safetensors"
    demo.train(file, sigma=0.5, epochs=4)
    return file


class Command:
    """Runs commands in a directory of their own."""

    def __init__(self, capsys: pytest.CaptureFixture[str], weights: Path) -> None:
        self.capsys, self.weights = capsys, weights

    def __call__(self, line: str) -> tuple[int, str, str]:
        """Exit code, stdout and stderr."""
        return run(line.replace("DIGITS", f"{DIGITS} --weights {self.weights}").replace("QUICK", QUICK), self.capsys)


@pytest.fixture
def lvmrs(
    capsys: pytest.CaptureFixture[str], weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Command:
    """The command line."""
    monkeypatch.chdir(tmp_path)
    return Command(capsys, weights)


def test_without_arguments_it_teaches(lvmrs: Command) -> None:
    code, out, _ = lvmrs("")
    assert code == 0
    assert "Start here:\n  lvmrs demo " in out
    assert lvmrs("--version")[1] == f"{version('lvmrs')}\n"


def test_radius(lvmrs: Command) -> None:
    assert lvmrs("radius 0.8 0.1 --sigma 0.25 --lipschitz 1") == (
        0,
        "R1    0.4973  margin / (√2 L of the smoothed scores)\n"
        "R2    0.2653  σ (Φ⁻¹(p_a) − Φ⁻¹(p_b)) / 2\n"
        "R3    0.2104  σ Φ⁻¹(p_a)\n"
        "ramp  0.5302  noise and Lipschitz constant together\n",
        "",
    )
    code, out, _ = lvmrs("radius 0.9 --sigma 0.5 --json")
    assert code == 0
    values = json.loads(out)
    assert values["R2"] == pytest.approx(values["R3"])
    assert values["R3"] == pytest.approx(0.5 * 1.2815515655446004)


def test_certify_then_analyze(lvmrs: Command) -> None:
    code, out, err = lvmrs("certify DIGITS QUICK --out a")
    assert code == 0
    assert re.fullmatch(r"a: 6 inputs, certified accuracy \d+\.\d %, average certified radius 0\.\d{4}\n", out)
    told = err.splitlines()
    assert told[0] == "model  python:lvmrs.models.networks:small_cnn; it takes pixels in [0, 1] as they are"
    assert told[1] == "data   digits; test, 360 inputs"
    words = "Gaussian noise of σ = 0.5, after which inputs are rounded to multiples of 1/16"
    assert told[2] == f"noise  exact:16: {words}"
    assert told[3] == "method Duels(width=None)"
    assert re.fullmatch(r"cost   6 inputs × 250 samples at [\d,]+ samples/s: about 1 s", told[4])
    assert told[5].startswith("runs   batches of 100, as a list of steps")
    assert re.fullmatch(r"clean  \d+\.\d % right without noise, \d+\.\d % abstain", told[6])
    assert len(told) == 7  # no progress where nobody looks
    code, table, _ = lvmrs("analyze a --radii 0,0.5")
    assert code == 0
    first, second = table.split("\n\n")
    assert re.fullmatch(r"run  inputs +clean +0 +0.5 +ACR +abstains\na +6( +\d+\.\d){3} +0\.\d{4} +\d+\.\d", first)
    assert re.match(r"p_lower  scores( +\d\d %){5}\na +duel( +0\.\d{4}){5}\np_lower: lower bound", second)
    average = first.split()[-2]
    assert f"average certified radius {average}\n" in out


def test_json_for_programs(lvmrs: Command) -> None:
    _, out, _ = lvmrs("certify DIGITS QUICK --out a --json")
    made = json.loads(out)
    assert (made["run"], made["inputs"], made["missing"]) == ("a", 6, 0)
    _, out, _ = lvmrs("analyze a --radii 0:1:0.5 --json")
    (seen,) = json.loads(out)
    assert seen["radii"] == [0.0, 0.5, 1.0]
    assert seen["certified accuracy"][0] == made["certified accuracy"]
    assert seen["average certified radius"] == made["average certified radius"]


def test_predict(lvmrs: Command) -> None:
    code, out, err = lvmrs("predict DIGITS --n 500 --max 3")
    assert code == 0
    rows = [line.split("\t") for line in out.splitlines()]
    assert rows[0] == ["idx", "label", "predict", "correct", "name"]
    assert [row[0] for row in rows[1:]] == ["0", "1", "2"]
    assert all((row[1] == row[2]) == (row[3] == "1") for row in rows[1:])
    assert re.search(r"3 inputs: \d+\.\d % correct, \d in doubt", err)
    _, lines, _ = lvmrs("predict DIGITS --n 500 --max 3 --json")
    found = [json.loads(line) for line in lines.splitlines()]
    assert [row.pop("name") for row in found] == [None] * 3
    assert [[*map(str, row.values()), "-"] for row in found] == rows[1:]


def test_scores_that_are_gone_are_sampled_again(lvmrs: Command) -> None:
    lvmrs("certify DIGITS QUICK --out a --keep-scores")
    Path("a/scores-selection.npy").unlink()
    for line in ("recertify a --out b", "certify DIGITS QUICK --out a --keep-scores --resume"):
        code, _, err = lvmrs(line)
        assert code == 1
        assert "lvmrs: a: the kept scores of 6 of 6 rows (inputs 0, 1, 2, 3, 4, …) are missing or damaged: " in err
        assert err.endswith("resume the run with resample to sample these inputs again\n")
    assert lvmrs("certify DIGITS QUICK --out a --keep-scores --resume --resample")[0] == 0
    assert lvmrs("recertify a --out b")[0] == 0
    code, _, err = lvmrs("certify DIGITS QUICK --out c --keep-scores --resample")
    assert (code, err.splitlines()[-1]) == (
        2, "lvmrs: resample is for a run that is resumed and that keeps scores; leave it out",
    )  # fmt: skip


def test_recertify_and_merge(lvmrs: Command) -> None:
    lvmrs("certify DIGITS QUICK --out a --keep-scores")
    code, out, _ = lvmrs("recertify a --out b --method cohen --alpha 0.05")
    assert code == 0
    assert out.startswith("b: 6 inputs, certified accuracy ")
    assert runs.Run("b").manifest.method.name == "Cohen"
    assert {row.bound for row in runs.Run("b").rows()} == {"clopper_pearson"}
    lvmrs("recertify b --out d")  # has no scores
    lvmrs("certify DIGITS QUICK --out e --keep-scores --method cohen")
    lvmrs("recertify e --out f --alpha 0.01")
    assert runs.Run("f").manifest.method.name == "Cohen"  # as the run did
    lvmrs("recertify a --out c --bound bernstein --map softmax")
    assert {(row.bound, row.map) for row in runs.Run("c").rows()} == {("bernstein", "softmax")}
    for k in (1, 2):
        assert lvmrs(f"certify DIGITS QUICK --out s{k} --shard {k}/2")[0] == 0
    code, out, _ = lvmrs("merge s2 s1 --out whole")
    assert code == 0
    assert [(r.idx, r.radius) for r in runs.Run("whole").rows()] == [(r.idx, r.radius) for r in runs.Run("a").rows()]


def test_import_plot_and_report(lvmrs: Command) -> None:
    rows = [
        "idx\tlabel\tpredict\tradius\tcorrect\ttime",
        *(f"{20 * k}\t1\t{k % 2}\t0.{k}\t1\t0:00:01" for k in range(8)),
    ]
    Path("other.tsv").write_text("\n".join(rows) + "\n")
    code, out, _ = lvmrs("import other.tsv --sigma 0.25 --alpha 0.001 --method SmoothAdv --out a")
    assert (code, out) == (0, "a: 8 inputs, certified accuracy 50.0 %, average certified radius 0.2000\n")
    run = runs.Run("a")
    assert list(run.manifest.selection.indices) == list(range(0, 160, 20))
    assert (
        lvmrs("analyze a")[1].splitlines()[1].split()[1:] == lvmrs("analyze other.tsv")[1].splitlines()[1].split()[1:]
    )
    for kind in ("curves", "radii"):
        assert lvmrs(f"plot a other.tsv --kind {kind} -o {kind}.png") == (0, "", f"wrote {kind}.png\n")
        assert Path(f"{kind}.png").read_bytes().startswith(b"\x89PNG")
    code, _, err = lvmrs("plot a --kind choices -o c.png")
    assert (code, err) == (1, "lvmrs: a does not record which maps were chosen; there is nothing to show\n")
    code, _, err = lvmrs("report other.tsv")
    assert (code, err) == (1, "lvmrs: other.tsv is a file, not a run; make a run of it with lvmrs import\n")
    for line in ("report a -o .", "plot a -o /proc/nothing/a.png", "report a -o /proc/nothing.html"):
        code, _, err = lvmrs(line)
        assert code == 1
        assert "cannot be written to" in err
    assert "inputs must be a whole number of at least 1" in lvmrs("report a --inputs 0")[2]
    assert lvmrs("report a") == (0, "", "wrote report.html (0.0 MB)\n")
    page = Path("report.html").read_text()
    assert "Taken from another project" in page
    assert "SmoothAdv" in page


def test_import_of_scattered_inputs_is_a_finished_run(lvmrs: Command) -> None:
    Path("$_odd.tsv").write_text("idx\tlabel\tpredict\tradius\n7\t1\t1\t0.5\n12\t1\t1\t0.25\n")
    assert lvmrs("import $_odd.tsv --sigma 0.5 --data digits --out a")[0] == 0
    assert runs.Run("a").complete
    assert lvmrs("report a")[0] == 0
    assert "data:image/png" not in Path("report.html").read_text()  # the labels are not those of digits
    assert lvmrs("plot $_odd.tsv a -o a.svg")[0] == 0


def test_a_report_without_its_data_has_no_pictures(lvmrs: Command) -> None:
    lvmrs("certify DIGITS QUICK --out a")
    assert lvmrs("report a")[0] == 0
    page = Path("report.html").read_text()
    assert "data:image/png" in page
    assert '"method": "duels: one duel with each rival"' in page
    manifest = json.loads(Path("a/manifest.json").read_text())
    manifest["data"]["name"] = "npz:gone.npz"
    Path("a/manifest.json").write_text(json.dumps(manifest))
    code, _, err = lvmrs("report a")
    assert code == 0
    assert "no pictures: npz:gone.npz: gone.npz does not exist" in err
    assert "; say where the data are with --data\n" in err
    assert "no pictures" not in lvmrs("report a --data none")[2]
    assert "data:image/png" not in Path("report.html").read_text()
    assert "data:image/png" in (lvmrs("report a --data digits") and Path("report.html").read_text())
    manifest["data"]["hash"] = "another hash"
    Path("a/manifest.json").write_text(json.dumps(manifest))
    assert "no pictures: digits is not the data that the run was made with\n" in lvmrs("report a --data digits")[2]


def test_a_run_shows_itself_and_is_a_frame(lvmrs: Command) -> None:
    lvmrs("certify DIGITS QUICK --out a")
    run = runs.Run("a")
    frame = run.frame()
    assert list(frame.columns) == list(runs.COLUMNS)
    assert frame["radius"].tolist() == [row.radius for row in run.rows()]
    assert "<th>inputs</th><td>6 of 6</td>" in run._repr_html_()


def test_an_unfinished_run_says_so(lvmrs: Command) -> None:
    lvmrs("certify DIGITS QUICK --out a")
    rows = Path("a/certificates.tsv").read_text().splitlines(keepends=True)
    Path("a/certificates.tsv").write_text("".join(rows[:4]))
    code, out, err = lvmrs("analyze a")
    assert code == 3
    assert err == "a is not finished: 3 inputs are missing, and not counted here\n"
    assert out.splitlines()[1].split()[1] == "3"
    code, _, err = lvmrs("certify DIGITS QUICK --out a --resume")
    assert code == 0
    assert "cost   3 inputs" in err
    again = Path("a/certificates.tsv").read_text().splitlines()
    assert [line.split("\t")[:5] for line in again] == [line.strip().split("\t")[:5] for line in rows]
    assert lvmrs("certify DIGITS QUICK --out a --resume")[0] == 0  # nothing to do is fine too


def test_the_batch_of_a_run_is_kept(lvmrs: Command) -> None:
    lvmrs("certify DIGITS QUICK --out a")
    code, _, err = lvmrs("certify DIGITS QUICK --out a --resume --batch 7")
    assert code == 1
    assert err == (
        "caution: --batch is given 2 times; the last value counts\n"
        "lvmrs: a was begun in batches of 100, and cannot be resumed in batches of 7; leave the batch size out\n"
    )


def test_the_demo(lvmrs: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "INPUTS", 4)
    monkeypatch.setattr(demo, "N0", 50)
    monkeypatch.setattr(demo, "N", 200)
    monkeypatch.setattr(demo, "train", partial(demo.train, epochs=4))
    code, out, err = lvmrs("demo")
    assert code == 0
    head, columns, *rows = out.splitlines()
    assert head == "certified accuracy in %, 4 digits, σ = 0.5, α = 0.001, n0 = 50, n = 200"
    assert columns.split()[:2] == ["run", "inputs"]
    names = ["cohen", "votes", "lvm", "duels"]
    assert [row.split()[0] for row in rows] == [f"lvmrs-demo-1/{name}" for name in names]
    assert "trained on digits with noise σ = 0.5: right on" in err
    assert len(runs.Run("lvmrs-demo-1/cohen").rows()) == 4
    code, out, _ = lvmrs("demo --json")
    assert list(json.loads(out)) == [f"lvmrs-demo-2/{name}" for name in names]


MISTAKES = {
    "nothing": (2, "No such command 'nothing'"),
    "certify --data digits --sigma 0.5 --out a": (2, "Missing option '--model'"),
    "certify DIGITS --out a --sigma 0": (2, "sigma must be positive and finite, got 0.0"),
    "certify DIGITS --out a --n 1": (2, "n must be a whole number of at least 2"),
    "certify DIGITS --out a --n0 0": (2, "n0 must be a whole number of at least 1"),
    "certify DIGITS --out a --alpha 1": (2, "alpha must lie strictly between 0 and 1"),
    "certify DIGITS --out a --method magic": (2, "method must be one of"),
    "certify DIGITS --out a --method lvm --bound magic": (2, "bound must be one of"),
    "certify DIGITS --out a --method duels --bound betting": (
        2,
        "bound is not a setting of method duels: hard duels have Clopper–Pearson's bound",
    ),
    "certify DIGITS --out a --width wide": (2, "width must be a number or chosen, got 'wide'"),
    "certify DIGITS --out a --width -1": (2, "width must be positive and finite, got -1.0"),
    "certify DIGITS --out a --method cohen --width 1": (
        2,
        "width is not a setting of method cohen: it counts votes, and a width is for duels; leave it out",
    ),
    "certify DIGITS --out a --method fixed --map duel": (2, "maps must be a map to the simplex, got duel"),
    "certify DIGITS --out a --method python:lvmrs.nothing:x": (2, "lvmrs.nothing cannot be imported"),
    "certify DIGITS --out a --method python:lvmrs.planners:Planner": (2, "Planner has no method choose; write it"),
    "certify DIGITS --out a --method lvm --map python:lvmrs.kernel.maps:SimplexMap": (2, "SimplexMap has no name"),
    "certify DIGITS --out a --method python:lvmrs.kernel.radius:r2": (
        2,
        "the function failed (TypeError: r2() missing",
    ),
    "certify DIGITS --out a --method lvm --map python:lvmrs.kernel.radius:r2": (
        2,
        "a map must be a class derived from Map",
    ),
    "certify DIGITS --out a --method lvm --bound python:lvmrs:Cohen": (2, "a bound must be a class derived from Bound"),
    "predict DIGITS --method luck": (2, "method must be one of duels, lvm, votes, cohen"),
    "calibrate DIGITS --max 0": (2, "max must be a whole number of at least 1"),
    "certify DIGITS --out a --method cohen --bound betting": (2, "bound is not a setting of method cohen"),
    "certify DIGITS --out a --method fixed": (2, "method fixed needs map; give one of hardmax, softmax, sparsemax"),
    "certify DIGITS --out a --method lipschitz-ramp": (2, "lipschitz is not known"),
    "certify DIGITS --out a --shard 3/2": (2, "shard must be like 2/8"),
    "certify DIGITS --out a --skip 0": (2, "skip must be a whole number of at least 1"),
    "certify DIGITS --out a --max 3 --shard 1/5": (1, "5 shards for 3 inputs; take fewer"),
    "certify DIGITS --out a --keep-scores --method lipschitz-deterministic --lipschitz 1": (2, "takes no samples"),
    "certify DIGITS --out .": (1, "a run needs a directory of its own; name one"),
    "demo --out .": (2, "must be a new directory for the demo"),
    "certify DIGITS --out a --device tpu0": (2, "device 'tpu0' cannot be used here"),
    "certify DIGITS --out a --precision fp8": (
        2,
        "precision must be one of float32, bfloat16, float16, autocast-bfloat16, autocast-float16, got 'fp8'",
    ),
    "certify DIGITS --out a --mean 0.5": (1, "mean and std go together"),
    "certify DIGITS --out a --mean x --std 1": (2, "mean must be numbers with commas between them"),
    "certify DIGITS --out a --split val": (1, "there is no split 'val'"),
    "certify DIGITS --out a --model python:lvmrs.nothing:x": (1, "lvmrs.nothing cannot be imported"),
    "certify DIGITS --out a --model python:lvmrs.models.lipschitz.norms:of_matrix": (
        1,
        "the function failed (TypeError: of_matrix()",
    ),
    "predict DIGITS --n 1": (2, "n must be a whole number of at least 2"),
    "predict DIGITS --data npz:nowhere.npz": (1, "nowhere.npz does not exist"),
    "recertify nowhere --out b": (1, "nowhere is not a run: the directory does not exist"),
    "merge nowhere --out b": (1, "nowhere is not a run"),
    "analyze nowhere": (1, "nowhere does not exist; give a run directory or a TSV file"),
    "analyze . --radii 1:0:1": (2, "radii must be FIRST:LAST:STEP"),
    "analyze . --radii -1": (2, "radii must be numbers from 0"),
    "analyze a.tsv --format xml": (2, "format must be one of table, markdown, latex, csv, json"),
    "compare nowhere there": (1, "nowhere does not exist"),
    "import nowhere --sigma 1 --out a": (1, "nowhere does not exist"),
    "plot nowhere -o a.gif": (2, "out must end with .png, .svg, .pdf"),
    "plot nowhere -o a.png --kind pie": (2, "kind must be one of curves, radii, choices, variance"),
    "plot nowhere there -o a.png --kind choices": (2, "kind choices shows one run, and 2 were given"),
    "plot nowhere -o a.png": (1, "nowhere does not exist"),
    "report nowhere": (1, "nowhere is not a run"),
    "import nowhere --sigma -1 --out a": (2, "sigma must be positive and finite, got -1.0"),
    "import nowhere --sigma 1 --alpha 7 --out a": (2, "alpha must lie strictly between 0 and 1, got 7.0"),
    "import nowhere --sigma 1 --n0 0 --out a": (2, "n0 must be a whole number of at least 1, got 0.0"),
    "import nowhere --sigma 1 --n -3 --out a": (2, "n must be a whole number of at least 1, got -3.0"),
    "import . --sigma 1 --out a": (2, ". is a run already"),
    "radius 1.5 --sigma 1": (2, "p_a must"),
    "radius 0.5 --sigma 0": (2, "sigma must be positive"),
    "radius 0.9 --sigma 1 --lipschitz -2": (2, "lipschitz must be positive"),
}


@pytest.mark.parametrize("line", MISTAKES)
def test_mistakes_get_one_sentence_and_an_exit_code(lvmrs: Command, line: str) -> None:
    code, sentence = MISTAKES[line]
    got, out, err = lvmrs(line)
    assert (got, out) == (code, "")
    assert sentence in err
    assert "Traceback" not in err
    assert not Path("a").exists()  # a mistake leaves no directory behind


def test_control_c_ends_cleanly_with_the_command_that_goes_on(weights: Path, tmp_path: Path) -> None:
    line = f"certify {DIGITS} --weights {weights} --n0 100 --n 20000 --out {tmp_path / 'a'}"
    rows = tmp_path / "a" / "certificates.tsv"
    with running("-m", "lvmrs", *line.split()) as process:
        until(lambda: rows.exists() and rows.read_text().count("\n") > 2, process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    assert process.returncode == 3, err
    assert out == ""
    assert re.search(r"stopped after \d+ of 360 inputs; continue with:\nlvmrs certify .* --resume\n$", err)
    assert "Traceback" not in err
    assert rows.read_text().endswith("\n")


def test_a_killed_command_is_resumed(weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = f"certify {DIGITS} --weights {weights} --n0 100 --n 3000 --max 12 --out "
    rows = tmp_path / "killed" / "certificates.tsv"
    with running("-m", "lvmrs", *line.split(), str(tmp_path / "killed")) as killed:
        until(lambda: killed.poll() is not None or (rows.exists() and rows.read_text().count("\n") > 3))
        killed.kill()
    for words in ((str(tmp_path / "whole"),), (str(tmp_path / "killed"), "--resume")):
        with pytest.raises(SystemExit) as end:
            main([*line.split(), *words])
        assert not end.value.code
        assert capsys.readouterr().out.startswith(words[0])
    first, second = (
        [line.split("\t")[:5] for line in (tmp_path / name / "certificates.tsv").read_text().split("\n")]
        for name in ("whole", "killed")
    )
    assert [row[:3] + row[4:] for row in first] == [row[:3] + row[4:] for row in second]
    for a, b in zip(first[1:-1], second[1:-1], strict=True):  # other threads, other last digits of the network
        assert float(a[3]) == pytest.approx(float(b[3]), abs=1e-4)


def test_radii_and_durations() -> None:
    assert options.radii("0:0.3:0.1") == [0.0, 0.1, 0.2, 0.3]
    assert options.radii("0.5,0") == [0.5, 0.0]
    assert [duration(s) for s in (0.1, 40, 600, 9000)] == ["1 s", "40 s", "10 min", "2.5 h"]


def test_progress_for_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes it for a terminal
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    row = runs.Row(0, 1, 1, 0.5, 1, 0.1, 0.9, 0.1, 1, "hardmax", 1.0, 1.0, "betting", "r2", 0.001, "-", "-")
    with Watcher(5) as watcher:
        watcher.begin(2, 100, done=3)
        watcher.row(row)
        watcher.row(row)
    assert watcher.done == 5
    err = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().err)
    assert "2/2" in err
    assert "certified accuracy 100.0%" in err
