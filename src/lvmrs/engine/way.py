"""How a model is run: the settings that change its speed and the last digits of its logits. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass

from lvmrs.kernel import checks


@dataclass(frozen=True)
class Way:
    """How a model is run. All parts of a run, including resumed parts and other workers, use the same settings.

    >>> print(Way(batch=32, folded=True, channels_last=True).words)
    batches of 32, as a list of steps, channels last
    """

    batch: int
    """Samples in a forward pass."""
    folded: bool = False
    """Whether the model runs as a list of its steps, with normalisation folded into the preceding layers."""
    channels_last: bool = False
    """Whether convolution weights, and so images, are stored with channels last."""
    compiled: bool = False
    """Whether the model runs through torch.compile."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "batch", checks.count("batch", self.batch, least=1))
        for name in ("folded", "channels_last", "compiled"):
            checks.instance(name, getattr(self, name), bool, "True or False")

    @property
    def words(self) -> str:
        """One-line summary for people."""
        how = {
            "as a list of steps": self.folded,
            "channels last": self.channels_last,
            "compiled": self.compiled,
        }
        return ", ".join([f"batches of {self.batch}", *(word for word, chosen in how.items() if chosen)])
