"""Training objectives at the same processor time: Gaussian noise, SmoothAdv, Consistency, SmoothMix and MACER.

    python experiments/training_objectives.py --cifar10 cifar10.npz

The papers compare objectives after the same number of epochs, in which the later ones take several times as long as
training with Gaussian noise. Here all get the same processor time. --families objectives-0.25,objectives-1 includes
only these σ, so that two processes can share the work; what they make is in the cache.
"""

from __future__ import annotations

import sys
from typing import Any

from matplotlib.figure import Figure

from lab import commands, figures, record
from lab.budgeted import POINTS, Trained, network
from lab.cases import SIGMAS
from lab.methods import Certified, gap
from lab.page import above, average, difference, is_sure, made_by, percent, size, table, wrapped
from lab.published import AVERAGE_RADIUS
from lab.settings import Lab, Sampled
from lvmrs import Run, data
from lvmrs.errors import InvalidArgumentError

__all__ = ["TITLE", "brief", "certified", "drawn", "measure", "shown"]

TITLE = "Training objectives at the same processor time"
_EPSILONS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
_WANTED = 0.10
"""How far above Gaussian training the best objective should be at each σ, as a share."""
_TITLES = {"gaussian": "Gaussian", "smoothadv": "SmoothAdv", "consistency": "Consistency", "smoothmix": "SmoothMix",
           "macer": "MACER"}  # fmt: skip


_LATER = {"smoothadv": (0.2, 1.0), "smoothmix": (0.2, 1.0), "macer": (0.5, 0.1)}
"""The share of the time in which these train with Gaussian noise, and the factor of the learning rate from then on."""


def _settings(name: str, sigma: float) -> dict[str, Any]:
    """The settings of the papers, which are the defaults, except those that make a step expensive."""
    if name == "smoothadv":
        return {"epsilon": min(2 * sigma, 1.0), "steps": 2, "samples": 2}
    if name == "macer":
        return {"samples": 8}
    if name == "smoothmix":  # as far as 4 steps of 2 σ; from σ = 0.5 with the one-step adversary, as published
        return {"steps": 2, "step_size": 4 * sigma, "mix_step": int(sigma >= 0.5)}
    return {}


def measure(lab: Lab) -> record.Found:
    """All objectives at each σ."""
    wanted = [sigma for sigma in lab.some(SIGMAS) if not lab.families or f"objectives-{sigma:g}" in lab.families]
    if not wanted:
        raise InvalidArgumentError(f"no σ is included; give --families objectives-{SIGMAS[0]:g}, or leave it out")
    name, settings = network(lab)
    shared = {"network": name, "batch": settings.batch, "minutes": lab.minutes, "data": _title(lab)}
    return {**shared, "sigmas": {f"{sigma:g}": _sigma(lab, sigma) for sigma in wanted}}


def _title(lab: Lab) -> str:
    return "digits" if lab.cifar10 is None else "CIFAR-10"


def _sigma(lab: Lab, sigma: float) -> dict[str, Any]:
    found, told, facts = {}, {}, {}
    for name in _TITLES:
        trained = Trained(lab, name, sigma, lab.seed, _settings(name, sigma), *_LATER.get(name, ()))
        model = f"trained:{trained.file}"
        run = certified(lab, f"objectives-{name}-{sigma:g}", model, trained, lab.sizes.budgeted)
        found[name], told[name] = Certified.of(run), trained.about
        terms = run.manifest.terms
        facts = {"inputs": len(found[name].idx), "n0": terms.n0, "n": terms.n, "alpha": terms.alpha, "seed": lab.seed,
                 "precision": run.manifest.model.precision or "float32"}  # fmt: skip
    return {**facts, "rows": {name: _row(each, told[name], found["gaussian"]) for name, each in found.items()}}


def _row(found: Certified, told: dict[str, Any], gaussian: Certified) -> dict[str, Any]:
    kept = ("objective", "seconds", "steps", "milliseconds a step", "epochs", "first", "curve", "measured")
    return {
        **found.summary(_EPSILONS),
        **{key: told[key] for key in kept},  # after the summary, which has the seconds of certifying
        "interval": found.interval,
        "gap": gap(gaussian, found),
    }


