"""One call of the file system goes wrong, at each place and in each way; then the work is done again, and is whole.

Every test also counts the places, so that docs/runs.md can say how many there are.
"""

import json
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import safetensors.torch

from lvmrs import runs, training
from lvmrs.analysis import import_results
from lvmrs.errors import LvmrsError, RunError
from lvmrs.planners import Cohen
from lvmrs.record import Run, Selection
from tests.faults import FAULTS, CrashError, Disk, faulty_disk
from tests.runs.helpers import INPUTS, fill, job_of, lines

pytestmark = pytest.mark.usefixtures("no_measuring")
Work = Callable[[Path], object]
TWO = Selection(INPUTS, max=2)
sampled = partial(fill, planner=Cohen(), n0=5, n=20, batch=25)


def certified(out: Path) -> Run:
    return sampled(out, selection=TWO, resume=True)


def kept(out: Path) -> Run:
    return sampled(out, selection=TWO, keep=True, resume=True)


def resampled(out: Path) -> Run:
    """Begun as ``begun`` left it, with scores that are gone."""
    job = job_of(Cohen(), TWO, keep=True, batch=25, n0=5, n=20)
    return runs.certify(job, out, resume=True, resample=True)


def recertified(out: Path) -> Run:
    return runs.recertify(Run(out.parent / "source"), out, Cohen(), alpha=0.1)


def merged(out: Path) -> Run:
    return runs.merge([Run(out.parent / f"shard-{k}") for k in (1, 2)], out)


def imported(out: Path) -> Run:
    return import_results(out.parent / "other.tsv", out, sigma=0.5)


WORKS: dict[str, Work] = {work.__name__: work for work in (certified, kept, resampled, recertified, merged, imported)}


def prepared(place: Path, name: str) -> None:
    """What the work needs, beside its directory; made once, and then copied."""
    template = place.parent / "template"
    if not template.exists():
        template.mkdir()
        prepare(template, name)
    shutil.copytree(template, place)


def prepare(place: Path, name: str) -> None:
    if name == "recertified":
        sampled(place / "source", selection=TWO, keep=True)
    if name == "merged":
        for k in (1, 2):
            sampled(place / f"shard-{k}", selection=Selection(INPUTS, max=2, shard=k, shards=2), keep=True)
    if name == "imported":
        (place / "other.tsv").write_text("idx\tlabel\tpredict\tradius\n0\t1\t1\t0.5\n3\t1\t2\t0.25\n")
    if name == "resampled":
        sampled(place / "out", selection=TWO, keep=True)
        damage(place / "out")


def damage(run: Path) -> None:
    """One file of scores is gone, and one row is another; the row is right again when its input is sampled again."""
    (run / "scores-selection.npy").unlink()
    file = run / "certificates.tsv"
    text = file.read_text().split("\n")
    fields = text[1].split("\t")
    text[1] = "\t".join([*fields[:-2], "0" * 32, fields[-1]])
    file.write_text("\n".join(text))


def content(run: Path) -> dict[str, object]:
    """All files of a run, without times and places."""
    found: dict[str, object] = {file.name: file.read_bytes() for file in run.iterdir()}
    found["certificates.tsv"] = lines(Run(run))
    made = json.loads((run / "manifest.json").read_text())
    del made["origin"]
    return found | {"manifest.json": made}


def attempt(work: Work, out: Path, disk: Disk) -> bool:
    """Whether the work ends well on this disk; if it does not, it ends with one sentence, or with a crash."""
    with faulty_disk(disk):
        try:
            work(out)
        except CrashError:
            assert disk.fault.startswith("crash")
            return False
        except LvmrsError as error:
            said = str(error)
        else:
            return True
    assert re.fullmatch(r"[^\n]+ (written to|be made|written)[^\n]+", said), said
    return False


def survives(place: Path, name: str, number: int, fault: str, whole: dict[str, object]) -> None:
    prepared(place, name)
    attempt(WORKS[name], place / "out", Disk(number, fault))
    if fault == "crash before" and name != "resampled":  # what is left by then is a run that can be read, or none
        assert all(row in map(str, whole["certificates.tsv"]) for row in rows_left(place / "out"))  # type: ignore[call-overload]
    WORKS[name](place / "out")
    assert content(place / "out") == whole, (name, number, fault)


