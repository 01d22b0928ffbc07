"""Attacks on disk are read as they were written, or refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from lvmrs import analysis
from lvmrs.analysis import plots
from lvmrs.analysis.report import write_report
from lvmrs.analysis.tables import summary_table
from lvmrs.errors import RunError
from lvmrs.record import Row, Run, RunWriter
from lvmrs.record.attacks import Attack, AttackRecord, AttackRow, AttackWriter, attack_place
from tests.faults import FAULTS, CrashError, Disk, faulty_disk
from tests.manifests import manifest

RECORD = AttackRecord(steps=10, restarts=2, samples=32, n=1000, beta=0.001, seed=0, farthest=None, clip=False)


def certified(idx: int, label: int, predict: int, radius: float) -> Row:
    fields = {"time": 0.1, "p_lower": 0.9, "p_upper": 0.1, "top": max(predict, 0), "map": "duel", "temperature": 1.0}
    more = {"mass": 1.0, "bound": "clopper_pearson", "form": "r3", "risk_top": 0.0, "groups": "each"}
    return Row(idx, label, predict, radius, int(predict == label), **fields, **more, risk_groups="0.001")  # type: ignore[arg-type]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Right with 0.2, wrong with 0.3, an abstention, right with 0.5, right with 0.6."""
    with RunWriter(tmp_path / "run", manifest(5)) as writer:
        rows = [(0, 0, 0, 0.2), (1, 1, 0, 0.3), (2, 1, -1, 0.0), (3, 2, 2, 0.5), (4, 1, 1, 0.6)]
        writer.append(*(certified(*row) for row in rows))
        return writer.run


@pytest.fixture
def attack(run: Run) -> Attack:
    """Input 4 was not attacked, and nothing was found for input 3."""
    rows = {row.idx: row for row in run.rows()}
    with AttackWriter(run, run.directory, RECORD) as writer:
        writer.append(AttackRow.of(rows[0], 0.3, 1, 5000, 1.5), None)
        writer.append(AttackRow.of(rows[1], 0.24, 2, 5000, 1.5), np.zeros(3))
        writer.append(AttackRow.of(rows[3], None, None, 5000, 1.5), None)
        return writer.attack


def test_what_was_written_is_read(run: Run, attack: Attack) -> None:
    assert Attack.of(run) is not None
    assert attack.record == RECORD
    assert [(row.idx, row.distance, row.rival, row.broken) for row in attack.rows()] == [
        (0, 0.3, 1, 0), (1, 0.24, 2, 1), (3, None, None, 0),
    ]  # fmt: skip
    assert np.load(attack.point(1)).tolist() == [0.0, 0.0, 0.0]
    assert not attack.point(0).exists()


RADII = [0.0, 0.25, 0.35, 0.55, 2.0]


def test_the_true_accuracy_of_the_attacked_lies_between_certified_and_attacked(run: Run, attack: Attack) -> None:
    """Input 4 was not attacked, so that the two shares are of the three attacked inputs, of which one is wrong."""
    summary = analysis.summarise(analysis.results_of(run), RADII)
    assert [share.value for share in summary.certified_accuracy] == [0.6, 0.4, 0.4, 0.2, 0.0]
    found = summary.attack
    assert found is not None
    assert [share.value for share in found.accuracy] == pytest.approx([2 / 3, 2 / 3, 1 / 3, 1 / 3, 1 / 3])
    assert [share.value for share in found.certified_accuracy] == pytest.approx([2 / 3, 1 / 3, 1 / 3, 0.0, 0.0])
    assert (found.inputs, found.of, found.is_part, found.found, found.broken) == (3, 3, True, 2, 1)
    assert found.beta == 0.001
    assert found.ratio == pytest.approx((0.3 / 0.2 + 0.24 / 0.3) / 2)
    assert found.certified == pytest.approx(0.25)
    assert found.attacked == pytest.approx(0.27)


def test_if_every_certificate_was_attacked_the_shares_are_of_all_inputs(run: Run, attack: Attack) -> None:
    """The abstention has no certificate to attack, and counts as incorrect."""
    with AttackWriter(run, run.directory, RECORD) as writer:
        writer.append(AttackRow.of(run.rows()[4], 0.7, 0, 5000, 1.5), None)
    results = analysis.results_of(run)
    found = analysis.attack_summary(results, RADII)
    assert found is not None
    assert [share.value for share in found.accuracy] == [0.6, 0.6, 0.4, 0.4, 0.2]
    assert (found.inputs, found.of, found.is_part) == (4, 5, False)
    table = summary_table([analysis.summarise(results, [0.25])]).splitlines()
    assert [line.split()[0] for line in table[:-1]] == ["run", str(run.directory), "attacked"]
    axes = plots.curves([results]).axes[0]
    assert [line.get_linestyle() for line in axes.get_lines()] == ["-", "--"]
    assert str(axes.get_lines()[1].get_label()).endswith("/run, attacked")


