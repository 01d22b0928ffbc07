"""The proof, line by line: what it computes, and what it refuses."""

import dataclasses
import math
import pickle
import re
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from lvmrs import Certificate, Deterministic, Plan, Terms
from lvmrs.errors import InvalidArgumentError, LvmrsError, ProofError
from lvmrs.kernel import lipschitz, maps, radius
from lvmrs.kernel.bounds import Bound, Tally, bernstein, betting, clopper_pearson, hoeffding
from lvmrs.kernel.bounds.base import Sides
from lvmrs.kernel.method import ABSTAIN
from lvmrs.kernel.noise import Gaussian, Stream
from lvmrs.kernel.proof import Proof, prove
from lvmrs.kernel.scores import Portion, Scores, scores_of
from lvmrs.registry import BOUNDS, FORMS, MAPS
from lvmrs.testing import CERTIFICATION, SELECTION, made_up_scores
from tests.oracles import Floats, random_logits

N = 500
LOGITS = random_logits(N, 5, scale=1.0, dtype=torch.float32) + torch.tensor([1.5, 0.5, 0.0, 0.0, -0.5])
TERMS = Terms(0.5, 0.01, N, lipschitz=2.0)


def plan(**changes: Any) -> Plan:
    """A plan; map, bound and form may be given by name."""
    fields: dict[str, Any] = {
        "planner": "test",
        "top": 0,
        "classes": 5,
        "map": "softmax",
        "bound": "betting",
        "form": "r2",
        "risk_top": 0.004,
        "risk_rival": 0.003,
        "alone": (1, 2),
        "temperature": 0.7,
        "mass": 1.0,
        "origin": SELECTION,
        "n0": 100,
        "scope": "this input",
        **changes,
    }
    settings = {name: fields.pop(name) for name in ("temperature", "mass")}
    for name, names, given in (("map", MAPS, settings), ("bound", BOUNDS, {}), ("form", FORMS, {})):
        if isinstance(fields[name], str):
            fields[name] = names.find(fields[name])(**given)
    return Plan(**fields)


def made(**changes: Any) -> Certificate:
    return prove(plan(**changes), TERMS, made_up_scores(LOGITS))


def columns_by_hand(mapped: torch.Tensor) -> Floats:
    p = mapped.double().numpy()
    return np.stack([p[:, 0], p[:, 1], p[:, 2], p[:, 3] + p[:, 4]])


@pytest.mark.parametrize("bound", ["betting", "bernstein", "hoeffding"])
@pytest.mark.parametrize("mass", [1.0, 3.0])
@pytest.mark.parametrize("name", ["softmax", "sparsemax"])
def test_bounds_are_those_of_the_columns(bound: str, mass: float, name: str) -> None:
    """Each rival at the same risk, 3 and 4 pooled; the closed forms, one by one."""
    apply = maps.softmax if name == "softmax" else maps.sparsemax
    top, *rivals = columns_by_hand(apply(LOGITS, temperature=0.7, mass=mass))
    if bound == "betting":
        low = betting.lower(top, 0.004, mass=mass)
        highs = [betting.upper(rival, 0.003, mass=mass) for rival in rivals]
    elif bound == "hoeffding":
        low = hoeffding.lower(top.mean(), N, 0.004, mass=mass)
        highs = [hoeffding.upper(rival.mean(), N, 0.003, mass=mass) for rival in rivals]
    else:
        low = bernstein.lower(top.mean(), top.var(ddof=1), N, 0.004, mass=mass)
        highs = [bernstein.upper(rival.mean(), rival.var(ddof=1), N, 0.003, mass=mass) for rival in rivals]
    certificate = made(bound=bound, mass=mass, map=name)
    # Games are pruned together, so a bound may differ by less than the slack of a grid point from one played alone.
    assert certificate.p_lower == pytest.approx(float(low), rel=1e-6)
    assert certificate.p_upper == pytest.approx(min(float(max(highs)), mass - float(low)), rel=1e-6)


def test_hardmax_counts_votes() -> None:
    winners = LOGITS.argmax(dim=1)
    votes = [int((winners == k).sum()) for k in range(5)]
    certificate = made(map="hardmax", bound="clopper_pearson")
    assert certificate.p_lower == clopper_pearson.lower(votes[0], N, 0.004)
    highs = [clopper_pearson.upper(count, N, 0.003) for count in (votes[1], votes[2], votes[3] + votes[4])]
    assert certificate.p_upper == min(max(highs), 1 - certificate.p_lower)
    every = made(map="hardmax", bound="clopper_pearson", alone=None)
    assert every.p_upper == min(max(clopper_pearson.upper(v, N, 0.003) for v in votes[1:]), 1 - every.p_lower)


