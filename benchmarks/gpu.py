"""What a GPU does with lvmrs: a table of noise, bare passes and certificates. About five minutes.

    python benchmarks/gpu.py [--device cuda] [--n 20000] [--networks resnet20,resnet110]

It first checks that exact noise on the device is that of the CPU, bit for bit, and that the classes of certificates are
those of the CPU. ``resnet50`` needs torchvision; its weights are random. On a machine without a GPU, ``--device cpu
--n 500`` shows that the script runs.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from lvmrs import SmoothedClassifier
from lvmrs.kernel.exact_noise import ExactGaussian
from lvmrs.kernel.noise import Draws, Stream
from lvmrs.models import ready

SIGMA, STREAM = 0.25, Stream(0, 0, "certification")
PRECISIONS = (None, "bfloat16")
_BATCH = 256


def network(name: str) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    side = 224 if name == "resnet50" else 32
    model: Any = import_module("torchvision.models").resnet50() if name == "resnet50" else ready.build(name)
    return model.eval(), torch.randint(0, 256, (3, side, side)) / 255


def waited(run: Callable[[], object], device: torch.device) -> float:
    """Seconds of the fastest of three runs, after one to warm up."""
    found = []
    for _ in range(4):
        start = time.perf_counter()
        run()
        if device.type == "cuda":
            torch.cuda.synchronize()
        found.append(time.perf_counter() - start)
    return min(found[1:])


def noise(shape: torch.Size, count: int, device: torch.device) -> Tensor:
    with Draws(ExactGaussian(), SIGMA, STREAM, shape, device=device, dtype=torch.float32) as draws:
        return draws.of(0, count)


def bare(model: nn.Module, x: Tensor, precision: str | None, device: torch.device) -> float:
    """Seconds of a sample in bare passes: no noise, no proof, channels last."""
    kind = torch.float32 if precision is None else getattr(torch, precision)
    made = copy.deepcopy(model).to(device, kind, memory_format=torch.channels_last)  # type: ignore[call-overload]
    batch = x.to(device, kind).expand(_BATCH, *x.shape).contiguous(memory_format=torch.channels_last)
    with torch.inference_mode():
        return waited(lambda: made(batch), device) / _BATCH


def ours(model: nn.Module, x: Tensor, precision: str | None, device: torch.device, n: int) -> tuple[float, int, str]:
    """Seconds of a sample in a certificate by duels, its class, and how the network ran."""
    made = copy.deepcopy(model).to(device)
    smoothed = SmoothedClassifier(made, SIGMA, noise=ExactGaussian(), device=str(device), precision=precision)
    throughput = smoothed.prepare(x, n)
    classes = []
    seconds = waited(lambda: classes.append(smoothed.certify(x, n0=100, n=n).top), device)
    return seconds / n, classes[0], throughput.words


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--n", type=int, default=20_000)
    parser.add_argument("--networks", default="resnet20,resnet110,resnet50")
    given = parser.parse_args()
    device, cpu = torch.device(given.device), torch.device("cpu")
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    print(f"{name}, torch {torch.__version__}, n = {given.n}, σ = {SIGMA}, exact noise; microseconds a sample\n")
    print("| network | precision | noise alone | bare passes | certificate | certificate / bare | how |")
    print("|---|---|---|---|---|---|---|")
    for title in given.networks.split(","):
        model, x = network(title)
        if not torch.equal(noise(x.shape, 64, device).cpu(), noise(x.shape, 64, cpu)):
            raise SystemExit(f"exact noise on {device} is not that of the CPU: please report this")
        count = max(1, min(1024, (1 << 26) // x.numel()))
        drawing = waited(lambda x=x, count=count: noise(x.shape, count, device), device) / count  # type: ignore[misc]
        for precision in PRECISIONS:
            passes = bare(model, x, precision, device)
            whole, top, how = ours(model, x, precision, device, given.n)
            shown = "".join(f" {1e6 * each:.1f} |" for each in (drawing, passes, whole))
            print(f"| {title} | {precision or 'float32'} |{shown} {whole / passes:.2f} | {how} |", flush=True)
            if device.type != "cpu" and (other := ours(model, x, precision, cpu, 200)[1]) != top:
                print(f"the CPU answers with class {other}, and {device} with {top}: please report this")


if __name__ == "__main__":
    main()
