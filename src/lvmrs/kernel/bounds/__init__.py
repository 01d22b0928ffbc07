"""One-sided confidence bounds for the mean of independent samples of a variable in [0, mass].

Each module has ``lower`` and ``upper``. ``lower`` exceeds the mean with probability at most ``risk``, and ``upper``
falls below it with probability at most ``risk``; divide the risk if several bounds must hold at once. Each module also
has its ``Bound``, which the proof uses: it keeps a tally of streamed scores. To add a bound, derive from ``Bound`` and
call ``lvmrs.registry.BOUNDS.add``.

Numbers and arrays broadcast; bounds are float64 arrays of the broadcast shape, or numbers.

====================  ======================  =============================================================
module                for                     needs
====================  ======================  =============================================================
``clopper_pearson``   variables in {0, mass}  how many were not zero, n
``hoeffding``         any in [0, mass]        mean, n
``bernstein``         any in [0, mass]        mean, unbiased variance of all n samples, n
``betting``           any in [0, mass]        the samples, in the order in which they were drawn
``beta_mixture``      variables in {0, mass}  how many were not zero, n; at any time
``betting_mixture``   any in [0, mass]        the samples, or their power sums; at any time
``staged``            0/1 columns of a proof  a few numbers of samples, fixed before; it has no functions
====================  ======================  =============================================================

The last three are anytime bounds: the probability that a bound is wrong at *any* n is at most ``risk``. So sampling may
stop for any reason, however often the bounds are computed.
"""

from lvmrs.kernel.bounds import bernstein, beta_mixture, betting, betting_mixture, clopper_pearson, hoeffding
from lvmrs.kernel.bounds.base import Bound, Tally

__all__ = [
    "Bound", "Tally", "bernstein", "beta_mixture", "betting", "betting_mixture", "clopper_pearson", "hoeffding",
]  # fmt: skip
