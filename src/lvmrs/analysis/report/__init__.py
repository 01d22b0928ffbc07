"""Writes a report: one self-contained HTML file with curves, tables and the inputs."""

from lvmrs.analysis.report.page import write_report
from lvmrs.analysis.report.pictures import Pictures, pictures_of

__all__ = ["Pictures", "pictures_of", "write_report"]
