"""Diagnosis: what settings, answers and labels look like, if they look like a known mistake.

Each rule is a function of the evidence that returns a ``Finding`` or None. Rules compare shares only if the difference
is far larger than chance, and need ``LEAST`` inputs: a healthy run has no finding.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lvmrs._util.facts import DataFacts, ModelFacts
from lvmrs._util.text import percent
from lvmrs.analysis.results import Results, check_results
from lvmrs.errors import SuspiciousWarning
from lvmrs.kernel.checks import Floats
from lvmrs.kernel.method import ABSTAIN

Classes = NDArray[np.int64]

LEAST = 20
"""The smallest number of inputs whose answers are judged."""
OF_NOISE = ("trained for other noise", "one class under noise", "trained with another sigma")
"""Mistakes that training with this noise mends."""
# Larger labels are no class numbers, and are not counted.
_MOST_CLASSES = 1 << 20
# How many standard deviations a difference must be from chance.
_SURE = 4.0
# A renumbering, or other units of the pixels, must make this share of the inputs right, and this share more than now.
_RIGHT, _GAIN = 0.4, 0.1
# Inputs lie in [0, 1]: a larger σ is in other units.
_LARGEST_SIGMA = 5.0
# Under noise, at least this share of the accuracy without noise is usual for networks that were trained with noise.
_KEPT = 0.5
# The same for the accuracy on single noisy copies, which majority votes hide.
_KEPT_COPIES = 1 / 3
# A σ that differs from that of the training by more than this factor is told.
_FACTOR = 1.5
# The share of the answers that one class has at least to be told, and the share of its labels at most.
_NEARLY_ALL, _MANY = 0.9, 0.6
# The largest of nearly equal probabilities is below 1/classes times the first, plus the second.
_FLAT = 2.0, 0.1


@dataclass(frozen=True)
class Finding:
    """A likely mistake."""

    mistake: str
    """Its name, a heading of docs/mistakes.md."""
    text: str
    """What it looks like, the evidence, and what to do, in one sentence."""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known about settings, data and answers; None where something is unknown."""

    classes: int = 0
    """Number of classes of the model; 0 if unknown."""
    label: Classes | None = None
    """The class of each input; −1 where it is unknown."""
    clean: Classes | None = None
    """The answer without noise."""
    noisy: Classes | None = None
    """The most likely answer under noise."""
    right_copies: Floats | None = None
    """The share of the noisy copies of each input that have its label, or without labels its answer without noise."""
    abstains: NDArray[np.bool_] | None = None
    """Whether an input has no certificate, or is not expected to get one."""
    sigma: float | None = None
    """Scale of the noise; None without noise."""
    model: ModelFacts = field(default_factory=ModelFacts)
    data: DataFacts = field(default_factory=DataFacts)
    flatness: float | None = None
    """The mean of the largest softmax probability without noise."""
    other_units: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)
    """For other units of the pixels, by name: whether the answer without noise is the label."""
    n: int | None = None
    alpha: float | None = None
    ceiling: float | None = None
    """The largest radius that n samples can certify at this risk."""
    out_of_reach: Mapping[float, int | None] = field(default_factory=dict)
    """Target radii above the ceiling, and the number of samples from which on they are not; None if there is none."""

    @classmethod
    def of(cls, results: Results) -> Evidence:
        """The evidence in the results of a run."""
        check_results(results)
        manifest, sigma = results.manifest, results.sigma
        known: dict[str, Any] = {}
        if manifest is not None:
            terms = manifest.terms
            sigma = None if terms.n == 0 else terms.sigma
            known = {"model": manifest.model.facts, "data": manifest.data.facts, "alpha": terms.alpha, "n": terms.n}
        return cls(
            label=results.label,
            clean=results.clean,
            noisy=results.predict if results.top is None else results.top,
            abstains=results.predict == ABSTAIN,
            sigma=sigma,
            **known,
        )

    @property
    def labelled(self) -> Evidence | None:
        """The evidence of the inputs with a label; None if these are fewer than ``LEAST``."""
        if self.label is None or (keep := (self.label >= 0) & (self.label < _MOST_CLASSES)).sum() < LEAST:
            return None
        if keep.all():
            return self
        parts: dict[str, Any] = {
            name: value[keep] for name, value in vars(self).items() if isinstance(value, np.ndarray)
        }
        return replace(self, **parts, other_units={name: right[keep] for name, right in self.other_units.items()})

    @property
    def trained_sigma(self) -> float | None:
        """The σ of the training, if the file of the network records it; None if members of an ensemble differ."""
        sigmas = set(self.trained_sigmas.values())
        return sigmas.pop() if len(sigmas) == 1 else None

    @property
    def trained_sigmas(self) -> dict[str, float]:
        """The σ of each recorded training objective, of which an ensemble may have several."""
        sigmas: dict[str, float] = {}
        for objective in (self.model.objective or "").split(" and "):
            found = re.search(r"\bsigma=([0-9.e-]+)", objective)
            with suppress(ValueError):
                sigmas |= {} if found is None else {objective: float(found[1])}
        return sigmas


