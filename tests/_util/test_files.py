"""Every file is made by one module, with the same permissions; names that no file can have are refused."""

import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import lvmrs
from lvmrs import Run, analysis, runs, training
from lvmrs._util import files
from lvmrs._util.files import replacing
from lvmrs.analysis.report import write_report
from lvmrs.engine.way import Way
from lvmrs.errors import RunError
from lvmrs.planners import Cohen
from lvmrs.record import RunWriter
from tests.hostile.commands import limited
from tests.runs.helpers import fill, job_of

SOURCE = Path(lvmrs.__file__).parent


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(place: Path) -> set[tuple[bool, str]]:
    return {(path.is_dir(), oct(stat.S_IMODE(path.stat().st_mode))) for path in place.rglob("*")}


@pytest.mark.usefixtures("open_umask")
def test_nobody_else_can_write_to_our_files(tmp_path: Path) -> None:
    run = fill(tmp_path / "runs" / "a", keep=True)
    write_report([run], tmp_path / "runs" / "report.html", radii=[0.5])
    out = tmp_path / "runs" / "nets" / "a.safetensors"
    job = training.TrainingJob(
        "ready:small_cnn",
        "digits",
        training.Gaussian(0.25),
        out,
        training.Settings(epochs=1, batch=1437),
        test_split=None,
    )
    seen: set[tuple[bool, str]] = set()
    training.run(job, on_epoch=lambda epoch: seen.update(modes(tmp_path / "runs")))
    with RunWriter(tmp_path / "runs" / "b", job_of().manifest(Way(64))):
        seen |= modes(tmp_path / "runs")
    assert seen | modes(tmp_path / "runs") == {(True, "0o755"), (False, "0o644")}


LINKS = (
    ".lock", "certificates.tsv", "scores-selection.npy", "scores-certification.npy", ".certificates.tsv.new",
    ".manifest.json.new",
)  # fmt: skip


@pytest.mark.parametrize("name", LINKS)
def test_links_in_a_run_lead_to_no_other_file(tmp_path: Path, name: str) -> None:
    """Someone who made a run could have the file of whoever resumes it changed, or removed."""
    theirs, mine = tmp_path / "theirs", tmp_path / "mine"
    run = fill(theirs, planner=Cohen(), keep=True)
    run.file.write_text("".join(run.file.read_text().splitlines(keepends=True)[:3]))
    if (theirs / name).exists():
        (theirs / name).rename(mine)
    else:
        mine.write_text("precious")
    (theirs / name).symlink_to(mine)
    before = mine.read_bytes()
    try:
        runs.certify(job_of(Cohen(), keep=True), theirs, resume=True, resample=True)
    except RunError as error:
        assert str(error).startswith(f"{theirs} cannot be written to ({name} is a link, which is not followed); ")  # noqa: PT017
    else:
        assert name.endswith(".new")
        assert Run(theirs).complete
    assert mine.read_bytes() == before


@pytest.mark.parametrize("name", [name for name in LINKS if not name.endswith(".new")])  # those are removed
def test_pipes_in_a_run_are_refused_and_not_waited_for(tmp_path: Path, name: str) -> None:
    run = fill(tmp_path / "a", planner=Cohen(), keep=True)
    run.file.write_text("".join(run.file.read_text().splitlines(keepends=True)[:3]))
    (run.directory / name).unlink(missing_ok=True)
    os.mkfifo(run.directory / name)
    with limited(20), pytest.raises(RunError, match="a device or a pipe, not a file"):
        runs.certify(job_of(Cohen(), keep=True), run.directory, resume=True, resample=True)
    assert (run.directory / name).is_fifo()


def test_a_link_beside_a_report_leads_to_no_other_file(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("precious")
    (tmp_path / ".a.html.new").symlink_to(mine)
    with replacing(tmp_path / "a.html") as file:
        file.write(b"a page")
    assert mine.read_text() == "precious"
    assert (tmp_path / "a.html").read_text() == "a page"
    assert {path.name for path in tmp_path.iterdir()} == {"mine", "a.html"}


def test_no_other_module_changes_the_file_system() -> None:
    call = re.compile(
        r"(?<!_disk)(?<!files)(?<!sys\.path)\.(truncate|rename|mkdir|makedirs|unlink|remove|touch|write_text|write_bytes)\(|os\.(open|write)\(|"
        r"open\([^)]*[\"'][rwxa]?\+?b?[wxa+]|savefig\(out"
    )
    example = re.compile(r"^ *(>>>|\.\.\.) .*$", re.MULTILINE)
    found = {
        str(file.relative_to(SOURCE))
        for file in SOURCE.rglob("*.py")
        if call.search(example.sub("", file.read_text(encoding="utf-8")))
    }
    # The command line opens /dev/null and writes to stdout and stderr.
    assert found - {"__main__.py", "_util/signals.py", "cli/console.py", "cli/output_file.py"} == {"_util/files.py"}


@pytest.mark.parametrize("name", ["a\0b", "n" * 300, "d/" * 3000, "~nobody-has-this-name/x"])
def test_names_that_no_file_can_have(tmp_path: Path, name: str) -> None:
    path = f"{tmp_path}/{name}" if not name.startswith("~") else name

    def written() -> None:
        with replacing(Path(path)):
            pass

    works: list[Callable[[], object]] = [
        written,
        lambda: Run(path),
        lambda: analysis.read(path),
        lambda: fill(Path(path)),
        lambda: analysis.import_results(path, tmp_path / "a", sigma=0.5),
        lambda: training.TrainingJob("ready:small_cnn", "digits", training.Gaussian(0.25), Path(f"{path}.safetensors")),
    ]
    for work in works:
        with pytest.raises(RunError, match="cannot be a file or directory") as caught:
            work()
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 300


def test_a_write_goes_on_where_the_disk_took_only_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda file, data: real(file, data[:3]))
    file = files.open_file(tmp_path / "a")
    files.write(file, b"0123456789")
    files.close(file)
    assert (tmp_path / "a").read_bytes() == b"0123456789"


def test_a_directory_that_cannot_be_synced_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(number: int) -> None:
        raise OSError(failure, os.strerror(failure))

    monkeypatch.setattr(os, "fsync", fails)
    failure = 22  # EINVAL
    files.sync_directory(tmp_path)
    failure = 5  # EIO
    with pytest.raises(OSError, match="Input/output"):
        files.sync_directory(tmp_path)
