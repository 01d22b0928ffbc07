"""Every bad argument gets one sentence that names it and shows its value, from our own tree, and is a ValueError."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from lvmrs.errors import InvalidArgumentError, LvmrsError
from lvmrs.kernel import lipschitz, maps, radius
from lvmrs.kernel.bounds import bernstein, betting, clopper_pearson, hoeffding
from lvmrs.kernel.scores import Moments
from lvmrs.planners import search
from lvmrs.registry import simplex_map

NAN, INF = float("nan"), float("inf")
Z = torch.zeros(4, 3)

CASES: dict[str, tuple[Callable[[], object], str]] = {
    # simplex
    "logits NaN": (lambda: maps.softmax(torch.tensor([0.0, NAN])), "logits must be finite, got nan"),
    "logits inf": (lambda: maps.sparsemax(torch.tensor([0.0, INF])), "logits must be finite, got inf"),
    "logits -inf": (lambda: maps.hardmax(torch.tensor([0.0, -INF])), "logits must be finite, got -inf"),
    "logits empty": (lambda: maps.softmax(torch.zeros(3, 0)), "logits is empty (shape (3, 0))"),
    "logits list": (lambda: maps.softmax([1.0]), "logits must be a torch.Tensor, got list"),  # type: ignore[arg-type]
    "logits whole": (lambda: maps.softmax(torch.tensor([1, 2])), "must be a floating-point tensor, got torch.int64"),
    "logits number": (
        lambda: maps.softmax(torch.tensor(1.0)),
        "logits must have at least 1 dimension(s), got shape ()",
    ),
    "temperature 0": (lambda: maps.softmax(Z, temperature=0.0), "temperature must be positive and finite, got 0.0"),
    "temperature -1": (
        lambda: maps.sparsemax(Z, temperature=-1),
        "temperature must be positive and finite, got -1.0",
    ),
    "temperature inf": (
        lambda: maps.softmax(Z, temperature=INF),
        "temperature must be positive and finite, got inf",
    ),
    "temperature tiny": (lambda: maps.softmax(Z, temperature=1e-40), "temperature must lie within"),
    "mass 0": (lambda: maps.sparsemax(Z, mass=0.0), "mass must be positive and finite, got 0.0"),
    "sweep logits": (
        lambda: search.sweep(maps.Softmax, Z[0], [1.0]),
        "logits must have at least 2 dimension(s)",
    ),
    "sweep NaN": (lambda: search.sweep(maps.Softmax, Z * NAN, [1.0]), "logits must be finite, got nan"),
    "sweep temperatures": (lambda: search.sweep(maps.Softmax, Z, [1.0, -2.0]), "got -2.0 at index 1"),
    "sweep no temperature": (lambda: search.sweep(maps.Softmax, Z, []), "temperatures is empty (shape (0,))"),
    "sweep table": (lambda: search.sweep(maps.Softmax, Z, [[1.0]]), "temperatures must be one-dimensional"),
    "temperature list": (
        lambda: maps.softmax(Z, temperature=[1.0, 2.0]),  # type: ignore[arg-type]
        "temperature must be a single number, got shape (2,)",
    ),
    "mass tensor": (
        lambda: maps.sparsemax(Z, mass=torch.ones(2)),  # type: ignore[arg-type]
        "mass must be a single number, got shape (2,)",
    ),
    "reach": (lambda: maps.softmax(Z, temperature=1e-30, mass=1e-30), "temperature × mass must lie within"),
    "map list": (lambda: search.sweep(simplex_map(["softmax"]), Z, [1.0]), "map must be one of"),  # type: ignore[arg-type]
    # moments
    "samples NaN": (lambda: Moments.of(torch.tensor([NAN])), "samples must be finite, got nan"),
    "samples empty": (lambda: Moments.of(torch.zeros(0, 3)), "samples is empty (shape (0, 3))"),
    # confidence
    "count above n": (lambda: clopper_pearson.lower(11, 10, 0.1), "count must not exceed n, got 11.0"),
    "count fraction": (
        lambda: clopper_pearson.upper(2.5, 10, 0.1),
        "count must be a whole number of at least 0, got 2.5",
    ),
    "count negative": (
        lambda: clopper_pearson.lower(-1, 10, 0.1),
        "count must be a whole number of at least 0, got -1.0",
    ),
    "n zero": (lambda: hoeffding.lower(0.5, 0, 0.1), "n must be a whole number of at least 1, got 0.0"),
    "n one": (lambda: bernstein.lower(0.5, 0.1, 1, 0.1), "n must be a whole number of at least 2, got 1.0"),
    "n inf": (
        lambda: hoeffding.lower(0.5, INF, 0.1),
        "n must be a whole number of at least 1 and at most 2⁵³, got inf",
    ),
    "risk 0": (lambda: hoeffding.lower(0.5, 10, 0.0), "risk must lie strictly between 0 and 1, got 0.0"),
    "risk 1": (lambda: clopper_pearson.lower(5, 10, 1.0), "risk must lie strictly between 0 and 1, got 1.0"),
    "risk NaN": (lambda: bernstein.lower(0.5, 0.1, 10, NAN), "risk must not be NaN, got nan"),
    "risk of bets": (lambda: betting.lower([0.5], -0.1), "risk must lie strictly between 0 and 1, got -0.1"),
    "risks of bets": (lambda: betting.lower([[0.5], [0.2]], [0.1, 0.2, 0.3]), "samples (2,), risk (3,)"),
    "mean above mass": (lambda: hoeffding.upper(1.5, 10, 0.1), "mean must lie in [0, mass] = [0, 1], got 1.5"),
    "mean in list": (lambda: hoeffding.upper([0.1, -0.5], 10, 0.1), "got -0.5 at index 1"),
    "variance below 0": (lambda: bernstein.lower(0.5, -0.1, 10, 0.1), "variance must be that of samples in [0, mass]"),
    "mass negative": (lambda: hoeffding.lower(0.5, 10, 0.1, mass=-2), "mass must be positive and finite, got -2.0"),
    "bets above mass": (
        lambda: betting.lower([0.5, 1.5], 0.1),
        "samples must lie in [0, mass] = [0, 1], got 1.5 at index 1",
    ),
    "bets NaN": (lambda: betting.upper([0.5, NAN], 0.1), "samples must not be NaN, got nan at index 1"),
    "bets empty": (lambda: betting.upper([], 0.1), "samples is empty (shape (0,))"),
    "bets number": (lambda: betting.upper(0.5, 0.1), "samples must have at least one dimension"),
    "bets words": (
        lambda: betting.upper("many", 0.1),  # type: ignore[arg-type]
        "samples must be a number or an array of numbers, got 'many'",
    ),
    "bets mass": (lambda: betting.upper([0.5], 0.1, mass=0), "mass must be positive and finite, got 0.0"),
    "shapes": (lambda: hoeffding.lower([0.1, 0.2], [5, 6, 7], 0.1), "do not broadcast together: mean (2,), n (3,)"),
    "n huge": (lambda: clopper_pearson.lower(5, 1e300, 0.1), "n must be a whole number of at least 1 and at most 2⁵³"),
    "sparse": (
        lambda: betting.lower(torch.rand(3).to_sparse(), 0.1),
        "samples must be a number or an array of numbers",
    ),
    # radius
    "text": (lambda: radius.text([0.1, 0.2]), "radius must be a single number, got shape (2,)"),
    "sigma 0": (lambda: radius.r2(0.9, 0.1, sigma=0.0), "sigma must be positive and finite, got 0.0"),
    "sigma -1": (lambda: radius.r3(0.9, sigma=-1.0), "sigma must be positive and finite, got -1.0"),
    "sigma NaN": (lambda: radius.ramp(0.9, 0.1, sigma=NAN, lipschitz=1.0), "sigma must not be NaN, got nan"),
    "p_a above 1": (lambda: radius.r2(1.1, 0.1, sigma=1.0), "p_a must lie in [0, mass] = [0, 1], got 1.1"),
    "p_b below 0": (
        lambda: radius.ramp(0.9, -0.1, sigma=1.0, lipschitz=1.0),
        "p_b must lie in [0, mass] = [0, 1], got -0.1",
    ),
    "p_a above mass": (lambda: radius.r3(0.5, sigma=1.0, mass=0.4), "p_a must lie in [0, mass] = [0, 0.4], got 0.5"),
    "p_a above masses": (
        lambda: radius.r3(0.5, sigma=1.0, mass=[0.4, 2]),
        "[0, mass] = [0, 0.4 to 2], got 0.5 at index 0",
    ),
    "lipschitz 0": (lambda: radius.r1(0.9, 0.1, lipschitz=0.0), "lipschitz must be positive, got 0.0"),
    "class lipschitz": (
        lambda: radius.ramp(0.9, 0.1, sigma=1.0, lipschitz=1.0, class_lipschitz=-1.0),
        "class_lipschitz must be positive, got -1.0",
    ),
    "radius mass": (lambda: radius.r1(0.9, 0.1, lipschitz=1.0, mass=NAN), "mass must not be NaN, got nan"),
    "radius shapes": (lambda: radius.r2([0.9, 0.8], [0.1, 0.1, 0.1], sigma=1.0), "p_a (2,), p_b (3,)"),
    "sigma shapes": (lambda: radius.r2([0.9, 0.8], 0.1, sigma=[1.0, 1.0, 1.0]), "sigma (3,)"),
    # lipschitz
    "constant": (lambda: lipschitz.smoothed(-1.0, sigma=1.0, of="class"), "lipschitz must be positive, got -1.0"),
    "noise": (
        lambda: lipschitz.smoothed_limit(1.0, sigma=0.0, of="class"),
        "sigma must be positive and finite, got 0.0",
    ),
    "optimum": (lambda: lipschitz.optimal_sigma(INF, of="vector"), "lipschitz must be positive and finite, got inf"),
    "epsilon": (
        lambda: lipschitz.local_quantile(0.5, epsilon=-1.0, sigma=1.0, lipschitz=1.0),
        "epsilon must be at least 0 and finite, got -1.0",
    ),
    "complex": (lambda: radius.r3(np.array([0.5j]), sigma=1.0), "p_a must be a number or an array of numbers"),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_gets_one_clear_sentence(case: str) -> None:
    call, sentence = CASES[case]
    with pytest.raises(InvalidArgumentError) as caught:
        call()
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, LvmrsError)
