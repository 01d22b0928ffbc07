"""One-sided confidence bounds for the mean of independent samples of a variable in [0, mass].

Each module has ``lower`` and ``upper``. Over the sampling, ``lower`` exceeds the mean with probability at most
``risk``, and ``upper`` falls below it with probability at most ``risk``; to spend one risk on several bounds is up to
the caller. Each module also has its ``Bound``, which keeps a tally of scores as they come in: the proof asks that.
To add a bound, derive from ``Bound`` and call ``lvmrs.registry.BOUNDS.add``.

====================  ======================  =============================================================
module                for                     needs
====================  ======================  =============================================================
``clopper_pearson``   variables in {0, mass}  how many were not zero, n
``hoeffding``         any in [0, mass]        mean, n
``bernstein``         any in [0, mass]        mean, unbiased variance of all n samples, n
``betting``           any in [0, mass]        the samples in the order drawn, or a safely rounded histogram
====================  ======================  =============================================================
"""

from lvmrs.confidence import bernstein, betting, clopper_pearson, hoeffding
from lvmrs.confidence.base import Bound, Tally

__all__ = ["Bound", "Tally", "bernstein", "betting", "clopper_pearson", "hoeffding"]