def rows_left(out: Path) -> list[str]:
    return lines(Run(out))[:-1] if (out / "manifest.json").exists() and (out / "certificates.tsv").exists() else []


def uninterrupted(tmp_path: Path, name: str) -> tuple[dict[str, object], int]:
    prepared(tmp_path / "whole", name)
    disk = Disk()
    assert attempt(WORKS[name], tmp_path / "whole" / "out", disk)
    assert {"open", "write", "fsync", "replace", "flock", "unlink"} <= set(disk.calls)
    return content(tmp_path / "whole" / "out"), len(disk.calls)


@pytest.mark.parametrize("name", list(WORKS))
def test_a_fault_at_each_call_loses_nothing(tmp_path: Path, name: str) -> None:
    """Each call goes wrong once, in one way after the other; the slow test has all ways at each call."""
    whole, calls = uninterrupted(tmp_path, name)
    for number in range(calls):
        survives(tmp_path / str(number), name, number, FAULTS[number % len(FAULTS)], whole)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", list(WORKS))
def test_each_fault_at_each_call_loses_nothing(tmp_path: Path, name: str, fault: str) -> None:
    whole, calls = uninterrupted(tmp_path, name)
    for number in range(calls):
        survives(tmp_path / str(number), name, number, fault, whole)


def trained(out: Path) -> training.Trained:
    settings = training.Settings(epochs=2, batch=800, lr=0.01)
    job = training.TrainingJob(
        "ready:small_cnn", "digits", training.Gaussian(0.25), out / "a.safetensors", settings, test_split=None
    )
    return training.run(job, resume=job.checkpoint.exists())


def weights(out: Path) -> dict[str, list[float]]:
    assert [file.name for file in out.iterdir()] == ["a.safetensors"]
    found = safetensors.torch.load_file(out / "a.safetensors")
    return {key: value.flatten().tolist() for key, value in found.items()}


def training_survives(tmp_path: Path, numbers: slice, faults: tuple[str, ...]) -> None:
    disk = Disk()
    assert attempt(trained, tmp_path / "whole" / "out", disk)
    whole = weights(tmp_path / "whole" / "out")
    places = [k for k, call in enumerate(disk.calls) if call != "write" or disk.calls[k - 1] != "write"]
    for k, number in enumerate(places[numbers]):
        out = tmp_path / str(number) / "out"
        attempt(trained, out, Disk(number, faults[k % len(faults)]))
        if (out / "a.safetensors").exists() and not (out / "a.safetensors.checkpoint").exists():
            with pytest.raises(RunError, match="exists already"):  # it is finished; a lock that is left is removed
                trained(out)
        else:
            trained(out)
        assert weights(out) == whole, number


def test_a_fault_in_a_training_loses_nothing(tmp_path: Path) -> None:
    training_survives(tmp_path, slice(None, None, 4), FAULTS)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_in_a_training_loses_nothing(tmp_path: Path, fault: str) -> None:
    training_survives(tmp_path, slice(None), (fault,))


def test_a_line_that_cannot_be_removed_is_dropped_later(tmp_path: Path) -> None:
    """The disk takes half of a line, and then nothing more: neither its end nor its removal."""
    whole = sampled(tmp_path / "whole", selection=TWO)

    class Broken(Disk):
        def _call(self, name: str, real: Callable[..., object], given: tuple[object, ...]) -> object:
            if name == "ftruncate":
                raise OSError(5, "Input/output error")
            return super()._call(name, real, given)

    disk = Disk()
    with faulty_disk(disk):
        sampled(tmp_path / "counted", selection=TWO)
    writes = [k for k, call in enumerate(disk.calls) if call == "write"]
    assert not attempt(partial(sampled, selection=TWO), tmp_path / "a", Broken(writes[-1], "short write"))
    assert not (tmp_path / "a" / "certificates.tsv").read_bytes().endswith(b"\n")
    assert lines(sampled(tmp_path / "a", selection=TWO, resume=True)) == lines(whole)
