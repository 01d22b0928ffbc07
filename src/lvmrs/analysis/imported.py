"""Makes a run of the results of another project, with the known settings."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np

from lvmrs._util import files
from lvmrs.analysis.results import Results, read
from lvmrs.errors import InvalidArgumentError
from lvmrs.kernel import checks
from lvmrs.record import Manifest, Row, Run, RunWriter, Selection
from lvmrs.record.manifest import DataRecord, MethodRecord, ModelRecord, Origin, TermsRecord
from lvmrs.record.result_file import NOT_NAMED
from lvmrs.record.rows import correctness


def import_results(
    file: str | Path,
    out: str | Path,
    *,
    sigma: float,
    alpha: float | None = None,
    n0: int | None = None,
    n: int | None = None,
    data: str | None = None,
    split: str = "test",
    method: str = "imported",
    command: str = "",
) -> Run:
    r"""Make a run of a TSV file, for comparisons and reports. No input is certified again.

    Args:
        file: a file with the columns idx, label, predict and radius.
        out: the directory of the run. If the same import was begun there, it is completed.
        sigma: the σ of its noise.
        alpha: its risk, if known.
        n0: its number of selection samples, if known.
        n: its number of certification samples, if known.
        data: the name of the data set in lvmrs, for the pictures of a report.
        split: the split of the data set.
        method: a name for the method.
        command: the command line of the user, which the run records.

    Returns:
        The run.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "other.tsv")
    ...     _ = file.write_text("idx\tlabel\tpredict\tradius\n0\t3\t3\t0.25\n")
    ...     print([row.correct for row in import_results(file, Path(folder, "run"), sigma=0.5).rows()])
    [1]
    """
    if files.place(file).is_dir():
        raise InvalidArgumentError(f"{file} is a run already; use it as it is")
    terms = TermsRecord(
        sigma=checks.positive_number("sigma", sigma),
        alpha=None if alpha is None else checks.alpha(alpha),
        n0=None if n0 is None else checks.count("n0", n0, least=1),
        n=None if n is None else checks.count("n", n, least=1),
    )
    found = read(file)
    if found.sigma not in (None, terms.sigma):
        raise InvalidArgumentError(f"sigma is {terms.sigma:g}, and the column sigma of {file} says {found.sigma:g}")
    manifest = Manifest(
        ModelRecord(method),
        DataRecord(split, data),
        MethodRecord(method),
        terms,
        _selection(found),
        origin=Origin(command, imported=str(file)),
    )
    order = np.argsort(found.idx)
    with RunWriter(out, manifest, resume=True) as writer:
        labels = [None] * len(found) if found.label is None else found.label[order].tolist()
        columns = (labels, *(column[order].tolist() for column in (found.idx, found.predict, found.radius)))
        writer.append_missing(itertools.starmap(_row, zip(*columns, strict=True)))
        return writer.run


def _selection(found: Results) -> Selection:
    """Every k-th input if that gives exactly these inputs; else a list of the inputs."""
    size, step = int(found.idx.max()) + 1, max(1, int(np.gcd.reduce(found.idx)))
    regular = Selection(size, skip=step)
    return regular if len(regular.indices) == len(found) else Selection(size, only=sorted(found.idx.tolist()))


def _row(label: int | None, index: int, predict: int, radius: float) -> Row:
    unknown = math.nan
    return Row(
        idx=index, label=label, predict=predict, radius=radius, correct=correctness(predict, label), time=0.0,
        p_lower=unknown, p_upper=unknown, top=predict, map=NOT_NAMED, temperature=unknown, mass=unknown,
        bound=NOT_NAMED, form=NOT_NAMED, risk_top=unknown, groups="-", risk_groups="-",
    )  # fmt: skip
