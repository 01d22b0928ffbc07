"""What exact noise costs a GPU, as a calculation: operations and bytes of a number, and its share beside two networks.

    python benchmarks/noise_on_gpus.py

The operations of torch that draw the noise are counted on the CPU: each writes its result once and reads its tensors
once. Memory bandwidths and peaks are those that NVIDIA states; networks are taken to reach 40 % of the peak.
"""

from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from lvmrs.kernel import noise as noises
from lvmrs.kernel.exact_noise import ExactGaussian
from lvmrs.kernel.noise import Draws
from lvmrs.testing import SELECTION

SHAPE, SAMPLES, SIGMA = torch.Size((3, 224, 224)), 16, 0.5
# Bytes a second, and floating-point operations a second in 16 bits.
GPUS = {"T4": (0.32e12, 65e12), "A100, 40 GB": (1.555e12, 312e12), "H100": (3.35e12, 989e12)}
# Floating-point operations of a forward pass at 224 × 224.
NETWORKS = {"ResNet-50": 8.2e9, "ViT-B/16": 35e9}
REACHED = 0.4


class Counted(TorchDispatchMode):
    """Counts elements that operations write, and bytes that they read and write."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.written = self.moved = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not isinstance(result, Tensor) or result._is_view() or func.is_view:
            return result
        self.written += result.numel()
        tensors = [each for each in (*args, result) if isinstance(each, Tensor)]
        self.moved += sum(each.numel() * each.element_size() for each in tensors)
        return result


def main() -> None:
    kind: dict[str, Any] = {"device": torch.device("cpu"), "dtype": torch.float32}
    there = mock.patch.object(noises, "_drawn_on_device", lambda noise, device: noise.drawn_on_device)
    with there, Draws(ExactGaussian(), SIGMA, SELECTION, SHAPE, **kind) as draws:
        draws.of(0, SAMPLES)  # tables are made once
        with Counted() as counted:
            draws.of(0, SAMPLES)
    numbers = SAMPLES * SHAPE.numel()
    operations, moved = counted.written / numbers, counted.moved / numbers
    print(f"{operations:.0f} operations and {moved:.0f} bytes a number\n")
    print("| | ns a number | µs a sample of 3×224×224 |" + "".join(f" share beside {name} |" for name in NETWORKS))
    print("|" + "---|" * (3 + len(NETWORKS)))
    for gpu, (bandwidth, peak) in GPUS.items():
        each = moved / bandwidth
        sample = each * SHAPE.numel()
        shares = [sample / (sample + passes / (REACHED * peak)) for passes in NETWORKS.values()]
        print(f"| {gpu} | {1e9 * each:.2f} | {1e6 * sample:.0f} |" + "".join(f" {100 * s:.0f} % |" for s in shares))


if __name__ == "__main__":
    main()
