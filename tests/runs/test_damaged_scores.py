"""Kept scores that are gone or damaged: they are refused by name, or sampled again, and never give a wrong row."""

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lvmrs import runs
from lvmrs.errors import InvalidArgumentError, RunError
from lvmrs.planners import Cohen
from lvmrs.record import Run, Selection
from lvmrs.record.scores import score_statistics
from tests.faults import Disk, faulty_disk
from tests.quick import without_trials
from tests.runs.helpers import INPUTS, fill, job_of, lines

pytestmark = pytest.mark.usefixtures("no_measuring")
SIX = Selection(INPUTS, max=6)
N0, N, CLASSES, ITEM = 8, 30, 3, 8  # the tiny model answers in float64
NAMES = ("scores-selection.npy", "scores-certification.npy")
sampled = partial(fill, planner=Cohen(), n0=N0, n=N, selection=SIX, keep=True, batch=38)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, one that was stopped after four of six inputs, and one of another seed."""
    place = tmp_path_factory.mktemp("scores")
    with pytest.MonkeyPatch.context() as patch, faulty_disk(Disk()):
        without_trials(patch)
        finished = sampled(place / "finished")
        sampled(place / "other", seed=1)
        sampled(place / "unfinished")
    text = finished.file.read_text().split("\n")
    (place / "unfinished" / "certificates.tsv").write_text("\n".join(text[:5]) + "\n")
    return place


Damage = Callable[[Path], object]
Array = NDArray[Any]


def deleted(name: str) -> Damage:
    return lambda run: (run / name).unlink()


def made_a_directory(name: str) -> Damage:
    def do(run: Path) -> None:
        (run / name).unlink()
        (run / name).mkdir()

    return do


def of_another_run(*names: str) -> Damage:
    return lambda run: [shutil.copy(run.parent / "other" / name, run / name) for name in names]


def exchanged(run: Path) -> None:
    for old, new in ((NAMES[0], "x"), NAMES[::-1], ("x", NAMES[1])):
        (run / old).rename(run / new)


def changed(name: str, change: Callable[[bytearray], object]) -> Damage:
    def do(run: Path) -> None:
        content = bytearray((run / name).read_bytes())
        result = change(content)
        (run / name).write_bytes(result if isinstance(result, bytes) else content)

    return do


def cut(name: str, length: int) -> Damage:
    return changed(name, lambda content: bytes(content[:length]))


def saved(name: str, change: Callable[[Array], Array]) -> Damage:
    return lambda run: np.save(run / name, change(np.load(run / name)))


def as_type(name: str, kind: str) -> Damage:
    return saved(name, lambda scores: scores.astype(kind))


def as_objects(name: str) -> Damage:
    return lambda run: np.save(run / name, np.empty((6, 2, 3), object), allow_pickle=True)


def zeros(first: int, last: int) -> Callable[[bytearray], object]:
    return lambda content: content.__setitem__(slice(first, last), bytes(last - first))


def flip(place: int) -> Callable[[bytearray], object]:
    return lambda content: content.__setitem__(place, content[place] ^ 0x11)


def kinds() -> Iterator[tuple[str, Damage]]:
    """At least a hundred kinds of damage, none of which may give a wrong row."""
    for name, samples in zip(NAMES, (N0, N), strict=True):
        each = samples * CLASSES * ITEM
        size = 128 + 6 * each
        yield f"{name} deleted", deleted(name)
        yield f"{name} is a directory", made_a_directory(name)
        for length in (0, 1, 7, 9, 10, 60, 127, 128, 129, 128 + each - 1, 128 + each, 128 + 2 * each + 5, size - 1):
            yield f"{name} cut to {length}", cut(name, length)
        for first, last in ((0, 8), (0, 128), (20, 90), (128, size), (128, 128 + each), (128 + 3 * each, size - 1)):
            yield f"{name} zeros from {first} to {last}", changed(name, zeros(first, last))
        yield f"{name} one sample of zeros", changed(name, zeros(128 + each, 128 + each + CLASSES * ITEM))
        for place in (0, 6, 8, 9, 12, 21, 22, 30, 45, 62, 66, 70, 71, 75, 127):
            yield f"{name} byte {place} of the header", changed(name, flip(place))
        for place in (128, 135, 128 + each - 1, 128 + each, 128 + 2 * each + 11, 128 + 4 * each - 1):
            yield f"{name} byte {place} of the data", changed(name, flip(place))
        for kind in ("<i8", "<f4", ">f8", "<f2", "<c16", "|u1"):
            yield f"{name} as {kind}", as_type(name, kind)
        yield f"{name} as objects", as_objects(name)
        yield f"{name} in the order of Fortran", saved(name, np.asfortranarray)
        yield f"{name} with fewer inputs", saved(name, lambda a: a[:5])
        yield f"{name} with fewer samples", saved(name, lambda a: a[:, :-1])
        yield f"{name} with fewer classes", saved(name, lambda a: a[:, :, :-1])
        yield f"{name} with more classes", saved(name, lambda a: np.concatenate([a, a[:, :, :1]], axis=2))
        yield f"{name} with inputs and samples exchanged", saved(name, lambda a: a.swapaxes(0, 1))
        yield f"{name} flat", saved(name, np.ravel)
        yield (
            f"{name} of a huge shape",
            changed(name, lambda content: bytes(content).replace(b"3), }    ", b"99999), }", 1)),
        )
        yield f"{name} with other inputs in its place", saved(name, lambda a: a[[1, 0, 2, 3, 4, 5]])
        yield f"{name} with one input twice", saved(name, lambda a: a[[0, 0, 2, 3, 4, 5]])
        yield f"{name} with samples exchanged", saved(name, lambda a: a[:, ::-1])
        yield f"{name} with classes exchanged", saved(name, lambda a: a[:, :, ::-1])
        yield f"{name} negated", saved(name, np.negative)
        yield f"{name} with NaN", saved(name, lambda a: a * np.nan)
        yield f"{name} with bytes after its end", changed(name, lambda content: bytes(content) + b"\0" * 24)
        yield f"{name} twice", changed(name, lambda content: bytes(content) * 2)
        yield f"{name} of another run", of_another_run(name)
        yield f"{name} that is text", changed(name, lambda content: b"nothing\n")
    yield "both of another run", of_another_run(*NAMES)
    yield "exchanged", exchanged
    yield "both deleted", lambda run: [deleted(name)(run) for name in NAMES]
    yield "both in float32", lambda run: [as_type(name, "<f4")(run) for name in NAMES]


def content(run: Run) -> tuple[list[str], list[bytes]]:
    return lines(run), [(run.directory / name).read_bytes() for name in NAMES]


@pytest.mark.parametrize("state", ["finished", "unfinished"])
def test_every_kind_of_damage_is_refused_or_repaired(made: Path, state: str) -> None:
    table = dict(kinds())
    assert len(table) >= 100
    whole = content(Run(made / "finished"))
    job = job_of(Cohen(), SIX, keep=True, batch=38, n0=N0, n=N)
    with faulty_disk(Disk()):
        again = lines(runs.recertify(Run(made / state), made / f"again-{state}", Cohen(), alpha=0.1))
        for number, (kind, damage) in enumerate(table.items()):
            out = made / f"{state}-{number}"
            shutil.copytree(made / state, out)
            damage(out)
            check(out, kind, job, whole, again)
            shutil.rmtree(out)


def check(out: Path, kind: str, job: runs.Job, whole: tuple[list[str], list[bytes]], again: list[str]) -> None:
    """Refused by name or right; and right after it was sampled again."""
    before = (out / "certificates.tsv").read_bytes()
    new = out.parent / "new"
    assert ended(lambda: runs.recertify(Run(out), new, Cohen(), alpha=0.1), kind) in (None, again), kind
    shutil.rmtree(new, ignore_errors=True)
    assert ended(lambda: runs.certify(job, out, resume=True), kind) in (None, whole[0]), kind
    assert (out / "certificates.tsv").read_bytes().startswith(before), kind
    if any((out / name).is_dir() for name in NAMES):
        return
    assert content(runs.certify(job, out, resume=True, resample=True)) == whole, kind


def ended(work: Callable[[], Run], kind: str) -> list[str] | None:
    """The rows of the run that was made; None if the scores were refused with the sentence about them."""
    try:
        return lines(work())
    except RunError as error:
        said = str(error)
    assert "scores" in said, kind
    assert "\n" not in said, kind
    assert said.endswith("resume the run with resample to sample these inputs again"), (kind, said)
    return None


def test_the_error_names_the_inputs(made: Path, tmp_path: Path) -> None:
    out = tmp_path / "a"
    shutil.copytree(made / "finished", out)
    saved(NAMES[1], lambda a: np.where(np.isin(np.arange(6), (1, 4))[:, None, None], 0, a))(out)
    sentence = (
        r"a: the kept scores of 2 of 6 rows \(inputs 1, 4\) are missing or damaged: scores-selection.npy or "
        r"scores-certification.npy is damaged: the scores of input 1 do not fit their checksum; put the files back"
    )
    with pytest.raises(RunError, match=sentence):
        sampled(out, resume=True)
    with pytest.raises(RunError, match=sentence):
        runs.recertify(Run(out), tmp_path / "b", Cohen())
    with pytest.raises(RunError, match=sentence):
        list(score_statistics(Run(out)))
    with pytest.raises(RunError, match=sentence):
        runs.merge([Run(out)], tmp_path / "d")
    (out / NAMES[0]).unlink()
    with pytest.raises(RunError, match=r"6 of 6 rows \(inputs 0, 1, 2, 3, 4, …\) .*: scores-selection.npy is missing"):
        sampled(out, resume=True)


def test_a_row_that_is_not_that_of_its_scores_is_replaced(made: Path, tmp_path: Path) -> None:
    """Sampling again also repairs a row that was changed; the other rows stay as they are, to the byte."""
    out = tmp_path / "a"
    shutil.copytree(made / "finished", out)
    file = out / "certificates.tsv"
    before = file.read_text().split("\n")
    fields = before[3].split("\t")
    file.write_text("\n".join([*before[:3], "\t".join([*fields[:-2], "0" * 32, fields[-1]]), *before[4:]]))
    with pytest.raises(RunError, match=r"1 of 6 rows \(input 2\)"):
        sampled(out, resume=True)
    job = job_of(Cohen(), SIX, keep=True, batch=38, n0=N0, n=N)
    assert content(runs.certify(job, out, resume=True, resample=True)) == content(Run(made / "finished"))
    after = file.read_text().split("\n")
    assert [k for k in range(len(after)) if after[k] != before[k]] in ([], [3])


def test_resampling_is_refused_where_there_is_nothing_to_sample_again(tmp_path: Path) -> None:
    for keep, resume in ((False, True), (True, False)):
        with pytest.raises(InvalidArgumentError, match="resample is for a run that is resumed and that keeps scores"):
            runs.certify(job_of(keep=keep), tmp_path / "a", resume=resume, resample=True)
    assert not (tmp_path / "a").exists()


def test_an_interrupted_repair_loses_nothing(made: Path, tmp_path: Path) -> None:
    out = tmp_path / "a"
    shutil.copytree(made / "finished", out)
    rows = (out / "certificates.tsv").read_bytes()
    (out / NAMES[1]).unlink()
    job = job_of(Cohen(), SIX, keep=True, batch=38, n0=N0, n=N)

    def stop(row: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runs.certify(job, out, resume=True, resample=True, on_row=stop)
    assert (out / "certificates.tsv").read_bytes() == rows
    with pytest.raises(RunError, match=r"5 of 6 rows"):
        runs.certify(job, out, resume=True)
    assert content(runs.certify(job, out, resume=True, resample=True)) == content(Run(made / "finished"))
