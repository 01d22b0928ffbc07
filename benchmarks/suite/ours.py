"""lvmrs itself: the settings of a long run and of a short one stand here and nowhere else."""

from __future__ import annotations

from lvmrs import LVM, Cohen, Duels, Planner, SmoothedClassifier
from suite.networks import Network
from suite.rounds import Contestant

__all__ = ["PLANNERS", "SETTINGS", "ours", "smoothed"]

SIGMA = 0.5
PLANNERS: dict[str, Planner] = {"Cohen": Cohen(), "LVM": LVM(), "duels": Duels()}
SETTINGS: dict[str, int] = {"long": 10**9, "short": 0, "default": 0}
"""How many samples are to come: so many that compiling is tried and kept if it is faster, or so few that it is not."""


def smoothed(network: Network, settings: str, precision: str | None = None) -> SmoothedClassifier:
    """The smoothed classifier of a network; all that it chooses is chosen now."""
    made = SmoothedClassifier(network.model, SIGMA, noise=network.contest.noise, precision=precision)
    made.prepare(network.x, SETTINGS[settings])
    return made


def ours(network: Network, classifier: SmoothedClassifier, planner: str, n0: int, n: int) -> Contestant:
    """Certificates of two inputs with half of the samples each: in a run, the next input is sampled meanwhile."""
    half = n // 2

    def run() -> int:
        classifier.certify_batch([network.x, network.x], PLANNERS[planner], n0=n0, n=half)
        return 2 * (n0 + half)

    return Contestant(run)
