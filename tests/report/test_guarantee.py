"""What a report says of a run: the guarantee in words, and the method by the name that is typed for it."""

from dataclasses import replace
from pathlib import Path

import pytest

from lvmrs.report.guarantee import guarantee
from lvmrs.report.settings import settings_shown
from lvmrs.runs import Row, Run
from tests.manifests import manifest

NOISE = "Gaussian noise of σ = 0.5"
GOLDEN = Path(__file__).parent.parent / "golden"
ROW = Row(
    0, 1, 1, 0.5, 1, 0.1, 0.9, 0.1, 1, "duel", 1.0, 1.0, "clopper_pearson", "r3", 0.0, "each", "0.001",
    scope="all inputs",
)  # fmt: skip


def test_the_whole_sentence() -> None:
    assert guarantee(manifest(noise_words=NOISE), [ROW]) == (
        "Each certificate is right with probability at least 1 − 0.001 over its sampling: no point closer than the "
        "radius (in the Euclidean distance of pixels in [0, 1]) changes the answer of one classifier for all inputs: "
        "the classifier smoothed with Gaussian noise of σ = 0.5 and the map duel (whether the top class beats a "
        "rival). Choices were made on 100 samples, and proved on 1000 others."
    )


CHOSEN = (
    "changes the answer of the classifier smoothed with Gaussian noise of σ = 0.5, with its map chosen for each input."
)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([replace(ROW, scope="this input")], CHOSEN),
        ([ROW, replace(ROW, scope="this input")], CHOSEN),
        ([replace(ROW, map="softmax", temperature=2.0)], "the map softmax at temperature 2 (softmax of the logits)."),
        ([ROW, replace(ROW, map="hardmax")],
         "one classifier for all inputs: the classifier smoothed with Gaussian noise of σ = 0.5."),
        ([replace(ROW, map="my own")], "σ = 0.5 and the map my own."),
        ([replace(ROW, scope="-")], "changes the answer of what an earlier version said."),
        ([ROW, replace(ROW, scope="-")], "changes the answer of what an earlier version said."),
    ],
)  # fmt: skip
def test_the_rows_say_whether_there_is_one_classifier(rows: list[Row], sentence: str) -> None:
    assert sentence in guarantee(manifest(noise_words=NOISE), rows)


def test_what_it_relies_on() -> None:
    known = guarantee(manifest(noise_words=NOISE, lipschitz=2.5), [ROW])
    assert known.endswith("others. That relies on 2.5 being a Lipschitz constant of the logits.")
    certain = guarantee(manifest(lipschitz=2.5, n=0, n0=0, alpha=0.0), [ROW])
    assert certain.startswith("If 2.5 is a Lipschitz constant of the logits")
    imported = manifest(alpha=None, n=None, imported="other.tsv")
    assert guarantee(imported, [ROW]).startswith("Taken from another project's file")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cohen-format-1", "with its map the same for all inputs."),
        ("lvm-format-1", "with its map chosen for each input."),
        ("deterministic-format-1", "changes the answer of the classifier itself."),
    ],
)
def test_runs_of_the_first_version_say_what_they_did(name: str, words: str) -> None:
    run = Run(GOLDEN / name)
    assert words in guarantee(run.manifest, run.rows())


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
    shown = settings_shown(manifest(n=0, n0=0))
    assert not {"alpha", "n0", "n", "seed", "sigma"} & set(shown)