def duels_by_hand(rivals: list[list[int]]) -> list[int]:
    """How often class 0 beats all classes of each list at once; a tie is a loss."""
    return [sum(all(row[0] > row[k] for k in group) for row in LOGITS.tolist()) for group in rivals]


def test_duels_count_who_beat_whom() -> None:
    duels = {"map": "duel", "bound": "clopper_pearson", "form": "r3", "risk_top": 0.0, "risk_rival": 0.01}
    for alone, groups in ((None, [[1], [2], [3], [4]]), ((1, 2), [[1], [2], [3, 4]]), ((), [[1, 2, 3, 4]])):
        certificate = made(**duels, alone=alone)
        q = min(float(clopper_pearson.lower(count, N, 0.01)) for count in duels_by_hand(groups))
        assert certificate.p_lower == q
        assert certificate.p_upper == 1 - q
        assert certificate.radius == pytest.approx(0.5 * stats.norm.ppf(q), rel=1e-12)


def test_soft_duels_are_ramps_of_the_margin() -> None:
    duels = {"map": "soft-duel", "risk_top": 0.0, "risk_rival": 0.01, "temperature": 0.8, "alone": None}
    for form in ("r3", "ramp"):
        certificate = made(**duels, form=form)
        scores = np.clip(0.5 + (LOGITS[:, :1] - LOGITS[:, 1:]).double().numpy() / 1.6, 0, 1)
        q = min(float(betting.lower(column, 0.01)) for column in scores.T)
        assert certificate.p_lower == pytest.approx(q, rel=1e-6)
        q = certificate.p_lower
        slope = 2.0 / (math.sqrt(2) * 0.8)
        pair = radius.ramp_pairwise(q, 1 - q, sigma=0.5, lipschitz=slope * math.sqrt(2))
        expected = pair if form == "ramp" else 0.5 * stats.norm.ppf(q)
        assert certificate.radius == pytest.approx(float(expected), rel=1e-9)


def test_cohen_equals_an_independent_computation_from_counts() -> None:
    certificate = made(map="hardmax", bound="clopper_pearson", form="r3", risk_top=0.01, risk_rival=0.0)
    votes = int((LOGITS.argmax(dim=1) == 0).sum())
    p = stats.beta.ppf(0.01, votes, N - votes + 1)
    assert certificate.p_lower == p
    assert certificate.radius == pytest.approx(0.5 * stats.norm.ppf(p), rel=1e-14)
    assert certificate.p_upper == 1 - p


def test_the_ceiling_of_cohen() -> None:
    all_right = torch.tensor([[1.0, 0.0]]).expand(100_000, 2)
    terms = Terms(1.0, 0.001, 100_000)
    votes = {"classes": 2, "bound": "clopper_pearson", "form": "r3", "alone": None}
    for changes in (
        {"map": "hardmax", "risk_top": 0.001, "risk_rival": 0.0},
        {"map": "duel", "risk_top": 0.0, "risk_rival": 0.001},
    ):
        certificate = prove(plan(**votes, **changes), terms, made_up_scores(all_right, sigma=1.0))
        assert certificate.radius == pytest.approx(3.81146, abs=1e-5)  # 3.812 σ, rounded up


@pytest.mark.parametrize("form", ["r1", "r1-noise", "r2", "r3", "ramp"])
@pytest.mark.parametrize("mass", [1.0, 2.0])
def test_radius_is_that_of_the_form(form: str, mass: float) -> None:
    changes = {"risk_rival": 0.0} if form == "r3" else {}
    certificate = made(form=form, mass=mass, map="sparsemax", **changes)
    a, b = certificate.p_lower, certificate.p_upper
    slope = 2.0 / 0.7
    expected = {
        "r1": lambda: radius.r1(
            a, b, lipschitz=lipschitz.smoothed(slope, sigma=0.5, of="vector", mass=mass), mass=mass
        ),
        "r1-noise": lambda: radius.r1(a, b, lipschitz=mass / (0.5 * math.sqrt(math.pi)), mass=mass),
        "r2": lambda: radius.r2(a, b, sigma=0.5, mass=mass),
        "r3": lambda: radius.r3(a, sigma=0.5, mass=mass),
        "ramp": lambda: radius.ramp(a, b, sigma=0.5, lipschitz=slope, mass=mass),
    }[form]()
    assert certificate.radius == pytest.approx(float(expected), rel=1e-12)


