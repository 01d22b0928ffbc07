"""The algorithm (``pipeline``), and where its samples come from (``sources``, ``batching``)."""
