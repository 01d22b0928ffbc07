"""A folded sandwich network against the plain convolutional network of the same shape, forward passes side by side.

    python benchmarks/sandwich.py

The plain one has the same widths, strides and dense layers, with 3 × 3 convolutions. The C library is told to keep
freed memory: by its own habits it hands blocks of some size back at some times, and the plain network, which asks for
new ones in every layer, takes up to twice as long then. Takes some three minutes.
"""

import ctypes
import sys
from functools import partial

import torch
from torch import nn

from lvmrs.models import sandwich
from side_by_side import median_ratio


def plain(width: int, classes: int = 10) -> nn.Sequential:
    c, d = 32 * width, 512 * width
    return nn.Sequential(
        nn.Conv2d(3, c, 3, padding=1), nn.ReLU(inplace=True),
        nn.Conv2d(c, c, 3, stride=2, padding=1), nn.ReLU(inplace=True),
        nn.Conv2d(c, 2 * c, 3, padding=1), nn.ReLU(inplace=True),
        nn.Conv2d(2 * c, 2 * c, 3, stride=2, padding=1), nn.ReLU(inplace=True),
        nn.Flatten(),
        nn.Linear(128 * c, d), nn.ReLU(inplace=True),
        nn.Linear(d, d), nn.ReLU(inplace=True),
        nn.Linear(d, classes),
    ).eval()  # fmt: skip


def keep_freed_memory() -> None:
    """As far as glibc goes: blocks of up to 32 MiB."""
    if sys.platform == "linux":
        trim_threshold, mmap_threshold = -1, -3
        library = ctypes.CDLL(None)
        if not (library.mallopt(trim_threshold, 2**31 - 1) and library.mallopt(mmap_threshold, 2**25)):
            sys.exit("the C library does not keep freed memory, so that a plain network would not be at its best")


def main() -> None:
    keep_freed_memory()
    print(
        f"forward passes on 3 × 32 × 32, {torch.get_num_threads()} threads; plain in µs an image, sandwich as a ratio"
    )
    print("network  batch    plain  folded  layer by layer")
    for name, width in (("small", 1), ("medium", 2), ("large", 4)):
        ours, theirs = sandwich(width=width, gamma=5).eval(), plain(width)
        with torch.inference_mode():
            for batch in (128, 256, 1000):
                x = torch.rand(batch, 3, 32, 32)
                time, ratio = median_ratio(partial(theirs, x), partial(ours, x), rounds=max(9, 6000 // batch))
                slow = ""
                if batch == 256 and width == 1:
                    _, times = median_ratio(partial(theirs, x), partial(ours.layer_by_layer, x), rounds=3)
                    slow = f"{times:14.2f}"
                print(f"{name:7} {batch:6} {1e6 * time / batch:8.0f} {ratio:7.2f}  {slow}", flush=True)


if __name__ == "__main__":
    main()
