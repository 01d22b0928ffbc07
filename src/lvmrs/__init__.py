"""Certified robustness by randomized smoothing, with sound certificates.

Names are imported when they are first used: importing torch takes seconds, and commands that only read results need
no torch.
"""

from importlib import import_module

TYPE_CHECKING = False  # not from typing: the command line is to answer to signals within milliseconds

if TYPE_CHECKING:
    from lvmrs import analysis, attacks, data, errors, models, planners, registry, runs, testing, training
    from lvmrs.analysis.certificates import Certificates
    from lvmrs.kernel import bounds, lipschitz, maps, noise, radius
    from lvmrs.kernel.certificate import Certificate
    from lvmrs.kernel.composed import RoutedCertificate
    from lvmrs.kernel.deterministic import Deterministic
    from lvmrs.kernel.method import Goal
    from lvmrs.kernel.proof import prove
    from lvmrs.kernel.terms import Choice, Plan, Terms
    from lvmrs.planners import LVM, Cohen, Duels, Fixed, Lipschitz, Paper, Planner, Votes
    from lvmrs.record import Run
    from lvmrs.runs.dataset import certify_dataset
    from lvmrs.runs.routed import RoutedClassifier
    from lvmrs.smoothed import SmoothedClassifier

__all__ = [
    "LVM",
    "Certificate",
    "Certificates",
    "Choice",
    "Cohen",
    "Deterministic",
    "Duels",
    "Fixed",
    "Goal",
    "Lipschitz",
    "Paper",
    "Plan",
    "Planner",
    "RoutedCertificate",
    "RoutedClassifier",
    "Run",
    "SmoothedClassifier",
    "Terms",
    "Votes",
    "__version__",
    "analysis",
    "attacks",
    "bounds",
    "certify_dataset",
    "data",
    "errors",
    "lipschitz",
    "maps",
    "models",
    "noise",
    "planners",
    "prove",
    "radius",
    "registry",
    "runs",
    "testing",
    "training",
]

__version__: str

_HOMES = {
    "lvmrs.analysis.certificates": ("Certificates",),
    "lvmrs.kernel.certificate": ("Certificate",),
    "lvmrs.kernel.composed": ("RoutedCertificate",),
    "lvmrs.kernel.deterministic": ("Deterministic",),
    "lvmrs.kernel.method": ("Goal",),
    "lvmrs.kernel.proof": ("prove",),
    "lvmrs.kernel.terms": ("Choice", "Plan", "Terms"),
    "lvmrs.planners": ("LVM", "Cohen", "Duels", "Fixed", "Lipschitz", "Paper", "Planner", "Votes"),
    "lvmrs.record": ("Run",),
    "lvmrs.runs.routed": ("RoutedClassifier",),
    "lvmrs.runs.dataset": ("certify_dataset",),
    "lvmrs.smoothed": ("SmoothedClassifier",),
}
_IN_THE_KERNEL = ("bounds", "lipschitz", "maps", "noise", "radius")


def __getattr__(name: str) -> object:
    if name == "__version__":
        return import_module("importlib.metadata").version("lvmrs")
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    if name in _IN_THE_KERNEL:
        return import_module(f"lvmrs.kernel.{name}")
    if name in __all__:
        return import_module(f"lvmrs.{name}")
    raise AttributeError(f"module 'lvmrs' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
