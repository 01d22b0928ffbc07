"""Jobs on whole data sets: calibrate, certify into a run directory, certify kept scores again, merge shards, predict.

A job is everything that decides the rows of a run. Here two inputs are certified in two shards, which are
merged; then the kept scores are certified again with another method, and the inputs are answered without certificates.

>>> import tempfile
>>> from pathlib import Path
>>> import numpy as np
>>> import torch
>>> from lvmrs import Cohen, Duels, Run, SmoothedClassifier, data, jobs, models, runs
>>> inputs = data.Arrays("two corners", "test", np.eye(2), np.arange(2))
>>> model = models.Loaded.of(torch.nn.Identity(), "larger")
>>> smoothed = SmoothedClassifier(model.model, 0.5, batch=100)
>>> with tempfile.TemporaryDirectory() as folder:
...     shards = []
...     for shard in (1, 2):
...         selection = runs.Selection(len(inputs), shard=shard, shards=2)
...         job = jobs.Job(model, inputs, smoothed, Duels(), jobs.Sampling(n=1000), selection, keeps_scores=True)
...         shards.append(jobs.certify(job, Path(folder, f"shard-{shard}")))
...     whole = jobs.merge(shards, Path(folder, "whole"))
...     again = jobs.recertify(whole, Path(folder, "cohen"), Cohen())
...     read = Run(Path(folder, "cohen"))
...     print(read.complete, [(row.predict, row.correct, 0.5 < row.radius < 0.71) for row in read.rows()])
True [(0, 1, True), (1, 1, True)]
>>> [answer.predict for answer in jobs.predict(smoothed, inputs, runs.Selection(2), n=1000)]
[0, 1]

A classifier that is calibrated has a record, from which it is made again and with which it is compared.

>>> width = jobs.calibrate_duels(smoothed, inputs, runs.Selection(2))
>>> job = jobs.Job(model, inputs, smoothed, width, jobs.Sampling(), runs.Selection(2))
>>> record = runs.ClassifierRecord.parse(jobs.calibration_record(job).to_json(), "settings.json")
>>> jobs.recorded_method(record, "settings.json") == width
True
>>> jobs.check_same_classifier(record, "settings.json", model, smoothed, width)
>>> jobs.calibrated_on(record, inputs, runs.Selection(2, max=1))
1
"""

from lvmrs.jobs.again import job_of_run
from lvmrs.jobs.attack import attack
from lvmrs.jobs.calibrate import calibrate, calibrate_duels, calibration_record
from lvmrs.jobs.certify import Outlook, certify
from lvmrs.jobs.deployed import calibrated_on, check_same_classifier, recorded_method
from lvmrs.jobs.job import Job, Sampling
from lvmrs.jobs.merge import merge
from lvmrs.jobs.predict import Answer, predict
from lvmrs.jobs.recertify import recertify
from lvmrs.jobs.selecting import check_selection
from lvmrs.jobs.verify import Verification, verify

__all__ = [
    "Answer",
    "Job",
    "Outlook",
    "Sampling",
    "Verification",
    "attack",
    "calibrate",
    "calibrate_duels",
    "calibrated_on",
    "calibration_record",
    "certify",
    "check_same_classifier",
    "check_selection",
    "job_of_run",
    "merge",
    "predict",
    "recertify",
    "recorded_method",
    "verify",
]
