"""Run all experiments, and write docs/results.md and docs/results/*.md.

python experiments/all.py --cifar10 cifar10.npz
"""

from __future__ import annotations

import sys

import results
from lab import record
from lab.settings import parsed
from lvmrs.errors import LvmrsError


def main() -> int:
    """Run one after the other; what the cache has is not made again."""
    lab = parsed(__doc__)
    for module in results.EXPERIMENTS:
        try:
            print(record.write(lab, module.__name__, module.measure), flush=True)
        except LvmrsError as error:
            sys.exit(f"error: {module.__name__}: {error}")
    page = lab.results.parent / "results.md"
    results.write(lab.results, page)
    print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
