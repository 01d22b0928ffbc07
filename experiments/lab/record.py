"""The JSON file of an experiment: what was found, by which command, on which machine, in which time."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab.settings import Lab, parsed
from lvmrs._util.machine import allowed_cores, processor
from lvmrs.errors import LvmrsError

__all__ = ["Found", "main", "read", "write"]

Found = dict[str, Any]


def main(file: str, doc: str | None, measure: Callable[[Lab], Found]) -> int:
    """Run an experiment as its command line says, and write what it found."""
    lab = parsed(doc)
    try:
        print(write(lab, Path(file).stem, measure))
    except LvmrsError as error:
        sys.exit(f"error: {error}")
    return 0


def write(lab: Lab, name: str, measure: Callable[[Lab], Found]) -> Path:
    """Measure, and write the JSON file of the experiment.

    With ``--families``, what the file has of other families stays, with the command that made it.
    """
    start = time.perf_counter()
    found = measure(lab)
    made = {
        "command": _command(lab, name),
        "scale": lab.scale,
        "seed": lab.seed,
        "seconds": round(time.perf_counter() - start, 1),
        "machine": _machine(),
        "date": time.strftime("%Y-%m-%d"),
    }
    file = lab.results / f"{name}.json"
    all_ = _beside_others(read(lab.results, name) if lab.families else None, {"made": made, **found})
    file.write_text(json.dumps(all_, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return file


def _beside_others(before: Found | None, found: Found) -> Found:
    """What was found, and the cases of an earlier command that this one left out."""
    key = next((key for key in ("cases", "families", "sigmas") if key in found), None)
    if before is None or key is None or any(before["made"][one] != found["made"][one] for one in ("scale", "seed")):
        return found
    earlier = {**before["made"], "of": before["made"].get("of", list(before[key]))}
    commands = [earlier, *earlier.pop("earlier", [])]
    for each in commands:
        each["of"] = [name for name in each["of"] if name not in found[key]]
    kept = [each for each in commands if each["of"]]
    made = {**found["made"], "of": list(found[key]), "earlier": kept} if kept else found["made"]
    return {**found, "made": made, key: {**before[key], **found[key]}}


def read(results: Path, name: str) -> Found | None:
    """What an experiment found; None if it was not run."""
    file = results / f"{name}.json"
    found: Found | None = json.loads(file.read_text(encoding="utf-8")) if file.exists() else None
    return found


def _command(lab: Lab, name: str) -> str:
    words = ["python", f"experiments/{name}.py", "--scale", lab.scale]
    for option in ("cifar10", "imagenet", "small_l2", "resnet56"):
        if (path := getattr(lab, option)) is not None:
            words += [f"--{option.replace('_', '-')}", path.name]
    words += [] if lab.training_minutes is None else ["--training-minutes", f"{lab.training_minutes:g}"]
    words += ["--families", ",".join(lab.families)] if lab.families else []
    return shlex.join([*words, *(() if lab.seed == 0 else ("--seed", str(lab.seed)))])


def _machine() -> str:
    software = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("torch", "lvmrs"))
    return f"{allowed_cores()} cores of {processor()}, Python {platform.python_version()}, {software}"
