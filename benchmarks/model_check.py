"""What it costs to check the model during a run: certificates with the check against the same without it.

    OMP_NUM_THREADS=1 python benchmarks/model_check.py [--n 3000] [--rounds 9] [NETWORK …]

Networks have random weights; what they answer does not matter here. Times are those of the processor, since the
differences are small and machines are busy. The last column is the check at the beginning of a run, which is done once.
"""

import argparse
import time
from dataclasses import replace

import torch
from torch import Tensor

from lvmrs import Cohen, Terms, models
from lvmrs.kernel.model_check import check_model
from lvmrs.kernel.noise import Stream
from lvmrs.kernel.proof import prove
from lvmrs.kernel.sampler import Model, Sampler
from lvmrs.models.fixed_batch import InParts
from side_by_side import median_ratio


def compare(name: str, network: Model, x: Tensor, n0: int, n: int, rounds: int) -> None:
    plain = Sampler(network, 0.25, 128)
    check = check_model(plain, x, batch=128)
    checked, terms = replace(plain, recheck=check.recheck), Terms(0.25, 0.001, n)

    def certify(sampler: Sampler) -> None:
        plan = Cohen().plan(sampler.scores(x, Stream(0, 0, "selection"), n0), terms)
        prove(plan, terms, sampler.scores(x, Stream(0, 0, "certification"), n))

    without, ratio = median_ratio(lambda: certify(plain), lambda: certify(checked), rounds, clock=time.process_time)
    start = time.process_time()
    check_model(plain, x, batch=128)
    begin = time.process_time() - start
    print(f"{name:24} n0 + n = {n0 + n}  without {without:6.3f}s  with / without {ratio:.3f}  beginning {begin:.3f}s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=3_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("networks", nargs="*", help="only those whose names begin so")
    options = parser.parse_args()
    torch.manual_seed(0)
    threads = torch.get_num_threads()
    print(f"batches of 128, {threads} threads, torch {torch.__version__}; {time.strftime('%Y-%m-%d')}")
    image, digit = torch.rand(3, 32, 32), torch.rand(1, 8, 8)
    for name, network, x in (
        ("small_cnn, 8×8", models.load("ready:small_cnn").model, digit),
        ("fast_cnn, 32×32", models.load("ready:fast_cnn").model, image),
        ("fast_cnn, parts of 64", InParts(models.load("ready:fast_cnn").model, 64), image),
        ("resnet20, 32×32", models.load("ready:resnet20").model, image),
        ("sandwich_small, 32×32", models.load("ready:sandwich_small").model, image),
    ):
        if not options.networks or name.startswith(tuple(options.networks)):
            compare(name, network, x, 1000, options.n, options.rounds)


if __name__ == "__main__":
    main()
