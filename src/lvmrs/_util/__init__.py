"""Files, locks, texts, signals and other machinery that knows nothing of smoothing."""

__all__: list[str] = []
