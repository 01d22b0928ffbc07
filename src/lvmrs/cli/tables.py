"""Tables of text."""

from collections.abc import Sequence

__all__ = ["aligned", "percent"]


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns of equal width: the first to the left, numbers to the right."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = (
        "  ".join(cell.ljust(widths[k]) if k == 0 else cell.rjust(widths[k]) for k, cell in enumerate(row))
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def percent(share: float) -> str:
    """A share of inputs, as the field writes it."""
    return f"{100 * share:.1f}"
