"""The fast version is the model: weights that others read, memory layouts, and models that change while in use."""

import logging
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from lvmrs import Duels, SmoothedClassifier
from lvmrs.engine.execution import fast_version
from lvmrs.engine.tracing import NotTraceableError, is_layout_free, snapshot, traced
from lvmrs.errors import ModelError
from lvmrs.kernel.method import Goal
from lvmrs.models import ResNet
from tests.engine.test_tracing import settled

SHAPE = (3, 8, 8)
Forward = Callable[["Network", Tensor], Tensor]


class Network(nn.Module):
    """A convolution and its normalisation, and whatever else reads the weights."""

    def __init__(self, written: Forward) -> None:
        super().__init__()
        self.conv, self.norm, self.last = nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3), nn.Linear(192, 4)
        self.scale, self.written, self.flat = 1.0, written, nn.Flatten()
        self.shift: Tensor
        self.register_buffer("shift", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        """Logits; the last class is masked, so that its logits are huge."""
        logits = self.scale * self.last(self.written(self, x).flatten(1)) + self.shift
        masked: Tensor = logits.masked_fill(torch.tensor([False, False, False, True]), -1e9)
        return masked


def normed(network: Network, x: Tensor) -> Tensor:
    hidden: Tensor = network.norm(network.conv(x))
    return hidden


def tied(network: Network, x: Tensor) -> Tensor:
    """A decoder with the encoder's kernel."""
    return functional.conv_transpose2d(normed(network, x).relu(), network.conv.weight, padding=1)


def read_again(network: Network, x: Tensor) -> Tensor:
    return normed(network, x) + functional.conv2d(x, 0 + network.conv.weight, padding=1)


def read_behind_a_gate(network: Network, x: Tensor) -> Tensor:
    """The second reader counts only where the input is bright, which the first one is not."""
    gate = functional.relu(x.mean(dim=(1, 2, 3), keepdim=True) - 0.8)
    return normed(network, x) + 1000 * gate * functional.conv2d(x, 1 * network.conv.weight, padding=1)


def norm_read(network: Network, x: Tensor) -> Tensor:
    return normed(network, x) * network.norm.weight[:, None, None] + network.norm.running_mean.sum()  # type: ignore[union-attr]


def twice(network: Network, x: Tensor) -> Tensor:
    return network.conv(normed(network, x).relu())  # type: ignore[no-any-return]


READERS = (tied, read_again, read_behind_a_gate, norm_read, twice)


@pytest.mark.parametrize("reader", READERS)
def test_folding_leaves_weights_to_their_other_readers(reader: Forward) -> None:
    network = settled(Network(reader))
    fast = fast_version(network, 0.3 * torch.rand(8, *SHAPE))
    assert fast.folded
    assert isinstance(fast.network, fx.GraphModule)
    called = {str(node.target) for node in fast.network.graph.nodes if node.op == "call_module"}
    assert not any(isinstance(fast.network.get_submodule(name), nn.BatchNorm2d) for name in called)
    bright = torch.rand(8, *SHAPE) + 1.0
    with torch.no_grad():
        found, expected = fast.network(bright), network(bright)
    torch.testing.assert_close(found[:, :3], expected[:, :3], rtol=1e-4, atol=1e-4 * float(expected[:, :3].abs().max()))


def strided(network: Network, x: Tensor) -> Tensor:
    """It reads memory in the order of the numbers there."""
    hidden = normed(network, x)
    return hidden.as_strided((len(x), 192), (192, 1))


def by_stride(network: Network, x: Tensor) -> Tensor:
    hidden = normed(network, x)
    return hidden * (hidden.stride(1) - 60)


def by_contiguity(network: Network, x: Tensor) -> Tensor:
    hidden = normed(network, x)
    return hidden if hidden.is_contiguous() else -hidden


def weight_strided(network: Network, x: Tensor) -> Tensor:
    return normed(network, x) * network.conv.weight.as_strided((3,), (1,))[:, None, None]


def viewed_as_another_type(network: Network, x: Tensor) -> Tensor:
    return normed(network, x).view(torch.int32).float() * 1e-9


@pytest.mark.parametrize("reader", [strided, by_stride, by_contiguity, weight_strided, viewed_as_another_type])
def test_steps_that_depend_on_the_layout_are_never_laid_out_anew(reader: Forward) -> None:
    network = settled(Network(reader))
    try:
        fast = fast_version(network, torch.rand(8, *SHAPE))
    except NotTraceableError:  # it runs as it is
        return
    assert not fast.layout_free
    assert not fast.way(8, channels_last=True).channels_last
    with pytest.raises(ModelError, match="depends on the memory layout"):
        SmoothedClassifier(network, 0.5, batch=8, compile=True).certify(torch.rand(SHAPE), n0=10, n=50)


def test_a_view_that_channels_last_does_not_allow_is_no_error(capfd: pytest.CaptureFixture[str]) -> None:
    class View(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.last = nn.Conv2d(3, 4, 3, padding=1), nn.Linear(256, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(self.conv(x).view(x.size(0), -1))  # type: ignore[no-any-return]

    fast = fast_version(View().eval(), torch.rand(8, *SHAPE))
    assert fast.folded
    assert not fast.layout_free
    assert SmoothedClassifier(View(), 0.5, batch=64).certify(torch.rand(SHAPE), n0=50, n=300).n == 300
    assert capfd.readouterr().err == ""


def test_weights_of_five_dimensions_are_not_laid_out_anew() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.flat, self.deep = nn.Conv2d(3, 4, 3, padding=1), nn.Conv3d(1, 1, 3, padding=1)
            self.last = nn.Linear(256, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(self.deep(self.flat(x)[:, None]).flatten(1))  # type: ignore[no-any-return]

    assert not fast_version(Both().eval(), torch.rand(8, *SHAPE)).layout_free
    assert SmoothedClassifier(Both(), 0.5, batch=64).certify(torch.rand(SHAPE), n0=50, n=300).n == 300


def flattened_and_written(network: Network, x: Tensor) -> Tensor:
    """In one layout this writes to a view, and in another one to a copy."""
    hidden = normed(network, x)
    hidden.flatten(1).clamp_(max=3.0)
    return hidden


def reshaped_and_added(network: Network, x: Tensor) -> Tensor:
    hidden = normed(network, x)
    rows = hidden.reshape(x.shape[0], 192)
    rows += functional.relu(rows - 3.0)
    return hidden


def permuted_and_clamped(network: Network, x: Tensor) -> Tensor:
    """As code of transformers does; with channels last, ``contiguous`` copies nothing."""
    hidden = normed(network, x)
    last = hidden.permute(0, 2, 3, 1).contiguous()
    last = functional.hardtanh(last, -3.0, 3.0, inplace=True)
    return hidden + last.permute(0, 3, 1, 2)


def flattened_by_a_layer(network: Network, x: Tensor) -> Tensor:
    hidden = normed(network, x)
    functional.hardtanh(network.flat(hidden), -3.0, 3.0, inplace=True)
    return hidden


WRITERS = (flattened_and_written, reshaped_and_added, permuted_and_clamped, flattened_by_a_layer)


@pytest.mark.parametrize("writer", WRITERS)
def test_what_is_written_to_a_view_or_a_copy_is_never_laid_out_anew(writer: Forward) -> None:
    """The writing shows only where hidden values are large, which those of the first inputs are not."""
    network = settled(Network(writer))
    fast = fast_version(network, 0.3 * torch.rand(8, *SHAPE))
    assert fast.folded
    assert not fast.layout_free
    bright = 20 * torch.rand(8, *SHAPE)
    with torch.no_grad():
        found, expected = fast.runner(fast.way(8, channels_last=True), 1, bright[0])(bright), network(bright)
    torch.testing.assert_close(found[:, :3], expected[:, :3], rtol=1e-4, atol=1e-4 * float(expected[:, :3].abs().max()))


def test_writing_before_a_view_is_layout_free() -> None:
    layers = nn.Conv2d(3, 4, 3), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(144, 8), nn.ReLU(inplace=True)
    assert is_layout_free(traced(nn.Sequential(*layers).eval(), torch.rand(2, *SHAPE)))


def test_usual_networks_are_layout_free() -> None:
    assert is_layout_free(traced(settled(ResNet(8)), torch.rand(2, 3, 16, 16)))
    assert fast_version(settled(ResNet(8)), torch.rand(8, 3, 16, 16)).convolves


def by_batch_size(network: Network, x: Tensor) -> Tensor:
    return normed(network, x) if x.shape[0] < 500 else -normed(network, x)


def by_half_of_the_batch(network: Network, x: Tensor) -> Tensor:
    return normed(network, x) if x.size(0) // 100 > 0 else -normed(network, x)


@pytest.mark.parametrize("reader", [by_batch_size, by_half_of_the_batch])
def test_code_that_asks_for_the_size_of_its_batch_runs_as_it_is(reader: Forward) -> None:
    with pytest.raises(NotTraceableError, match="size of its batch"):
        fast_version(settled(Network(reader)), torch.rand(8, *SHAPE))


class Counter:
    """A plain object that a model holds."""

    calls = 0


class Stateful(nn.Module):
    """It changes something that it holds in a place where torch does not look."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.last, self.where = nn.Linear(192, 3), where
        self.seen: list[int] = []
        self.counter, self.memory = Counter(), torch.zeros(3)

    def forward(self, x: Tensor) -> Tensor:
        if self.where == "list":
            self.seen.append(1)
        elif self.where == "object":
            self.counter.calls += 1
        else:
            self.memory += 1e-3
        return self.last(x.flatten(1)) + (self.memory if self.where == "tensor" else 0.0)  # type: ignore[no-any-return]


@pytest.mark.parametrize("where", ["list", "object", "tensor"])
def test_what_changes_when_it_runs_runs_as_it_is(where: str) -> None:
    with pytest.raises(NotTraceableError, match=r"changes what it holds|writes to what it stores"):
        fast_version(Stateful(where).eval(), torch.rand(8, *SHAPE))


# ---- weights that change after the first certificate


def by_data(network: Network) -> None:
    network.last.weight.data.mul_(1.03)


def by_numpy(network: Network) -> None:
    network.last.weight.detach().numpy()[0] *= 1.03


def by_attribute(network: Network) -> None:
    network.scale *= 1.03


def by_new_parameter(network: Network) -> None:
    network.last.weight = nn.Parameter(1.03 * network.last.weight.detach())


def by_buffer(network: Network) -> None:
    network.shift.data += torch.tensor([0.03, 0.0, 0.0, 0.0])


def by_swapping(network: Network) -> None:
    network.last.weight.data = network.last.weight.data.flip(0)


def by_optimizer(network: Network) -> None:
    with torch.no_grad():
        network.last.weight.mul_(1.03)


CHANGES = (by_data, by_numpy, by_attribute, by_new_parameter, by_buffer, by_swapping, by_optimizer)


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("change", CHANGES)
def test_a_small_change_between_certificates_is_refused(change: Callable[[Network], None], fast: bool) -> None:
    network, x = Network(normed).eval(), torch.rand(SHAPE)
    smoothed = SmoothedClassifier(network, 0.5, batch=64, fast=fast)
    smoothed.certify(x, n0=50, n=500)
    change(network)
    for use in (smoothed.certify, smoothed.predict):
        with pytest.raises(ModelError, match="weights or attributes of the model have changed"):
            use(x, n0=50, n=500)


class Slots:
    """An object without a dictionary."""

    __slots__ = ("value",)

    def __init__(self, value: Tensor) -> None:
        self.value = value


class Kept(nn.Module):
    """It multiplies its logits by a number that it keeps in some place."""

    in_class = torch.ones(3)

    def __init__(self, where: str) -> None:
        super().__init__()
        self.last, self.number, kept = nn.Linear(192, 3), torch.ones(3), torch.ones(3)

        def by_variable(logits: Tensor) -> Tensor:
            return logits * kept

        def by_default(logits: Tensor, number: Tensor = kept) -> Tensor:
            return logits * number

        def by_slots(slots: Slots, logits: Tensor) -> Tensor:
            return logits * slots.value

        self.kept = self.in_class if where == "class" else kept
        places = {
            "variable": by_variable,
            "default": by_default,
            "partial": partial(torch.mul, kept),
            "slots": partial(by_slots, Slots(kept)),
            "class": lambda logits: logits * self.in_class,
        }
        self.function = places[where]

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.last(x.flatten(1)))  # type: ignore[no-any-return, operator]


@pytest.mark.parametrize("where", ["variable", "default", "partial", "slots", "class"])
def test_a_change_is_seen_wherever_a_number_is_kept(where: str) -> None:
    """A network may use a number for few rows alone, so that comparing rows is not enough."""
    model = Kept(where)
    kept = model.kept
    del model.kept  # nothing else leads to it
    before = snapshot(model)
    assert before is not None
    assert before == snapshot(model)
    kept *= 1.03
    assert before != snapshot(model)
    kept /= kept


def test_changed_bytes_and_numbers_of_numpy_are_seen() -> None:
    model = nn.Linear(2, 2)
    model.table, model.scale = bytearray(4), np.float32(1.0)  # type: ignore[assignment]
    found = [snapshot(model)]
    model.table[0] = 1  # type: ignore[operator]
    found.append(snapshot(model))
    model.scale = np.float32(1.03)  # type: ignore[assignment]
    found.append(snapshot(model))
    assert found[0] != found[1] != found[2]


class Caching(nn.Module):
    """It makes something when it first runs, as models with positions do."""

    def __init__(self) -> None:
        super().__init__()
        self.last, self.positions = nn.Linear(192, 3), torch.zeros(0)

    def forward(self, x: Tensor) -> Tensor:
        if not len(self.positions):
            self.positions = torch.linspace(0, 1, 192)
        return self.last(x.flatten(1) + self.positions)  # type: ignore[no-any-return]


def test_a_model_that_makes_something_when_it_first_runs_is_watched() -> None:
    model, x = Caching(), torch.rand(SHAPE)
    smoothed = SmoothedClassifier(model, 0.5, batch=64)
    smoothed.certify(x, n0=50, n=300)
    model.last.weight.data[0, 0] += 1e-6
    with pytest.raises(ModelError, match="weights or attributes of the model have changed"):
        smoothed.certify(x, n0=50, n=300)


class CachingBySize(nn.Module):
    """It keeps something for each size of a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.last, self.masks = nn.Linear(192, 3), dict[int, Tensor]()

    def forward(self, x: Tensor) -> Tensor:
        mask = self.masks.setdefault(len(x), torch.ones(len(x), 192))
        return self.last(x.flatten(1) * mask)  # type: ignore[no-any-return]


@pytest.mark.parametrize("fast", [True, False])
def test_what_a_model_keeps_for_each_size_of_a_batch_is_no_change(fast: bool) -> None:
    smoothed = SmoothedClassifier(CachingBySize(), 0.5, batch=70, fast=fast)
    assert smoothed.certify(torch.rand(SHAPE), n0=50, n=300).n == 300


def test_a_logger_in_a_model_is_no_change() -> None:
    """A logger leads to all loggers of the process, and remembers which levels were asked for."""
    model, x = nn.Sequential(nn.Flatten(), nn.Linear(192, 3)), torch.rand(SHAPE)
    model.log = logging.getLogger("tests.a_model")  # type: ignore[assignment]
    smoothed = SmoothedClassifier(model, 0.5, batch=64)
    smoothed.certify(x, n0=50, n=300)
    logging.getLogger("tests.another_one").info("made")
    logging.getLogger("tests.a_model").info("used")
    assert smoothed.certify(x, n0=50, n=300).n == 300


@pytest.mark.parametrize("goal", [None, Goal(tolerance=0.2)])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_while_inputs_are_certified_is_refused(change: Callable[[Network], None], goal: object) -> None:
    """Samples of later inputs are drawn ahead, and are then of the model as it was."""
    network = Network(normed).eval()
    smoothed = SmoothedClassifier(network, 0.5, batch=64)
    made = smoothed.certificates(enumerate(torch.rand(4, *SHAPE)), Duels(), n0=50, n=500, goal=goal)
    next(made)
    change(network)
    with pytest.raises(ModelError, match=r"attributes of the model have changed|other answers than at the beginning"):
        list(made)


def test_modes_and_gradients_are_no_change() -> None:
    network, x = ResNet(8), torch.rand(3, 16, 16)
    smoothed = SmoothedClassifier(network, 0.5, batch=64)
    made = smoothed.certificates(enumerate([x, x, x]), n0=50, n=100)
    next(made)
    network.train()
    next(made)
    network.eval()(x[None]).sum().backward()
    assert next(made).n == 100


# ---- what is not fast says so


def test_a_model_that_runs_as_it_is_says_why() -> None:
    class Chooses(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = nn.Linear(192, 3)

        def forward(self, x: Tensor) -> Tensor:
            logits: Tensor = self.last(x.flatten(1))
            return logits if float(x.flatten()[0]) < 1e9 else -logits

    throughput = SmoothedClassifier(Chooses(), 0.5, batch=8).prepare(torch.rand(SHAPE))
    assert throughput.why_not_fast is not None
    assert "the model runs as it is: " in throughput.words
    fast = SmoothedClassifier(nn.Sequential(nn.Flatten(), nn.Linear(192, 3)), 0.5, batch=8).prepare(torch.rand(SHAPE))
    assert fast.why_not_fast is None
    assert "as it is" not in fast.words


def test_a_fast_version_that_is_not_the_model_is_named() -> None:
    """Nothing is known to lead here; if something does, the message says what to do."""
    network = Network(normed).eval()
    smoothed = SmoothedClassifier(network, 0.5, batch=64)
    sampler, x = smoothed.sampler(torch.rand(SHAPE))
    run = sampler.runner
    assert run is not None
    object.__setattr__(sampler, "runner", lambda rows: run(rows) * torch.tensor([1.01, 1.0, 1.0, 1.0]))
    with pytest.raises(ModelError, match="the fast version of the model gives other logits than the model itself"):
        smoothed.certify(x, n0=50, n=500)
