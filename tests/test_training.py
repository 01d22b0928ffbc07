"""Training: objectives against slow formulas, schedules, exact resumption, and that it learns."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from lvmrs import training
from lvmrs.data import Dataset, load
from lvmrs.data.arrays import Arrays
from lvmrs.errors import DataError, InvalidArgumentError, LvmrsError, ModelError, RunError
from lvmrs.models import ready
from lvmrs.training.batches import augmented, generator, in_order, shuffled
from lvmrs.training.objectives import Objective


def some_digits(count: int = 200) -> Arrays:
    whole = load("digits", split="train")
    assert isinstance(whole, Arrays)
    return Arrays("some digits", "train", whole.inputs[:count], whole.labels[:count])


def fresh(name: str = "small_cnn", seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return ready.build(name)


def batch(count: int = 6) -> tuple[Tensor, Tensor]:
    return some_digits().many(range(count))


# ---- objectives


def seeded(seed: int = 3) -> Generator:
    return Generator().manual_seed(seed)


def test_gaussian_is_cross_entropy_on_noisy_inputs() -> None:
    model, (x, y) = fresh(), batch()
    noisy = x + 0.5 * torch.randn(x.shape, generator=seeded())
    slow = -torch.log_softmax(model(noisy), dim=1)[range(6), y].mean()
    torch.testing.assert_close(training.Gaussian(0.5).loss(model, x, y, seeded()), slow)


def test_margin_asks_for_a_distance() -> None:
    """A γ-Lipschitz network has to win by √2 γ · offset in logits: the loss is that of γ = 1 on logits/γ."""
    model, (x, y) = fresh("sandwich_small,channels=1,side=8,gamma=5"), batch()
    logits = model(x + 0.5 * torch.randn(x.shape, generator=seeded())) / 5
    logits = logits - math.sqrt(2) * 0.3 * functional.one_hot(y, 10)
    slow = 0.25 * functional.cross_entropy(logits / 0.25, y)
    torch.testing.assert_close(training.Margin(0.5, margin=0.3).loss(model, x, y, seeded()), slow)


def test_denoising_and_diffusion_are_squared_errors() -> None:
    model, (x, y) = fresh("dncnn,channels=1").eval(), batch()
    noisy = x + 0.5 * torch.randn(x.shape, generator=seeded())
    slow = ((model(noisy) - x) ** 2).mean()
    torch.testing.assert_close(training.Denoising(0.5).loss(model, x, y, seeded()), slow)

    class Zero:
        """A UNet that finds no noise."""

        def __call__(self, seen: Tensor, step: Tensor) -> Any:
            self.seen, self.step = seen, step
            return type("Answer", (), {"sample": torch.zeros_like(seen)})

    unet, kept = Zero(), (0.9, 0.5, 0.1)
    loss = training.Diffusion(kept).loss(unet, x, y, seeded())
    random = seeded()
    step = torch.randint(3, (6,), generator=random)
    noise = torch.randn(x.shape, generator=random)
    share = torch.tensor(kept)[step].view(-1, 1, 1, 1)
    torch.testing.assert_close(unet.seen, share.sqrt() * (2 * x - 1) + (1 - share).sqrt() * noise)
    assert torch.equal(unet.step, step)
    torch.testing.assert_close(loss, (noise**2).mean())


class Recorder(nn.Module):
    """Remembers what it was asked."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.asked = model, list[Tensor]()

    def forward(self, x: Tensor) -> Tensor:
        self.asked.append(x.detach().clone())
        answer: Tensor = self.model(x)
        return answer


def test_smoothadv_moves_inputs_against_the_smoothed_classifier() -> None:
    model, (x, y) = Recorder(fresh()), batch()
    aim = training.SmoothAdv(0.25, epsilon=0.7, steps=3, samples=4)
    loss = aim.loss(model, x, y, seeded())
    noise = 0.25 * torch.randn(24, 1, 8, 8, generator=seeded())
    assert len(model.asked) == 4
    moves = [(asked - noise).view(6, 4, 1, 8, 8) for asked in model.asked]
    for move in moves:  # one place for all copies of an input
        torch.testing.assert_close(move, move[:, :1].expand_as(move))
    final = moves[-1][:, 0]
    assert float((final - x).flatten(1).norm(dim=1).max()) <= 0.7 + 1e-5
    assert float(final.min()) >= -1e-6
    assert float(final.max()) <= 1 + 1e-6

    def smoothed_loss(place: Tensor) -> float:
        chances = torch.softmax(model(place.repeat_interleave(4, 0) + noise), dim=1).view(6, 4, 10).mean(dim=1)
        return float(-chances[range(6), y].log().mean().detach())

    start, first, end = (smoothed_loss(place) for place in (x, moves[1][:, 0], final))
    assert start < first < end
    slow = functional.cross_entropy(model(final.repeat_interleave(4, 0) + noise), y.repeat_interleave(4))
    torch.testing.assert_close(loss, slow)


