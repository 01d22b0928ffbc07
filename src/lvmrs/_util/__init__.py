"""Utilities that do not depend on smoothing: files, locks, text, signals and settings."""

__all__: list[str] = []
