"""Tables of names: what the entries of the registry are, and how a name is looked up, listed and added."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, TypeVar

from lvmrs.errors import InvalidArgumentError, shown

__all__ = ["Entry", "Names"]

Part = TypeVar("Part", bound=type)


@dataclass(frozen=True)
class Entry:
    """One name: where it lives, what it is, and what more is known about it without importing it."""

    where: str
    """``module:Class`` or ``module:function``."""
    words: str
    """What it is, in a few words."""
    pattern: str = ""
    """What is written after the name and a colon, such as FILE; empty if the name stands alone."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings that the name stands for, beside its class."""
    facts: tuple[str, ...] = ()
    """Attributes of the class that are true; for sources of models and data, see the note above their tables."""
    extra: str = ""
    """The optional extra of the package that it needs."""


class Names:
    """The known names of one kind of part, in the order in which they are shown."""

    def __init__(self, kind: str, base: str | None, entries: Mapping[str, Entry]) -> None:
        """``base`` is the class of all parts of this kind; None if they are functions, to which none can be added."""
        self.kind, self.base = kind, base
        self._entries = dict(entries)
        self._added: dict[str, type] = {}

    def __iter__(self) -> Iterator[str]:
        """All names."""
        return iter((*self._entries, *self._added))

    def __contains__(self, name: object) -> bool:
        """Whether the name is known."""
        return isinstance(name, str) and (name in self._entries or name in self._added)

    @property
    def listed(self) -> str:
        """All names as they are written, with commas between them: for help texts and refusals."""
        return ", ".join(map(self.written, self))

    def written(self, name: str) -> str:
        """A name with the pattern of what follows it, such as ``onnx:FILE``."""
        pattern = self._entries[name].pattern if name in self._entries else ""
        return f"{name}:{pattern}" if pattern else name

    @property
    def added(self) -> tuple[type, ...]:
        """The parts that are not ours."""
        return tuple(self._added.values())

    def having(self, fact: str) -> tuple[str, ...]:
        """The names of the parts of which a fact is true."""
        ours = (name for name, entry in self._entries.items() if fact in entry.facts)
        return (*ours, *(name for name, part in self._added.items() if getattr(part, fact, False)))

    def words(self, name: str) -> str:
        """What the part of that name is, in a few words."""
        part = self._added.get(name)
        return self._entries[name].words if part is None else (part.__doc__ or name).partition("\n")[0]

    def extra_of(self, name: str) -> str:
        """The optional extra of the package that it needs, or nothing."""
        return self._entries[name].extra if name in self._entries else ""

    def settings(self, name: str) -> dict[str, Any]:
        """The settings that the name stands for, beside its class."""
        return dict(self._entries[name].settings) if name in self._entries else {}

    def name_of(self, class_name: str, settings: Mapping[str, Any]) -> str | None:
        """The name that stands for our class of that name with these settings, among others; None if there is none."""
        return next(
            (
                name
                for name, entry in self._entries.items()
                if entry.where.endswith(f":{class_name}") and entry.settings.items() <= settings.items()
            ),
            None,
        )

    def find(self, name: object, *, argument: str | None = None) -> Any:
        """The class of that name. A name that is not known is refused in a sentence that names the ``argument``."""
        if not isinstance(name, str) or name not in self:
            raise InvalidArgumentError(f"{argument or self.kind} must be one of {self.listed}, got {shown(name)}")
        return self._added[name] if name in self._added else _imported(self._entries[name].where)

    def add(self, part: Part) -> Part:
        """Make a part of your own known under its ``name``; it can be used as a decorator."""
        if self.base is None:
            raise InvalidArgumentError(f"a {self.kind} cannot be added; name it with python:MODULE:FUNCTION")
        base = _imported(self.base)
        if not (isinstance(part, type) and issubclass(part, base)):
            raise InvalidArgumentError(f"a {self.kind} must be a class derived from {base.__name__}, got {shown(part)}")
        name = getattr(part, "name", None)
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][\w.-]*", name):  # it stands in rows and manifests
            raise InvalidArgumentError(f"{part.__name__} has no name; give the class an attribute name = 'word'")
        if lacking := [word for word in _class_attributes(base) if not hasattr(part, word)]:
            raise InvalidArgumentError(f"{part.__name__} has no {lacking[0]}; write it: see {base.__module__}")
        if missing := sorted(getattr(part, "__abstractmethods__", ())):
            raise InvalidArgumentError(f"{part.__name__} has no method {missing[0]}; write it: see {base.__module__}")
        known = self._added.get(name)
        home = (part.__module__, part.__qualname__)
        if name in self._entries or (known is not None and (known.__module__, known.__qualname__) != home):
            raise InvalidArgumentError(f"there is a {self.kind} {name} already; give {part.__name__} another name")
        self._added[name] = part
        return part


def _class_attributes(base: type) -> list[str]:
    """The attributes that a base class declares for all classes of its kind."""
    return [name for name, kind in inspect.get_annotations(base).items() if "ClassVar" in str(kind)]


def _imported(where: str) -> Any:
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)
