"""A worker on another machine: what it loads, what it says if it cannot, and files that it is sent."""

import functools
from pathlib import Path

import pytest

from lvmrs import _paths, data, jobs, models
from lvmrs.errors import DataError, ModelError, RunError
from lvmrs.planners import Cohen
from lvmrs.runs import Selection
from lvmrs.smooth import SmoothedClassifier
from lvmrs.workers.hand import Hand, versions
from lvmrs.workers.packing import packed
from lvmrs.workers.shipping import lacking, shipped, unloaded

NET = """
from neighbour import SIZE
from torch import nn
def net():
    return nn.Sequential(nn.Flatten(), nn.Linear(SIZE, 10))
"""


def failing(error: type[Exception], missing: str | None, item: object) -> None:
    if missing is not None:
        try:
            Path(missing).read_bytes()
        except OSError as lost:
            raise error(f"{missing} cannot be read") from lost
    raise error("it failed")


def test_its_errors_name_the_machine() -> None:
    for error in (ModelError, DataError, RunError):
        hand = Hand((packed(functools.partial(failing, error, None)), {}), versions(), 1)
        assert hand.begin() is None
        _, failure = hand.do(3)
        assert type(failure) is error
        assert str(failure).startswith("it failed (on ")
        hand.end()
    hand = Hand((packed(functools.partial(failing, DataError, "/no/such/file")), {}), versions(), 1)
    assert hand.begin() is None
    _, failure = hand.do(3)
    assert isinstance(failure, RunError)
    assert str(failure).endswith("; put it where all nodes see it")
    hand.end()


def test_another_version_is_refused() -> None:
    hand = Hand((packed(abs), {}), {**versions(), "torch": "1.0"}, 1)
    failure = hand.begin()
    assert isinstance(failure, RunError)
    assert "and not 1.0; rows could differ: install the same on all nodes" in str(failure)
    hand.end()


def test_code_and_weights_go_with_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, gone = tmp_path / "here", tmp_path / "gone"
    here.mkdir()
    (here / "nets.py").write_text(NET)
    (here / "neighbour.py").write_text("SIZE = 64\n")
    package = here / "parts"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (here / "notes.txt").write_text("not code")
    monkeypatch.chdir(here)
    loaded = models.load("python:nets.py:net")
    digits = data.load("digits")
    job = jobs.Job(
        loaded,
        digits,
        SmoothedClassifier(loaded.model, 0.5, batch=50),
        Cohen(),
        jobs.Sampling(n=100),
        Selection(len(digits), max=1),
    )
    files = shipped(job.files)
    assert {Path(name).name for name in files} == {"nets.py", "neighbour.py", "__init__.py"}
    assert shipped(job.files, largest=20) == {name: content for name, content in files.items() if len(content) < 20}
    here.rename(gone)
    monkeypatch.chdir(tmp_path)
    unloaded(lacking(files), tmp_path / "copies")
    place = _paths.where(here / "nets.py")
    assert place == tmp_path / "copies" / str(here / "nets.py").lstrip("/")
    assert place.read_text() == NET
    assert _paths.where(gone / "nets.py") == gone / "nets.py", "a file that is there is read there"


def test_a_job_that_cannot_be_loaded() -> None:
    hand = Hand((packed(abs)._replace(content=b"", modules=()), {}), versions(), 1)
    assert hand.begin() is not None
    hand.end()


def test_copies_are_made_only_if_they_are_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for files, copies in (({}, 0), ({"/no/such/weights.pt": b"1"}, 1)):
        hand = Hand((packed(abs), files), versions(), 1)
        assert hand.begin() is None
        assert hand._content is None, "the pickle is not kept beside the task"
        assert len(list(tmp_path.iterdir())) == copies
        assert hand.do(-3) == (3, None)
        hand.end()
        assert not list(tmp_path.iterdir())