def diagnose(evidence: Evidence | Results) -> list[Finding]:
    """Find likely mistakes in settings, labels, pixels and noise. An empty list means that nothing looks wrong.

    Args:
        evidence: the results of a run, or other evidence.

    Returns:
        At most one finding of each kind, and of those about answers the one that explains most.

    >>> classes = np.arange(100) % 10
    >>> run = Results("a run", np.arange(100), label=(classes + 1) % 10, predict=classes, radius=np.ones(100))
    >>> for finding in diagnose(run):
    ...     print(finding)
    labels look shifted: 100.0 % of the answers are the label − 1 and 0.0 % the label; subtract 1 from the labels
    """
    seen = evidence if isinstance(evidence, Evidence) else Evidence.of(evidence)
    found = [rule(seen) for rule in (_sigma_units, _no_weights, _too_few, _ceiling)]
    told = {finding.mistake for finding in found if finding is not None}
    if not told & {"sigma in other units", "random weights"}:
        found.append(_first((_renumbered, _units, _flat, _one_class, _chance, _noise, _abstains), seen))
        if found[-1] is None or found[-1].mistake not in OF_NOISE:  # which say the same
            found.append(_other_sigma(seen))
    return [finding for finding in found if finding is not None]


def warn_of(findings: Iterable[Finding]) -> None:
    """Emit a ``SuspiciousWarning`` for each finding.

    Args:
        findings: What ``diagnose`` has found.

    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     warn_of([Finding("one class", "95 % of the answers are class 3")])
    >>> print(caught[0].message)
    95 % of the answers are class 3
    """
    for finding in findings:
        warnings.warn(finding.text, SuspiciousWarning, stacklevel=3)


def _first(rules: Iterable[Callable[[Evidence], Finding | None]], seen: Evidence) -> Finding | None:
    return next((found for rule in rules if (found := rule(seen)) is not None), None)


# ---------------------------------------------------------------------------------------------------------------------
# Settings.


def _sigma_units(seen: Evidence) -> Finding | None:
    if seen.sigma is None or seen.sigma <= _LARGEST_SIGMA:
        return None
    return Finding(
        "sigma in other units",
        f"sigma = {seen.sigma:g} looks like units of 0 to 255, but inputs lie in [0, 1] and drown in this noise: "
        f"divide sigma by 255, which makes {seen.sigma / 255:.3g}",
    )


def _no_weights(seen: Evidence) -> Finding | None:
    if not seen.model.random_weights or seen.clean is None or len(seen.clean) < LEAST:  # loading tells it too
        return None
    return Finding(
        "random weights", "the weights of the network are random, since none were given; give a file of weights"
    )


def _other_sigma(seen: Evidence) -> Finding | None:
    here = seen.sigma
    if here is None or seen.model.denoiser is not None:
        return None
    others = {
        trained
        for objective, trained in seen.trained_sigmas.items()
        # Other objectives may make networks that are certified without noise in training.
        if (trained > 0 or objective.startswith("Gaussian(")) and not trained / _FACTOR <= here <= trained * _FACTOR
    }
    if not others:
        return None
    how = " and ".join(
        f"for noise of sigma = {trained:g}" if trained else "without noise" for trained in sorted(others)
    )
    what = "network was" if seen.trained_sigma is not None else "ensemble has members that were"
    return Finding(
        "trained with another sigma",
        f"the {what} trained {how}, and here sigma is {here:g}; train a network for this noise, or put a denoiser "
        "before it",
    )


def _too_few(seen: Evidence) -> Finding | None:
    if seen.ceiling is None or seen.ceiling > 0:
        return None
    return Finding(
        "too few samples",
        f"n = {seen.n} samples at alpha = {seen.alpha:g} cannot certify anything, even if all samples agree; take more",
    )


def _ceiling(seen: Evidence) -> Finding | None:
    if not seen.ceiling or not seen.out_of_reach:
        return None
    radius, n = max(seen.out_of_reach.items())
    more = "take a larger sigma" if n is None else f"it needs n ≥ {n}, or a larger sigma"
    return Finding(
        "radius out of reach",
        f"radius {radius:g} is out of reach: n = {seen.n} samples at alpha = {seen.alpha:g} certify no radius above "
        f"{seen.ceiling:.3g}, even if all samples agree; {more}",
    )


