"""What the source of a model or of data states, or what was assumed, as typed values. Reading them needs no torch."""

from lvmrs.facts.data import DataFacts
from lvmrs.facts.model import DenoiserFacts, ModelFacts

__all__ = ["DataFacts", "DenoiserFacts", "ModelFacts"]
