"""A report: one HTML file that needs nothing else, with curves, tables and the inputs themselves."""

from lvmrs.report.page import write_report

__all__ = ["write_report"]
