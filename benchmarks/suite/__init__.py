"""The parts of ``make bench``: what is measured, who takes part, and how it is written down.

``benchmarks/speed.py`` runs all of them. Each measurement is a process of its own, started by ``suite.child``.
"""
