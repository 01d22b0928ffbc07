"""Utilities that do not depend on smoothing: files, locks, text, signals and settings."""