def certified(lab: Lab, name: str, model: str, of: Trained, wanted: Sampled) -> Run:
    """The run of duels on evenly chosen test inputs."""
    skip = max(1, len(data.load(of.data, split="test")) // wanted.inputs)
    words = ["--model", model, "--data", of.data, "--sigma", f"{of.sigma:g}", "--seed", str(lab.seed)]
    words += ["--n0", str(wanted.n0), "--n", str(wanted.n), "--method", "duels"]
    words += ["--skip", str(skip), "--max", str(skip * wanted.inputs)]
    words += [] if lab.cifar10 is None else ["--precision", "bfloat16"]  # as in the training, and faster
    return Run(commands.certified(lab, name, words))


def drawn(found: record.Found) -> dict[str, Figure]:
    """The accuracy under noise against processor time, at each σ."""
    return {
        f"training-{sigma}": figures.lines(
            {
                _TITLES[name]: (
                    [point["seconds"] for point in row["curve"]],
                    [100 * point["noisy accuracy"] for point in row["curve"]],
                )
                for name, row in each["rows"].items()
            },
            "processor time of the training (s)",
            "accuracy under noise (%)",
        )
        for sigma, each in found["sigmas"].items()
    }


def brief(found: record.Found) -> str:
    """The section of the first page: average radii of all objectives."""
    text = (
        f"{found['data']}, {found['minutes']:.3g} minutes of processor time for each training. Steps with an attack "
        "cost more, so there are fewer. Average radius by duels, and its difference from Gaussian training in per "
        "cent; bold where the 95 % interval of the difference leaves out 0:"
    )
    head = ["objective", *(f"σ = {sigma}" for sigma in found["sigmas"])]
    rows = [
        [
            title,
            *(
                size(each["rows"][name]["average"]) + ("" if name == "gaussian" else _short(each["rows"], name))
                for each in found["sigmas"].values()
            ),
        ]
        for name, title in _TITLES.items()
    ]
    return f"{wrapped(text)}\n\n{table(head, rows)}"


def _short(rows: dict[str, Any], name: str) -> str:
    """The difference from Gaussian training in per cent, bold if its interval leaves out 0."""
    told, _, _ = above(rows[name]["gap"], rows["gaussian"]["average"]).partition(" (")
    return f", **{told}**" if told and is_sure(rows[name]["gap"]) else f", {told}" if told else ""


def _against_wanted(found: record.Found) -> str:
    """The best objective at each σ, and whether it is as far above Gaussian training as wanted."""
    told, reached = [], 0
    for sigma, each in found["sigmas"].items():
        rows = each["rows"]
        base = rows["gaussian"]["average"]
        best = max((name for name in rows if name != "gaussian"), key=lambda name: rows[name]["average"])
        enough = rows[best]["average"] >= (1 + _WANTED) * base
        reached += enough
        far = above(rows[best]["gap"], base) or "Gaussian training certifies nothing"
        told.append(f"{_TITLES[best]} at σ = {sigma}, {far}: {'reached' if enough else 'not reached'}")
    wanted = f"Wanted: the best objective at least {100 * _WANTED:g} % above Gaussian training at every σ."
    count = f"reached at {reached} of {len(told)} σ"
    return wrapped(f"{wanted} Found, with the 95 % interval of the difference: {'; '.join(told)} ({count}).")


def shown(found: record.Found) -> str:
    """The tables and curves."""
    about = (
        f"{found['data']}, network `{found['network']}`, {found['batch']} noisy copies in a step, "
        f"{found['minutes']:.3g} minutes of processor time (one thread) for each training."
    )
    parts = [_TEXT, wrapped(about), made_by(found), _against_wanted(found)]
    for sigma, each in found["sigmas"].items():
        parts += [f"## σ = {sigma}", _facts(each), _results(sigma, each, published=found["data"] == "CIFAR-10")]
        parts += [_orderings(sigma, each), "### Training", _costs(each), _curves(found, each)]
        parts.append(f"![accuracy under noise against processor time](training-{sigma}.svg)")
    return "\n\n".join(parts)


def _facts(each: dict[str, Any]) -> str:
    return wrapped(
        f"{each['inputs']} test inputs, duels, {each['precision']}, n0 = {each['n0']}, n = {each['n']}, "
        f"α = {each['alpha']:g}, seed {each['seed']} of training and certification. Accuracies without and with noise "
        "are of the network itself, on the whole test set."
    )


def _results(sigma: str, each: dict[str, Any], *, published: bool) -> str:
    head = ["objective", "accuracy, %", "under noise, %", *(f"at {epsilon:g}, %" for epsilon in _EPSILONS),
            "average radius (95 %)", "− Gaussian (95 %)", "above Gaussian (95 %)",
            *(["published average radius"] if published else [])]  # fmt: skip
    rows = [
        [
            _TITLES[name],
            percent(row["measured"]["clean accuracy"]),
            percent(row["measured"]["noisy accuracy"]),
            *map(percent, row["at"].values()),
            average(row),
            "" if name == "gaussian" else difference(row["gap"]),
            "" if name == "gaussian" else above(row["gap"], each["rows"]["gaussian"]["average"]),
            *([f"{AVERAGE_RADIUS[name][sigma]:.3f}"] if published else []),
        ]
        for name, row in each["rows"].items()
    ]
    return table(head, rows)


def _orderings(sigma: str, each: dict[str, Any]) -> str:
    ours = sorted(each["rows"], key=lambda name: -each["rows"][name]["average"])
    papers = sorted(AVERAGE_RADIUS, key=lambda name: -AVERAGE_RADIUS[name][sigma])
    lines = [f"By average radius, ours: {', '.join(_TITLES[name] for name in ours)}",
             f"published: {', '.join(_TITLES[name] for name in papers)}"]  # fmt: skip
    return wrapped("; ".join(lines) + ".")


def _costs(each: dict[str, Any]) -> str:
    head = ["objective", "settings", "ms a step", "steps", "of them Gaussian", "epochs", "s of training"]
    rows = [
        [
            _TITLES[name],
            f"`{row['objective']}`",
            f"{row['milliseconds a step']:.1f}",
            str(row["steps"]),
            str(row["first"]["steps"]),
            f"{row['epochs']:.2f}",
            f"{row['seconds']:.1f}",
        ]
        for name, row in each["rows"].items()
    ]
    return table(head, rows)


def _curves(found: record.Found, each: dict[str, Any]) -> str:
    """The accuracy under noise at shares of the time."""
    whole = 60 * found["minutes"]
    head = ["accuracy under noise, %, after", *(f"{whole * point / POINTS:.3g} s" for point in range(1, POINTS + 1))]
    rows = [
        [_TITLES[name], *(percent(point["noisy accuracy"]) for point in row["curve"])]
        for name, row in each["rows"].items()
    ]
    return table(head, rows)


_TEXT = """\
All objectives train the same network from the same first weights for the same processor time, with the same optimizer,
largest learning rate, one-cycle schedule over that time and augmentation, but for MACER as below. The cost of a step is
measured right before a training and gives the number of steps; the table has the time that the training took in the
end. A step has the same number of noisy copies for all objectives: with m copies of each input it has the m-th part of
the inputs, as in the code of SmoothMix. The settings are those of the papers, but for these: ε of SmoothAdv is 2 σ up
to 1, with 2 attack steps and 2 copies; SmoothMix takes 2 steps of 4 σ, not 4 of 2 σ, and has the one-step adversary
from σ = 0.5, as its authors' commands do; MACER has 8 copies, not 16. The papers of SmoothAdv and SmoothMix raise the
attack or its weight in the first epochs; here both begin with Gaussian training for a fifth of the time. At σ = 1 the
paper of MACER adds the penalty when the learning rate falls to a tenth; here that is done at all σ, after half of the
time, and the learning rate is a tenth from then on: with the learning rate of the others the penalty destroyed the
network.

The published radii are of a ResNet-110 after 150 epochs on a GPU, at n = 10⁵ (Jeong et al. 2021), so their orderings
are to be compared, not their values: in the papers all objectives have the same number of epochs, and many; here they
have the same time, and few epochs. Intervals are Student's over the inputs; those of differences are paired, and in per
cent they count from the average of Gaussian training as it was measured. They say nothing about other seeds of
training. The last table has the accuracy on one noisy copy of each of 1000 test inputs during the training, measured
outside its time: where it still rises at the end, more time would help."""


if __name__ == "__main__":
    sys.exit(record.main(__file__, __doc__, measure))
