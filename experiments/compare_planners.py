"""Average certified radius of every method on the kept scores of runs: the same noise of the same inputs for all.

    lvmrs certify … --n0 1000 --n 10000 --keep-scores --out runs/a
    python experiments/compare_planners.py runs/a --sizes 200:1000,1000:10000

For each pair n0:n, the average certified radius (0 where the answer is wrong or missing), the share of inputs that are
certified at all and right, and the difference of the radius to that of votes with R2, with a paired bootstrap interval
at 0.95 over the inputs. ``--union`` adds votes and Paper with a union over the classes, which no certificate needs.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

from lab.settings import spread_options
from lab.union import VotesWithUnion
from lvmrs import LVM, Cohen, Duels, Lipschitz, Paper, Planner, Run, Votes, analysis, runs
from lvmrs.analysis import Results
from lvmrs.cli.setup import chosen_workers
from lvmrs.kernel import radius


def planners(options: argparse.Namespace, *, constant: bool) -> dict[str, Planner]:
    """The methods that are compared, each after the plainer ones."""
    found: dict[str, Planner] = {"Cohen": Cohen(), "votes, R2": Votes()}
    if options.union:
        found["votes, R2, union"] = VotesWithUnion()
    found["Paper"] = Paper()
    if options.union:
        found["Paper, union"] = Paper(union=True)
    found |= {"LVM": LVM(), "duels": Duels()}
    if options.width is not None:
        found[f"soft duels, width {options.width:g}"] = Duels(options.width)
    if constant:
        procedures = {f"Lipschitz, {name}": Lipschitz(name) for name in ("noise", "both", "ramp")}
        found = {**procedures, **found, "soft duels, width chosen": Duels("chosen")}
    return found


def certified(result: Results) -> tuple[np.ndarray, float]:
    """Radius of each input, 0 where the answer is not right; and the share of inputs with a right answer."""
    order = np.argsort(result.idx)
    return np.where(result.correct, result.radius, 0.0)[order], float(result.correct.mean())


def interval(differences: np.ndarray, seed: int) -> tuple[float, float]:
    """Bootstrap interval of the mean at 0.95."""
    random = np.random.default_rng(seed)
    means = random.choice(differences, (10_000, len(differences))).mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def main() -> int:
    """Print one table per run and pair of n0 and n, in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="runs made with --keep-scores")
    parser.add_argument("--sizes", default="200:1000,1000:10000", help="pairs n0:n")
    parser.add_argument("--union", action="store_true", help="also votes and Paper with a union over the classes")
    parser.add_argument("--width", type=float, help="also soft duels of this width")
    parser.add_argument("--seed", type=int, default=0, help="of the bootstrap")
    spread_options(parser)
    options = parser.parse_args()
    who = chosen_workers(options.ray, options.workers)
    for run in map(Run, options.runs):
        terms = run.manifest.terms
        print(
            f"\n{run.directory.name}: {len(run.rows())} inputs, σ = {terms.sigma:g}, α = {terms.alpha:g}, "
            f"seed {terms.seed}"
        )
        for n0, n in (tuple(int(part) for part in pair.split(":")) for pair in options.sizes.split(",")):
            print(f"\n| n0 = {n0}, n = {n} | average radius | certified | − votes, R2 (95 %) |\n|---|---|---|---|")
            table = {}
            with tempfile.TemporaryDirectory() as place:
                for name, planner in planners(options, constant=terms.lipschitz is not None).items():
                    here = type(planner).__module__ == "__main__"  # other machines cannot import this script
                    workers = None if here else who
                    made = runs.recertify(run, Path(place) / name, planner, n0=n0, n=n, workers=workers)
                    table[name] = certified(analysis.results_of(made))
                    print(f"\r{name:30}", end="", file=sys.stderr)
            plain = table["votes, R2"][0]
            for name, (radii, share) in table.items():
                low, high = interval(radii - plain, options.seed)
                gap = f"{(radii - plain).mean():+.4f} ({low:+.4f} to {high:+.4f})"
                print(f"| {name} | {radius.text(float(radii.mean()))} | {share:.3f} | {gap} |")
            ratio = table["duels"][0].mean() / table["LVM"][0].mean()
            print(f"\nduels / LVM {ratio:.3f}, LVM / votes {table['LVM'][0].mean() / plain.mean():.4f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
