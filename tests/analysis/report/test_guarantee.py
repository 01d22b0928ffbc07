"""What a report says of a run: the guarantee in words, and the method by the name that is typed for it."""

from dataclasses import replace

import pytest

from lvmrs._util.facts import ModelFacts
from lvmrs.analysis.report.settings import guarantee, settings_shown
from lvmrs.planners import Cohen
from lvmrs.record import Row
from lvmrs.record.manifest import ModelRecord
from tests.manifests import manifest

NOISE = "Gaussian noise of σ = 0.5"
ONE = f"one classifier for all inputs: the classifier smoothed with {NOISE}"
ROW = Row(
    0, 1, 1, 0.5, 1, 0.1, 0.9, 0.1, 1, "duel", 1.0, 1.0, "clopper_pearson", "r3", 0.0, "each", "0.001",
    scope="all inputs",
)  # fmt: skip


DUELS = "the classifier that takes the winner of all duels under Gaussian noise of σ = 0.5"


def test_the_whole_sentence() -> None:
    assert guarantee(manifest(classifier=DUELS, scope="all inputs"), [ROW]) == (
        "Each certificate is right with probability at least 1 − 0.001 over its sampling: no point closer than the "
        "radius (in the Euclidean distance of pixels in [0, 1]) changes the answer of one classifier for all inputs: "
        f"{DUELS}. Choices were made on 100 samples, and proved on 1000 others."
    )


SMOOTHED = "changes the answer of the classifier smoothed with Gaussian noise of σ = 0.5, with its map"
CHOSEN = replace(ROW, scope="this input")


@pytest.mark.parametrize(
    ("scope", "rows", "sentence"),
    [
        ("all inputs", [ROW], "changes the answer of one classifier for all inputs: what the method says."),
        ("this input", [CHOSEN], "changes the answer of what the method says."),
        ("all inputs", [CHOSEN], f"{SMOOTHED} chosen for each input."),  # the rows say what holds
        ("all inputs", [ROW, CHOSEN], f"{SMOOTHED} chosen for each input."),
        ("this input", [ROW], f"{SMOOTHED} the same for all inputs."),
        (None, [ROW], f"{SMOOTHED} the same for all inputs."),
    ],
)
def test_the_rows_say_whether_there_is_one_classifier(scope: str | None, rows: list[Row], sentence: str) -> None:
    assert sentence in guarantee(manifest(noise_words=NOISE, scope=scope), rows)


@pytest.mark.parametrize(
    ("form", "map_", "relies"),
    [
        ("ramp", "soft-duel", True),
        ("r1", "sparsemax", True),
        ("r3", "hardmax", False),
        ("ramp", "hardmax", False),
        # Parts of the user's own, which the process that reads the run does not know, may have used it.
        ("mine", "softmax", True),
        ("ramp", "mine", True),
        ("mine", "mine", True),
        ("r3", "mine", False),
        ("mine", "duel", False),
    ],
)
def test_what_it_relies_on(form: str, map_: str, relies: bool) -> None:
    """A constant that is known and not used is not relied on."""
    said = guarantee(manifest(lipschitz=2.5), [replace(ROW, form=form, map=map_)])
    assert said.endswith("others. That relies on 2.5 being a Lipschitz constant of the logits.") == relies
    assert ("relies" in said) == relies
    rounded = guarantee(manifest(lipschitz=2.5, rounding=1e-6), [replace(ROW, form=form, map=map_)])
    no_more = "and on rounding moving them by no more than each row says, which is 1e-06 or more."
    assert rounded.endswith(f" constant of the logits, {no_more}") == relies


@pytest.mark.parametrize(("noise", "grid"), [("gaussian", False), ("exact", True), ("exact:16", True)])
def test_radii_are_around_points_of_the_grid(noise: str, grid: bool) -> None:
    said = guarantee(manifest(noise=noise), [ROW])
    assert said.endswith("Radii are around the inputs as points of the grid that the noise rounds to.") == grid


@pytest.mark.parametrize(
    ("rows", "classifier"),
    [
        ([replace(ROW, map="hardmax")] * 2, f"{ONE} and hardmax."),
        ([replace(ROW, map="softmax", temperature=0.25, mass=2.0)],
         f"{ONE} and softmax at temperature 0.25 with mass 2."),
        ([replace(ROW, map="mine")], f"the classifier smoothed with {NOISE}, with its map the same for all inputs."),
        ([replace(ROW, map="hardmax"), replace(ROW, map="softmax")],
         f"the classifier smoothed with {NOISE}, with its map the same for all inputs."),
    ],
)  # fmt: skip
def test_a_map_that_is_the_same_for_all_inputs_is_named(rows: list[Row], classifier: str) -> None:
    """If the method has no words of its own; and that it is the same is said once."""
    words = Cohen().classifier(NOISE)
    said = guarantee(manifest(noise_words=NOISE, classifier=words, scope="all inputs"), rows)
    assert f"changes the answer of {classifier}" in said
    assert said.count("all inputs") == 1


def test_other_guarantees() -> None:
    certain = guarantee(manifest(lipschitz=2.5, n=0, n0=0, alpha=0.0), [ROW])
    assert certain.startswith("If 2.5 is a Lipschitz constant of the logits for pixels in [0, 1], each certificate is")
    rounded = guarantee(manifest(lipschitz=2.5, n=0, n0=0, alpha=0.0), [replace(ROW, rounding=1e-6)])
    assert (
        "[0, 1], and rounding moves each of them by no more than each row says, each certificate is certain" in rounded
    )
    imported = manifest(alpha=None, n=None, imported="other.tsv")
    assert guarantee(imported, [ROW]).startswith("Taken from another project's file")


@pytest.mark.parametrize(
    ("method", "shown"),
    [
        ({"planner": "Duels", "width": 0.5}, {"method": "duels: one duel with each rival", "width": "0.5"}),
        ({"planner": "Lipschitz", "procedure": "ramp"}, {"method": "lipschitz-ramp: the ramp radius"}),
        ({"planner": "Lipschitz", "procedure": "odd"}, {"method": "Lipschitz", "procedure": "odd"}),
        ({"planner": "SmoothAdv"}, {"method": "SmoothAdv"}),
        ({"planner": "LVM", "temperatures": [0.1, 0.2, 0.3, 0.4, 0.5, 2.0]},
         {"method": "lvm: a map and temperature chosen for each input (LVM-RS)",
          "temperatures": "6 values from 0.1 to 2"}),
    ],
)  # fmt: skip
def test_methods_are_shown_by_what_a_reader_knows(method: dict[str, object], shown: dict[str, str]) -> None:
    name = str(method.pop("planner"))
    found = settings_shown(manifest(method=name, settings=method))
    assert {name: found[name] for name in ("method", *method) if name in found} == shown
    assert found["hash of the data"] == "0123456789ab"


def test_what_sampled_nothing_has_no_settings_of_sampling() -> None:
    shown = settings_shown(manifest(n=0, n0=0, alpha=0.0, lipschitz=1.0))
    assert not {"alpha", "n0", "n", "seed", "sigma"} & set(shown)


def test_what_decides_rows_is_shown() -> None:
    shown = settings_shown(
        replace(manifest(), model=ModelRecord("m", "w" * 64, "c" * 64, facts=ModelFacts(random_weights=True)))
    )
    assert shown["seed"] == "0"
    assert (shown["hash of the weights"], shown["hash of its code"]) == ("w" * 12, "c" * 12)
    assert shown["known about the model"] == "WARNING: its weights are random, none were given"
