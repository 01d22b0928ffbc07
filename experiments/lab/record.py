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
    """Measure, and write the JSON file of the experiment."""
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
    file.write_text(json.dumps({"made": made, **found}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return file


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
    words += ["--families", ",".join(lab.families)] if lab.families else []
    return shlex.join([*words, *(() if lab.seed == 0 else ("--seed", str(lab.seed)))])


def _machine() -> str:
    software = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("torch", "lvmrs"))
    return f"{allowed_cores()} cores of {processor()}, Python {platform.python_version()}, {software}"
