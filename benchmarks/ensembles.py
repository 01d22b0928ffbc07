"""Processor time of three equal networks: one after the other in one list of steps, and as groups of one network.

    OMP_NUM_THREADS=1 python benchmarks/ensembles.py

Grouped, each convolution has a group of channels for each member. Normalisation is folded in both, both run in both
memory layouts, and the faster layouts are compared: medians of interleaved rounds. Takes about a minute.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from lvmrs.engine.execution import Fast, fast_version
from lvmrs.models import Ensemble, ready

MEMBERS = 3


def member(network: str, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    made = ready.build(network).eval()
    for layer in made.modules():
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.uniform_(layer.running_var, 0.5, 2)  # type: ignore[arg-type]
    return made


class Grouped(nn.Module):
    """The mean of the logits of networks with the same steps, each convolution with a group for each network."""

    def __init__(self, members: list[fx.GraphModule]) -> None:
        super().__init__()
        self.steps, first = members[0], True
        for node in self.steps.graph.nodes:
            layer = self.steps.get_submodule(str(node.target)) if node.op == "call_module" else None
            if isinstance(layer, nn.Conv2d | nn.Linear):
                layers: Any = [each.get_submodule(str(node.target)) for each in members]
                joined = EachLinear(layers) if isinstance(layer, nn.Linear) else convolution(layers, first=first)
                self.steps.set_submodule(str(node.target), joined)
                first = False
            if node.target is functional.pad:  # of the channels of each member
                node.target = padded
        self.steps.recompile()

    def forward(self, x: Tensor) -> Tensor:
        """The mean of the logits."""
        logits: Tensor = self.steps(x)
        return logits.mean(dim=1)


def convolution(layers: list[nn.Conv2d], *, first: bool) -> nn.Conv2d:
    """One convolution for all members, which read the same image in the first layer and their own groups later."""
    groups, one = 1 if first else MEMBERS, layers[0]
    channels = groups * one.in_channels, MEMBERS * one.out_channels
    made = nn.Conv2d(*channels, one.kernel_size, one.stride, one.padding, groups=groups)  # type: ignore[arg-type]
    made.weight = nn.Parameter(torch.cat([each.weight for each in layers]))
    made.bias = nn.Parameter(torch.cat([each.bias for each in layers]))  # type: ignore[misc]
    return made


class EachLinear(nn.Module):
    """A linear layer of each member."""

    def __init__(self, layers: list[nn.Linear]) -> None:
        super().__init__()
        self.weights, self.biases = (
            torch.stack([each.weight for each in layers]),
            torch.stack([each.bias for each in layers]),
        )

    def forward(self, x: Tensor) -> Tensor:
        """The logits of each member, from the features of all members one after the other."""
        return torch.einsum("bmf,mcf->bmc", x.reshape(len(x), MEMBERS, -1), self.weights) + self.biases


def padded(x: Tensor, *given: Any, **named: Any) -> Tensor:
    made: Tensor = functional.pad(x.reshape(len(x), MEMBERS, -1, *x.shape[2:]), *given, **named)
    return made.flatten(1, 2)


def laid_out(network: nn.Module) -> nn.Module:
    made: nn.Module = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return made


def seconds(run: Callable[[Tensor], Tensor], x: Tensor) -> float:
    started = time.process_time()
    run(x)
    return time.process_time() - started


def compare(network: str, batch: int, rounds: int) -> None:
    members = [member(network, seed) for seed in range(MEMBERS)]
    x = torch.rand(batch, 3, 32, 32)

    def folded(model: nn.Module) -> Fast:
        return fast_version(model, x[:8])

    def lists() -> list[Any]:
        return [folded(each).network for each in members]

    ways: dict[str, tuple[Callable[[Tensor], Tensor], Tensor]] = {
        "one after the other": (folded(Ensemble(members).eval()).network.forward, x),
        "grouped": (Grouped(lists()), x),
    }
    last = x.contiguous(memory_format=torch.channels_last)
    ways["one after the other, channels last"] = (laid_out(folded(Ensemble(members).eval()).network).forward, last)
    ways["grouped, channels last"] = (laid_out(Grouped(lists())), last)
    first, *others = [run(given) for run, given in ways.values()]
    for other in others:
        torch.testing.assert_close(other, first, rtol=1e-3, atol=1e-3)
    measured: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, (run, given) in ways.items():
            measured[name].append(seconds(run, given))
    medians = {name: statistics.median(values) for name, values in measured.items()}
    best = {kind: min(value for name, value in medians.items() if name.startswith(kind)) for kind in ("one", "grouped")}
    for name, value in medians.items():
        print(f"{network}\t{name}\t{1e6 * value / batch:.0f} µs for each sample")
    print(f"{network}\ttime of grouped / one after the other\t{best['grouped'] / best['one']:.2f}")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--networks", nargs="+", default=["fast_cnn", "resnet20"])
    options.add_argument("--batch", type=int, default=256)
    options.add_argument("--rounds", type=int, default=5)
    given = options.parse_args()
    torch.set_num_threads(1)
    with torch.no_grad():
        for network in given.networks:
            compare(network, given.batch, given.rounds)


if __name__ == "__main__":
    main()