def test_the_first_step_of_smoothadv_follows_the_gradient() -> None:
    model, (x, y) = Recorder(fresh()), batch()
    aim = training.SmoothAdv(0.25, epsilon=0.05, steps=1, samples=3)
    aim.loss(model, x, y, seeded())
    noise = 0.25 * torch.randn(18, 1, 8, 8, generator=seeded())
    moved = (model.asked[1] - noise).view(6, 3, 1, 8, 8)[:, 0] - x
    place = x.clone().requires_grad_(True)
    chances = torch.softmax(model(place.repeat_interleave(3, 0) + noise), dim=1).view(6, 3, 10).mean(dim=1)
    (slope,) = torch.autograd.grad(-chances[range(6), y].log().sum(), place)
    free = (x > 0.05) & (x < 0.95)  # where clamping to [0, 1] does nothing
    direction = 0.05 * slope / slope.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
    torch.testing.assert_close(moved[free], direction[free], rtol=1e-3, atol=1e-5)


def test_an_attack_leaves_batch_statistics_alone() -> None:
    model, (x, y) = fresh("resnet8,channels=1").train(), batch()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    with torch.no_grad():
        training.Gaussian(0.0).loss(model, x, y, seeded())
    assert int(model.get_buffer("bn1.num_batches_tracked")) == 1
    model.load_state_dict(before)
    training.SmoothAdv(0.25, steps=5).loss(model, x, y, seeded())
    assert int(model.get_buffer("bn1.num_batches_tracked")) == 1  # the last pass alone


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: training.Gaussian(-1), "sigma must be finite and not negative, got -1"),
        (lambda: training.Gaussian(math.nan), "sigma must be finite and not negative, got nan"),
        (lambda: training.SmoothAdv(0.5, epsilon=0), "epsilon must be positive, got 0"),
        (lambda: training.SmoothAdv(0.5, steps=0), "steps must be a whole number from 1, got 0"),
        (lambda: training.Margin(0.5, temperature=0), "temperature must be positive, got 0"),
        (lambda: training.Settings(epochs=0), "epochs must be"),
        (lambda: training.Settings(lr=-1), "lr must be positive"),
        (lambda: training.Settings(optimizer="lbfgs"), "optimizer must be one of adam, sgd, got 'lbfgs'"),
        (lambda: training.Settings(schedule="steps"), "schedule must be one of one-cycle, cosine"),
        (lambda: training.Settings(augment="flip"), "augment must be one of none, shift, shift-mirror"),
        (lambda: training.Settings(autocast="float8"), "autocast must be one of bfloat16, float16"),
        (lambda: training.Settings(weight_decay=-1), "weight_decay must be at least 0"),
    ],
)
def test_wrong_settings_get_one_sentence(make: Any, sentence: str) -> None:
    with pytest.raises(InvalidArgumentError, match=sentence):
        make()


# ---- schedules, batches


def test_schedules() -> None:
    one = training.Settings(lr=2.0, schedule="one-cycle")
    assert [one.rate(done) for done in (0.0, 0.3, 1.0)] == pytest.approx([0.08, 2.0, 0.0])
    rates = [one.rate(done) for done in np.linspace(0, 1, 50)]
    assert max(rates) <= 2.0
    cosine = training.Settings(lr=2.0, schedule="cosine")
    assert [cosine.rate(done) for done in (0.0, 0.5, 1.0)] == pytest.approx([2.0, 1.0, 0.0])


def test_batches_are_all_of_the_data_in_an_order_of_the_seed() -> None:
    data = some_digits(100)
    whole, labels = data.many(range(100))
    x = torch.cat([x for x, _ in shuffled(data, 25, seed=1, epoch=2, workers=0)])
    assert not torch.equal(x, whole)
    assert torch.equal(x.flatten(1).sum(dim=1).sort().values, whole.flatten(1).sum(dim=1).sort().values)
    again = torch.cat([x for x, _ in shuffled(data, 25, seed=1, epoch=2, workers=0)])
    assert torch.equal(x, again)
    for seed, epoch in ((1, 3), (2, 2)):
        assert not torch.equal(x, torch.cat([x for x, _ in shuffled(data, 25, seed=seed, epoch=epoch, workers=0)]))
    assert [len(x) for x, _ in shuffled(data, 30, 0, 0, workers=0)] == [30, 30, 30]
    assert [len(x) for x, _ in shuffled(data, 300, 0, 0, workers=0)] == [100]
    parts = list(in_order(data, 30))
    assert torch.equal(torch.cat([x for x, _ in parts]), whole)
    assert torch.equal(torch.cat([y for _, y in parts]), labels)


def test_processes_read_the_same_batches() -> None:
    data = some_digits(60)
    here = list(shuffled(data, 20, 0, 0, workers=0))
    there = list(shuffled(data, 20, 0, 0, workers=1))
    assert all(torch.equal(a[0], b[0]) and torch.equal(a[1], b[1]) for a, b in zip(here, there, strict=True))


