"""``lvmrs plot`` and ``lvmrs report``: runs to look at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from lvmrs import analysis
from lvmrs.cli import parsing
from lvmrs.cli.analyze import Confidence, Radii
from lvmrs.cli.console import tell
from lvmrs.errors import DataError, InvalidArgumentError, ModelError, RunError
from lvmrs.runs import Run

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["pictures", "plot", "report"]

_KINDS = ("curves", "radii", "choices", "variance")
_SUFFIXES = (".png", ".svg", ".pdf")


def plot(
    runs: Annotated[list[Path], typer.Argument(help="Run directories, or TSV files for curves and radii.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write: .png, .svg or .pdf.")],
    kind: Annotated[str, typer.Option("--kind", help=f"One of {', '.join(_KINDS)}.")] = "curves",
    confidence: Confidence = 0.95,
) -> None:
    """Draw a figure: certified-accuracy curves with bands, radii, the map and temperature of each input, or variance.

    variance shows the variance of the top score against its margin, for a run with --keep-scores.

    \b
    Examples:
      lvmrs plot runs/cohen runs/lvm -o curves.pdf
      lvmrs plot runs/lvm --kind choices -o choices.svg
    """
    from lvmrs import plots

    if kind not in _KINDS:
        raise InvalidArgumentError(f"kind must be one of {', '.join(_KINDS)}, got {kind!r}")
    if out.suffix.lower() not in _SUFFIXES:
        raise InvalidArgumentError(f"out must end with {', '.join(_SUFFIXES)}, got {out}")
    if kind in ("choices", "variance"):
        if len(runs) != 1:
            raise InvalidArgumentError(f"kind {kind} shows one run, and {len(runs)} were given")
        figure = plots.choices(Run(runs[0])) if kind == "choices" else plots.variance(Run(runs[0]))
    else:
        results = [analysis.read(path) for path in runs]
        for result in results:
            if result.missing:
                tell(f"caution: {result.name} is not finished: {result.missing} inputs are missing")
        figure = plots.curves(results, confidence=confidence) if kind == "curves" else plots.radii(results)
    with _writing(out):
        figure.savefig(out, dpi=160)
    tell(f"wrote {out}")


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run directories.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML file to write.")] = Path("report.html"),
    radii: Radii = "0:1.5:0.25",
    data: Annotated[
        Optional[str],
        typer.Option("--data", help="Where the inputs are now, for their pictures; none for no pictures."),
    ] = None,
    most: Annotated[int, typer.Option("--inputs", help="List at most so many inputs.")] = 1_000,
    confidence: Confidence = 0.95,
) -> None:
    """Write one HTML file to open and to send: settings, guarantee, interactive curves, table, and the inputs.

    It needs no network, and shows light or dark.

    \b
    Examples:
      lvmrs report runs/cohen runs/lvm -o report.html
      lvmrs report runs/lvm --data cifar10:elsewhere/cifar10.npz
    """
    from lvmrs.report import write_report

    opened = [Run(path) for path in runs]
    if most < 1:
        raise InvalidArgumentError(f"inputs must be a whole number of at least 1, got {most}")
    wanted, picture = parsing.radii(radii), pictures(opened[0], data)
    with _writing(out):
        write_report(opened, out, radii=wanted, picture=picture, most=most, confidence=confidence)
    tell(f"wrote {out} ({out.stat().st_size / 1e6:.1f} MB)")


@contextmanager
def _writing(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunError(f"{out} cannot be written to ({error.strerror}); choose another --out") from error


def pictures(run: Run, name: str | None) -> Callable[[int], str | None]:
    """Pictures by index from the data of the run, if these can be read and are the same; else a word on why not."""
    from lvmrs.report.pictures import picture

    wanted = run.manifest.about.get("data") if name is None else name
    if wanted in (None, "none"):
        return lambda index: None
    from lvmrs import data  # torch takes seconds to import

    try:
        dataset = data.load(wanted, split=run.manifest.settings["split"], size=run.manifest.settings.get("image size"))
    except (DataError, ModelError) as error:
        if name is not None:
            raise
        tell(f"no pictures: {error}; say where the data are with --data")
        return lambda index: None
    known = run.manifest.settings.get("data")
    if known is not None and dataset.fingerprint() != known:
        tell(f"no pictures: {wanted} is not the data that the run was made with")
        return lambda index: None
    labels = {row.idx: row.label for row in run.rows()}

    def shown(index: int) -> str | None:
        if index >= len(dataset):
            return None
        x, label = dataset[index]
        return picture(x.numpy()) if label == labels.get(index) else None  # else these are other data

    return shown
