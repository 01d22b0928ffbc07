"""The rows of a run: one line of a TSV file for each certified input.

The first six columns are those of Cohen et al. (2019), which other projects read too. Radii are written with all
digits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lvmrs.errors import RunError
from lvmrs.kernel.method import is_correct
from lvmrs.record.result_file import UNKNOWN, escaped, kinds_of

if TYPE_CHECKING:
    from lvmrs.kernel.certificate import Certificate


def correctness(predict: int, label: int | None) -> int | None:
    """1 if a predicted class is the label, else 0; None if there is no label.

    >>> correctness(3, 3), correctness(-1, 3), correctness(3, None)
    (1, 0, None)
    """
    return None if label is None else int(is_correct(predict, label))


@dataclass(frozen=True)
class Row:
    """One certificate, with the label of its input and the computing time."""

    idx: int
    """Index of the input in its data set."""
    label: int | None
    """Its class in the data set; None if its data have no labels ("-" in a file)."""
    predict: int
    """The certified class, or −1 if nothing is certified."""
    radius: float
    """The certified radius; 0 if nothing is certified."""
    correct: int | None
    """1 if the certified class is the label, else 0; None without a label ("-" in a file)."""
    time: float
    """Computing time of the certificate in seconds."""
    p_lower: float
    """Lower bound on the mean score of the top class; see ``Certificate.p_lower``."""
    p_upper: float
    """Upper bound on the mean score of every other class; see ``Certificate.p_upper``."""
    top: int
    """The class that the proof tried to certify."""
    map: str
    """Name of the smoothed map."""
    temperature: float
    mass: float
    """The sum of the scores of the map."""
    bound: str
    """Name of the bound."""
    form: str
    """Name of the form of the radius."""
    risk_top: float
    """The risk of the bound on the top class."""
    groups: str
    """The rivals with their own bounds: "-" for none, "each" for all, "3;1;*" for 3, 1 and the others together."""
    risk_groups: str
    """The risk of the bound on each rival, or "-" if there is none."""
    scope: str = UNKNOWN
    """Whether the map was chosen for "this input" or is the same for "all inputs"; "-" if unknown."""
    clean: int | None = None
    """The prediction of the base classifier without noise; None if it was not measured ("-" in a file)."""
    name: str | None = None
    """The name of the input in its data set, such as that of its file; None if it has none ("-" in a file)."""
    scores: str = UNKNOWN
    """The checksum of the kept scores of this input; "-" if they were not kept."""
    rounding: float | None = None
    """Measured upper bound on the change of the logits by rounding; None if unknown ("-" in a file).

    It is recorded if the certificate relies on it, or if scores are kept that may be certified again with a Lipschitz
    constant. It bounds the Euclidean norm of the change, and for a deterministic certificate the change of each logit.
    """
    samples: int | None = None
    """Number of samples of the proof, if it differs between inputs; None for the n of the terms."""
    limit: float | None = None
    """An upper bound on the radius of the exact means; None if unknown ("-" in a file).

    More samples cannot certify a larger radius with this plan, unless the certificate is wrong.
    """
    experts: str = UNKNOWN
    """Of a routed classifier: the experts among which the router may choose within the radius, such as "0;2"."""
    expert_radius: float | None = None
    """Of a routed classifier: the smallest certified radius of these experts."""
    router_radius: float | None = None
    """Of a routed classifier: the radius within which the router chooses one of these experts.

    None if these are all experts ("-" in a file): the router is then not needed.
    """

    @classmethod
    def of(
        cls,
        index: int,
        label: int | None,
        certificate: Certificate,
        seconds: float,
        clean: int | None = None,
        name: str | None = None,
        samples: int | None = None,
    ) -> Row:
        """Make the row of a certificate; ``samples`` is the number of samples if it differs between inputs."""
        return cls(
            idx=index,
            label=label,
            predict=certificate.prediction,
            radius=certificate.radius,
            correct=correctness(certificate.prediction, label),
            time=round(seconds, 4),
            p_lower=certificate.p_lower,
            p_upper=certificate.p_upper,
            top=certificate.top,
            clean=clean,
            name=name or None,
            rounding=certificate.rounding or None,
            samples=samples,
            limit=certificate.limit if math.isfinite(certificate.limit) else None,
            **{"scope": UNKNOWN, **certificate.record()},
        )

    def text(self, columns: Sequence[str]) -> str:
        """The line of a file with these columns, without the line break."""
        values = [getattr(self, name) for name in columns]
        texts = [UNKNOWN if value is None else str(value) for value in values]
        if self.name is not None and "name" in columns:
            texts[columns.index("name")] = escaped(self.name)
        finite = math.isfinite(self.radius) and math.isfinite(self.time)
        if not finite or any(set(text) & set("\t\r\n") for text in texts):
            raise RunError(
                f"the row of input {self.idx} cannot be written: radius and time must be finite, names plain words"
            )
        return "\t".join(texts)


KINDS = kinds_of(Row)
"""The kind of each column."""
COLUMNS = tuple(KINDS)
OF_A_GOAL = frozenset({"samples", "limit"})
"""Columns of runs whose sampling stops at a goal."""
OF_ROUTED = frozenset({"samples", "experts", "expert_radius", "router_radius"})
"""Columns of runs of a routed classifier, in which ``samples`` are those of all proofs for an input."""
