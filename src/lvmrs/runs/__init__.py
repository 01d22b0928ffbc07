"""Certified data sets on disk: a directory that a crash does not harm, and that can be resumed.

Reading a run needs no torch, so that what only reads runs starts at once; ``lvmrs.jobs`` fills them.
"""

from lvmrs.runs.directory import Run
from lvmrs.runs.manifest import Manifest
from lvmrs.runs.rows import COLUMNS, Row
from lvmrs.runs.selection import Selection
from lvmrs.runs.writer import RunWriter

__all__ = ["COLUMNS", "Manifest", "Row", "Run", "RunWriter", "Selection"]
