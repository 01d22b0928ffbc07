"""Data sets by name: ``load("npz:test.npz")``. The names of all sources are in ``lvmrs.registry.DATA``."""

from lvmrs._util.facts import DataFacts
from lvmrs.data.arrays import Arrays
from lvmrs.data.base import Dataset, check_labels, checked_input
from lvmrs.data.folder import ImageFolder
from lvmrs.data.load import DataSource, load

__all__ = ["Arrays", "DataFacts", "DataSource", "Dataset", "ImageFolder", "check_labels", "checked_input", "load"]
