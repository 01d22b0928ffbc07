"""Jobs on whole data sets: calibrate, certify into a run directory, certify kept scores again, merge shards, predict.

``lvmrs.certify_dataset`` certifies data in one call, in memory or on disk; what follows is for workers, shards and kept
scores. A job holds every setting that affects the rows of a run. The example certifies two inputs in two shards and
merges the shards; then it certifies the kept scores with another method. It rebuilds the job of the merged run,
verifies the run with another batch size, and attacks it: the decision boundary is 1/√2 away. At last it predicts
classes without certificates.

>>> import tempfile
>>> from pathlib import Path
>>> import numpy as np
>>> import torch
>>> from lvmrs import Cohen, Duels, Run, SmoothedClassifier, data, models, runs
>>> from lvmrs.attacks import Search
>>> inputs = data.Arrays("two corners", "test", np.eye(2), np.arange(2))
>>> model = models.Loaded.of(torch.nn.Identity(), "larger")
>>> smoothed = SmoothedClassifier(model.model, 0.5, batch=100)
>>> with tempfile.TemporaryDirectory() as folder:
...     shards = []
...     for shard in (1, 2):
...         selection = runs.Selection(len(inputs), shard=shard, shards=2)
...         job = runs.Job(model, inputs, smoothed, Duels(), runs.Sampling(n=1000), selection, keeps_scores=True)
...         shards.append(runs.certify(job, Path(folder, f"shard-{shard}")))
...     whole = runs.merge(shards, Path(folder, "whole"))
...     again = runs.recertify(whole, Path(folder, "cohen"), Cohen())
...     read = Run(Path(folder, "cohen"))
...     print(read.complete, [(row.predict, row.correct, 0.5 < row.radius < 0.71) for row in read.rows()])
...     rebuilt = runs.job_of_run(whole, model=model, data=inputs, batch=50)
...     print([row.verdict for row in runs.verify(whole, rebuilt).rows])
...     print([0.71 < row.distance < 0.9 for row in runs.attack(rebuilt, whole, Search(steps=3, n=1000)).rows()])
True [(0, 1, True), (1, 1, True)]
['equal', 'equal']
[True, True]
>>> [answer.predict for answer in runs.predict(smoothed, inputs, runs.Selection(2), n=1000)]
[0, 1]

``calibration_record`` describes a calibrated classifier. The method can be rebuilt from the record, and a classifier
can be compared with it.

>>> width = runs.calibrate_duels(smoothed, inputs, runs.Selection(2))
>>> job = runs.Job(model, inputs, smoothed, width, runs.Sampling(), runs.Selection(2))
>>> record = runs.ClassifierRecord.parse(runs.calibration_record(job).to_json(), "settings.json")
>>> runs.recorded_method(record, "settings.json") == width
True
>>> runs.check_same_classifier(record, "settings.json", model, smoothed, width)
>>> runs.calibrated_on(record, inputs, runs.Selection(2, max=1))
1
"""

from lvmrs.record.directory import Run
from lvmrs.record.manifest import ClassifierRecord, Manifest, Selection
from lvmrs.record.result_file import COLUMNS, Row
from lvmrs.record.writer import RunWriter
from lvmrs.runs.attack import attack
from lvmrs.runs.calibrate import (
    calibrate,
    calibrate_duels,
    calibrated_on,
    calibration_record,
    check_same_classifier,
    recorded_method,
)
from lvmrs.runs.certify import RunEstimate, certify
from lvmrs.runs.check import Check, check
from lvmrs.runs.job import Job, Sampling, check_selection
from lvmrs.runs.merge import merge
from lvmrs.runs.predict import Answer, predict
from lvmrs.runs.rebuild import job_of_run
from lvmrs.runs.recertify import recertify
from lvmrs.runs.sigma import SigmaChoice, SigmaComparison, compare_sigmas
from lvmrs.runs.verify import Verification, verify

__all__ = [
    "COLUMNS",
    "Answer",
    "Check",
    "ClassifierRecord",
    "Job",
    "Manifest",
    "Row",
    "Run",
    "RunEstimate",
    "RunWriter",
    "Sampling",
    "Selection",
    "SigmaChoice",
    "SigmaComparison",
    "Verification",
    "attack",
    "calibrate",
    "calibrate_duels",
    "calibrated_on",
    "calibration_record",
    "certify",
    "check",
    "check_same_classifier",
    "check_selection",
    "compare_sigmas",
    "job_of_run",
    "merge",
    "predict",
    "recertify",
    "recorded_method",
    "verify",
]
