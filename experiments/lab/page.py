"""Markdown of results: tables, cells, and the paragraph about a case that stands above its tables."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["about", "above", "average", "difference", "is_sure", "made_by", "percent", "size", "table", "wrapped"]


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    """A Markdown table.

    >>> print(table(["a", "b"], [["1", "2"]]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def percent(share: float) -> str:
    """A share in per cent.

    >>> percent(0.125)
    '12.5'
    """
    return f"{100 * share:.1f}"


def size(radius: float) -> str:
    """A radius with four decimals."""
    return f"{radius:.4f}"


def difference(found: list[float]) -> str:
    """A paired difference with its interval.

    >>> difference([0.01, 0.005, 0.015])
    '+0.0100 (+0.0050 to +0.0150)'
    """
    mean, low, high = found
    return f"{mean:+.4f} ({low:+.4f} to {high:+.4f})"


def average(row: Mapping[str, Any]) -> str:
    """An average radius, with its interval if the file has one.

    >>> average({"average": 0.5, "interval": [0.5, 0.45, 0.55]}), average({"average": 0.5})
    ('0.5000 (0.4500 to 0.5500)', '0.5000')
    """
    if (found := row.get("interval")) is None:
        return size(row["average"])
    return f"{size(row['average'])} ({size(found[1])} to {size(found[2])})"


def above(found: list[float], base: float) -> str:
    """A paired difference in per cent of the average from which it is counted; "" if that is 0.

    >>> above([0.01, 0.005, 0.015], 0.5)
    '+2.0 % (+1.0 to +3.0)'
    """
    if not base:
        return ""
    mean, low, high = (100 * value / base for value in found)
    return f"{mean:+.1f} % ({low:+.1f} to {high:+.1f})"


def is_sure(found: list[float]) -> bool:
    """Whether the interval of a difference leaves out 0.

    >>> is_sure([0.01, 0.005, 0.015]), is_sure([0.01, -0.005, 0.025])
    (True, False)
    """
    return found[1] > 0 or found[2] < 0


def wrapped(text: str, indent: str = "") -> str:
    """A paragraph in lines of 120 characters; all lines but the first are indented."""
    return textwrap.fill(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def about(facts: Mapping[str, Any]) -> str:
    """One paragraph: the network and its accuracy, the noise, the samples, the inputs, the time, and the commands."""
    parts = [f"{facts['inputs']} test inputs, σ = {facts['sigma']:.4g}, {facts['noise']} noise"]
    parts.append(f"n0 = {facts['n0']}, n = {facts['n']}, α = {facts['alpha']:g}, seed {facts['seed']}")
    if facts["lipschitz"] is not None:
        parts.append(f"Lipschitz constant {facts['lipschitz']:g}")
    own = (
        f"On these inputs the network itself is right on {percent(facts['clean accuracy'])} % without noise and on "
        f"{percent(facts['noisy accuracy'])} % of noisy copies"
    )
    whole = ""
    if "network" in facts:
        measured = facts["test accuracy"]
        clean, noisy = (percent(measured[key]) for key in ("clean accuracy", "noisy accuracy"))
        whole = (
            f" `{facts['network']}`, trained in {facts['training minutes']:.1f} minutes, is right on {clean} % and "
            f"{noisy} % of the whole test set."
        )
    commands = "\n".join(facts["commands"])
    text = f"{'; '.join(parts)}. {own}.{whole} Sampling took {facts['seconds an input']:.2g} s an input."
    return f"{wrapped(text)}\n\n```\n{commands}\n```"


def made_by(found: Mapping[str, Any]) -> str:
    """The command, the time and the machine of an experiment; one paragraph for each command that made cases of it."""
    last = found["made"]
    return "\n\n".join(
        wrapped(
            f"{_of(made)}`{made['command']}`: {made['seconds']:g} s with what the cache had, {made['date']}, "
            f"{made['machine']}."
        )
        for made in [last, *last.get("earlier", [])]
    )


def _of(made: Mapping[str, Any]) -> str:
    return f"{', '.join(made['of'])}: " if "of" in made else ""
