"""Upper bounds on the Lipschitz constants of networks, from their layers."""

from lvmrs.models.lipschitz.bound import lipschitz_bound

__all__ = ["lipschitz_bound"]