def test_augmentation_shifts_and_mirrors() -> None:
    x = torch.rand(64, 3, 16, 16)
    moved = augmented(x, "shift", seeded())
    mirrored = augmented(x, "shift-mirror", seeded())
    assert augmented(x, "none", seeded()) is x
    padded = functional.pad(x, [2] * 4)
    flips = set()
    for image, moved_one, mirrored_one in zip(padded, moved, mirrored, strict=True):
        places = [
            (i, j) for i in range(5) for j in range(5) if torch.equal(image[:, i : i + 16, j : j + 16], moved_one)
        ]
        assert len(places) == 1
        i, j = places[0]
        cut = image[:, i : i + 16, j : j + 16]
        assert torch.equal(cut, mirrored_one) != torch.equal(cut.flip(2), mirrored_one)
        flips.add(torch.equal(cut.flip(2), mirrored_one))
    assert flips == {True, False}


class Mixed(Dataset):
    """Images of several sizes."""

    name, split = "mixed", "train"

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.zeros(1, 4, 4 + index), 0

    def fingerprint(self) -> str:
        return "mixed"


def test_images_of_several_sizes_are_refused() -> None:
    with pytest.raises(DataError, match=r"mixed: the inputs have several shapes \(\(1, 4, 4\), \(1, 4, 5\)\)"):
        Mixed().many([0, 1])


# ---- the loop

AIMS: dict[str, tuple[str, Objective]] = {
    "gaussian": ("small_cnn", training.Gaussian(0.25)),
    "smoothadv": ("resnet8,channels=1,width=4", training.SmoothAdv(0.25, epsilon=0.25, steps=1)),
    "margin": ("sandwich_small,channels=1,side=8,gamma=5", training.Margin(0.25, margin=0.2)),
    "denoise": ("dncnn,channels=1,width=8", training.Denoising(0.25)),
}


class StoppedError(Exception):
    """Somebody pulled the plug."""


def weights(model: nn.Module) -> dict[str, Tensor]:
    return {key: value.clone() for key, value in model.state_dict().items()}


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


def test_checkpoints_of_other_trainings_are_refused(tmp_path: Path) -> None:
    data, aim, file = some_digits(60), training.Gaussian(0.25), tmp_path / "c"
    settings = training.Settings(epochs=1)
    training.train(fresh(), data, aim, settings, saved=file, origin={"model": "net"})

    def refused(sentence: str, **changes: Any) -> None:
        given = {"objective": aim, "settings": settings, "origin": {"model": "net"}, **changes}
        objective, chosen, origin = given["objective"], given["settings"], given["origin"]
        with pytest.raises(RunError, match=sentence):
            training.train(fresh(), data, objective, chosen, saved=file, resume=True, origin=origin)

    refused("lr was 0.005 and is 0.1", settings=training.Settings(epochs=1, lr=0.1))
    refused("objective was 'Gaussian\\(sigma=0.25\\)' and is", objective=training.Gaussian(0.5))
    refused("model was 'net' and is 'other'", origin={"model": "other"})
    with pytest.raises(RunError, match="it does not fit the model: Error"):
        training.train(fresh("fast_cnn"), data, aim, settings, saved=file, resume=True, origin={"model": "net"})
    with pytest.raises(InvalidArgumentError, match="resume needs saved"):
        training.train(fresh(), data, aim, settings, resume=True)
    with pytest.raises(InvalidArgumentError, match="workers must be"):
        training.train(fresh(), data, aim, settings, workers=-1)
    file.write_bytes(b"nothing")
    refused("is not a whole checkpoint of lvmrs train; delete it to begin anew")
    torch.save({"state_dict": {}}, file)
    refused("is not a whole checkpoint of lvmrs train; delete it to begin anew")
    file.unlink()
    refused("there is no checkpoint to go on from")


def test_what_cannot_be_trained_gets_one_sentence() -> None:
    data = some_digits(60)
    with pytest.raises(ModelError, match="the model has no parameters to train"):
        training.train(nn.Flatten(), data, training.Gaussian(0.25), training.Settings())
    with pytest.raises(ModelError, match=r"the loss is (nan|inf) in epoch 1, step \d; try a smaller lr"):
        training.train(fresh(), data, training.Gaussian(0.25), training.Settings(batch=8, optimizer="sgd", lr=1e20))
    with pytest.raises(ModelError, match="margins are distances in networks of a known Lipschitz constant"):
        training.train(fresh(), data, training.Margin(0.25), training.Settings())
    with pytest.raises(ModelError, match="the model fails on 1 inputs in training mode: Expected more than 1 value"):
        training.train(fresh("fast_cnn,channels=1"), data, training.Gaussian(0.25), training.Settings(batch=1))
    with pytest.raises(InvalidArgumentError, match="kept must be numbers or a scheduler, got 3"):
        training.Diffusion(3)
    with pytest.raises(LvmrsError, match="device"):
        training.train(fresh(), data, training.Gaussian(0.25), training.Settings(), device="abacus")


def test_random_numbers_depend_on_all_that_is_named() -> None:
    seeds = {
        generator(torch.device("cpu"), *numbers).initial_seed() for numbers in ((0, 1), (1, 0), (0, 0, 1), (2,), (0,))
    }
    assert len(seeds) == 5
