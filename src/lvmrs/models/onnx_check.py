"""Finds tensors of an ONNX file that are stored in other files, without the package onnx."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["outside_files"]

# The fields of each message type that contain tensors, or messages with tensors (onnx.proto).
_FIELDS: dict[str, dict[int, str]] = {
    "model": {7: "graph", 25: "function", 20: "training"},
    "training": {1: "graph", 2: "graph"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 10: "tensor", 6: "graph", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {13: "entry"},
}


def outside_files(content: bytes) -> list[str]:
    """The entries ``external_data`` of the tensors of a model: names of files, offsets and lengths."""
    return [entry.decode(errors="replace") for entry in _entries(memoryview(content), "model")]


def _entries(message: memoryview, kind: str) -> Iterator[bytes]:
    for field, part in _parts(message):
        inner = _FIELDS[kind].get(field)
        if inner == "entry":
            yield b" ".join(bytes(text) for _, text in _parts(part))
        elif inner is not None:
            yield from _entries(part, inner)


def _parts(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """The fields of a message that are messages, strings or bytes, each with its field number."""
    place = 0
    while place < len(message):
        tag, place = _number(message, place)
        wire = tag & 7
        if wire == 2:
            size, place = _number(message, place)
            if size > len(message) - place:
                raise ValueError("it is cut off")
            yield tag >> 3, message[place : place + size]
            place += size
        elif wire == 0:
            _, place = _number(message, place)
        elif wire in (1, 5):
            place += 8 if wire == 1 else 4
        else:
            raise ValueError("it is not a protocol buffer")


def _number(message: memoryview, place: int) -> tuple[int, int]:
    """A varint (seven bits per byte), and the position after it."""
    value = 0
    for count in range(10):
        if place >= len(message):
            raise ValueError("it is cut off")
        value |= (message[place] & 127) << (7 * count)
        place += 1
        if message[place - 1] < 128:
            return value, place
    raise ValueError("it is not a protocol buffer")
