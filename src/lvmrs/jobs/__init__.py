"""Jobs on whole data sets: certify into a run directory, certify kept scores again, merge shards, predict."""

from lvmrs.jobs.certify import Outlook, certify
from lvmrs.jobs.job import Job, Sampling, check_selection
from lvmrs.jobs.merge import merge
from lvmrs.jobs.predict import Answer, calibrate_duels, predict
from lvmrs.jobs.recertify import recertify

__all__ = [
    "Answer",
    "Job",
    "Outlook",
    "Sampling",
    "calibrate_duels",
    "certify",
    "check_selection",
    "merge",
    "predict",
    "recertify",
]
