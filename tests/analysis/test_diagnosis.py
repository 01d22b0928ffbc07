"""Each likely mistake is found in a case made for it, and described in docs/mistakes.md; healthy results have none."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lvmrs._util.facts import DataFacts, DenoiserFacts, ModelFacts
from lvmrs.analysis import Evidence, Results, diagnose, warn_of
from lvmrs.errors import SuspiciousWarning

PAGE = (Path(__file__).parents[2] / "docs" / "mistakes.md").read_text(encoding="utf-8")
Array = NDArray[np.int64]


def answers(label: Array, accuracy: float, seed: int = 0, classes: int = 10) -> Array:
    """Answers of which about this share are right, and the others any class."""
    generator = np.random.default_rng(seed)
    return np.where(generator.random(len(label)) < accuracy, label, generator.integers(0, classes, len(label)))


LABEL = np.arange(200) % 10
CLEAN = answers(LABEL, 0.9)
FOLDERS = np.array([8, 5, 4, 9, 1, 0, 7, 6, 3, 2])  # the classes of eight, five, four, …
GOOD: dict[str, Any] = {"classes": 10, "label": LABEL, "clean": CLEAN, "noisy": answers(LABEL, 0.6, 1), "sigma": 0.5}
TRAINED = ModelFacts("small_cnn", objective="Gaussian(sigma=0.12)")

CASES: dict[str, Evidence] = {
    "labels shifted": Evidence(**{**GOOD, "label": (LABEL + 1) % 10}),
    "labels permuted": Evidence(**{**GOOD, "label": np.argsort(FOLDERS)[LABEL]}),
    "folders in alphabetical order": Evidence(
        **{**GOOD, "label": np.argsort(FOLDERS)[LABEL]}, data=DataFacts("folder order")
    ),
    "random weights": Evidence(**{**GOOD, "clean": answers(LABEL, 0.0), "flatness": 0.12}),
    "answers by chance": Evidence(**{**GOOD, "clean": answers(LABEL, 0.0), "flatness": 0.8}),
    "pixels in other units": Evidence(
        **{**GOOD, "clean": answers(LABEL, 0.1)},
        other_units={"pixels from 0 to 255 (mean 0, std 0.00392)": CLEAN == LABEL},
    ),
    "sigma in other units": Evidence(**{**GOOD, "sigma": 128.0}),
    "trained for other noise": Evidence(**{**GOOD, "noisy": answers(LABEL, 0.1, 1)}, model=TRAINED),
    "trained with another sigma": Evidence(**GOOD, model=TRAINED),
    "one class": Evidence(**{**GOOD, "clean": np.full(200, 3), "noisy": np.full(200, 3)}),
    "one class under noise": Evidence(**{**GOOD, "noisy": np.full(200, 3)}),
    "abstentions": Evidence(**GOOD, abstains=np.arange(200) % 5 > 0),
    "radius out of reach": Evidence(**GOOD, n=1000, alpha=0.001, ceiling=0.804, out_of_reach={1.0: 3400}),
    "too few samples": Evidence(**GOOD, n=9, alpha=0.001, ceiling=0.0, abstains=np.full(200, True)),
}  # fmt: skip


def test_labels_that_are_no_class_numbers_take_no_memory() -> None:
    label = np.where(np.arange(200) == 3, 2**31 - 1, LABEL)
    assert not diagnose(Evidence(**{**GOOD, "label": label}))
    assert not diagnose(Evidence(**{**GOOD, "label": label + 2**30}))


def test_a_single_class_says_nothing_about_numbering() -> None:
    same = {**GOOD, "label": np.zeros(200, np.int64), "clean": np.full(200, 3), "noisy": np.full(200, 3)}
    assert not {"labels shifted", "labels permuted"} & {found.mistake for found in diagnose(Evidence(**same))}


@pytest.mark.parametrize("mistake", CASES)
def test_each_mistake_is_found_alone_and_described(mistake: str) -> None:
    (finding,) = diagnose(CASES[mistake])
    assert finding.mistake == mistake
    section = PAGE.split(f"\n## {mistake.capitalize()}\n")[1].split("\n## ")[0]
    assert finding.text in " ".join(section.split())


def test_the_page_has_no_other_mistakes() -> None:
    titles = [line.removeprefix("## ") for line in PAGE.splitlines() if line.startswith("## ")]
    assert sorted(titles) == sorted(mistake.capitalize() for mistake in CASES)


HEALTHY: dict[str, Evidence] = {
    "good": Evidence(**GOOD),
    "CIFAR-10 at 55 % under noise": Evidence(**{**GOOD, "clean": answers(LABEL, 0.75), "noisy": answers(LABEL, 0.5)}),
    "sigma 1, 40 % without noise": Evidence(
        **{**GOOD, "clean": answers(LABEL, 0.33), "noisy": answers(LABEL, 0.25, 2), "sigma": 1.0}
    ),
    "20 inputs": Evidence(**{**GOOD, "label": LABEL[:20], "clean": CLEAN[:20], "noisy": answers(LABEL[:20], 0.4)}),
    "20 inputs of one class": Evidence(
        **{**GOOD, "label": np.zeros(20, int), "clean": answers(np.zeros(20, int), 0.7), "noisy": np.zeros(20, int)}
    ),
    "3 inputs, all wrong": Evidence(**{**GOOD, "label": LABEL[:3], "clean": LABEL[1:4], "noisy": LABEL[1:4]}),
    "1000 classes, 60 inputs": Evidence(
        classes=1000,
        label=np.arange(0, 1000, 17),
        clean=answers(np.arange(0, 1000, 17), 0.7, classes=1000),
        noisy=answers(np.arange(0, 1000, 17), 0.45, 1, 1000),
        flatness=0.6,
        sigma=0.25,
    ),
    "two classes": Evidence(
        classes=2, label=LABEL % 2, clean=answers(LABEL % 2, 0.6, classes=2), noisy=answers(LABEL % 2, 0.5, 1, 2)
    ),
    "without labels": Evidence(**{**GOOD, "label": None}),
    "some labels unknown": Evidence(**{**GOOD, "label": np.where(LABEL < 5, LABEL, -1)}),
    "a flat network that is right": Evidence(**GOOD, flatness=0.11),
    "nothing known": Evidence(),
    "trained for nearly this sigma": Evidence(**{**GOOD, "sigma": 0.15}, model=TRAINED),
    "a denoiser": Evidence(**GOOD, model=dataclasses.replace(TRAINED, denoiser=DenoiserFacts("d"))),
    "a Lipschitz network": Evidence(**GOOD, model=ModelFacts(objective="Margin(margin=0.5, sigma=0)")),
    "cats that are often called dogs": Evidence(**{**GOOD, "clean": np.where(LABEL == 3, 5, CLEAN)}),
    "a tail of rare classes": Evidence(
        **{**GOOD, "label": LABEL // 8, "clean": CLEAN // 8, "noisy": np.zeros(200, int)}
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", HEALTHY)
def test_what_is_healthy_has_no_finding(case: str) -> None:
    assert diagnose(HEALTHY[case]) == []


@pytest.mark.parametrize("classes", [2, 10, 100])
@pytest.mark.parametrize("inputs", [20, 50, 200, 2000])
@pytest.mark.parametrize("accuracy", [0.45, 0.7, 0.95])
def test_no_false_alarm_by_chance(classes: int, inputs: int, accuracy: float) -> None:
    for seed in range(10):
        label = np.random.default_rng(seed).integers(0, classes, inputs)
        clean = answers(label, accuracy, seed, classes)
        noisy = answers(label, 0.8 * accuracy, seed + 1, classes)
        copies = np.where(noisy == label, 0.6, 0.2)
        seen: dict[str, Any] = {"label": label, "clean": clean, "noisy": noisy, "right_copies": copies}
        assert diagnose(Evidence(classes=classes, sigma=0.5, **seen)) == []


def test_members_of_an_ensemble_that_were_trained_with_another_sigma_are_found() -> None:
    members = [ModelFacts(objective=f"{name}(sigma={sigma})") for name, sigma in (("Gaussian", 0.5), ("MACER", 1.0))]
    mixed, alike = ModelFacts.of_ensemble(members), ModelFacts.of_ensemble(members[:1] * 2)
    (finding,) = diagnose(Evidence(**GOOD, model=mixed))
    assert "the ensemble has members that were trained for noise of sigma = 1, and here sigma is 0.5" in finding.text
    assert (Evidence(model=mixed).trained_sigma, Evidence(model=alike).trained_sigma) == (None, 0.5)
    assert not diagnose(Evidence(**GOOD, model=alike))


def test_two_exchanged_classes_are_found() -> None:
    exchanged = np.where(LABEL == 3, 5, np.where(LABEL == 5, 3, LABEL))
    (finding,) = diagnose(Evidence(**{**GOOD, "label": exchanged}))
    assert finding.mistake == "labels permuted"
    assert "(label 3 as 5, 5 as 3)" in finding.text


def test_without_labels_answers_are_compared_with_those_without_noise() -> None:
    (finding,) = diagnose(Evidence(**{**GOOD, "label": None, "noisy": answers(LABEL, 0.1, 1)}))
    assert finding.mistake == "trained for other noise"
    assert "agrees with its answer without noise on" in finding.text


@pytest.mark.parametrize("known", [{}, {"label": None}, {"clean": None}, {"label": None, "clean": None}])
def test_one_class_is_found_with_whatever_is_known(known: dict[str, Any]) -> None:
    most = np.where(np.arange(200) < 185, 3, LABEL)
    (finding,) = diagnose(Evidence(**{**GOOD, "clean": most, "noisy": most, **known}))
    assert finding.mistake == "one class"
    assert ("if the inputs are of several classes" in finding.text) == ("label" in known)
    few = dict.fromkeys(("clean", "noisy"), most[:19])
    assert not diagnose(Evidence(**{**GOOD, "label": LABEL[:19], **few, **known}))


def test_one_class_that_half_of_the_labels_have_is_no_permutation() -> None:
    label, same = np.where(np.arange(200) % 2 == 0, 8, LABEL), np.where(np.arange(200) < 190, 3, 5)
    (finding,) = diagnose(Evidence(**{**GOOD, "label": label, "clean": same, "noisy": same}))
    assert finding.mistake == "one class"


@pytest.mark.parametrize("label", [LABEL, None])
def test_copies_that_are_wrong_under_votes_that_are_right_are_found(label: Array | None) -> None:
    votes: dict[str, Any] = {**GOOD, "label": label, "noisy": CLEAN}
    generator = np.random.default_rng(0)
    (finding,) = diagnose(Evidence(**votes, right_copies=generator.uniform(0.1, 0.4, 200)))
    assert (finding.mistake, "of noisy copies with sigma = 0.5" in finding.text) == ("trained for other noise", True)
    assert diagnose(Evidence(**votes, right_copies=generator.uniform(0.2, 0.6, 200))) == []


def test_results_of_other_projects_with_abstentions_and_warnings() -> None:
    predict = np.where(LABEL == 4, -1, (LABEL + 1) % 10)
    found = diagnose(Results("file", np.arange(200), LABEL, predict, np.ones(200)))
    assert [finding.mistake for finding in found] == ["labels shifted"]
    with pytest.warns(SuspiciousWarning, match="labels look shifted"):
        warn_of(found)