def test_tables_figures_and_the_page_show_it(run: Run, attack: Attack, tmp_path: Path) -> None:
    results = analysis.results_of(run)
    summary = analysis.summarise(results, [0.25])
    table = summary_table([summary]).splitlines()
    assert [line.split() for line in table[2:4]] == [["certified", "3", "33.3"], ["attacked", "3", "66.7"]]
    assert table[4:] == [
        f"{run.directory}: 3 certificates attacked, 1 broken, attacked/certified 1.15; "
        "its lines below the first are about these 3 inputs alone"
    ]
    csv = summary_table([summary], "csv").splitlines()
    assert f"{run.directory},3,attacked accuracy,0.25,0.6666666666666666," in "\n".join(csv)
    assert f"{run.directory},3,certified accuracy of the attacked,0.25,0.3333333333333333," in "\n".join(csv)
    assert f"{run.directory},3,certificates broken,,1,," in csv
    (shown,) = json.loads(summary_table([summary], "json"))
    assert (shown["attack"]["broken"], shown["attack"]["inputs of accuracy"]) == (1, 3)
    assert shown["attack"]["attacked accuracy"] == pytest.approx([2 / 3])
    axes = plots.curves([results]).axes[0]
    assert [line.get_linestyle() for line in axes.get_lines()] == ["-", ":", "--"]
    assert str(axes.get_lines()[2].get_label()).endswith("/run, attacked (3 inputs)")
    assert np.asarray(axes.get_lines()[2].get_ydata())[-1] == pytest.approx(100 / 3)
    write_report([run], tmp_path / "a.html", radii=[0.25])
    page = (tmp_path / "a.html").read_text()
    content = json.loads(page.split('type="application/json">')[1].split("</script>")[0])
    (part,) = content["runs"]
    assert part["attack"]["accuracy"][0][0] == "66.7"
    assert (part["rows"]["0"]["attacked"], part["rows"]["1"]["broken"], "attacked" in part["rows"]["4"]) == (
        "0.3000", True, False,
    )  # fmt: skip
    assert content["cautions"][0].endswith("1 of its certificates are broken by an attack")


def test_a_run_without_an_attack_shows_none(run: Run) -> None:
    assert Attack.of(run) is None
    summary = analysis.summarise(analysis.results_of(run), [0.25])
    assert summary.attack is None
    assert len(summary_table([summary]).splitlines()) == 2


ROW = "0\t0\t0\t0.2\t0.3\t1\t0\t5000\t1.5"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("0\t0\t0\t0.2\t0.3\t1\t1\t5000\t1.5", "broken must be 1 where the distance is below the radius, else 0"),
        ("0\t0\t0\t0.2\t0.1\t1\t0\t5000\t1.5", "broken must be 1 where the distance is below the radius, else 0"),
        ("0\t0\t0\t0.2\t-0.3\t1\t1\t5000\t1.5", "distance must be at least 0"),
        ("0\t0\t0\t0.2\t0.3\t-\t0\t5000\t1.5", "rival must be another class where a distance was found"),
        ("0\t0\t0\t0.2\t-\t1\t0\t5000\t1.5", "rival must be another class where a distance was found"),
        ("0\t0\t0\t0.2\t0.3\t0\t0\t5000\t1.5", "rival must be another class where a distance was found"),
        ("0\t0\t0\t0.2\tnan\t1\t0\t5000\t1.5", "distance is 'nan', and must be a number, or - where nothing was found"),
        ("0\t0\t0\t0.2\tinf\t1\t0\t5000\t1.5", "distance is 'inf', and must be a number, or - where nothing was found"),
        ("0\t0\t0\t0.2\t0.3\tx\t0\t5000\t1.5", "rival is 'x', and must be a whole number"),
        ("0\t0\t0\t0.2\t0.3\t1\t2\t5000\t1.5", "broken of input 0 is 2, and must be a finite number from 0 to 1"),
        ("0\t0\t0\t0.2\t0.3\t1\t0\t-1\t1.5", "samples of input 0 is -1, and must be a finite number from 0"),
        ("0\t0\t0\t0.2\t0.3\t1\t0\t5000\tnan", "seconds"),
        ("0\t0\t0\t0.21\t0.3\t1\t0\t5000\t1.5", "radius of input 0 is not that of the run as it is now; delete"),
        ("0\t1\t0\t0.2\t0.3\t1\t0\t5000\t1.5", "label of input 0 is not that of the run as it is now; delete"),
        ("0\t0\t1\t0.2\t0.3\t2\t0\t5000\t1.5", "predict of input 0 is not that of the run as it is now; delete"),
        ("2\t1\t-1\t0.0\t0.3\t1\t0\t5000\t1.5", "predict must be a class"),
        ("77\t0\t0\t0.2\t0.3\t1\t0\t5000\t1.5", "input 77 does not belong to this run; remove its row"),
        (f"{ROW}\n{ROW}", "input 0 has two rows; remove one of them"),
        ("0\t0\t0", "has 3 columns instead of 9; it is damaged"),
    ],
)
def test_rows_that_contradict_themselves_or_the_run_are_refused(
    run: Run, attack: Attack, line: str, sentence: str
) -> None:
    head = attack.file.read_text().partition("\n")[0]
    attack.file.write_text(f"{head}\n{line}\n")
    with pytest.raises(RunError, match=sentence):
        analysis.results_of(run)


