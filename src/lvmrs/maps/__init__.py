"""What is smoothed: a map turns logits into scores of the top class and its rivals. Each map has a file.

``Map`` is the interface that the proof uses; ``SimplexMap`` is for maps of each logit vector to the simplex (hardmax,
softmax, sparsemax). ``Duel`` and ``SoftDuel`` compare the top class with one rival at a time. ``sweep`` computes the
moments of a simplex map at many temperatures. To add a map, derive from ``SimplexMap`` and call
``lvmrs.registry.MAPS.add``.
"""

from lvmrs.maps.base import Map, SimplexMap, Slopes
from lvmrs.maps.duel import Duel, SoftDuel
from lvmrs.maps.hardmax import Hardmax
from lvmrs.maps.softmax import Softmax
from lvmrs.maps.sparsemax import Sparsemax
from lvmrs.maps.sweeping import sweep

__all__ = ["Duel", "Hardmax", "Map", "SimplexMap", "Slopes", "SoftDuel", "Softmax", "Sparsemax", "sweep"]
