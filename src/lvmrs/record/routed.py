"""The file of ``--model routed:FILE``: the networks and sigmas of a routed classifier, as JSON.

    {
      "experts": [
        {"model": "trained:low.safetensors", "sigma": 0.25},
        {"model": "trained:high.safetensors", "sigma": 0.5}
      ],
      "router": {"model": "trained:router.safetensors", "sigma": 0.5},
      "fallback": 1
    }

Models are named as on the command line, and paths are relative to the working directory. A file must not choose which
code runs: a model whose loading does more than read files is refused (docs/security.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lvmrs._util import files
from lvmrs.errors import InvalidArgumentError
from lvmrs.kernel import checks
from lvmrs.record.manifest import only_reads_files
from lvmrs.record.records import FileRecord, read_record
from lvmrs.registry import MODELS

# A larger file is not such a file; reading stops at this number of bytes.
_LARGEST = 1 << 20


@dataclass(frozen=True)
class PartRecord:
    """A network and its noise."""

    model: str
    """The name of the network."""
    sigma: float
    """The scale of its noise."""

    def __post_init__(self) -> None:
        checks.positive_number("sigma", self.sigma)
        if not only_reads_files(MODELS, self.model):
            named = ", ".join(map(MODELS.written, MODELS.having("inert")))
            raise InvalidArgumentError(
                f"{self.model:.200} could run code, and a file must not choose code; name networks of lvmrs ({named})"
            )


@dataclass(frozen=True)
class RoutedFile(FileRecord):
    """The parts of a routed classifier."""

    format, what = None, "a file of a routed classifier"

    experts: list[Any]
    """Objects with the fields of ``PartRecord``."""
    router: PartRecord
    fallback: int
    """The expert that answers where the router has no winner."""

    def __post_init__(self) -> None:
        _ = self.parts

    @property
    def parts(self) -> dict[str, PartRecord]:
        """The router and the experts, by name."""
        found = {f"expert {k}": read_record(PartRecord, each, f"expert {k}") for k, each in enumerate(self.experts)}
        return {"router": self.router, **found}

    @classmethod
    def read(cls, file: Path) -> RoutedFile:
        """Read such a file; raises a RunError with one sentence if the file is wrong."""
        return cls.from_file(files.place(file), absent=f"{file} does not exist", largest=_LARGEST)
