"""Upper bounds on the Lipschitz constants of networks, from their layers."""

__all__: list[str] = []
