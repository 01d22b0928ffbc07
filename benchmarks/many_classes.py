"""Planning with LVM for very many classes, against moments with a column for each class.

python benchmarks/many_classes.py [--classes 100000] [--n0 100]
"""

import argparse
from unittest import mock

import torch

from lvmrs import LVM, Terms
from lvmrs.planners.search import MANY_CLASSES
from side_by_side import seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--classes", type=int, default=100_000)
    parser.add_argument("--n0", type=int, default=100)
    given = parser.parse_args()
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(given.classes, generator=generator) + torch.randn(given.n0, given.classes, generator=generator)
    logits[:, 3] += 4

    def planned(most: int) -> None:
        with mock.patch("lvmrs.planners.lvm.MANY_CLASSES", most):
            LVM().choose([logits], Terms(0.5, 0.001, 10_000))

    each, strongest = seconds(lambda: planned(given.classes), lambda: planned(MANY_CLASSES), rounds=1)
    print(
        f"LVM, {given.classes} classes, n0 = {given.n0}: {each:.1f} s with a column for each class, {strongest:.1f} s "
        f"with {MANY_CLASSES} columns: {each / strongest:.1f} times less"
    )


if __name__ == "__main__":
    main()
