"""Bad values for arguments of public functions, by what the argument should be.

To add a case, add a value to a kind: it must be wrong for every argument of that kind.
"""
# ruff: noqa: E501

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

__all__ = ["BAD"]


class _Thing:
    """An object that no function knows."""

    def __repr__(self) -> str:
        return "a thing"


_NAN, _INF = float("nan"), float("inf")
_Z = torch.zeros(4, 3)

# What is never a number.
_NO_NUMBER: dict[str, Any] = {
    "None": None, "an object": _Thing(), "a text": "x", "no text": "", "a text of a number": "0.5", "bytes": b"1", "a set": {1.0}, "a dict": {},
    "an empty list": [], "complex": 0.5 + 0j, "nan": _NAN, "a class": int, "a function": len, "ragged": [[0.5], [0.5, 0.5]],
    "an array of objects": np.array([_Thing()]), "an array of texts": np.array(["x"]), "an empty tensor": torch.zeros(0), "a complex tensor": torch.zeros(1, dtype=torch.complex64) + 0.5,
    "a tensor of NaN": torch.full((1,), _NAN), "a list of None": [None], "a huge whole number": 10**400, "a date": np.datetime64(0, "s"), "a sparse tensor": torch.eye(2).to_sparse(), "a meta tensor": torch.zeros((), device="meta"),
}  # fmt: skip
_ONE = {**_NO_NUMBER, "two numbers": [0.5, 0.5], "a tensor of two": torch.full((2,), 0.5)}
_NO_WHOLE = {**_ONE, "a fraction": 1.5, "infinity": _INF, "-1": -1, "beyond 2⁵³": 2**60, "a half": 0.5}
_NO_OBJECT: dict[str, Any] = {
    "None": None,
    "a number": 5,
    "a text": "x",
    "an object": _Thing(),
    "a list": [],
    "a class": int,
    "a tensor": _Z,
}
_NO_NAME: dict[str, Any] = {
    "None": None,
    "a number": 5,
    "nothing": "",
    "unknown": "magic",
    "a list": ["softmax"],
    "an object": _Thing(),
    "bytes": b"softmax",
    "a set": set(),
    "a tensor": _Z,
}
_NO_PATH: dict[str, Any] = {
    "None": None, "a number": 5, "an object": _Thing(), "a list": [], "NUL": "a\0b", "long": "x" * 5000, "missing": "nowhere", "nobody's home": "~nobody-of-that-name/a",
    "bytes": b"\xff", "below a file": "/dev/null/a", "a path NUL": Path("a\0b"), "a number with a fraction": 0.5, "/dev/null": "/dev/null", "a tensor": _Z,
}  # fmt: skip
_NO_PLACE: dict[str, Any] = {
    "None": None, "a number": 5, "an object": _Thing(), "a list": [], "NUL": "a\0b", "long": "x" * 5000, "nobody's home": "~nobody-of-that-name/a",
    "bytes": b"\xff", "below a file": "/dev/null/a", "nothing": "", "/dev/null": "/dev/null", "here": ".",
}  # fmt: skip
_NO_JSON: dict[str, Any] = {
    "None": None, "a number": 5, "an object": _Thing(), "bytes": b"{}", "nothing": "", "a word": "x", "a list": "[]", "null": "null", "a number in it": "5",
    "no fields": "{}", "NaN": "NaN", "nested": "[" * 100_000, "nested objects": '{"a":' * 100_000, "a text": '"x"', "half": '{"top": 1', "one field": '{"top": 1}', "a dict": {},
}  # fmt: skip

