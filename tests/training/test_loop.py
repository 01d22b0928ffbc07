"""The loop: exact resumption, that it learns, and one sentence for what cannot be trained."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lvmrs import training
from lvmrs.data import load
from lvmrs.errors import DataError, InvalidArgumentError, LvmrsError, ModelError, RunError
from lvmrs.training.objectives import Objective
from tests.training.helpers import fresh, some_digits, weights
from tests.training.own_objectives import Returning

AIMS: dict[str, tuple[str, Objective]] = {
    "gaussian": ("small_cnn", training.Gaussian(0.25)),
    "smoothadv": ("resnet8,channels=1,width=4", training.SmoothAdv(0.25, epsilon=0.25, steps=1)),
    "consistency": ("small_cnn", training.Consistency(0.25)),
    "smoothmix": ("resnet8,channels=1,width=4", training.SmoothMix(0.25, steps=2, mix_step=1)),
    "macer": ("small_cnn", training.MACER(0.25, samples=4)),
    "margin": ("sandwich_small,channels=1,side=8,gamma=5", training.Margin(0.25, margin=0.2)),
    "denoise": ("dncnn,channels=1,width=8", training.Denoising(0.25)),
}


class StoppedError(Exception):
    """Somebody pulled the plug."""


@pytest.mark.parametrize("kind", AIMS)
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_a_resumed_training_ends_bit_for_bit_alike(tmp_path: Path, kind: str, optimizer: str) -> None:
    name, aim = AIMS[kind]
    settings = training.Settings(epochs=3, batch=50, lr=0.01, optimizer=optimizer, augment="shift")
    data, file = some_digits(100), tmp_path / "c"
    whole = fresh(name)
    history = training.train(whole, data, aim, settings)
    cut = fresh(name)
    steps: list[int] = []

    def stop(done: int) -> None:
        if done == 3:  # in the middle of the second epoch
            raise StoppedError

    with pytest.raises(StoppedError):
        training.train(cut, data, aim, settings, saved=file, on_step=stop)
    torch.manual_seed(99)
    resumed = fresh(name, seed=5)
    torch.rand(7)  # the caller's own random numbers play no part
    again = training.train(resumed, data, aim, settings, saved=file, resume=True, on_step=steps.append)
    assert steps == [3, 4, 5, 6]
    assert [epoch.loss for epoch in again] == [epoch.loss for epoch in history]
    assert all(torch.equal(value, weights(whole)[key]) for key, value in weights(resumed).items())
    assert not whole.training


class WithDropout(nn.Module):
    """Random inside."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 10))

    def forward(self, x: Tensor) -> Tensor:
        answer: Tensor = self.body(x)
        return answer


def test_layers_that_are_random_resume_too_and_leave_the_callers_numbers_alone(tmp_path: Path) -> None:
    settings, data, aim = training.Settings(epochs=2, batch=50), some_digits(100), training.Gaussian(0.25)
    results = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        state = torch.get_rng_state()
        model = WithDropout()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.fill_(0.01)
        torch.set_rng_state(state)
        training.train(model, data, aim, settings)
        assert torch.equal(torch.get_rng_state(), state)
        results.append(weights(model))
    assert all(torch.equal(value, results[1][key]) for key, value in results[0].items())


def test_it_learns_and_seeds_matter() -> None:
    digits = load("digits", split="train")
    model = fresh()
    settings = training.Settings(epochs=8, lr=0.01)
    losses = [e.loss for e in training.train(model, digits, training.Gaussian(0.25), settings)]
    assert losses[-1] < 0.5 * losses[0]
    assert training.accuracy(model, load("digits")) > 0.8
    assert training.accuracy(model, load("digits"), 0.25) > 0.75
    assert training.accuracy(model, load("digits"), 5.0) < 0.4
    other = fresh()
    training.train(other, some_digits(100), training.Gaussian(0.25), training.Settings(epochs=1, seed=1))
    same = fresh()
    training.train(same, some_digits(100), training.Gaussian(0.25), training.Settings(epochs=1, seed=2))
    assert not torch.equal(other.state_dict()["0.weight"], same.state_dict()["0.weight"])


def test_a_denoiser_takes_noise_out() -> None:
    digits = load("digits", split="train")
    model = fresh("dncnn,channels=1,width=8,depth=3")
    training.train(model, digits, training.Denoising(0.25), training.Settings(epochs=6, lr=0.01))
    error = training.mean_squared_error(model, load("digits"), 0.25)
    assert error < 0.5 * 0.25**2
    identity = training.mean_squared_error(nn.Identity(), load("digits"), 0.25)
    assert identity == pytest.approx(0.25**2, rel=0.05)


@pytest.mark.filterwarnings("ignore:TF32 acceleration")
@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_mixed_precision(kind: str, tmp_path: Path) -> None:
    """Without oneDNN, whose 16-bit routines are not allowed on some machines."""
    settings = training.Settings(epochs=2, autocast=kind, lr=0.01)
    seen: list[torch.dtype] = []
    with torch.backends.mkldnn.flags(enabled=False):
        model = fresh()
        model.get_submodule("0").register_forward_hook(lambda module, taken, answer: seen.append(answer.dtype))
        history = training.train(model, some_digits(), training.Gaussian(0.25), settings, saved=tmp_path / "c")
    assert set(seen) == {getattr(torch, kind)}
    assert history[-1].loss < history[0].loss
    assert model.get_parameter("0.weight").dtype == torch.float32
    resumed = training.train(
        fresh(), some_digits(), training.Gaussian(0.25), settings, saved=tmp_path / "c", resume=True
    )
    assert resumed == history


