"""``--settings FILE`` and ``--like RUN``: a classifier that was calibrated or certified, instead of options.

What is not typed is taken from the record: method and settings, σ, noise, Lipschitz constant and precision. What is
typed must agree with it. The network, its denoiser and all code must be typed, and are compared by their hashes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lvmrs.cli.console import tell
from lvmrs.cli.setup import Setup
from lvmrs.errors import InvalidArgumentError
from lvmrs.record import ClassifierRecord, Run
from lvmrs.registry import NOISES

if TYPE_CHECKING:
    from lvmrs.data import Dataset
    from lvmrs.kernel.method import Method
    from lvmrs.models import Loaded
    from lvmrs.smoothed import SmoothedClassifier

__all__ = ["Recorded"]


@dataclass(frozen=True)
class Recorded:
    """The record of a classifier, and the file or run that it was read from."""

    where: str
    record: ClassifierRecord

    @classmethod
    def read(cls, settings: Path | None, like: Path | None = None) -> Recorded | None:
        """Read what was named; None if nothing was."""
        if settings is not None and like is not None:
            raise InvalidArgumentError("settings and like both say which classifier it is; give one of them")
        if settings is not None:
            return cls(str(settings), ClassifierRecord.read(settings))
        return None if like is None else cls(str(like), ClassifierRecord.of_run(Run(like).manifest))

    def method(self, typed: Method | None) -> Method:
        """The method that was typed, or that of the record."""
        from lvmrs.runs import recorded_method

        return recorded_method(self.record, self.where) if typed is None else typed

    def load(
        self,
        setup: Setup,
        method: Method,
        *,
        lipschitz: float | None,
        autocast: str | None,
        compiled: bool | None = None,
        elsewhere: bool = False,
    ) -> tuple[Loaded, Dataset, SmoothedClassifier]:
        """Load what was typed, with what the record says where nothing was; refuse what is another classifier."""
        from lvmrs import runs as jobs

        known = self.record.terms
        if "noise" not in setup.typed and known.noise.partition(":")[0] not in NOISES:
            raise InvalidArgumentError(
                f"{self.where} was made with {known.noise} noise, which does not come with lvmrs; give it with --noise"
            )
        setup = replace(
            setup,
            sigma=known.sigma if setup.sigma is None else setup.sigma,
            noise=setup.noise if "noise" in setup.typed else known.noise,
        )
        loaded, dataset, smoothed = setup.load(
            method,
            lipschitz=known.lipschitz if lipschitz is None and method.uses_constant else lipschitz,
            autocast=self.record.model.precision if autocast is None else autocast,
            compiled=compiled,
            elsewhere=elsewhere,
        )
        if known.rounding is not None:
            smoothed.rounding.settled = known.rounding
        jobs.check_same_classifier(self.record, self.where, loaded, smoothed, method)
        if fitted := jobs.calibrated_on(self.record, dataset, setup.selection(dataset)):
            tell(
                f"caution: {self.where} was calibrated on {fitted} of these inputs; each certificate holds, but "
                "averages over them are too good for new inputs"
            )
        return loaded, dataset, smoothed
