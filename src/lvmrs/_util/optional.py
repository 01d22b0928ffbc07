"""Import of optional libraries on first use."""

from importlib import import_module
from typing import Any

from lvmrs.errors import LvmrsError

__all__ = ["optional"]


def optional(module: str, *, extra: str, error: type[LvmrsError]) -> Any:
    """Import a module. If it is missing, raise ``error`` with the pip command that installs it."""
    try:
        return import_module(module)
    except ImportError as missing:
        raise error(
            f"{module} cannot be imported ({missing}); install it with: pip install 'lvmrs[{extra}]'"
        ) from missing
