"""The algorithm (``pipeline``), and where its samples come from (``sources``, ``batching``)."""

__all__: list[str] = []
