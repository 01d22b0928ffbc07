"""Ensembles of networks of several seeds, with as many samples and with as many forward passes as one network.

    python experiments/ensembles_compared.py --cifar10 cifar10.npz

The mean of the logits of k networks varies less under noise than each of them, so it wins more often and has a larger
radius. It also costs k forward passes a sample: at the same cost there are n / k samples.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np

from lab import record
from lab.budgeted import Trained, network
from lab.methods import Certified, paired
from lab.page import above, average, difference, made_by, percent, size, table, wrapped
from lab.settings import Lab, Sampled
from training_objectives import certified

__all__ = ["TITLE", "brief", "measure", "shown"]

TITLE = "Ensembles of networks of several seeds"
_SIGMA = 0.5
_MEMBERS = 5
_SIZES = (1, 3, 5)
_EPSILONS = (0.0, 0.25, 0.5, 0.75, 1.0)
_WANTED, _WANTED_OF = 0.05, 3
"""How far above its members' mean an ensemble of this many networks should be, as a share."""


def measure(lab: Lab) -> record.Found:
    """The members, and ensembles of the first k of them with n and with n / k samples."""
    members = [Trained(lab, "gaussian", _SIGMA, lab.seed + k) for k in range(_MEMBERS)]
    whole = lab.sizes.ensembles
    runs = [
        certified(lab, f"ensembles-{k}", f"trained:{member.file}", member, whole) for k, member in enumerate(members)
    ]
    alone = [Certified.of(run) for run in runs]
    mean = np.mean([each.radii for each in alone], axis=0)
    alpha = runs[0].manifest.terms.alpha
    rows = []
    for k in _SIZES:
        for share in dict.fromkeys((1, k)):
            wanted = replace(whole, n0=whole.n0 // share, n=whole.n // share)
            found = alone[0] if k == 1 else _ensemble(lab, members[:k], wanted)
            assert found.idx == alone[0].idx  # noqa: S101 (else nothing is paired)
            rows.append({"networks": k, "n": wanted.n, "n0": wanted.n0, **found.summary(_EPSILONS),
                         "interval": found.interval, "to members": paired(found.radii - mean),
                         "to the first": paired(found.radii - alone[0].radii)})  # fmt: skip
    told = [member.about for member in members]
    return {
        "data": "digits" if lab.cifar10 is None else "CIFAR-10",
        "network": network(lab)[0],
        "minutes": lab.minutes,
        "sigma": _SIGMA,
        "seeds": [member.seed for member in members],
        "alpha": alpha,
        "precision": runs[0].manifest.model.precision or "float32",
        "inputs": len(mean),
        "members": {"average": float(mean.mean()), "interval": paired(mean),
                    "averages": [each.average for each in alone],
                    "at": {key: float(np.mean([each.summary(_EPSILONS)["at"][key] for each in alone]))
                           for key in alone[0].summary(_EPSILONS)["at"]},
                    "n": whole.n,
                    "training seconds": [each["seconds"] for each in told],
                    "noisy accuracy": [each["measured"]["noisy accuracy"] for each in told]},
        "rows": rows,
    }  # fmt: skip


def _ensemble(lab: Lab, members: list[Trained], wanted: Sampled) -> Certified:
    model = "ensemble:" + "+".join(f"trained:{member.file}" for member in members)
    return Certified.of(certified(lab, f"ensembles-{len(members)}-networks", model, members[0], wanted))


def brief(found: record.Found) -> str:
    """The section of the first page: what ensembles gain over their members."""
    mean = size(found["members"]["average"])
    text = (
        f"{found['data']}, σ = {found['sigma']:g}. The logits of an ensemble are the mean of those of its networks. "
        f"Its average radius minus the mean of {len(found['seeds'])} networks, {mean} (95 %):"
    )
    rows: dict[int, list[str]] = {}
    for row in found["rows"]:
        cell = f"{difference(row['to members'])}, {_above_members(found, row).partition(' (')[0]}"
        rows.setdefault(row["networks"], [str(row["networks"])]).append(cell)
    head = ["networks", "as many samples", "as many forward passes"]
    shown_rows = table(head, (row for networks, row in rows.items() if networks > 1))
    return f"{wrapped(text)}\n\n{shown_rows}"


def _above_members(found: record.Found, row: dict[str, Any]) -> str:
    return above(row["to members"], found["members"]["average"])


def _against_wanted(found: record.Found) -> str:
    """Whether the ensemble is as far above its members' mean as wanted."""
    base, told = found["members"]["average"], []
    for row in (row for row in found["rows"] if row["networks"] == _WANTED_OF):
        enough = "reached" if row["average"] >= (1 + _WANTED) * base else "not reached"
        told.append(f"{_above_members(found, row)} at n = {row['n']}, {enough}")
    wanted = f"Wanted: an ensemble of {_WANTED_OF} at least {100 * _WANTED:g} % above the mean of the networks."
    return wrapped(f"{wanted} Found, with the 95 % interval of the difference: {'; '.join(told)}.")


def _table(found: record.Found) -> str:
    head = ["networks", "n", "forward passes", *(f"at {epsilon:g}, %" for epsilon in _EPSILONS),
            "average radius (95 %)", "− mean of the members (95 %)", "above that mean (95 %)",
            "− the first network (95 %)"]  # fmt: skip
    whole = found["members"]
    alone = ["each alone, mean", str(whole["n"]), "1 ×", *map(percent, whole["at"].values()), average(whole)]
    rows = [
        [
            str(row["networks"]),
            str(row["n"]),
            f"{row['networks'] * row['n'] / whole['n']:.2g} ×",
            *map(percent, row["at"].values()),
            average(row),
            difference(row["to members"]),
            _above_members(found, row),
            difference(row["to the first"]),
        ]
        for row in found["rows"]
    ]
    return table(head, [[*alone, "", "", ""], *rows])


def shown(found: record.Found) -> str:
    """The table."""
    members = found["members"]
    spent, accuracies = members["training seconds"], members["noisy accuracy"]
    about = (
        f"{found['data']}, `{found['network']}`, trained with Gaussian noise σ = {found['sigma']:g} for "
        f"{found['minutes']:.3g} minutes of processor time each (measured: {min(spent):.1f} to {max(spent):.1f} s), "
        f"seeds {', '.join(map(str, found['seeds']))}; {found['inputs']} test inputs, duels, {found['precision']}, "
        f"n0 = n / {found['rows'][0]['n'] / found['rows'][0]['n0']:g}, "
        f"α = {found['alpha']:g}. The members are right on {percent(min(accuracies))} to {percent(max(accuracies))} % "
        f"of noisy copies of the test set; their average radii are {', '.join(map(size, members['averages']))}."
    )
    return "\n\n".join([_TEXT, wrapped(about), made_by(found), _table(found), _against_wanted(found)])


_TEXT = """\
The logits of an ensemble are the mean of those of its members, and the certificate is about the ensemble as one
classifier. *k* networks take *k* forward passes a sample; rows with n / k samples have as many forward passes as one
network with n. Intervals are paired over inputs: the radius of the ensemble on an input minus the mean radius of the
five members on it, or minus that of the first network; per cent count from the measured mean of the members. They say
nothing about other seeds."""


if __name__ == "__main__":
    sys.exit(record.main(__file__, __doc__, measure))