def test_without_bounds_the_rivals_have_what_is_left() -> None:
    certificate = made(risk_rival=0.0, form="ramp")
    assert certificate.p_upper == 1 - certificate.p_lower


ANY_PART: list[dict[str, Any]] = [
    {},
    {"bound": "bernstein"},
    {"map": "hardmax", "bound": "clopper_pearson"},
    {"map": "duel", "bound": "clopper_pearson", "risk_top": 0.0},
    {"map": "soft-duel", "risk_top": 0.0},
]


@pytest.mark.parametrize("changes", ANY_PART)
def test_portions_of_the_scores_do_not_matter(changes: dict[str, Any]) -> None:
    whole = made(**changes)
    for size in (1, 7, 128):
        assert prove(plan(**changes), TERMS, made_up_scores(torch.split(LOGITS, size))) == whole


@pytest.mark.parametrize("changes", ANY_PART)
def test_a_proof_can_be_put_away_and_taken_up_again(changes: dict[str, Any]) -> None:
    terms = Terms(0.5, 0.01, 4 * N, lipschitz=2.0)
    logits = torch.cat([LOGITS] * 4)
    proof = Proof(plan(**changes), terms)
    for portion in made_up_scores(torch.split(logits, 300)):
        proof.add(portion)
        proof = pickle.loads(pickle.dumps(proof))  # noqa: S301
    assert proof.certificate() == prove(plan(**changes), terms, made_up_scores(logits))
    assert proof.certificate() == proof.certificate()


def test_the_state_of_a_proof_does_not_grow() -> None:
    wide = random_logits(N, 1000, dtype=torch.float32)
    for changes, logits, most in (
        ({"map": "duel", "bound": "clopper_pearson", "risk_top": 0.0}, LOGITS, 8_000),
        ({"map": "duel", "bound": "clopper_pearson", "risk_top": 0.0, "classes": 1000}, wide, 60_000),
        ({"map": "softmax", "bound": "bernstein"}, LOGITS, 60_000),
        ({"map": "softmax", "bound": "betting"}, LOGITS, 4_000_000),  # its opening is an eighth of the samples
    ):
        sizes = []
        for times in (50, 150):
            proof = Proof(plan(**changes, alone=None), Terms(0.5, 0.01, 200 * N))
            for portion in made_up_scores([logits] * times):
                proof.add(portion)
            sizes.append(len(pickle.dumps(proof)))
        assert sizes[1] <= 1.05 * sizes[0] + 20_000
        assert sizes[1] < most


def test_where_nothing_can_be_told_it_abstains() -> None:
    for changes in ANY_PART:
        certificate = prove(plan(**changes, top=1, alone=None), TERMS, made_up_scores(torch.zeros(N, 5)))
        assert certificate.prediction == ABSTAIN
        assert certificate.radius == 0
        assert "Nothing is certified" in certificate.guarantee
        assert "abstains" in repr(certificate)


def test_a_class_that_loses_is_not_certified() -> None:
    for changes in ANY_PART:
        assert made(**changes, top=4, alone=(0,)).prediction == ABSTAIN


REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "risk": ({"risk_top": 0.0075}, "spends a risk of 0.0105, more than alpha = 0.01"),
    "no risk": ({"risk_top": 0.0}, "risk_top must lie strictly between 0 and 1"),
    "negative risk": ({"risk_rival": -0.001}, "risk_rival must lie in [0, 1)"),
    "risk of duels": ({"map": "duel", "risk_rival": 0.0}, "risk_rival must lie strictly between 0 and 1"),
    "risk of duels spent twice": ({"map": "duel", "risk_rival": 0.0101, "risk_top": 0.0}, "spends a risk of 0.0101"),
    "NaN risk": ({"risk_top": math.nan}, "risk_top must not be NaN"),
    "unknown rival": ({"alone": (1, 5)}, "alone must name rivals of class 0 among 5 classes, each once"),
    "top among rivals": ({"alone": (0, 1)}, "alone must name rivals of class 0"),
    "rival twice": ({"alone": (1, 1)}, "alone must name rivals of class 0 among 5 classes, each once"),
    "top": ({"top": 5}, "class 5 is not one of 5 classes"),
    "classes": ({"classes": 4}, "the scores have shape (500, 5), and the plan has 4 classes"),
    "soft counts": ({"bound": "clopper_pearson"}, "holds for 0/1 scores only, and softmax is not"),
    "soft duel counts": (
        {"map": "soft-duel", "risk_top": 0.0, "bound": "clopper_pearson"},
        "holds for 0/1 scores only, and soft-duel is not",
    ),
    "r1 of hardmax": ({"form": "r1", "map": "hardmax"}, "needs a Lipschitz constant of the logits, and a map that"),
    "temperature": ({"temperature": -1.0}, "temperature must be positive and finite, got -1.0"),
    "mass of a duel": ({"map": "duel", "mass": 2.0}, "mass must be 1 for a duel, got 2"),
    "map": ({"map": "maxout"}, f"map must be one of {MAPS.listed}, got 'maxout'"),
    "bound": ({"bound": "guess"}, f"bound must be one of {BOUNDS.listed}, got 'guess'"),
    "form": ({"form": "deterministic"}, f"form must be one of {FORMS.listed}, got 'deterministic'"),
    "no map": ({"map": 3}, "map must be an object of the class Map, got 3"),
    "no bound": ({"bound": None}, "bound must be an object of the class Bound, got None"),
    "no form": ({"form": maps}, "form must be an object of the class Form, got <module"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_plans_that_cannot_be_trusted_are_refused(case: str) -> None:
    changes, sentence = REFUSALS[case]
    with pytest.raises(LvmrsError) as caught:
        made(**changes)
    assert sentence in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_scores_of_the_stream_of_the_plan_are_refused() -> None:
    with pytest.raises(ProofError, match="the plan was made on these very scores"):
        prove(plan(), TERMS, made_up_scores(LOGITS, SELECTION))
    assert prove(plan(origin=Stream(1, 0, "selection")), TERMS, made_up_scores(LOGITS, SELECTION)).n == N


def test_scores_are_made_by_their_sources_only() -> None:
    with pytest.raises(ProofError, match="not by hand"):
        Scores(CERTIFICATION, Gaussian(), 0.5, 1, N, [LOGITS])
    with pytest.raises(ProofError, match="not by hand"):
        Portion(CERTIFICATION, Gaussian(), 0.5, 1, 0, LOGITS)
    with pytest.raises(ProofError, match="not Tensor"):
        Proof(plan(), TERMS).add(LOGITS)  # type: ignore[arg-type]
    (portion,) = made_up_scores(LOGITS)
    with pytest.raises(ProofError, match="not by hand"):
        dataclasses.replace(portion, stream=SELECTION)


def test_scores_are_read_once() -> None:
    scores = made_up_scores(LOGITS)
    assert prove(plan(), TERMS, scores) == made()
    with pytest.raises(ProofError, match="these scores were read already"):
        prove(plan(), TERMS, scores)
    used = made_up_scores(LOGITS, SELECTION)
    list(used)
    with pytest.raises(ProofError, match="the plan was made on these very scores"):
        prove(plan(), TERMS, used)
    with pytest.raises(ProofError, match="expected a Plan and Terms, got Terms and Plan"):
        prove(TERMS, plan(), scores)  # type: ignore[arg-type]
    with pytest.raises(ProofError, match="scores must be Scores, which know their stream, got Tensor"):
        prove(plan(), TERMS, LOGITS)  # type: ignore[arg-type]


def test_every_sample_is_taken_once_and_in_order() -> None:
    first, second = made_up_scores(torch.split(LOGITS, 250))
    proof = Proof(plan(), TERMS)
    proof.add(first)
    with pytest.raises(ProofError, match="sample 0 was given and sample 250 is next; give each once, in order"):
        proof.add(first)
    with pytest.raises(ProofError, match="250 scores were given, and the terms say n = 500"):
        proof.certificate()
    _, other = made_up_scores(torch.split(LOGITS, 250), Stream(0, 1, "certification"))
    with pytest.raises(ProofError, match="a proof is about one stream"):
        proof.add(other)
    proof.add(second)
    assert proof.certificate() == made()


def test_noise_of_another_strength_is_refused() -> None:
    with pytest.raises(ProofError, match=r"the scores have noise of σ = 0.25, and the terms say σ = 0.5"):
        prove(plan(), TERMS, made_up_scores(LOGITS, sigma=0.25))


def test_scores_cannot_be_given_another_past() -> None:
    scores = made_up_scores(LOGITS)
    for name in ("stream", "noise", "sigma", "dimensions", "count"):
        with pytest.raises(AttributeError):
            setattr(scores, name, getattr(scores, name))
    with pytest.raises(ProofError, match=r"the source of <Scores of 501 samples.*> gave 500 samples"):
        list(scores_of(CERTIFICATION, Gaussian(), 0.5, 1, N + 1, [LOGITS]))


def test_a_failure_ends_the_proof() -> None:
    """Samples that were counted but not tallied would make the rivals' bounds too small."""
    first, second = made_up_scores(torch.split(LOGITS, 250))
    proof = Proof(plan(map=Failing(), bound="bernstein"), TERMS)
    with pytest.raises(RuntimeError, match="not today"):
        proof.add(first)
    with pytest.raises(ProofError, match="an earlier portion of these scores failed; begin the proof again"):
        proof.add(second)
    with pytest.raises(ProofError):
        proof.certificate()


def test_scores_that_were_begun_do_not_start_over() -> None:
    scores = made_up_scores(torch.split(LOGITS, 100))
    next(iter(scores))
    assert next(iter(scores)).first == 100


@pytest.mark.parametrize("count", [1, N - 1, N + 1])
def test_another_number_of_scores_is_refused(count: int) -> None:
    scores = torch.cat([LOGITS, LOGITS])[:count]
    with pytest.raises(ProofError, match="give exactly n"):
        prove(plan(), TERMS, made_up_scores(scores))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_scores_that_are_not_finite_are_refused(value: float) -> None:
    broken = LOGITS.clone()
    broken[3, 2] = value
    for changes in ANY_PART:
        with pytest.raises(ProofError, match="NaN or infinite"):
            prove(plan(**changes), TERMS, made_up_scores(broken))


def test_scores_that_are_not_logits_are_refused() -> None:
    for changes in ANY_PART:
        with pytest.raises(ProofError, match=r"scores are torch.int64; expected floating-point logits"):
            prove(plan(**changes), TERMS, made_up_scores(LOGITS.long()))


class Liar(maps.SimplexMap):
    """Scores that are not in the simplex."""

    name = "liar"

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        return torch.softmax(logits, dim=-1) + self.temperature

    @classmethod
    def constants(cls, lipschitz: Any, *, temperature: Any = 1.0, mass: Any = 1.0) -> maps.Slopes:
        return maps.Softmax.constants(lipschitz, temperature=temperature, mass=mass)


class Failing(maps.Softmax):
    """Fails once."""

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        if torch.equal(logits[0], LOGITS[0]):
            raise RuntimeError("not today")
        return super().apply(logits)


class Wide(Bound):
    """Bounds that are no probabilities."""

    name = "wide"

    def tally(self, n: int, risks: Floats, upper: Sides) -> Tally:
        class Nothing(Tally):
            def add(self, columns: torch.Tensor) -> None:
                pass

            def bounds(self) -> Floats:
                return np.full(len(risks), np.nan)

        return Nothing()

    def forecast(self, mean: Floats, variance: Floats, n: int, risk: float) -> Floats:
        return mean


class Short(maps.Duel):
    """One column for all rivals, or too few rows."""

    def columns(self, logits: torch.Tensor, top: int, alone: torch.Tensor, pooled: torch.Tensor) -> torch.Tensor:
        won = super().columns(logits, top, alone, pooled)
        return won[:, :1] if len(pooled) else won[:-1]


def test_parts_that_break_their_promise_are_refused() -> None:
    for alone, shape in (((1, 2), (500, 1)), (None, (499, 4))):
        with pytest.raises(ProofError, match=rf"the map duel gives columns of shape {re.escape(str(shape))}, not"):
            made(map=Short(), bound="clopper_pearson", risk_top=0.0, alone=alone)
    with pytest.raises(ProofError, match="the map liar gives scores that are not at least 0 with sum 1"):
        made(map=Liar(0.3))
    with pytest.raises(ProofError, match=r"wide gives a bound outside of \[0, 1\]"):
        made(bound=Wide())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((0.0, 0.01, 100), "sigma must be positive and finite, got 0.0"),
        ((1.0, 1.0, 100), "alpha must lie strictly between 0 and 1, got 1.0"),
        ((1.0, 0.0, 100), "alpha must lie strictly between 0 and 1, got 0.0"),
        ((1.0, 0.01, 1), "n must be a whole number of at least 2, got 1.0"),
        ((1.0, 0.01, 100, 0.0), "lipschitz must be positive, got 0.0"),
    ],
)
def test_terms_are_checked(arguments: tuple[Any, ...], sentence: str) -> None:
    with pytest.raises(InvalidArgumentError, match=sentence):
        Terms(*arguments)