BAD: dict[str, dict[str, Any]] = {
    "positive": {**_ONE, "0": 0, "-1": -1.0, "infinity": _INF, "-infinity": -_INF},
    "positive numbers": {**_NO_NUMBER, "0": 0, "-1": -1.0, "infinity": _INF, "one is 0": [1.0, 0.0]},
    "positive or infinite": {**_ONE, "0": 0, "-1": -1.0, "-infinity": -_INF},
    "positive or None": {**{k: v for k, v in _ONE.items() if k != "None"}, "0": 0, "-1": -1.0, "-infinity": -_INF},
    "constants": {**_NO_NUMBER, "0": 0, "-1": -1.0, "-infinity": -_INF},
    "from 0": {**_ONE, "-1": -1.0, "infinity": _INF, "-infinity": -_INF},
    "from 0 or None": {**{k: v for k, v in _ONE.items() if k != "None"}, "-1": -1.0, "infinity": _INF},
    "numbers from 0": {**_NO_NUMBER, "-1": -1.0, "infinity": _INF, "-infinity": -_INF},
    "fraction": {**_ONE, "0": 0, "1": 1, "-1": -1.0, "2": 2.0, "infinity": _INF},
    "fractions": {**_NO_NUMBER, "0": 0, "1": 1, "-1": -1.0, "2": 2.0, "infinity": _INF},
    "fraction or None": {**{k: v for k, v in _ONE.items() if k != "None"}, "0": 0, "1": 1, "-1": -1.0, "2": 2.0},
    "probabilities": {**_NO_NUMBER, "-0.1": -0.1, "1.1": 1.1, "infinity": _INF},
    "flag": {"None": None, "a number": 5, "a text": "yes", "an object": _Thing()},
    "numbers": {k: v for k, v in _NO_NUMBER.items() if "number" not in k or k == "a text of a number"},
    "samples": {**_NO_NUMBER, "above the mass": [0.5, 1.5], "below 0": [-0.1], "a number alone": 0.5},
    "whole from 0": {k: v for k, v in _NO_WHOLE.items() if k != "beyond 2⁵³"},
    "whole from 1": {**_NO_WHOLE, "0": 0},
    "whole from 2": {**_NO_WHOLE, "0": 0, "1": 1},
    "wholes from 1": {**_NO_NUMBER, "a fraction": 1.5, "infinity": _INF, "-1": -1, "0": 0},
    "counts": {**_NO_NUMBER, "a fraction": [1.5, 1], "infinity": [_INF, 1], "-1": [-1, 1], "none": [0, 0], "one": [5], "too many": [1, 10**12]},
    "whole or None": {**{k: v for k, v in _NO_WHOLE.items() if k != "None"}, "0": 0},
    "seed": {**{k: v for k, v in _NO_WHOLE.items() if k != "beyond 2⁵³"}, "too large": 2**70},
    "class number": {**{k: v for k, v in _NO_WHOLE.items() if k != "beyond 2⁵³"}, "beyond": 99},
    "logits": {
        **{k: v for k, v in _NO_OBJECT.items() if k != "a tensor"}, "a list of numbers": [[0.0, 1.0]], "an array": np.zeros((4, 3)), "whole": _Z.long(), "booleans": _Z > 0, "complex": _Z.to(torch.complex64),
        "nan": _Z * _NAN, "infinite": _Z + _INF, "-infinite": _Z - _INF, "no rows": _Z[:0], "no classes": _Z[:, :0], "no dimension": torch.tensor(1.0), "sparse": torch.eye(3).to_sparse(), "meta": torch.zeros(4, 3, device="meta"),
    },
    "input": {
        **_NO_OBJECT, "a list of numbers": [[0.0, 1.0]], "an array": np.zeros((1, 8, 8)), "whole": torch.zeros(1, 8, 8, dtype=torch.int64), "bytes": torch.zeros(1, 8, 8, dtype=torch.uint8), "complex": torch.zeros(1, 8, 8, dtype=torch.complex64),
        "nan": torch.full((1, 8, 8), _NAN), "infinite": torch.full((1, 8, 8), _INF), "empty": torch.zeros(0), "other shape": torch.zeros(2, 5), "sparse": torch.zeros(8, 8).to_sparse(), "meta": torch.zeros(1, 8, 8, device="meta"), "no dimension": torch.tensor(0.5),
    },
    "inputs": {"None": None, "a number": 5, "a text": "x", "an object": _Thing(), "nothing": [], "numbers": [1, 2], "Nones": [None], "NaN": [torch.full((1, 8, 8), _NAN)], "other shape": [torch.zeros(2, 5)]},
    "name": _NO_NAME,
    "simplex map": {**_NO_NAME, "a duel": "duel"},
    "names": {"None": None, "a number": 5, "a name alone": "softmax", "nothing": (), "unknown": ("magic",), "numbers": (5,), "Nones": (None,), "an object": _Thing()},
    "name or None": {k: v for k, v in _NO_NAME.items() if k != "None"},
    "word": {k: v for k, v in _NO_NAME.items() if k not in ("unknown", "nothing")},
    "source": {**_NO_NAME, "NUL": "a\0b", "long": "x" * 5000, "a colon": ":", "no rest": "npz:", "nobody's home": "npz:~nobody-of-that-name/a", "long file": "npz:" + "x" * 5000, "NUL file": "npz:a\0b", "code": "python:nowhere_at_all:f"},
    "model source": {**_NO_NAME, "NUL": "a\0b", "long": "x" * 5000, "a colon": ":", "no rest": "trained:", "nobody's home": "trained:~nobody-of-that-name/a", "long file": "trained:" + "x" * 5000, "NUL file": "onnx:a\0b", "code": "python:nowhere_at_all:f", "a bomb": "ready:small_cnn,width=10000000", "huge": f"ready:small_cnn,width={10**30}"},
    "numbers of channels": {"a number": 0.5, "a text": "x", "nothing": [], "texts": ["x"], "NaN": [_NAN], "infinity": [_INF], "two": [0.5, 0.5], "Nones": [None], "an object": _Thing(), "complex": [0.5j]},
    "std": {"a number": 0.5, "a text": "x", "nothing": [], "texts": ["x"], "NaN": [_NAN], "infinity": [_INF], "two": [0.5, 0.5], "zero": [0.0], "below 0": [-1.0], "Nones": [None], "an object": _Thing()},
    "shape": {**_NO_OBJECT, "nothing": [], "zero": [0, 8, 8], "-1": [-1, 8, 8], "fractions": [1.5, 8, 8], "texts": ["1", "8", "8"], "NaN": [_NAN, 8, 8], "a bomb": [1, 10**6, 10**6], "huge": [1, 8, 10**30], "other channels": [3, 8, 8], "Nones": [None]},
    "path": _NO_PATH,
    "weights": {k: v for k, v in _NO_PATH.items() if k != "None"},
    "run directory": {**_NO_PATH, "here": "."},
    "place": _NO_PLACE,
    "results file": _NO_PATH,
    "object": _NO_OBJECT,
    "object or None": {k: v for k, v in _NO_OBJECT.items() if k != "None"},
    "callable": {"None": None, "a number": 5, "a text": "x", "a list": [], "a tensor": _Z},
    "module": {**_NO_OBJECT, "a function": len},
    "runs": {"None": None, "a number": 5, "a text": "x", "an object": _Thing(), "Nones": [None], "texts": ["x"], "numbers": [5], "nothing": []},
    "radii": {**{k: v for k, v in _NO_NUMBER.items() if k not in ("an empty list", "an empty tensor")}, "-1": [-1.0], "infinity": [_INF], "NaN in it": [0.0, _NAN], "texts": ["x"], "a number": 0.5},
    "device": {"None": None, "a number": 99, "nothing": "", "unknown": "tpu0", "an object": _Thing(), "cuda:99": "cuda:99", "meta": "meta", "hpu": "hpu", "a list": []},
    "dtype": {"a text": "float16", "a number": 5, "a class": int, "an object": _Thing(), "integers": torch.int64, "booleans": torch.bool, "complex": torch.complex64},
    "width": {**{k: v for k, v in _ONE.items() if k != "None"}, "0": 0, "-1": -1.0, "infinity": _INF},
    "JSON": _NO_JSON,
    "decimal places": {**{k: v for k, v in _NO_WHOLE.items() if k not in ("beyond 2⁵³",)}},
    "arrays of inputs": {
        "None": None, "a number": 5, "a text": "x", "a list": [[0.5]], "one dimension": np.zeros(6), "integers": np.zeros((6, 4), np.int64), "NaN": np.full((6, 4), _NAN), "above 1": np.full((6, 4), 2.0), "below 0": np.full((6, 4), -1.0),
        "fewer": np.zeros((5, 4)), "none": np.zeros((0, 4)), "without pixels": np.zeros((6, 0)), "objects": np.zeros((6, 4), object), "texts": np.full((6, 4), "x"), "complex": np.zeros((6, 4), complex), "booleans": np.zeros((6, 4), bool), "an object": _Thing(),
    },
    "arrays of labels": {
        "None": None, "a number": 5, "a text": "x", "fractions": np.full(6, 0.5), "NaN": np.full(6, _NAN), "below 0": np.full(6, -1), "texts": np.full(6, "a"), "objects": np.zeros(6, object), "fewer": np.zeros(5, int), "two dimensions": np.zeros((6, 2), int),
        "complex": np.zeros(6, complex), "huge": np.full(6, 1e300), "an object": _Thing(), "booleans": np.zeros(6, bool),
    },
    "only": {"a number": 5, "a text": "x", "texts": ["x"], "not in order": [2, 1], "twice": [1, 1], "beyond": [99], "below 0": [-1], "fractions": [0.5], "Nones": [None], "an object": _Thing()},
    "rows of a family": {"None": None, "a number": 5, "nothing": [], "texts": ["x"], "weights below 0": [(-1.0, [0.0, 1.0])], "no logits": [(1.0, [])], "ragged": [(0.5, [0.0]), (0.5, [0.0, 1.0])], "NaN": [(_NAN, [0.0, 1.0])]},
    "settings": {"a number": 5, "a text": "x", "a list": [], "None": None, "unknown": {"magic": 1}, "of other types": {"width": "x"}, "an object": {"width": _Thing()}},
}  # fmt: skip