@pytest.mark.filterwarnings("ignore:TF32 acceleration")
@pytest.mark.parametrize("name", ["consistency", "smoothmix", "macer"])
def test_losses_of_16_bit_logits_are_computed_in_32(name: str) -> None:
    """The loss is as near to that of full precision as the logits are."""
    aim, (x, y) = training.objective(name, 0.25, samples=2), some_digits().many(range(20))
    losses = []
    with torch.backends.mkldnn.flags(enabled=False):
        for enabled in (False, True):
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
                losses.append(aim.loss(fresh(), x, y, torch.Generator().manual_seed(3)).detach())
    assert [loss.dtype for loss in losses] == [torch.float32] * 2
    assert float(losses[1]) == pytest.approx(float(losses[0]), rel=0.02)
    history = training.train(fresh(), some_digits(), aim, training.Settings(epochs=2, autocast="bfloat16"))
    assert len(history) == 2


def test_checkpoints_of_other_trainings_are_refused(tmp_path: Path) -> None:
    data, aim, file = some_digits(60), training.Gaussian(0.25), tmp_path / "c"
    settings = training.Settings(epochs=1)
    training.train(fresh(), data, aim, settings, saved=file, origin={"model": "net"})
    whole = torch.load(file, weights_only=True)

    def refused(sentence: str, **changes: Any) -> None:
        given = {"objective": aim, "settings": settings, "origin": {"model": "net"}, **changes}
        objective, chosen, origin = given["objective"], given["settings"], given["origin"]
        with pytest.raises(RunError, match=sentence):
            training.train(fresh(), data, objective, chosen, saved=file, resume=True, origin=origin)

    refused("lr was 0.005 and is 0.1", settings=training.Settings(epochs=1, lr=0.1))
    refused("objective was 'Gaussian\\(sigma=0.25\\)' and is", objective=training.Gaussian(0.5))
    refused("model was 'net' and is 'other'", origin={"model": "other"})
    with pytest.raises(RunError, match=r"it does not fit the model; delete it to begin again \(RuntimeError: Error"):
        training.train(fresh("fast_cnn"), data, aim, settings, saved=file, resume=True, origin={"model": "net"})
    with pytest.raises(InvalidArgumentError, match="resume needs saved"):
        training.train(fresh(), data, aim, settings, resume=True)
    with pytest.raises(InvalidArgumentError, match="workers must be"):
        training.train(fresh(), data, aim, settings, workers=-1)
    file.write_bytes(b"nothing")
    refused("is not a whole checkpoint of lvmrs train; delete it to begin again")
    torch.save({"state_dict": {}}, file)
    refused("is not a whole checkpoint of lvmrs train; delete it to begin again")
    for part, odd in {
        "settings": 3,
        "history": [3],
        "state_dict": [1],
        "optimizer": {"a": 1},
        "scaler": "text",
    }.items():
        torch.save({**whole, part: odd}, file)
        refused("delete it to begin again")
    good = {"number": 1, "loss": 0.5, "seconds": 1.0, "begun": "2026-01-01T00:00:00+0000"}
    for odd in ({"number": "1"}, {"number": 0}, {"loss": None}, {"seconds": None}, {"begun": None}, {"extra": 1}):
        torch.save({**whole, "history": [{**good, **odd}]}, file)
        refused("it is not a whole checkpoint of lvmrs train; delete it to begin again")
    for epoch in ({}, {key: value for key, value in good.items() if key != "begun"}):
        torch.save({**whole, "history": [epoch]}, file)
        refused("it is not a whole checkpoint of lvmrs train; delete it to begin again")
    file.unlink()
    refused("there is no checkpoint to resume from")


def test_what_cannot_be_trained_gets_one_sentence() -> None:
    data = some_digits(60)
    with pytest.raises(ModelError, match="the model has no parameters to train"):
        training.train(nn.Flatten(), data, training.Gaussian(0.25), training.Settings())
    with pytest.raises(ModelError, match=r"the loss is (nan|inf) in epoch 1, step \d; try a smaller lr"):
        training.train(fresh(), data, training.Gaussian(0.25), training.Settings(batch=8, optimizer="sgd", lr=1e20))
    with pytest.raises(ModelError, match="margins are distances in networks of a known Lipschitz constant"):
        training.train(fresh(), data, training.Margin(0.25), training.Settings())
    with pytest.raises(ModelError, match=r"fails on 1 inputs in training mode \(ValueError: Expected more"):
        training.train(fresh("fast_cnn,channels=1"), data, training.Gaussian(0.25), training.Settings(batch=1))
    with pytest.raises(InvalidArgumentError, match="kept must be numbers or a scheduler, got 3"):
        training.Diffusion(3)
    with pytest.raises(LvmrsError, match="device"):
        training.train(fresh(), data, training.Gaussian(0.25), training.Settings(), device="abacus")


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (KeyError("lost"), "the model or the loss of Returning fails on 60 inputs in training mode (KeyError: 'lost')"),
        (SystemExit(0), "the model or the loss of Returning fails on 60 inputs in training mode (it calls sys.exit)"),
        (DataError("as it is"), "as it is"),
        (1.0, "the loss of Returning must be a tensor of one number that depends on the model, got 1.0"),
        (
            torch.ones(2, requires_grad=True),
            "the loss of Returning must be a tensor of one number that depends on the model, got tensor([1., 1.], ",
        ),
        (torch.tensor(1.0), "the loss of Returning must be a tensor of one number that depends on the model, got ten"),
    ],
)
def test_an_objective_of_your_own_that_fails_gets_one_sentence(answer: Any, sentence: str) -> None:
    with pytest.raises(LvmrsError) as refusal:
        training.train(fresh(), some_digits(60), Returning(answer), training.Settings())
    assert str(refusal.value).startswith(sentence)
