"""How long a run takes from its start to its first certified sample.

    cd benchmarks && python -m suite.first_sample [NETWORK]

Importing torch, importing lvmrs and loading the network are told apart.
"""

from __future__ import annotations

import sys
import time
from typing import Any

_START = time.perf_counter()


class _Enough(BaseException):
    """The first sample is there. It is no Exception, which the library would turn into a sentence of its own."""


def main() -> None:
    import torch  # noqa: F401

    with_torch = time.perf_counter()
    from lvmrs import Cohen, SmoothedClassifier

    with_lvmrs = time.perf_counter()
    from suite.child import answer
    from suite.networks import network
    from suite.ours import SIGMA

    chosen = network(sys.argv[1] if len(sys.argv) > 1 else "resnet20")
    loaded = time.perf_counter()

    def watch(stage: str, logits: Any) -> None:
        if stage == "certification":
            raise _Enough

    try:
        classifier = SmoothedClassifier(chosen.model, SIGMA, noise=chosen.contest.noise)
        classifier.prepare(chosen.x)
        classifier.certify(chosen.x, Cohen(), n0=100, watch=watch)
    except _Enough:
        sample = time.perf_counter()
    answer(
        {
            "torch": with_torch - _START,
            "lvmrs": with_lvmrs - with_torch,
            "loading": loaded - with_lvmrs,
            "sample": sample - loaded,
        }
    )


if __name__ == "__main__":
    main()
