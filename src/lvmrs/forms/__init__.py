"""Which radius: a form turns bounds on two smoothed scores into a certified radius. Each form has a file.

The formulas and their reasons are in ``lvmrs.radius``; a form is the object that the proof asks for them.

>>> import numpy as np
>>> from lvmrs.maps import Slopes
>>> unknown = Slopes(np.array(np.inf), np.array(np.inf))
>>> print(f"{R2().radius(np.array(0.99), np.array(0.005), sigma=0.5, slopes=unknown):.4f}")
1.2255
"""

from lvmrs.forms.base import Form
from lvmrs.forms.r1 import R1, R1Noise
from lvmrs.forms.r2 import R2
from lvmrs.forms.r3 import R3
from lvmrs.forms.ramp import Ramp

__all__ = ["R1", "R2", "R3", "Form", "R1Noise", "Ramp"]
