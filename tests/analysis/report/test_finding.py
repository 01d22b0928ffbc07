"""The headline of a report: a sentence and three numbers that are true."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lvmrs.analysis import Attacked, Results, average_certified_radius
from lvmrs.analysis.report.page import Headline, finding
from lvmrs.kernel.method import Goal
from tests.manifests import manifest

RADII = [0.0, 0.25, 0.5, 1.0]
LABELS = np.arange(20) % 4


def run(name: str, radius: float = 0.6, wrong: int = 4, **settings: Any) -> Results:
    """20 inputs of radii up to 0.38 above ``radius``; the first are wrong, and one abstains."""
    predict = np.where(np.arange(20) < wrong, (LABELS + 1) % 4, LABELS)
    predict[-1] = -1
    radii = np.where(predict < 0, 0.0, radius + 0.02 * np.arange(20))
    return Results(name, np.arange(20), LABELS, predict, radii, manifest=manifest(20, **settings))


def found(*results: Results) -> Headline:
    return finding(results, RADII, confidence=0.95)


def test_one_run() -> None:
    said = found(run("a"))
    assert said.sentences == [
        "a certifies 75.0 % of 20 inputs at radius 0.5: they are classified correctly and, at risk 0.001 each, no "
        "point closer than 0.5 in the Euclidean distance changes the answer."
    ]
    assert [number[:2] for number in said.numbers] == [
        ("75.0 %", "certified at radius 0.5"), ("0.6149", "average certified radius"), ("5.0 %", "abstentions"),
    ]  # fmt: skip
    average = average_certified_radius(run("a"))
    low, high = map(float, said.numbers[1][2].split("–"))
    assert low <= average.low < 0.615 < average.high <= high


@pytest.mark.parametrize(
    ("radius", "wrong", "radii", "shown"),
    [
        (0.3, 0, RADII, 0.25),  # the largest radius with half of the inputs
        (0.9, 15, RADII, 0.25),  # else the smallest positive one
        (0.3, 0, [1.0, 0.25, 0.0], 0.25),
        (0.3, 0, [0.0], 0),
    ],
)
def test_the_radius_that_is_shown(radius: float, wrong: int, radii: list[float], shown: float) -> None:
    said = finding([run("a", radius, wrong)], radii, confidence=0.95)
    assert f"at radius {shown:g}: they" in said.sentences[0]
    assert ("no point closer" in said.sentences[0]) == (shown > 0)


def test_the_best_of_several_runs_and_its_lead() -> None:
    said = found(run("a"), run("b", 0.7), run("c", 0.5))
    assert said.sentences[0].startswith(
        "Of 3 runs on the same 20 inputs, b has the largest average certified radius, 0.0750 more than a (95 % interval"
    )
    assert said.sentences[1].startswith("b certifies 75.0 %")
    assert said.numbers[1][0] == "0.6899"
    assert "chance" not in said.sentences[0]
    mixed = run("d")
    assert (
        found(run("a"), replace(mixed, radius=mixed.radius[::-1] + 0.01)).sentences[0].endswith("which may be chance.")
    )
    assert found(run("a"), run("b", 0.4), run("c"), run("d")).sentences[0] == (
        "Of 4 runs on the same 20 inputs, a, c and d have the largest average certified radius."
    )


def test_runs_on_other_inputs_are_not_ranked() -> None:
    part, other = run("a").only(np.arange(10)), replace(run("b"), label=(LABELS + 1) % 4)
    for pair in ((run("c"), part), (run("c"), other)):
        assert found(*pair) == Headline(["2 runs on different inputs: none of them is named the best."])


def test_runs_with_targets_are_ranked_at_a_target() -> None:
    goal = run("goal", 0.25, goal=Goal(targets=(0.25,)))
    said = found(run("a", 0.3), goal, run("b", 0.1))
    assert said.sentences[0] == (
        "Of 3 runs on the same 20 inputs, a and goal have the largest certified accuracy at radius 0.25."
    )
    said = found(replace(goal, predict=LABELS), run("a", 0.9))
    assert said.sentences[0] == (
        "Of 2 runs on the same 20 inputs, goal has the largest certified accuracy at radius 0.25: it certifies 4 "
        "inputs that a does not, and a 0 that it does not (p = 0.12)."
    )
    assert said.numbers[1][1] == "average certified radius, cut short by the target"
    said = found(goal, replace(run("a", 0.9), predict=LABELS))
    assert said.sentences[0].startswith("Of 2 runs on the same 20 inputs, a has the largest certified accuracy")
    assert said.numbers[1][1] == "average certified radius"  # the best run has no target
    assert found(goal, run("b", goal=Goal(targets=(0.5,)))).sentences == [
        "2 runs with different targets: none of them is named the best."
    ]
    assert found(run("a", goal=Goal(tolerance=0.1))).numbers[1][1] == "average certified radius"


def test_what_else_is_said() -> None:
    assert found(run("a", imported="x.tsv", alpha=None)).sentences[0].startswith("According to its imported file, a ")
    assert "at risk" not in found(run("a", n=0, n0=0, alpha=0.0, lipschitz=1.0)).sentences[0]
    assert "in the Euclidean" not in found(replace(run("a"), manifest=None)).sentences[0]
    assert "an answer, right or wrong (there are no labels), and" in found(replace(run("a"), label=None)).sentences[0]
    attacked = Attacked(np.array([0.1, 0.1, *[np.inf] * 18]), np.arange(20) < 3, 0.001)
    assert (
        "An attack broke 2 of the 3 attacked certificates." in found(replace(run("a"), attacked=attacked)).sentences[1]
    )
    nothing = found(run("a", wrong=20))
    assert [number[0] for number in nothing.numbers] == ["0.0 %", "0.0000", "5.0 %"]
    assert nothing.numbers[1][2] == "no interval"
