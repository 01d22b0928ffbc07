"""One-sided confidence bounds for the mean of independent samples of a variable in [0, mass].

Each module has ``lower`` and ``upper``. Over the sampling, ``lower`` exceeds the mean with probability at most
``risk``, and ``upper`` falls below it with probability at most ``risk``; who needs several bounds to hold at once must
divide the risk among them. Each module also has its ``Bound``, which the proof uses: it keeps a tally of scores as they
come in. To add a bound, derive from ``Bound`` and call ``lvmrs.registry.BOUNDS.add``.

Numbers and arrays broadcast; bounds are float64 arrays of the shape that the arguments have together, or numbers.

====================  ======================  =============================================================
module                for                     needs
====================  ======================  =============================================================
``clopper_pearson``   variables in {0, mass}  how many were not zero, n
``hoeffding``         any in [0, mass]        mean, n
``bernstein``         any in [0, mass]        mean, unbiased variance of all n samples, n
``betting``           any in [0, mass]        the samples in the order drawn, or a safely rounded histogram
``beta_mixture``      variables in {0, mass}  how many were not zero, n; at any time
``betting_mixture``   any in [0, mass]        the samples, or their power sums; at any time
``staged``            0/1 columns of a proof  a few numbers of samples, fixed before; it has no functions
====================  ======================  =============================================================

The bounds of the last three are wrong *at any time*, over all n together, with probability at most ``risk``. So whoever
samples may look at them again and again, and stop for any reason.
"""

from lvmrs.kernel.bounds import bernstein, beta_mixture, betting, betting_mixture, clopper_pearson, hoeffding
from lvmrs.kernel.bounds.base import Bound, Tally

__all__ = [
    "Bound", "Tally", "bernstein", "beta_mixture", "betting", "betting_mixture", "clopper_pearson", "hoeffding",
]  # fmt: skip