def test_certificates_are_made_by_the_prover_only() -> None:
    certificate = made()
    fields = {field.name: getattr(certificate, field.name) for field in dataclasses.fields(certificate)}
    with pytest.raises(ProofError, match="not by hand"):
        Certificate(**fields)
    with pytest.raises(ProofError, match="not by hand"):
        dataclasses.replace(certificate, radius=9.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        certificate.radius = 9.0  # type: ignore[misc]


def test_choices_become_plain_numbers() -> None:
    numpy = plan(top=np.int64(0), classes=np.int32(5), alone=[np.int64(1)], risk_top=np.float32(0.004))
    assert (type(numpy.top), type(numpy.risk_top), numpy.alone) == (int, float, (1,))
    for changes in (
        {"top": 0.0},
        {"top": True},
        {"classes": "5"},
        {"alone": (1.5,)},
        {"alone": 5},
        {"risk_top": "much"},
    ):
        with pytest.raises(InvalidArgumentError, match="must be a"):
            plan(**changes)


def test_numbers_of_any_kind_become_plain() -> None:
    terms = Terms(np.float32(0.5), torch.tensor(0.01), 1e4, np.float64(2))  # type: ignore[arg-type]
    assert [type(value) for value in dataclasses.astuple(terms)[:4]] == [float, float, int, float]


def test_softmax_has_constants_of_its_own() -> None:
    certificate = made(form="ramp", temperature=0.3)
    a, b = certificate.p_lower, certificate.p_upper
    slopes = {"lipschitz": 0.5 * 2.0 / 0.3, "class_lipschitz": math.sqrt(2) / 4 * 2.0 / 0.3}
    assert certificate.radius == pytest.approx(float(radius.ramp(a, b, sigma=0.5, **slopes)), rel=1e-12)


def test_scores_with_gradients_are_taken() -> None:
    scores = LOGITS.clone().requires_grad_()
    assert prove(plan(), TERMS, made_up_scores(scores)) == made()


def test_certificates_say_what_they_guarantee() -> None:
    certificate = made()
    shown = radius.text(certificate.radius)
    assert certificate.guarantee == (
        f"With probability at least 1 − 0.01 over the sampling, for every x' with ‖x' − x‖₂ < {shown} the classifier "
        "smoothed with Gaussian noise of σ = 0.5 and softmax at temperature 0.7 (chosen for this input) answers with "
        "class 0."
    )
    assert "the same for all inputs" in made(scope="all inputs").guarantee
    assert "softmax at temperature 0.7 with mass 3 (" in made(mass=3.0).guarantee
    duels = made(map="duel", bound="clopper_pearson", risk_top=0.0, risk_rival=0.01, scope="all inputs")
    assert (
        "the classifier that takes the winner of all duels under Gaussian noise of σ = 0.5 (the same for all inputs) "
        "answers with class 0." in duels.guarantee
    )
    assert "relies" not in duels.guarantee
    assert made(form="ramp").guarantee.endswith("That relies on 2 being a Lipschitz constant of the logits.")
    soft = made(map="soft-duel", risk_top=0.0, temperature=0.25)
    assert "the winner of all soft duels of width 0.25 under Gaussian noise" in soft.guarantee
    assert shown in repr(certificate)
    assert len(repr(certificate)) < 250


def test_deterministic_certificate() -> None:
    certificate = Deterministic().certify(torch.tensor([0.5, 2.0, 1.0]), 4.0)
    assert certificate.prediction == 1
    assert certificate.radius == pytest.approx(1.0 / (math.sqrt(2) * 4))
    assert certificate.alpha == certificate.n == 0
    assert certificate.guarantee.startswith("Certainly")
    assert certificate.guarantee.endswith(
        "That relies on 4 being a Lipschitz constant of the logits, and on rounding moving each of them by at most "
        "2.4e-07."
    )
    assert certificate.record()["form"] == "deterministic"
    assert Deterministic().certify(torch.tensor([1.0, 1.0]), 4.0).prediction == ABSTAIN


@pytest.mark.parametrize(
    ("logits", "constant"),
    [
        (torch.zeros(2, 3), 1.0),
        (torch.tensor([1.0]), 1.0),
        (torch.tensor([1.0, math.nan]), 1.0),
        (torch.zeros(2), math.inf),
    ],
)
def test_deterministic_certificates_need_logits_and_a_constant(logits: torch.Tensor, constant: float) -> None:
    with pytest.raises(ProofError):
        Deterministic().certify(logits, constant)
