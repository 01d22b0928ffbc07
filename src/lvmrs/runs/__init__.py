"""Runs: certified data sets on disk. A run is a directory that survives a crash and can be resumed.

Reading a run needs no torch, so that commands that only read start quickly. ``lvmrs.jobs`` writes runs.
"""

from lvmrs.runs.classifier import ClassifierRecord
from lvmrs.runs.directory import Run
from lvmrs.runs.manifest import Manifest
from lvmrs.runs.rows import COLUMNS, Row
from lvmrs.runs.selection import Selection
from lvmrs.runs.writer import RunWriter

__all__ = ["COLUMNS", "ClassifierRecord", "Manifest", "Row", "Run", "RunWriter", "Selection"]
