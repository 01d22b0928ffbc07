"""Manifests of runs that were never made, for tests of what is said about runs."""

from typing import Any

from lvmrs.record import Manifest, Selection
from lvmrs.record.manifest import DataRecord, MethodRecord, ModelRecord, Origin, TermsRecord

__all__ = ["manifest"]


def manifest(
    size: int = 2,
    *,
    method: str = "Duels",
    settings: dict[str, Any] | None = None,
    classifier: str | None = "what the method says",
    scope: Any = None,
    data: str | None = "digits",
    data_hash: str | None = "0123456789abcdef",
    classes: list[str] | None = None,
    imported: str | None = None,
    **terms: Any,
) -> Manifest:
    return Manifest(
        ModelRecord("m"),
        DataRecord("test", data, data_hash, classes=classes),
        MethodRecord(method, settings or {}, scope=scope, classifier=classifier),
        TermsRecord(**{"sigma": 0.5, "alpha": 0.001, "n0": 100, "n": 1000, "seed": 0, **terms}),
        Selection(size),
        origin=Origin(imported=imported),
    )
