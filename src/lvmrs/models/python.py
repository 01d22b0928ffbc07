"""Models from the user's Python code."""

from __future__ import annotations

from torch import nn

from lvmrs._util.facts import ModelFacts
from lvmrs._util.user_code import called, imported
from lvmrs.errors import ModelError
from lvmrs.kernel.sampler import Model

__all__ = ["python"]


def python(name: str, rest: str) -> tuple[Model, ModelFacts]:
    """Import the torch module ``MODULE:NAME``, or call the function ``MODULE:NAME``, which returns a model."""
    named = imported(name, rest, error=ModelError)
    made = called(name, named, error=ModelError) if callable(named) and not isinstance(named, nn.Module) else named
    if not callable(made):
        raise ModelError(f"{name}: it returned {type(made).__name__}; expected a module or a callable on batches")
    model: Model = made
    return model, ModelFacts()