def test_a_damaged_record_is_refused(run: Run, attack: Attack) -> None:
    file = run.directory / "attack.json"
    whole = json.loads(file.read_text())
    for changed, sentence in (
        ({"steps": "many"}, "expected a whole number"),
        ({"beta": 2.0}, "beta must be from 0 to less than 1"),
        ({"magic": 1}, "magic is not known"),
        ({"format": 9}, "has format 9, and this version of lvmrs reads format 1"),
    ):
        file.write_text(json.dumps(whole | changed))
        with pytest.raises(RunError, match=sentence):
            analysis.results_of(run)
    file.write_text("[")
    with pytest.raises(RunError, match="is damaged"):
        analysis.results_of(run)
    file.unlink()
    with pytest.raises(RunError, match=r"has no attack\.json, which says how it was attacked; put it back"):
        analysis.results_of(run)


def test_an_attack_is_not_written_to_a_file_or_to_another_run(run: Run, tmp_path: Path) -> None:
    assert attack_place(run, None) == attack_place(run, run.directory) == run.directory
    assert attack_place(run, tmp_path / "new") == tmp_path / "new"
    with pytest.raises(RunError, match="is a file, and an attack needs a directory; choose another directory"):
        attack_place(run, run.directory / "manifest.json")
    with pytest.raises(RunError, match="is a file, and an attack needs a directory"):
        attack_place(run, run.directory / "manifest.json" / "below")
    shutil.copytree(run.directory, tmp_path / "other")
    with pytest.raises(RunError, match=r"other holds another run than .*, and its attack would be there; choose"):
        attack_place(run, tmp_path / "other")
    with pytest.raises(RunError, match="an attack needs a directory of its own"):
        attack_place(run, "")


def test_rows_behind_a_link_that_leads_nowhere_are_not_begun_anew(run: Run, attack: Attack, tmp_path: Path) -> None:
    attack.file.rename(tmp_path / "elsewhere.tsv")
    attack.file.symlink_to(tmp_path / "elsewhere.tsv")
    assert len(Attack(run).rows()) > 0
    (tmp_path / "elsewhere.tsv").unlink()
    for work in (lambda: analysis.results_of(run), lambda: AttackWriter(run, run.directory, RECORD)):
        with pytest.raises(RunError, match=r"attack\.tsv is a link to a file that is not there; put the file back"):
            work()
    assert attack.file.is_symlink()


def written(run: Run) -> None:
    """Write two rows and a point, or those of them that are missing."""
    rows = {row.idx: row for row in run.rows()}
    with AttackWriter(run, run.directory, RECORD) as writer:
        for idx, distance in ((0, 0.3), (1, 0.24)):
            if idx not in writer.done:
                writer.append(AttackRow.of(rows[idx], distance, 2, 5000, 1.5), np.full(3, idx))


def survives(run: Run, faults: Callable[[int], Sequence[str]]) -> None:
    """Let calls go wrong; then the attack is completed, and its files must be those of one that went well."""

    def files() -> dict[str, bytes]:
        return {file.name: file.read_bytes() for file in run.directory.iterdir()}

    before = files()
    disk = Disk()
    with faulty_disk(disk):
        written(run)
    whole = files()
    assert {"open", "write", "fsync", "replace", "flock", "unlink"} <= set(disk.calls)
    assert set(whole) - set(before) == {"attack.json", "attack.tsv", "attack-0.npy", "attack-1.npy"}
    for number, call in enumerate(disk.calls):
        for fault in faults(number):
            for name in set(files()) - set(before):
                (run.directory / name).unlink()
            with faulty_disk(Disk(number, fault)), suppress(CrashError, RunError):
                written(run)
            written(run)
            assert files() == whole, (number, call, fault)


def test_a_fault_at_each_call_of_the_file_system_loses_nothing(run: Run) -> None:
    survives(run, lambda number: [FAULTS[number % len(FAULTS)]])


@pytest.mark.slow
def test_each_fault_at_each_call_of_the_file_system_loses_nothing(run: Run) -> None:
    survives(run, lambda number: FAULTS)
