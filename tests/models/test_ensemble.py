"""Ensembles: the mean of the members, their identity, their bound, and bad input."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from lvmrs import SmoothedClassifier, models
from lvmrs.engine.execution import fast_version
from lvmrs.errors import InvalidArgumentError, LvmrsError, ModelError
from lvmrs.kernel.sampler import evaluating
from lvmrs.models import Ensemble, Loaded, ModelSource, Preprocessed, lipschitz_bound, ready, sandwich
from lvmrs.models.trained import save
from tests.models.test_load import network, write_onnx

NETWORK = "ready:small_cnn,width=2,classes=3"
X = torch.rand(5, 1, 8, 8, generator=torch.Generator().manual_seed(0))
FILES = ("a", "b", "c")
ABC = "trained:a.safetensors+trained:b.safetensors+trained:c.safetensors"
CODE = """
import torch
from torch import nn

class Greedy(nn.Module):
    def forward(self, x):
        return x.mul_(2).flatten(1)[:, :3]  # in place

def greedy():
    return Greedy()

def plain():
    return lambda x: x.flatten(1)[:, :3]
"""


def write(name: str, seed: int, mean: float | None = None, classes: int = 3, objective: str = "") -> None:
    torch.manual_seed(seed)
    full = f"small_cnn,width=2,classes={classes}"
    made = ready.build(full)
    model = made if mean is None else Preprocessed(made, [mean], [0.5])
    save(Path(f"{name}.safetensors"), model, f"ready:{full}", {"objective": objective})


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(FILES):
        write(name, seed, mean=seed / 4, objective="Gaussian(sigma=0.5)")
    Path("greedy.py").write_text(CODE)


def logits(loaded: Loaded, x: Tensor = X) -> Tensor:
    with evaluating(loaded.model):
        return loaded.model(x.clone())


def of_members() -> Tensor:
    """The logits of each member, alone and with its own normalisation: members × batch × classes."""
    return torch.stack([logits(models.load(f"trained:{name}.safetensors")) for name in FILES])


def test_the_logits_are_the_mean_of_those_of_the_members() -> None:
    expected = of_members().double()
    found = logits(models.load(f"ensemble:{ABC}"))
    torch.testing.assert_close(found.double(), expected.mean(dim=0), rtol=1e-6, atol=1e-6)
    assert (found.double() - expected[0]).abs().max() > 1e-3


def test_softmax_scores_are_averaged_and_their_logarithm_returned() -> None:
    expected = of_members().double().softmax(dim=2).mean(dim=0)
    found = logits(models.load(f"ensemble-softmax:{ABC}"))
    torch.testing.assert_close(found.double(), expected.log(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found.double().softmax(dim=1), expected, rtol=1e-5, atol=1e-6)


def test_scores_far_below_rounding_keep_their_order() -> None:
    far = torch.tensor([[200.0, 1.0, 0.0]])
    found = Ensemble([nn.Flatten(), nn.Flatten()], "softmax")(far)
    assert torch.isfinite(found).all()
    torch.testing.assert_close(found[0, 1] - found[0, 2], torch.tensor(1.0))


@pytest.mark.parametrize("source", ["ensemble", "ensemble-softmax"])
def test_the_fast_version_is_one_list_of_steps_with_the_same_logits(source: str) -> None:
    norms = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(144, 3))
    norms[1].running_var.fill_(2.0)  # type: ignore[operator]
    loaded = models.load(f"{source}:{ABC}")
    assert isinstance(loaded.model, Ensemble)
    model = Ensemble([*loaded.model.members, norms], loaded.model.average).eval()
    with torch.no_grad():
        fast = fast_version(model, X)
        torch.testing.assert_close(fast.network(X), model(X), rtol=1e-5, atol=1e-5)
    assert fast.folded
    assert fast.layout_free
    assert not any(isinstance(layer, nn.BatchNorm2d) for layer in fast.network.modules())


def test_a_member_that_writes_to_its_inputs_does_not_disturb_the_others() -> None:
    for name in ("python:greedy.py:greedy+trained:a.safetensors", "trained:a.safetensors+python:greedy.py:greedy"):
        expected = (2 * X.flatten(1)[:, :3] + logits(models.load("trained:a.safetensors"))) / 2
        torch.testing.assert_close(logits(models.load(f"ensemble:{name}")), expected)


def test_programs_of_other_kinds_are_members() -> None:
    write_onnx(Path("net.onnx"), network(), 2)
    exported = torch.export.export(network(1), (X,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    torch.export.save(exported, "net.pt2")
    names = ["onnx:net.onnx", "export:net.pt2", "trained:a.safetensors"]
    loaded = models.load(f"ensemble:{'+'.join(names)}")
    expected = torch.stack([logits(models.load(name)) for name in names]).mean(dim=0)
    torch.testing.assert_close(logits(loaded), expected)
    assert loaded.source is not None
    assert {path.name for path in loaded.source.files} == {"net.onnx", "net.pt2", "a.safetensors"}
    torch.testing.assert_close(logits(pickle.loads(pickle.dumps(loaded))), expected)  # noqa: S301
    certificate = SmoothedClassifier(loaded.model, 0.25).certify(X[0], n0=20, n=100)
    assert certificate.radius >= 0
    write_onnx(Path("net.onnx"), network(2), 2)
    assert models.load(loaded.name).fingerprint != loaded.fingerprint


# ---- identity


def test_the_fingerprint_covers_every_member_and_the_average() -> None:
    seen = {models.load(f"ensemble:{ABC}").fingerprint, models.load(f"ensemble-softmax:{ABC}").fingerprint}
    assert models.load(f"ensemble:{ABC}").fingerprint in seen
    for number, name in enumerate(FILES):
        write(name, seed=number + 10, mean=number / 4)
        seen.add(models.load(f"ensemble:{ABC}").fingerprint)
    write("a", seed=10, mean=0.75)  # the same weights behind another normalisation
    seen.add(models.load(f"ensemble:{ABC}").fingerprint)
    assert len(seen) == 6
    Path("moved").mkdir()
    for name in FILES:
        Path(f"{name}.safetensors").rename(f"moved/{name}.safetensors")
    assert models.load(f"ensemble:{ABC.replace('trained:', 'trained:moved/')}").fingerprint in seen


def test_the_fingerprint_covers_networks_that_differ_with_equal_weights() -> None:
    """The bound of a sandwich network is not a weight; the ensemble has the same mean of bounds in both orders."""
    seen = set()
    for gammas in ((1.0, 3.0), (3.0, 1.0)):
        for seed, gamma in enumerate(gammas):
            torch.manual_seed(seed)
            full = f"sandwich_small,channels=1,side=8,classes=3,gamma={gamma:g}"
            save(Path(f"{FILES[seed]}.safetensors"), ready.build(full), f"ready:{full}", {})
        loaded = models.load("ensemble:trained:a.safetensors+trained:b.safetensors")
        assert isinstance(loaded.model, Ensemble)
        seen.add((loaded.fingerprint, loaded.model.lipschitz))
    assert len(seen) == 2
    assert {constant for _, constant in seen} == {2.0}


def test_the_code_of_members_is_hashed() -> None:
    name = "ensemble:python:greedy.py:greedy+trained:a.safetensors"
    before = models.load(name).code
    Path("greedy.py").write_text(f"{CODE}\n# changed\n")
    assert before not in (None, models.load(name).code)
    assert models.load(f"ensemble:{ABC}").code is None


def test_it_is_pickled_by_name_with_its_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = models.load(f"ensemble:{ABC}")
    sent = pickle.dumps(loaded)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    again = pickle.loads(sent)  # noqa: S301
    assert (again.fingerprint, again.facts) == (loaded.fingerprint, loaded.facts)
    assert torch.equal(logits(again), logits(loaded))
    write("../b", seed=1, mean=0.75)
    with pytest.raises(ModelError, match="it is not the model that was pickled: its weights or file"):
        pickle.loads(sent)  # noqa: S301


def test_files_are_those_of_all_members(tmp_path: Path) -> None:
    source = ModelSource(f"ensemble:{ABC}+python:greedy.py:greedy+ready:resnet8")
    assert set(source.files) == {tmp_path / f"{name}.safetensors" for name in FILES} | {tmp_path / "greedy.py"}


def test_facts_are_those_that_all_members_share() -> None:
    loaded = models.load(f"ensemble:{ABC}")
    assert (loaded.facts.objective, loaded.facts.mean) == ("Gaussian(sigma=0.5)", None)
    write("e", 5, objective="MACER(sigma=1.0)")
    differing = models.load("ensemble:trained:a.safetensors+trained:e.safetensors+trained:b.safetensors")
    assert differing.facts.objective == "Gaussian(sigma=0.5) and MACER(sigma=1.0)"
    mixed = models.load(f"ensemble:trained:a.safetensors+{NETWORK}")
    assert mixed.assumed == ("WARNING: its weights are random, none were given",)


def test_a_given_normalisation_is_that_of_each_member() -> None:
    for name in FILES:
        write(name, 0)
    given = models.load(f"ensemble:{ABC}", mean=[0.5], std=[0.25])
    alone = models.load("trained:a.safetensors", mean=[0.5], std=[0.25])
    torch.testing.assert_close(logits(given), logits(alone))
    assert given.assumed == alone.assumed
    write("b", 0, mean=0.5)
    with pytest.raises(ModelError, match=r"trained:b\.safetensors: it has its own normalisation"):
        models.load(f"ensemble:{ABC}", mean=[0.5], std=[0.25])


def test_a_denoiser_runs_once_before_all_members() -> None:
    Path("denoise.py").write_text("def half():\n    return lambda x: x / 2\n")
    loaded = models.load(f"ensemble:{ABC}", denoiser="python:denoise.py:half", sigma=0.5)
    torch.testing.assert_close(logits(loaded), logits(models.load(f"ensemble:{ABC}"), X / 2))


# ---- Lipschitz bounds


def test_the_bound_is_the_mean_of_those_of_the_members() -> None:
    each = [lipschitz_bound(models.load(f"trained:{name}.safetensors").model, (1, 8, 8)) for name in FILES]  # type: ignore[arg-type]
    loaded = models.load(f"ensemble:{ABC}")
    assert isinstance(loaded.model, Ensemble)
    assert lipschitz_bound(loaded.model, (1, 8, 8)) == pytest.approx(np.mean(each), rel=1e-12)
    behind = Preprocessed(loaded.model, [0.5], [0.5])
    assert lipschitz_bound(behind, (1, 8, 8)) == pytest.approx(2 * np.mean(each), rel=1e-12)


def test_the_bound_holds_for_linear_members() -> None:
    weights = torch.randn(3, 4, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    members = [nn.Linear(6, 4).double() for _ in weights]
    for member, weight in zip(members, weights, strict=True):
        member.weight.data = weight
    true = float(torch.linalg.matrix_norm(weights.mean(dim=0), ord=2))
    bound = lipschitz_bound(Ensemble(members), (6,))
    assert true <= bound <= float(torch.linalg.matrix_norm(weights, ord=2).mean()) * (1 + 1e-6)


def test_stated_constants_are_averaged() -> None:
    networks = [sandwich(channels=1, side=8, classes=3, gamma=gamma) for gamma in (1.0, 2.0, 6.0)]
    assert Ensemble(networks).lipschitz == 3.0
    assert SmoothedClassifier(Ensemble(networks), 0.5).lipschitz == 3.0
    assert Ensemble.mean_of([1.5e308, 1.7e308]) == pytest.approx(1.6e308)
    assert Ensemble(networks, "softmax").lipschitz is None
    assert Ensemble([networks[0], nn.Flatten()]).lipschitz is None


def test_a_changed_ensemble_states_no_constant() -> None:
    def changed(ensemble: Ensemble) -> Ensemble:
        ensemble.forward = lambda x: 9 * x.flatten(1)  # type: ignore[method-assign]
        return ensemble

    class Other(Ensemble):
        def forward(self, x: Tensor) -> Tensor:
            return 9 * super().forward(x)

    members = [sandwich(channels=1, side=8, classes=3, gamma=2.0) for _ in range(2)]
    for model in (changed(Ensemble(members)), Other(members)):
        with pytest.raises(ModelError, match="is not known"):
            lipschitz_bound(model, (1, 8, 8))
    plain = [nn.Flatten(), nn.Flatten()]
    for model in (changed(Ensemble(plain)), Other(plain)):
        with pytest.raises(ModelError, match="is not known"):
            lipschitz_bound(model, (1, 8, 8))


def test_no_bound_is_known_for_averages_of_softmax_scores() -> None:
    for members in ([nn.Flatten(), nn.Flatten()], [sandwich(channels=1, side=8, classes=3) for _ in range(2)]):
        with pytest.raises(ModelError, match="averages softmax scores, for which no Lipschitz bound is known"):
            lipschitz_bound(Ensemble(members, "softmax"), (1, 8, 8))


# ---- bad input


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("ensemble", "a name is missing after the colon; write ensemble:MODEL+MODEL"),
        ("ensemble:", "a name is missing after the colon; write ensemble:MODEL+MODEL"),
        ("ensemble:trained:a.safetensors", "an ensemble has at least two members; write them with + between them"),
        ("ensemble:trained:a.safetensors+", "the name of member 2 is empty"),
        ("ensemble:+trained:a.safetensors", "the name of member 1 is empty"),
        ("ensemble:trained:a.safetensors+trained:d.safetensors", "trained:d.safetensors: d.safetensors does not exist"),
        ("ensembel:trained:a.safetensors+b.safetensors", "did you mean ensemble:trained:a.safetensors+b.safetensors?"),
        ("ensemble:trained:a.safetensors+b.safetensors", "did you mean trained:b.safetensors?"),
        (f"ensemble:{ABC}+ensemble:{ABC}", "member 4 is an ensemble itself; name all members in one ensemble"),
        (f"ensemble:ensemble-softmax:{ABC}", "member 1 is an ensemble itself"),
        ("ensemble:trained:a.safetensors+python:greedy.py:plain", "a member of an ensemble must be a torch module"),
    ],
)
def test_bad_names(name: str, sentence: str) -> None:
    with pytest.raises(ModelError) as caught:
        models.load(name)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_weights_belong_to_the_members() -> None:
    with pytest.raises(ModelError, match="only python: and ready: modules take weights"):
        models.load(f"ensemble:{ABC}", weights="a.safetensors")


def test_members_have_the_same_classes() -> None:
    write("b", 0, classes=4)
    loaded = models.load(f"ensemble:{ABC}")
    sentence = (
        r"member 2 of the ensemble returns logits of shape \(\d+, 4\) for a batch and member 1 of shape \(\d+, 3\)"
    )
    with pytest.raises(ModelError, match=sentence):
        SmoothedClassifier(loaded.model, 0.5).certify(X[0], n0=10, n=20)


def test_bad_arguments() -> None:
    for members, sentence in (
        ([nn.Flatten()], "members must be at least two torch modules, got 1"),
        ([nn.Flatten(), abs], "member 2 must be a torch module"),
        (nn.Flatten(), "members must be a list of torch modules"),
    ):
        with pytest.raises(InvalidArgumentError, match=sentence):
            Ensemble(members)  # type: ignore[arg-type]
    with pytest.raises(LvmrsError, match="average must be one of logits, softmax"):
        Ensemble([nn.Flatten(), nn.Flatten()], "votes")  # type: ignore[arg-type]
