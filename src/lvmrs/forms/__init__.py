"""Which radius: a form turns bounds on two smoothed scores into a certified radius. One file each.

The formulas and their proofs are in ``lvmrs.radius``; a form adds what it needs to know of the map and the noise.
"""

from lvmrs.forms.base import Form
from lvmrs.forms.r1 import R1, R1Noise
from lvmrs.forms.r2 import R2
from lvmrs.forms.r3 import R3
from lvmrs.forms.ramp import Ramp

__all__ = ["R1", "R2", "R3", "Form", "R1Noise", "Ramp"]
