"""Attacks: a search for the nearest point at which a certified class does not win, an upper bound on the true radius.

A certificate says that a class A wins at every point closer than its radius. An attack searches for a point where A
does not win: inside the radius, where no such point should exist, and outside, as near as possible. **The search proves
nothing.** A statistical test on fresh samples of the certified classifier decides about each point that the search
returns; the test is wrong with probability at most β. So the true radius lies between two numbers: certified ≤ true ≤
attacked.

``attack`` attacks one input, and ``lvmrs.runs.attack`` all inputs of a run.
"""

from lvmrs.attacks.search import Finding, attack
from lvmrs.attacks.targets import Search

__all__ = ["Finding", "Search", "attack"]
