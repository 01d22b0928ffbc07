"""Goals: when they are reached, what they say, and what they refuse."""

import math

import pytest

from lvmrs.errors import InvalidArgumentError
from lvmrs.kernel.method import Goal, InterimResult, check_goal, verdict


@pytest.mark.parametrize(
    ("radius", "limit", "answers"),
    [
        (0.0, math.inf, ("undecided", "undecided")),
        (0.25, math.inf, ("certified", "undecided")),
        (0.25, 0.5, ("certified", "undecided")),
        (0.25, 0.4999, ("certified", "cannot be certified")),
        (0.0, 0.1, ("cannot be certified", "cannot be certified")),
        (0.6, 0.7, ("certified", "certified")),
    ],
)
def test_verdicts_and_when_targets_are_decided(radius: float, limit: float, answers: tuple[str, str]) -> None:
    assert (verdict(radius, limit, 0.25), verdict(radius, limit, 0.5)) == answers
    assert Goal((0.25, 0.5)).reached(InterimResult(100, radius, limit)) == ("undecided" not in answers)


def test_a_tolerance_is_reached_when_more_samples_can_add_little() -> None:
    goal = Goal(tolerance=0.1)
    assert not goal.reached(InterimResult(32, 0.0, math.inf))
    assert not goal.reached(InterimResult(32, 0.2, 0.35))
    assert goal.reached(InterimResult(32, 0.25, 0.35))
    assert goal.reached(InterimResult(32, 0.0, 0.0))  # nothing can be certified, and that is known


def test_words_and_what_is_refused() -> None:
    assert Goal((0.25, 0.5)).words == "when it is decided whether 0.25 and 0.5 can be certified"
    assert Goal(tolerance=0.1).words == "when the radius is within 0.1 of what infinitely many samples could certify"
    for settings, sentence in (
        ({}, "either targets or a tolerance"),
        ({"targets": (0.5,), "tolerance": 0.1}, "either targets or a tolerance"),
        ({"targets": (0.5, 0.0)}, "targets must be"),
        ({"targets": (math.inf,)}, "targets must be"),
        ({"targets": "0.5"}, "targets must"),
        ({"targets": 0.5}, "targets must be a list of numbers"),
        ({"tolerance": 0.0}, "tolerance must be"),
        ({"tolerance": 0.1, "beta": 1.0}, "beta must lie strictly between 0 and 1"),
    ):
        with pytest.raises(InvalidArgumentError, match=sentence):
            Goal(**settings)
    assert check_goal(goal := Goal((0.5,))) is goal
    with pytest.raises(InvalidArgumentError, match="goal must be a goal such as"):
        check_goal(0.5)
