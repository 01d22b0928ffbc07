"""The sweep over 50 temperatures against 50 separate calls of entmax.sparsemax and torch.softmax, same reductions."""

import numpy as np
import torch
from entmax import sparsemax

from lvmrs.planners import search
from lvmrs.registry import simplex_map
from side_by_side import seconds

TEMPERATURES = np.geomspace(0.01, 50, 50)


def separate_softmax(logits: torch.Tensor) -> list[tuple[torch.Tensor, ...]]:
    return [torch.var_mean(torch.softmax(logits / t, dim=-1).double(), dim=0) for t in TEMPERATURES]


def separate_sparsemax(logits: torch.Tensor) -> list[tuple[torch.Tensor, ...]]:
    return [torch.var_mean(sparsemax(logits / t, dim=-1).double(), dim=0) for t in TEMPERATURES]


def main() -> None:
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}, float32 logits, 50 temperatures")
    print(f"{'logits':>12}  {'map':10} {'separate':>10} {'sweep':>10} {'ratio':>7}")
    for n, c in ((1000, 1000), (10_000, 10)):
        logits = 3 * torch.randn(n, c, generator=torch.Generator().manual_seed(0))
        slow_soft, fast_soft, slow_sparse, fast_sparse = seconds(
            lambda z=logits: separate_softmax(z),  # type: ignore[misc]
            lambda z=logits: search.sweep(simplex_map("softmax"), z, TEMPERATURES),  # type: ignore[misc]
            lambda z=logits: separate_sparsemax(z),  # type: ignore[misc]
            lambda z=logits: search.sweep(simplex_map("sparsemax"), z, TEMPERATURES),  # type: ignore[misc]
        )
        for name, slow, fast in (
            ("softmax", slow_soft, fast_soft),
            ("sparsemax", slow_sparse, fast_sparse),
            ("both", slow_soft + slow_sparse, fast_soft + fast_sparse),
        ):
            print(f"{n:>6} × {c:<4} {name:10} {slow * 1e3:8.1f}ms {fast * 1e3:8.1f}ms {slow / fast:6.1f}×")


if __name__ == "__main__":
    main()