# ---------------------------------------------------------------------------------------------------------------------
# Answers.


def _renumbered(seen: Evidence) -> Finding | None:
    """Labels that are shifted or permuted: answers without noise, if they are known, predict them, but do not match."""
    known = seen.labelled
    answers = None if known is None else known.noisy if known.clean is None else known.clean
    if known is None or known.label is None or answers is None or (answers >= 0).sum() < LEAST:
        return None
    label, answers = known.label[answers >= 0], answers[answers >= 0]
    if len(np.unique(label)) == 1 or np.bincount(answers).max() >= _NEARLY_ALL * len(answers):
        return None  # one class is no evidence about the numbering
    right = answers == label
    classes = max(seen.classes, int(max(label.max(), answers.max())) + 1)
    differences = np.bincount((answers - label) % classes, minlength=classes)
    shift = int(differences[1:].argmax()) + 1 if classes > 1 else 0
    if classes > 2 and _much_better((answers - label) % classes == shift, right):
        k = shift - classes if shift > classes / 2 else shift
        sign, word = ("+", f"add {k} to") if k > 0 else ("−", f"subtract {-k} from")
        return Finding(
            "labels shifted",
            f"labels look shifted: {percent(differences[shift] / len(label))} % of the answers are the label {sign} "
            f"{abs(k)} and {_share(right)} the label; {word} the labels",
        )
    if not _much_better(_renumbered_right(answers, label), right):
        return None
    usual = {int(k): int(np.bincount(answers[label == k]).argmax()) for k in np.unique(label)}
    moved = [f"{k} as {answer}" for k, answer in usual.items() if k != answer]
    some = ", ".join(moved[:3]) + (", …" if len(moved) > 3 else "")
    by_folder = seen.data.labels == "folder order"
    return Finding(
        "folders in alphabetical order" if by_folder else "labels permuted",
        f"labels look permuted: {_share(right)} of the answers are right, and far more would be if the labels were "
        f"numbered as the model's classes (label {some}); "
        + (
            "labels are the places of the folders in alphabetical order: give a class index file, or name the folders "
            "by the class numbers"
            if by_folder
            else "number the classes as in the training"
        ),
    )


def _renumbered_right(answers: Classes, label: Classes) -> NDArray[np.bool_]:
    """Whether each answer is right after a renumbering that was found on the other half of the inputs."""
    order = np.random.default_rng(0).permutation(len(label))
    right = np.zeros(len(label), bool)
    for fitted, judged in ((order[::2], order[1::2]), (order[1::2], order[::2])):
        usual = {k: np.bincount(label[fitted][answers[fitted] == k]).argmax() for k in np.unique(answers[fitted])}
        right[judged] = [usual.get(answer) == k for answer, k in zip(answers[judged], label[judged], strict=True)]
    return right


def _units(seen: Evidence) -> Finding | None:
    known = seen.labelled
    if known is None or known.clean is None or not known.other_units:
        return None
    right = known.clean == known.label
    units, better = max(known.other_units.items(), key=lambda pair: int(pair[1].sum()))
    if not _much_better(better, right):
        return None
    return Finding(
        "pixels in other units",
        f"the network looks made for {units}: without noise it is right on {_share(better)} of the inputs with these, "
        f"and on {_share(right)} with the present ones; change the normalisation to that of the training",
    )


def _chance(seen: Evidence) -> Finding | None:
    known = seen.labelled
    if known is None or known.clean is None or not _at_chance(known.clean, known.label):
        return None
    return Finding(
        "answers by chance",
        f"without noise {_share(known.clean == known.label)} of the answers are right, no more than by chance: compare "
        "weights, normalisation, size of the inputs and order of the classes with those of the training",
    )


def _flat(seen: Evidence) -> Finding | None:
    """Answers by chance of a network whose probabilities are nearly equal."""
    known, flat, classes = seen.labelled, seen.flatness, seen.classes
    if known is None or known.clean is None or flat is None or not classes:
        return None
    if flat >= min(_FLAT[0] / classes, 1 / classes + _FLAT[1]) or _renumbered(seen) or not _chance(seen):
        return None
    return Finding(
        "random weights",
        f"the weights look random: without noise {_share(known.clean == known.label)} of the answers are right, no "
        f"more than by chance, and the largest of {classes} probabilities is {flat:.2g} on average; load trained "
        "weights",
    )


