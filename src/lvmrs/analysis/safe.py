"""Lists the inputs of a run whose certificate holds at a radius."""

from __future__ import annotations

from lvmrs.errors import RunError
from lvmrs.kernel import checks
from lvmrs.kernel.method import ABSTAIN
from lvmrs.record import Row, Run
from lvmrs.record.attacks import Attack


def safe_inputs(run: Run, radius: float, *, correct: bool = False) -> list[Row]:
    """The rows of a run that are certified at a radius, in the order of the inputs.

    No point closer than the radius changes the answer to such an input; each certificate is wrong with probability at
    most α. Wrong answers are certified as well as correct ones. Certificates that an attack broke are left out. The
    docstring of ``lvmrs.runs`` has an example of a run.

    Args:
        run: The run.
        radius: The radius, from 0.
        correct: Leave out inputs whose certified class is not their label. Raises a RunError without labels.

    Returns:
        The rows; ``predict`` is the certified class, and ``name`` the name of the input, if it has one.
    """
    checks.instance("run", run, Run, "a lvmrs.Run")
    radius = checks.nonnegative_number("radius", radius)
    attack = Attack.of(run)
    broken = set() if attack is None else {row.idx for row in attack.rows() if row.broken}
    certified = (row for row in run.rows() if row.predict != ABSTAIN and row.radius >= radius)
    rows = sorted((row for row in certified if row.idx not in broken), key=lambda row: row.idx)
    if correct and any(row.correct is None for row in rows):
        raise RunError(f"{run.directory} has no labels, so that wrong answers are unknown; list all certified inputs")
    return [row for row in rows if row.correct or not correct]
