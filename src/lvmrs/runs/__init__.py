"""Certified data sets on disk: a directory that a crash does not harm, that can be resumed, split and merged."""

from lvmrs.runs.directory import Run, RunWriter
from lvmrs.runs.manifest import Manifest, Selection, about, about_data, settings_of
from lvmrs.runs.rows import COLUMNS, Row
from lvmrs.runs.work import certify, merge, recertify

__all__ = [
    "COLUMNS",
    "Manifest",
    "Row",
    "Run",
    "RunWriter",
    "Selection",
    "about",
    "about_data",
    "certify",
    "merge",
    "recertify",
    "settings_of",
]