def _noise(seen: Evidence) -> Finding | None:
    """Much lower accuracy under noise than without; without labels, answers that differ from those without noise."""
    known = (seen if seen.label is not None else replace(seen, label=seen.clean)).labelled
    if known is None or known.clean is None or known.noisy is None or seen.sigma is None:
        return None
    clean, noisy, copies = known.clean == known.label, known.noisy == known.label, known.right_copies
    if noisy.mean() < _KEPT * clean.mean() and _surely_more(clean, noisy):
        on = f"{_share(noisy)} of the inputs under noise of sigma = {seen.sigma:g}"
    elif copies is not None and copies.mean() < _KEPT_COPIES * clean.mean() and _surely_larger(clean, copies):
        on = f"{_share(copies)} of noisy copies with sigma = {seen.sigma:g}"
    else:
        return None
    what = "agrees with its answer without noise on" if seen.label is None else "is right on"
    without = "" if seen.label is None else f", and on {_share(clean)} without noise"
    remedy = "train it with this noise, put a denoiser before it, or take a smaller sigma"
    if seen.model.denoiser is not None:
        remedy = "take a smaller sigma, another denoiser, or a network that was trained with noise"
    return Finding("trained for other noise", f"the network {what} {on}{without}{_trained_for(seen)}: {remedy}")


def _trained_for(seen: Evidence) -> str:
    return "" if seen.trained_sigma is None else f", and was trained for sigma = {seen.trained_sigma:g}"


def _one_class(seen: Evidence) -> Finding | None:
    """One class that takes nearly all answers; of labels it must be known that they are of several classes."""
    known = seen if seen.label is None else seen.labelled
    answers = None if known is None else known.clean if known.noisy is None else known.noisy
    if known is None or answers is None or len(answers) < LEAST or (answers >= 0).sum() == 0:
        return None
    most = int(np.bincount(answers[answers >= 0]).argmax())
    share = float((answers == most).mean())
    without = None if known.clean is None else float((known.clean == most).mean())
    expected = None if known.label is None else float((known.label == most).mean())
    if share < _NEARLY_ALL or (expected is not None and expected > _MANY):
        return None
    of_labels = "" if expected is None else f", and {percent(expected)} % of the labels"
    if without is not None and without <= _MANY and seen.sigma is not None:
        return Finding(
            "one class under noise",
            f"{percent(share)} % of the answers under noise are class {most}, {percent(without)} % without noise"
            f"{of_labels}: sigma = {seen.sigma:g} hides the inputs from the network{_trained_for(seen)}; train it with "
            "this noise, or take a smaller sigma",
        )
    several = ", which is a mistake if the inputs are of several classes" if expected is None else ""
    return Finding(
        "one class",
        f"{percent(share)} % of the answers are class {most}{of_labels}{several}: the network hardly looks at these "
        "inputs; compare weights and normalisation with those of the training, or take a smaller sigma",
    )


def _abstains(seen: Evidence) -> Finding | None:
    if seen.abstains is None or len(seen.abstains) < LEAST or seen.abstains.mean() < 0.5:
        return None
    if _too_few(seen) is not None:  # which explains the abstentions
        return None
    return Finding(
        "abstentions",
        f"{_share(seen.abstains)} of the inputs have no certificate: take more samples, a smaller sigma, or a network "
        "that is more certain under noise",
    )


# ---------------------------------------------------------------------------------------------------------------------
# Comparisons.


def _share(right: NDArray[Any]) -> str:
    return f"{percent(float(right.mean()))} %"


def _surely_more(one: NDArray[np.bool_], other: NDArray[np.bool_]) -> bool:
    """Whether one holds for more inputs than the other, beyond chance (McNemar's test on the same inputs)."""
    gained, lost = int((one & ~other).sum()), int((other & ~one).sum())
    return gained - lost >= _SURE * math.sqrt(gained + lost) and gained > 0


def _surely_larger(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Whether the mean of one is larger than that of the other, beyond chance, on the same inputs."""
    more = one.astype(float) - other
    return float(more.mean()) > _SURE * float(more.std()) / math.sqrt(len(more))


def _much_better(one: NDArray[np.bool_], other: NDArray[np.bool_]) -> bool:
    more, less = float(one.mean()), float(other.mean())
    return more >= _RIGHT and more >= less + _GAIN and _surely_more(one, other)


def _at_chance(answers: Classes, label: Classes | None) -> bool:
    """Whether answers agree with labels no more often than independent ones of the same frequencies.

    The number of inputs must suffice to rule out answers that are far better than chance.
    """
    if label is None:
        return False
    n, size = len(label), int(max(answers.max(), label.max())) + 1
    shares = np.bincount(answers, minlength=size) * np.bincount(label, minlength=size) / n**2
    expected, found = float(shares.sum()), float((answers == label).mean())
    by_chance = found < expected + _SURE * math.sqrt(max(expected, 1 / n) / n)
    upper = found + _SURE * math.sqrt(max(found * (1 - found), 1 / n) / n)
    return by_chance and upper - expected < 0.5 * (1 - expected)
