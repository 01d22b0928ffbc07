"""A report: one HTML file that needs nothing else, with curves, tables and the inputs themselves."""

from lvmrs.analysis.report.page import write_report
from lvmrs.analysis.report.pictures import Pictures, pictures_of

__all__ = ["Pictures", "pictures_of", "write_report"]
