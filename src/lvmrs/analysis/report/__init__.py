"""Writes a report: one self-contained HTML file with curves, tables and the inputs."""

from lvmrs.analysis.report.page import Pictures, pictures_of, write_report

__all__ = ["Pictures", "pictures_of", "write_report"]
