"""Runs: certified data sets on disk. A run is a directory that survives a crash and can be resumed.

Reading a run needs no torch, so that commands that only read start quickly. ``lvmrs.runs`` writes runs.
"""

from lvmrs.record.directory import Run
from lvmrs.record.manifest import ClassifierRecord, Manifest, Selection
from lvmrs.record.result_file import COLUMNS, Row
from lvmrs.record.writer import RunWriter

__all__ = ["COLUMNS", "ClassifierRecord", "Manifest", "Row", "Run", "RunWriter", "Selection"]
