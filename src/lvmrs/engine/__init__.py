"""Runs the algorithm (``pipeline``), draws samples for it (``sources``, ``batching``) and runs models fast."""

__all__: list[str] = []
