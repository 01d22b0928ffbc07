"""Good calls of everything around the mathematics: planners, proofs, data, models, runs, jobs, training, analysis."""
# ruff: noqa: E501

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import lvmrs
from lvmrs import analysis, attacks, data, models, registry, runs, testing, training
from lvmrs.analysis import plots, report
from lvmrs.kernel import proof as prove
from lvmrs.kernel import scores
from lvmrs.kernel.bounds.clopper_pearson import ClopperPearson
from lvmrs.kernel.maps import Hardmax
from lvmrs.kernel.noise import GAUSSIAN, Stream
from lvmrs.kernel.radius import R3
from lvmrs.kernel.terms import Choice, Plan, Terms
from lvmrs.planners import base as method_check
from lvmrs.planners import settings as method_settings
from lvmrs.runs.verify import other_batch
from lvmrs.runs.workers import Here
from tests.hostile.public_call import Public

__all__ = ["ROOMS"]

TERMS = Terms(0.5, 0.01, 50)
_SEARCH = attacks.Search(steps=1, samples=2, n=20)
PARTS_OF_A_JOB = ("model", "data", "smoothed", "method", "sampling", "selection")


def classifier() -> nn.Module:
    """Three classes from an 8 × 8 picture."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 3))


def smoothed() -> lvmrs.SmoothedClassifier:
    """That classifier under noise."""
    return lvmrs.SmoothedClassifier(classifier(), 0.5, batch=20)


def routed() -> lvmrs.RoutedClassifier:
    """That classifier as router and experts."""
    return lvmrs.RoutedClassifier([smoothed()] * 3, smoothed())


def made_up(stage: str = "selection") -> Any:
    """Scores of three classes."""
    logits = torch.randn(50, 3, generator=torch.Generator().manual_seed(1))
    return testing.made_up_scores(logits, Stream(0, 0, stage))  # type: ignore[arg-type]


def plan() -> Plan:
    """A plan by votes."""
    return lvmrs.Cohen().plan(made_up(), TERMS)


def arrays(count: int = 6) -> data.Arrays:
    """Six pictures."""
    return data.Arrays("mine", "test", np.full((count, 1, 8, 8), 0.5, np.float32), np.arange(count) % 3)


def job() -> runs.Job:
    """A job of a moment."""
    model = models.Loaded.of(classifier(), "mine")
    return runs.Job(
        model,
        arrays(),
        lvmrs.SmoothedClassifier(model.model, 0.5, batch=20),
        lvmrs.Cohen(),
        runs.Sampling(0.01, 10, 20),
        runs.Selection(6, max=2),
    )


def method_of(make: Callable[[], Any], name: str) -> Callable[..., Any]:
    """A method of a fresh object."""
    return functools.partial(lambda **given: getattr(make(), name)(**given))


def parts_of_a_job() -> dict[str, Any]:
    """What one job is made of."""
    made = job()
    return {field: getattr(made, field) for field in PARTS_OF_A_JOB}


def known(world: Path) -> runs.ClassifierRecord:
    """The classifier that was calibrated."""
    return runs.ClassifierRecord.read(world / "settings.json")


def same() -> dict[str, Any]:
    """The record of a job, and the job."""
    made = job()
    record = runs.calibration_record(made)
    return {"record": record, "where": "here", "loaded": made.model, "smoothed": made.smoothed, "method": made.method}


def results(world: Path) -> Any:
    """The results of the run."""
    return analysis.read(world / "run")


def _named(name: str) -> Callable[[Path], dict[str, Any]]:
    return lambda world: {"name": name}


_X = torch.full((1, 8, 8), 0.5)
_TERMS = {"alpha": "fraction", "n0": "whole from 1", "n": "whole from 2", "seed": "seed", "index": "seed"}
_TRIED = {"alpha": 0.01, "n0": 10, "n": 20, "seed": 0, "index": 0}
_CONFIDENT = {"results": "object", "confidence": "fraction"}

ROOMS: dict[str, Public] = {
    # planners, plans and proofs
    "LVM": Public(lvmrs.LVM, lambda w: {"maps": ("softmax",), "temperatures": (1.0,), "mass": 1.0, "bounds": ("betting",)}, {"maps": "names", "temperatures": "positive numbers", "mass": "positive", "bounds": "names"}),
    "Paper": Public(lvmrs.Paper, lambda w: {"maps": ("softmax",), "temperatures": (1.0,), "mass": 1.0, "union": True}, {"maps": "names", "temperatures": "positive numbers", "mass": "positive", "union": "flag"}),
    "Fixed": Public(lvmrs.Fixed, lambda w: {"map": "softmax", "temperature": 1.0, "mass": 1.0, "form": "r2", "bounds": ("betting",)}, {"map": "simplex map", "temperature": "positive", "mass": "positive", "form": "name or None", "bounds": "names"}),
    "Lipschitz": Public(lvmrs.Lipschitz, lambda w: {"procedure": "ramp", "map": "softmax", "temperature": 1.0, "mass": 1.0, "bounds": ("betting",)}, {"procedure": "name", "map": "simplex map", "temperature": "positive", "mass": "positive", "bounds": "names"}),
    "Duels": Public(lvmrs.Duels, lambda w: {"width": 1.0}, {"width": "width"}),
    **{
        f"{name}.plan": Public(method_of(getattr(lvmrs, name), "plan"), lambda w: {"scores": made_up(), "terms": TERMS}, {"scores": "object", "terms": "object"})
        for name in ("Cohen", "Votes", "Duels", "LVM")
    },
    "Terms": Public(Terms, lambda w: {"sigma": 0.5, "alpha": 0.01, "n": 50, "lipschitz": 1.0, "noise": GAUSSIAN, "rounding": 0.1}, {"sigma": "positive", "alpha": "fraction", "n": "whole from 2", "lipschitz": "positive or infinite", "noise": "object", "rounding": "from 0"}),
    "Deterministic.certify": Public(lvmrs.Deterministic().certify, lambda w: {"logits": torch.tensor([1.0, 0.0]), "lipschitz": 1.0, "rounding": 0.1}, {"rounding": "from 0"}),
    "Choice": Public(Choice, lambda w: {"top": 0, "classes": 3, "map": Hardmax(), "bound": ClopperPearson(), "form": R3(), "risk_top": 0.01}, {"top": "whole from 0", "classes": "whole from 0", "risk_top": "numbers"}, frozenset({("top", "-1"), ("classes", "-1"), ("top", "a huge whole number"), ("classes", "a huge whole number")})),
    "prove": Public(prove.prove, lambda w: {"plan": plan(), "terms": TERMS, "scores": made_up("certification")}, {"plan": "object", "terms": "object", "scores": "object"}),
    "Proof": Public(prove.Proof, lambda w: {"plan": plan(), "terms": TERMS}, {"plan": "object", "terms": "object"}),
    "scores.check_scores": Public(scores.check_scores, lambda w: {"scores": made_up(), "error": lvmrs.errors.ProofError}, {"scores": "object"}),
    # one input, end to end
    "SmoothedClassifier": Public(lvmrs.SmoothedClassifier, lambda w: {"model": classifier(), "sigma": 0.5, "lipschitz": 1.0, "batch": 20, "device": "cpu", "precision": "bfloat16", "noise": GAUSSIAN, "rounding": 0.1}, {"model": "callable", "sigma": "positive", "lipschitz": "positive or None", "batch": "whole or None", "device": "device", "precision": "name or None", "noise": "object", "rounding": "from 0 or None"}),
    "SmoothedClassifier.certify": Public(method_of(smoothed, "certify"), lambda w: {"x": _X, "method": lvmrs.Cohen(), **_TRIED}, {"x": "input", "method": "object or None", **_TERMS}, frozenset({("x", "an array")})),
    "SmoothedClassifier.predict": Public(method_of(smoothed, "predict"), lambda w: {"x": _X, "method": lvmrs.Duels(1.0), **_TRIED}, {"x": "input", "method": "object or None", **_TERMS}, frozenset({("x", "an array")})),
    "SmoothedClassifier.scores": Public(method_of(smoothed, "scores"), lambda w: {"x": _X, "n": 20, "seed": 0, "index": 0, "stage": "selection"}, {"x": "input", "n": "whole from 1", "seed": "seed", "index": "seed", "stage": "name"}),
    "SmoothedClassifier.answer": Public(method_of(smoothed, "answer"), lambda w: {"x": _X}, {"x": "input"}),
    "SmoothedClassifier.calibrate": Public(method_of(smoothed, "calibrate"), lambda w: {"inputs": [_X], "labels": [0], "objective": "accuracy", "epsilon": 0.1, "n0": 10, "n": 20, "alpha": 0.01, "seed": 0}, {"inputs": "inputs", "objective": "name", "epsilon": "from 0", "n0": "whole from 1", "n": "whole from 2", "alpha": "fraction", "seed": "seed"}),
    "SmoothedClassifier.calibrate_duels": Public(method_of(smoothed, "calibrate_duels"), lambda w: {"inputs": [_X], "n0": 10, "seed": 0}, {"inputs": "inputs", "n0": "whole from 2", "seed": "seed"}),
    "RoutedClassifier": Public(lvmrs.RoutedClassifier, lambda w: {"experts": [smoothed()] * 3, "router": smoothed(), "fallback": 0}, {"experts": "runs", "router": "object", "fallback": "class number"}),
    "RoutedClassifier.certify": Public(method_of(routed, "certify"), lambda w: {"x": _X, **_TRIED}, {"x": "input", **_TERMS}, frozenset({("x", "an array")})),
    "RoutedClassifier.predict": Public(method_of(routed, "predict"), lambda w: {"x": _X, **_TRIED}, {"x": "input", **_TERMS}, frozenset({("x", "an array")})),
    # data and models
    "data.load": Public(data.load, lambda w: {"name": f"npz:{w}/data.npz", "split": "test"}, {"name": "source", "split": "word"}),
    "data.load of pictures": Public(data.load, lambda w: {"name": f"imagefolder:{w}/pictures", "size": 8}, {"size": "whole or None"}),
    "data.Arrays": Public(data.Arrays, lambda w: {"name": "mine", "split": "test", "inputs": np.zeros((6, 4)), "labels": np.zeros(6, int)}, {"inputs": "arrays of inputs", "labels": "arrays of labels"}, frozenset({("labels", "None")})),
    "data.checked_input": Public(data.checked_input, lambda w: {"data": arrays(), "index": 0}, {"data": "object", "index": "class number"}),
    "models.load": Public(models.load, lambda w: {"name": "ready:small_cnn", "mean": [0.5], "std": [0.5], "sigma": 0.5}, {"name": "model source", "mean": "numbers of channels", "std": "std"}),
    "models.load with weights": Public(models.load, lambda w: {"name": "ready:small_cnn,width=2,classes=3", "weights": w / "net.safetensors"}, {"weights": "weights"}),
    "models.lipschitz_bound": Public(models.lipschitz_bound, lambda w: {"model": classifier(), "shape": [1, 8, 8]}, {"model": "module", "shape": "shape"}),
    "models.sandwich": Public(models.sandwich, lambda w: {"channels": 1, "side": 8, "classes": 3, "gamma": 1.0, "width": 1}, {"channels": "whole from 1", "side": "whole from 1", "classes": "whole from 1", "gamma": "positive", "width": "whole from 1"}),
    "models.Preprocessed": Public(models.Preprocessed, lambda w: {"model": classifier(), "mean": [0.5], "std": [0.5]}, {"model": "callable", "mean": "numbers of channels", "std": "std"}),
    "models.Loaded.of": Public(models.Loaded.of, lambda w: {"model": classifier(), "name": "mine"}, {"model": "callable", "name": "word"}),
    # runs and jobs
    "Run": Public(lvmrs.Run, lambda w: {"directory": w / "run"}, {"directory": "run directory"}),
    "Manifest.read": Public(runs.Manifest.read, lambda w: {"file": w / "run" / "manifest.json"}, {"file": "path"}),
    "Manifest.parse": Public(runs.Manifest.parse, lambda w: {"text": (w / "run" / "manifest.json").read_text(), "where": "here"}, {"text": "JSON"}),
    "Selection": Public(runs.Selection, lambda w: {"size": 10, "skip": 1, "max": 5, "shard": 1, "shards": 1}, {"size": "whole from 0", "skip": "whole from 1", "max": "whole or None", "shard": "whole from 1", "shards": "whole from 1"}, frozenset({("skip", "beyond 2⁵³"), ("max", "beyond 2⁵³"), ("shards", "beyond 2⁵³"), ("size", "a huge whole number"), ("skip", "a huge whole number"), ("max", "a huge whole number"), ("shards", "a huge whole number")})),
    "Selection.only": Public(runs.Selection, lambda w: {"size": 10, "only": [1, 2]}, {"only": "only"}),
    "runs.Sampling": Public(runs.Sampling, lambda w: {"alpha": 0.01, "n0": 10, "n": 20, "seed": 0}, {"alpha": "fraction", "n0": "whole from 1", "n": "whole from 2", "seed": "seed"}),
    "runs.Job": Public(runs.Job, lambda w: parts_of_a_job(), dict.fromkeys(PARTS_OF_A_JOB, "object")),
    "runs.certify": Public(runs.certify, lambda w: {"job": job(), "out": "a", "workers": Here()}, {"job": "object", "out": "place", "workers": "object or None"}),
    "runs.merge": Public(runs.merge, lambda w: {"shards": [lvmrs.Run(w / "shard-1"), lvmrs.Run(w / "shard-2")], "out": "a"}, {"shards": "runs", "out": "place"}),
    "runs.recertify": Public(runs.recertify, lambda w: {"source": lvmrs.Run(w / "run"), "out": "a", "planner": lvmrs.Cohen(), "alpha": 0.01, "n0": 10, "n": 20, "rounding": 0.1, "workers": Here()}, {"source": "object", "out": "place", "planner": "object or None", "alpha": "fraction or None", "n0": "whole or None", "n": "whole or None", "rounding": "from 0 or None", "workers": "object or None"}),
    "runs.predict": Public(runs.predict, lambda w: {"smoothed": smoothed(), "data": arrays(), "selection": runs.Selection(6), "planner": lvmrs.Votes()}, {"smoothed": "object", "data": "object", "selection": "object", "planner": "object or None"}),
    "runs.calibrate": Public(runs.calibrate, lambda w: {"smoothed": smoothed(), "data": arrays(), "selection": runs.Selection(6, max=2), "objective": "accuracy", "epsilon": 0.1, "n0": 10, "n": 20, "alpha": 0.01, "seed": 0}, {"smoothed": "object", "data": "object", "selection": "object", "objective": "name", "epsilon": "from 0", "n0": "whole from 1", "n": "whole from 2", "alpha": "fraction", "seed": "seed"}),
    "runs.calibrate_duels": Public(runs.calibrate_duels, lambda w: {"smoothed": smoothed(), "data": arrays(), "selection": runs.Selection(6, max=2), "n0": 10, "seed": 0}, {"smoothed": "object", "data": "object", "selection": "object", "n0": "whole from 2", "seed": "seed"}),
    "runs.calibration_record": Public(runs.calibration_record, lambda w: {"job": job(), "objective": "accuracy", "epsilon": 0.5}, {"job": "object"}),
    "runs.calibrated_on": Public(runs.calibrated_on, lambda w: {"record": known(w), "data": arrays(), "selection": runs.Selection(6)}, {"record": "object", "data": "object", "selection": "object"}),
    "runs.recorded_method": Public(runs.recorded_method, lambda w: {"record": known(w), "where": "here"}, {"record": "object"}),
    "runs.check_same_classifier": Public(runs.check_same_classifier, lambda w: same(), {"record": "object", "loaded": "object", "smoothed": "object", "method": "object"}),
    "ClassifierRecord.of_run": Public(runs.ClassifierRecord.of_run, lambda w: {"manifest": lvmrs.Run(w / "run").manifest}, {"manifest": "object"}),
    "ClassifierRecord.read": Public(runs.ClassifierRecord.read, lambda w: {"file": w / "settings.json"}, {"file": "path"}),
    "ClassifierRecord.parse": Public(runs.ClassifierRecord.parse, lambda w: {"text": (w / "settings.json").read_text(), "where": "here"}, {"text": "JSON"}),
    "method_check.check_one_classifier": Public(method_check.check_one_classifier, lambda w: {"method": lvmrs.Duels()}, {"method": "object"}),
    "runs.check_selection": Public(runs.check_selection, lambda w: {"data": arrays(), "selection": runs.Selection(6)}, {"data": "object", "selection": "object"}),
    "runs.attack": Public(runs.attack, lambda w: {"job": job(), "run": lvmrs.Run(w / "run"), "search": _SEARCH, "most": 1, "skip": 1, "out": "a"}, {"job": "object", "run": "object", "most": "whole or None", "skip": "whole from 1"}, frozenset({("skip", "beyond 2⁵³"), ("most", "beyond 2⁵³")})),
    "attacks.Search": Public(attacks.Search, lambda w: {"steps": 1, "restarts": 1, "samples": 1, "n": 20, "beta": 0.1, "seed": 0, "farthest": 1.0}, {"steps": "whole from 1", "restarts": "whole from 1", "samples": "whole from 1", "n": "whole from 2", "beta": "fraction", "seed": "seed", "farthest": "positive or None"}),
    "attacks.attack": Public(attacks.attack, lambda w: {"smoothed": smoothed(), "x": _X, "top": 0, "radius": 0.1, "map_": Hardmax(), "search": _SEARCH, "index": 0}, {"smoothed": "object", "x": "input", "top": "whole from 0", "radius": "positive", "map_": "object or None", "search": "object or None", "index": "seed"}, frozenset({("x", "an array")})),
    # training
    "training.Settings": Public(training.Settings, lambda w: {"epochs": 1, "batch": 3, "lr": 0.1, "optimizer": "adam", "weight_decay": 0.0, "schedule": "cosine", "augment": "none", "autocast": "bfloat16", "seed": 0}, {"epochs": "whole from 1", "batch": "whole from 1", "lr": "positive", "optimizer": "name", "weight_decay": "from 0", "schedule": "name", "augment": "name", "autocast": "name or None", "seed": "seed"}),
    "training.objective": Public(training.objective, lambda w: {"name": "gaussian", "sigma": 0.5}, {"name": "name", "sigma": "from 0"}),
    "training.Gaussian": Public(training.Gaussian, lambda w: {"sigma": 0.5}, {"sigma": "from 0"}),
    "training.Denoising": Public(training.Denoising, lambda w: {"sigma": 0.5}, {"sigma": "from 0"}),
    "training.SmoothAdv": Public(training.SmoothAdv, lambda w: {"sigma": 0.5, "epsilon": 0.5, "steps": 1, "samples": 1}, {"sigma": "from 0", "epsilon": "positive", "steps": "whole from 1", "samples": "whole from 1"}),
    "training.Consistency": Public(training.Consistency, lambda w: {"sigma": 0.5, "samples": 2, "lbd": 10.0, "eta": 0.5}, {"sigma": "from 0", "samples": "whole from 2", "lbd": "from 0 or None", "eta": "from 0"}),
    "training.SmoothMix": Public(training.SmoothMix, lambda w: {"sigma": 0.5, "samples": 2, "steps": 2, "step_size": 1.0, "eta": 5.0, "mix_step": 0}, {"sigma": "from 0", "samples": "whole from 1", "steps": "whole from 1", "step_size": "positive or None", "eta": "from 0", "mix_step": "whole from 0"}),
    "training.MACER": Public(training.MACER, lambda w: {"sigma": 0.5, "samples": 2, "lbd": 4.0, "beta": 16.0, "gamma": 8.0}, {"sigma": "from 0", "samples": "whole from 1", "lbd": "from 0 or None", "beta": "positive", "gamma": "positive"}),
    "training.Margin": Public(training.Margin, lambda w: {"sigma": 0.5, "margin": 1.0, "temperature": 0.25}, {"sigma": "from 0", "margin": "from 0", "temperature": "positive"}),
    "training.accuracy": Public(training.accuracy, lambda w: {"model": classifier(), "data": arrays(), "sigma": 0.5, "seed": 0, "device": "cpu"}, {"model": "module", "data": "object", "sigma": "from 0", "seed": "seed", "device": "device"}),
    "training.train": Public(training.train, lambda w: {"model": classifier(), "data": arrays(), "objective": training.Gaussian(0.5), "settings": training.Settings(epochs=1), "device": "cpu", "workers": 0}, {"model": "module", "data": "object", "objective": "object", "settings": "object", "device": "device", "workers": "whole from 0"}, frozenset({("workers", "a huge whole number")})),
    # analysis, figures and the page
    "analysis.read": Public(analysis.read, lambda w: {"path": w / "run"}, {"path": "results file"}),
    "analysis.results_of": Public(analysis.results_of, lambda w: {"run": lvmrs.Run(w / "run")}, {"run": "object"}),
    "analysis.summarise": Public(analysis.summarise, lambda w: {"results": results(w), "radii": [0.0, 0.5], "confidence": 0.9}, {**_CONFIDENT, "radii": "radii"}),
    "analysis.certified_accuracy": Public(analysis.certified_accuracy, lambda w: {"results": results(w), "radii": [0.0]}, {"results": "object", "radii": "radii"}),
    "analysis.certified_accuracy_intervals": Public(analysis.certified_accuracy_intervals, lambda w: {"results": results(w), "radii": [0.0], "confidence": 0.9}, {**_CONFIDENT, "radii": "radii"}),
    **{
        f"analysis.{name}": Public(getattr(analysis, name), lambda w: {"results": results(w), "confidence": 0.9}, dict(_CONFIDENT))
        for name in ("average_certified_radius", "abstention", "clean_accuracy")
    },
    "analysis.curve": Public(analysis.curve, lambda w: {"results": results(w), "end": 1.0, "confidence": 0.9}, {**_CONFIDENT, "end": "positive or None"}, frozenset({("end", "0")})),
    "analysis.compare": Public(analysis.compare, lambda w: {"first": results(w), "second": results(w), "radii": [0.0], "confidence": 0.9}, {"first": "object", "second": "object", "radii": "radii", "confidence": "fraction"}),
    "analysis.safe_inputs": Public(analysis.safe_inputs, lambda w: {"run": lvmrs.Run(w / "run"), "radius": 0.1}, {"run": "object", "radius": "from 0"}),
    "analysis.p_lower_quantiles": Public(analysis.p_lower_quantiles, lambda w: {"results": results(w)}, {"results": "object"}),
    "analysis.named": Public(analysis.named, lambda w: {"results": [results(w)], "names": ["a"]}, {"results": "object"}),
    "analysis.differences": Public(analysis.differences, lambda w: {"first": results(w), "second": results(w)}, {"first": "object", "second": "object"}),
    "analysis.import_results": Public(analysis.import_results, lambda w: {"file": w / "other.tsv", "out": "a", "sigma": 0.5, "alpha": 0.01, "n0": 10, "n": 20}, {"file": "results file", "out": "place", "sigma": "positive", "alpha": "fraction or None", "n0": "whole or None", "n": "whole or None"}),
    "plots.curves": Public(plots.curves, lambda w: {"runs": [results(w)], "confidence": 0.9}, {"runs": "runs", "confidence": "fraction"}),
    "plots.radii": Public(plots.radii, lambda w: {"runs": [results(w)]}, {"runs": "runs"}),
    "plots.choices": Public(plots.choices, lambda w: {"run": lvmrs.Run(w / "run")}, {"run": "object"}),
    "plots.variance": Public(plots.variance, lambda w: {"run": lvmrs.Run(w / "run")}, {"run": "object"}),
    "report.write_report": Public(report.write_report, lambda w: {"runs": [lvmrs.Run(w / "run")], "out": Path("a.html"), "radii": [0.0], "most": 5, "confidence": 0.9}, {"runs": "runs", "out": "place", "radii": "radii", "most": "whole from 1", "confidence": "fraction"}, frozenset({("most", "beyond 2⁵³"), ("most", "a huge whole number")})),
    "report.pictures_of": Public(report.pictures_of, lambda w: {"run": lvmrs.Run(w / "run")}, {"run": "object"}),
    # names
    "method": Public(method_settings.method, lambda w: {"name": "cohen"}, {"name": "name"}),
    "from_record": Public(method_settings.from_record, lambda w: {"name": "Duels", "stored": {"width": None}}, {"name": "name", "stored": "settings"}),
    **{f"registry.{table}.find": Public(getattr(registry, table).find, _named(name), {"name": "name"}) for table, name in (("MAPS", "softmax"), ("BOUNDS", "betting"), ("FORMS", "r2"), ("NOISES", "gaussian"), ("METHODS", "duels"))},
    # what authors of planners test with
    "testing.made_up_scores": Public(testing.made_up_scores, lambda w: {"logits": torch.zeros(5, 3), "stream": Stream(0, 0, "selection"), "sigma": 0.5}, {"logits": "logits", "stream": "object", "sigma": "positive"}, frozenset(("logits", label) for label in ("a list", "complex", "no rows", "meta", "nan", "infinite", "-infinite", "no classes"))),  # the proof refuses these
    "testing.family": Public(testing.family, lambda w: {"rows": [(0.5, [0.0, 1.0]), (0.5, [1.0, 0.0])]}, {"rows": "rows of a family"}),
    "testing.too_many": Public(testing.too_many, lambda w: {"wrong": 1, "repeats": 10, "risk": 0.1}, {"wrong": "whole from 0", "repeats": "whole from 1", "risk": "fraction"}, frozenset({("repeats", "beyond 2⁵³")})),
    "testing.check_planner": Public(testing.check_planner, lambda w: {"planner": lvmrs.Cohen(), "alpha": 0.05, "repeats": 2, "n0": 10, "n": 20, "lipschitz": 1.0, "families": ["close pair"]}, {"alpha": "fraction", "repeats": "whole from 1", "n0": "whole from 1", "n": "whole from 2", "lipschitz": "positive or infinite", "families": "names"}, frozenset({("repeats", "beyond 2⁵³"), ("repeats", "a huge whole number")})),
    # runs that are verified
    "runs.job_of_run": Public(runs.job_of_run, lambda w: {"run": lvmrs.Run(w / "run")}, {"run": "object", "model": "model source", "weights": "weights", "denoiser": "name or None", "data": "source", "method": "object or None", "batch": "whole or None", "device": "device"}, frozenset({("model", "None"), ("data", "None"), ("device", "None"), ("batch", "beyond 2⁵³")})),
    "runs.verify": Public(runs.verify, lambda w: {"run": lvmrs.Run(w / "run"), "job": runs.job_of_run(lvmrs.Run(w / "run")), "rows": 1, "seed": 0}, {"run": "object", "job": "object", "rows": "whole or None", "seed": "seed"}, frozenset({("seed", "None"), ("rows", "beyond 2⁵³"), ("rows", "a huge whole number")})),
    "runs.other_batch": Public(other_batch, lambda w: {"run": lvmrs.Run(w / "run")}, {"run": "object"}),
}  # fmt: skip
