"""Attacks: a search for points at which a certified class does not win, to put an upper bound beside each radius.

A certificate says that a class A wins at every point closer than its radius. An attack looks for a point where A does
not win: inside the radius, where there should be none, and outside, as near as it can. **The search proves nothing.**
What it finds is judged on fresh samples of the classifier that the certificate is about, by a test that is wrong with
probability at most β. So the true radius lies between two numbers: certified ≤ true ≤ attacked.

``attack`` does it for one input, and ``lvmrs.runs.attack`` for a run.
"""

from lvmrs.attacks.search import Finding, attack
from lvmrs.attacks.settings import Search

__all__ = ["Finding", "Search", "attack"]
