"""Good calls of the functions of mathematics: arrays in, arrays out."""
# ruff: noqa: E501

from __future__ import annotations

import torch

from lvmrs import registry
from lvmrs.kernel import lipschitz, maps, noise, radius
from lvmrs.kernel.bounds import bernstein, betting, clopper_pearson, hoeffding
from lvmrs.kernel.scores import Moments
from lvmrs.planners import search
from tests.hostile.public_call import Public

__all__ = ["MATHEMATICS"]

_Z = torch.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.5]])
_TEMPERED = {"temperature": "positive", "mass": "positive"}
_BOUNDED = {"n": "wholes from 1", "risk": "fractions", "mass": "positive numbers"}

MATHEMATICS: dict[str, Public] = {
    **{
        f"maps.{name}": Public(getattr(maps, name), lambda w: {"logits": _Z, "temperature": 1.0, "mass": 1.0}, {"logits": "logits", **_TEMPERED})
        for name in ("softmax", "sparsemax", "hardmax")
    },
    "registry.simplex_map": Public(registry.simplex_map, lambda w: {"name": "softmax"}, {"name": "simplex map"}),
    "search.sweep": Public(search.sweep, lambda w: {"kind": maps.Softmax, "logits": _Z, "temperatures": [1.0], "mass": 1.0}, {"kind": "object", "logits": "logits", "temperatures": "positive numbers", "mass": "positive"}),
    **{
        f"maps.{kind.__name__}": Public(kind, lambda w: {"temperature": 1.0, "mass": 1.0}, dict(_TEMPERED))
        for kind in (maps.Softmax, maps.Sparsemax, maps.Hardmax, maps.Duel, maps.SoftDuel)
    },
    **{
        f"maps.{name}.constants": Public(getattr(maps, name).constants, lambda w: {"lipschitz": 1.0, "temperature": 1.0, "mass": 1.0}, {"lipschitz": "constants", "temperature": "positive numbers", "mass": "positive numbers"})
        for name in ("Softmax", "Sparsemax", "Hardmax")
    },
    **{
        f"bernstein.{side}": Public(getattr(bernstein, side), lambda w: {"mean": 0.5, "variance": 0.1, "n": 10, "risk": 0.1, "mass": 1.0}, {"mean": "probabilities", "variance": "probabilities", **_BOUNDED})
        for side in ("lower", "upper")
    },
    **{
        f"hoeffding.{side}": Public(getattr(hoeffding, side), lambda w: {"mean": 0.5, "n": 10, "risk": 0.1, "mass": 1.0}, {"mean": "probabilities", **_BOUNDED})
        for side in ("lower", "upper")
    },
    **{
        f"clopper_pearson.{side}": Public(getattr(clopper_pearson, side), lambda w: {"count": 1, "n": 10, "risk": 0.1, "mass": 1.0}, {"count": "probabilities", **_BOUNDED})
        for side in ("lower", "upper")
    },
    **{
        f"betting.{side}": Public(getattr(betting, side), lambda w: {"samples": [0.5, 0.2, 0.3], "risk": 0.1, "mass": 1.0}, {"samples": "samples", "risk": "fractions", "mass": "positive"})
        for side in ("lower", "upper")
    },
    "radius.r1": Public(radius.r1, lambda w: {"p_a": 0.9, "p_b": 0.05, "lipschitz": 1.0, "mass": 1.0}, {"p_a": "probabilities", "p_b": "probabilities", "lipschitz": "constants", "mass": "positive numbers"}),
    "radius.r2": Public(radius.r2, lambda w: {"p_a": 0.9, "p_b": 0.05, "sigma": 1.0, "mass": 1.0}, {"p_a": "probabilities", "p_b": "probabilities", "sigma": "positive numbers", "mass": "positive numbers"}),
    "radius.r3": Public(radius.r3, lambda w: {"p_a": 0.9, "sigma": 1.0, "mass": 1.0}, {"p_a": "probabilities", "sigma": "positive numbers", "mass": "positive numbers"}),
    **{
        f"radius.{name}": Public(getattr(radius, name), lambda w: {"p_a": 0.9, "p_b": 0.05, "sigma": 1.0, "lipschitz": 1.0, "class_lipschitz": 1.0, "mass": 1.0}, {"p_a": "probabilities", "p_b": "probabilities", "sigma": "positive numbers", "lipschitz": "constants", "class_lipschitz": "constants", "mass": "positive numbers"}, frozenset({("class_lipschitz", "None")}))
        for name in ("ramp", "ramp_pairwise")
    },
    "radius.ramp_per_class": Public(radius.ramp_per_class, lambda w: {"p_a": 0.9, "p_b": 0.05, "sigma": 1.0, "class_lipschitz": 1.0, "mass": 1.0}, {"p_a": "probabilities", "p_b": "probabilities", "sigma": "positive numbers", "class_lipschitz": "constants", "mass": "positive numbers"}),
    "radius.text": Public(radius.text, lambda w: {"radius": 0.5, "digits": 4}, {"radius": "from 0", "digits": "decimal places"}, frozenset({("radius", "infinity"), ("radius", "-infinity"), ("radius", "-1")})),
    "lipschitz.optimal_sigma": Public(lipschitz.optimal_sigma, lambda w: {"lipschitz": 1.0, "of": "class", "mass": 1.0}, {"lipschitz": "positive numbers", "of": "name", "mass": "positive numbers"}),
    **{
        f"lipschitz.{name}": Public(getattr(lipschitz, name), lambda w: {"lipschitz": 1.0, "sigma": 1.0, "of": "class", "mass": 1.0}, {"lipschitz": "constants", "sigma": "positive numbers", "of": "name", "mass": "positive numbers"})
        for name in ("smoothed", "smoothed_limit")
    },
    "lipschitz.local_quantile": Public(lipschitz.local_quantile, lambda w: {"p": 0.7, "epsilon": 0.1, "sigma": 1.0, "lipschitz": 1.0, "mass": 1.0}, {"p": "probabilities", "epsilon": "numbers from 0", "sigma": "positive numbers", "lipschitz": "constants", "mass": "positive numbers"}),
    "moments.Moments.of": Public(Moments.of, lambda w: {"samples": _Z}, {"samples": "logits"}),
    "noise.Stream": Public(noise.Stream, lambda w: {"seed": 0, "index": 0, "stage": "selection"}, {"seed": "seed", "index": "seed", "stage": "name"}),
    "noise.check_noise": Public(noise.check_noise, lambda w: {"noise": noise.GAUSSIAN}, {"noise": "object"}),
}  # fmt: skip
