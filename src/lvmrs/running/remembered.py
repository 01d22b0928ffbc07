"""Choices that are remembered for a network, a shape of inputs and a machine, so that the next run starts at once.

They are files in the user's cache directory, ``$XDG_CACHE_HOME/lvmrs`` or ``~/.cache/lvmrs``. They decide how fast a
run is and nothing else; a file that cannot be read, or that is odd, is as good as none.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor, nn

from lvmrs import _disk
from lvmrs._machine import processor
from lvmrs._paths import check_kind
from lvmrs._replacing import replacing
from lvmrs.errors import LvmrsError
from lvmrs.running.choosing import Choice
from lvmrs.running.way import Way

__all__ = ["key_of", "recall", "remember"]

_VERSION = 2
_LONGEST = 10_000
_DEAREST, _FASTEST, _LARGEST = 1e6, 1e12, 1 << 16


def key_of(model: object, x: Tensor, *more: object) -> str | None:
    """A name for a network, a kind of input, and a machine; None for a callable, of which nothing is known.

    Args:
        model: the network.
        x: an input, without a batch dimension.
        more: what else the choice depends on, such as the number of threads.
    """
    if not isinstance(model, nn.Module):
        return None
    layers = [(name, type(module).__qualname__, _settings(module)) for name, module in model.named_modules()]
    held = (*model.named_parameters(), *model.named_buffers())
    weights = [(name, tuple(tensor.shape), str(tensor.dtype)) for name, tensor in held]
    machine = (platform.machine(), processor(), os.cpu_count(), torch.__version__, x.device.type)
    what = (_VERSION, layers, weights, tuple(x.shape), str(x.dtype), more, machine)
    return hashlib.blake2b(repr(what).encode(), digest_size=16).hexdigest()


def _settings(module: nn.Module) -> str:
    """The settings of a layer of torch; those of other classes are not asked for, since that runs code of theirs."""
    return module.extra_repr() if type(module).__module__.startswith("torch.nn.modules.") else ""


def recall(key: str) -> Choice | None:
    """What was chosen earlier; None if nothing was."""
    try:
        check_kind(_file(key))
        with _file(key).open(encoding="utf-8") as file:
            stored = json.loads(file.read(_LONGEST))
        found = Choice(Way(**stored["way"]), float(stored["cost"]), int(stored["workers"]), float(stored["rate"]))
    except (OSError, RuntimeError, ValueError, TypeError, KeyError, LvmrsError):  # whatever is in the file
        return None
    usual = found.way.batch <= _LARGEST and 1 <= found.workers <= (os.cpu_count() or 1)
    return found if usual and 0 < found.cost < _DEAREST and 0 <= found.rate < _FASTEST else None


def remember(key: str, choice: Choice) -> None:
    """Keep a choice for later runs, where the cache directory can be written to."""
    try:
        file = _file(key)
        _disk.make_directory(file.parent)
        with replacing(file) as out:
            out.write(json.dumps(asdict(choice)).encode())
    except (OSError, RuntimeError):  # also where there is no home
        return  # the next run chooses again, which takes it a second or two


def _file(key: str) -> Path:
    given = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(given) if given else Path.home() / ".cache"
    return base / "lvmrs" / "running" / f"{key}.json"
