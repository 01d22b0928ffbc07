"""Jobs: certify a data set into a run directory, certify kept scores again, and merge the shards of a run."""

from lvmrs.jobs.certify import Outlook, certify
from lvmrs.jobs.job import Job, Sampling, check_selection
from lvmrs.jobs.merge import merge
from lvmrs.jobs.recertify import recertify

__all__ = ["Job", "Outlook", "Sampling", "certify", "check_selection", "merge", "recertify"]
