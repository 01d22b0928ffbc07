"""Files, locks, texts, signals and other machinery that knows nothing of smoothing."""
