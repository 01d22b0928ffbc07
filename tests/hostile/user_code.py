"""The user's own code that fails: at import, when it is called, late, or by what it returns."""
# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from tests.hostile.damage import Damage

__all__ = ["damaged_code"]

# What is wrong with any file of code, whatever it is for.
_ANY = {
    "not Python": "def (",
    "empty": "",
    "raises when imported": "raise RuntimeError('no')",
    "raises an exit when imported": "import sys\nsys.exit(0)",
    "raises an exit with words": "raise SystemExit('goodbye')",
    "imports what is missing": "import nowhere_at_all",
    "raises without words": "raise ValueError",
    "raises several lines": "raise ValueError('first\\nsecond\\nthird')",
    "raises an exception that cannot be shown": "class E(Exception):\n    def __str__(self):\n        raise E\nraise E",
    "has a NUL": "a = 1\0",
    "recurses": "def f():\n    f()\nf()",
    "asserts": "assert False",
}
_MODELS = {
    "is None": "model = None",
    "is a number": "model = 5",
    "is a text": "model = 'x'",
    "returns None": "def model():\n    return None",
    "returns a number": "def model():\n    return 5",
    "returns a tuple": "def model():\n    return (1, 2)",
    "needs an argument": "def model(a):\n    return a",
    "raises": "def model():\n    raise ValueError('no model today')",
    "exits": "def model():\n    raise SystemExit(0)",
    "exits with 3": "def model():\n    raise SystemExit(3)",
    "raises a KeyError": "def model():\n    return {}['x']",
    **{
        label: f"import torch, sys\n\ndef net(x):\n    {body}\n\ndef model():\n    return net"
        for label, body in {
            "answers None": "return None",
            "answers a number": "return 5",
            "answers a list": "return [[1.0, 2.0, 3.0]] * len(x)",
            "answers a NumPy array": "return torch.zeros(len(x), 3).numpy()",
            "answers a tuple": "return (torch.zeros(len(x), 3),)",
            "answers integers": "return torch.zeros(len(x), 3, dtype=torch.int64)",
            "answers booleans": "return torch.zeros(len(x), 3) > 0",
            "answers complex numbers": "return torch.zeros(len(x), 3, dtype=torch.complex64)",
            "answers NaN": "return torch.full((len(x), 3), float('nan'))",
            "answers infinity": "return torch.full((len(x), 3), float('inf'))",
            "answers one class": "return torch.zeros(len(x), 1)",
            "answers no class": "return torch.zeros(len(x), 0)",
            "answers one dimension": "return torch.zeros(len(x))",
            "answers three dimensions": "return torch.zeros(len(x), 3, 1)",
            "answers too few": "return torch.zeros(max(len(x) - 1, 0), 3)",
            "answers too many": "return torch.zeros(len(x) + 1, 3)",
            "answers a sparse tensor": "return torch.zeros(len(x), 3).to_sparse()",
            "answers on another device": "return torch.zeros(len(x), 3, device='meta')",
            "answers float8": "return torch.zeros(len(x), 3).to(torch.float8_e5m2)",
            "raises when called": "raise RuntimeError('out of luck')",
            "exits when called": "sys.exit(0)",
            "exits with words": "sys.exit('goodbye')",
            "stops iteration": "raise StopIteration",
            "has too little memory": "raise torch.OutOfMemoryError('CUDA out of memory')",
            "has no memory": "raise MemoryError",
            "divides by zero": "return 1 / 0",
            "recurses": "return net(x)",
        }.items()
    },
    **{
        label: "import torch\n\ncalls = [0]\n\ndef net(x):\n    calls[0] += 1\n"
        f"    {body}\n    return x.flatten(1)[:, :3] * 1.0\n\ndef model():\n    return net"
        for label, body in {
            "raises late": "if calls[0] > 6: raise ValueError('late')",
            "exits late": "if calls[0] > 6: raise SystemExit(0)",
            "has NaN late": "if calls[0] > 6: return x.flatten(1)[:, :3] * float('nan')",
            "changes its type": "if calls[0] > 6: return x.flatten(1)[:, :3].long()",
        }.items()
    },
}
_DATA = {
    "is None": "data = None",
    "is a number": "data = 5",
    "takes no split": "def data():\n    return None",
    "returns None": "def data(split):\n    return None",
    "returns a number": "def data(split):\n    return 5",
    "returns a list": "def data(split):\n    return [1, 2, 3]",
    "returns texts": "def data(split):\n    return 'ab'",
    "returns one thing": "def data(split):\n    return (1,)",
    "returns two Nones": "def data(split):\n    return None, None",
    "raises": "def data(split):\n    raise OSError('no disk')",
    "exits": "def data(split):\n    raise SystemExit(0)",
    **{
        label: f"import numpy as np\n\ndef data(split):\n    return {value}"
        for label, value in {
            "has no inputs": "np.zeros((0, 1, 8, 8)), np.zeros(0, int)",
            "has fewer labels": "np.zeros((3, 1, 8, 8)), np.zeros(2, int)",
            "has bytes as floats": "np.full((3, 1, 8, 8), 255.0), np.zeros(3, int)",
            "has NaN": "np.full((3, 1, 8, 8), np.nan), np.zeros(3, int)",
            "has labels of text": "np.zeros((3, 1, 8, 8)), np.array(['a', 'b', 'c'])",
            "has labels below 0": "np.zeros((3, 1, 8, 8)), np.full(3, -1)",
            "has labels beyond": "np.zeros((3, 1, 8, 8)), np.full(3, 99)",
            "has inputs of another shape": "np.zeros((3, 2, 5, 5)), np.zeros(3, int)",
            "has inputs of objects": "np.zeros((3, 1, 8, 8)).astype(object), np.zeros(3, int)",
            "has ragged inputs": "[[1], [1, 2]], [0, 1]",
        }.items()
    },
    **{
        label: "import torch\nfrom lvmrs.data import Dataset\n\nclass Mine(Dataset):\n"
        "    name, split, classes = 'mine', 'test', None\n"
        "    def __len__(self):\n        return 3\n"
        "    def largest_label(self):\n        return 2\n"
        "    def fingerprint(self):\n        return 'mine'\n"
        f"    {body}\n\ndef data(split):\n    return Mine()"
        for label, body in {
            "has inputs that raise": "def __getitem__(self, k): raise RuntimeError('torn page')",
            "has inputs that exit": "def __getitem__(self, k): raise SystemExit(0)",
            "has inputs that are None": "def __getitem__(self, k): return None",
            "has inputs without labels": "def __getitem__(self, k): return torch.zeros(1, 8, 8)",
            "has inputs that are lists": "def __getitem__(self, k): return [[0.0]], 0",
            "has inputs of integers": "def __getitem__(self, k): return torch.zeros(1, 8, 8, dtype=torch.int64), 0",
            "has inputs out of range": "def __getitem__(self, k): return torch.full((1, 8, 8), 255.0), 0",
            "has inputs of NaN": "def __getitem__(self, k): return torch.full((1, 8, 8), float('nan')), 0",
            "has inputs without pixels": "def __getitem__(self, k): return torch.zeros(0), 0",
            "has labels that are texts": "def __getitem__(self, k): return torch.zeros(1, 8, 8), 'a'",
            "has labels that are None": "def __getitem__(self, k): return torch.zeros(1, 8, 8), None",
            "has labels that are below 0": "def __getitem__(self, k): return torch.zeros(1, 8, 8), -1",
            "has labels that are fractions": "def __getitem__(self, k): return torch.zeros(1, 8, 8), 0.5",
            "has a length that raises": "def __len__(self): raise RuntimeError('no length')",
            "has a length of None": "def __len__(self): return None",
            "has a length below 0": "def __len__(self): return -1",
        }.items()
    },
}
_HASHED = {
    "raises": "import torch\nfrom lvmrs.data import Dataset\n\nclass Mine(Dataset):\n"
    "    name, split, classes = 'mine', 'test', None\n"
    "    def __len__(self): return 3\n    def largest_label(self): return 2\n"
    "    def __getitem__(self, k): return torch.zeros(1, 8, 8), 0\n"
    "    def fingerprint(self): raise RuntimeError('no hash')\n\ndef data(split):\n    return Mine()",
}
_PLANNERS = {
    "is None": "Mine = None",
    "is another class": "class Mine:\n    pass",
    "has no choose": "from lvmrs import Planner\n\nclass Mine(Planner):\n    pass",
    **{
        label: "from dataclasses import dataclass\nfrom lvmrs import Planner\nimport lvmrs\n\n@dataclass(frozen=True)\nclass Mine(Planner):\n"
        f"    scope = 'all inputs'\n    def choose(self, logits, terms):\n        {body}"
        for label, body in {
            "chooses None": "return None",
            "chooses a number": "return 5",
            "raises": "raise ValueError('no plan')",
            "exits": "raise SystemExit(0)",
            "raises an index error": "return [][0]",
        }.items()
    },
}
_MAPS = {
    "is None": "Mine = None",
    "is another class": "class Mine:\n    name = 'mine'",
    **{
        label: "import torch\nfrom lvmrs.kernel.maps import SimplexMap, Slopes\n\nclass Mine(SimplexMap):\n    name = 'mine-of-hostile'\n"
        "    @classmethod\n    def constants(cls, lipschitz, *, temperature=1.0, mass=1.0):\n"
        "        return Slopes(float('inf'), float('inf'))\n"
        f"    def apply(self, logits):\n        {body}"
        for label, body in {
            "applies to None": "return None",
            "applies to NaN": "return logits * float('nan')",
            "applies to sums of 2": "return torch.softmax(logits, -1) * 2",
            "applies to values below 0": "return logits * 0 - 1",
            "applies to fewer classes": "return logits[:, :1]",
            "raises": "raise ValueError('no map')",
            "exits": "raise SystemExit(0)",
        }.items()
    },
}
_NOISES = {
    "is None": "Mine = None",
    "is another class": "class Mine:\n    name = 'mine'",
    **{
        label: "from dataclasses import dataclass\nfrom lvmrs.kernel.noise import Noise\n\n@dataclass(frozen=True)\nclass Mine(Noise):\n"
        "    name = 'noise-of-hostile'\n    distance = 'no distance'\n    length = 'd'\n"
        f"    def words(self, sigma):\n        return 'noise'\n    def fill(self, out, generator):\n        {body}"
        for label, body in {
            "raises": "raise ValueError('no noise')",
            "exits": "raise SystemExit(0)",
            "fills NaN": "out.fill_(float('nan'))",
        }.items()
    },
}
_OBJECTIVES = {
    "is None": "Mine = None",
    "is another class": "class Mine:\n    pass",
    "has no loss": "from lvmrs.training import Objective\n\nclass Mine(Objective):\n    pass",
    **{
        label: "from dataclasses import dataclass\nimport torch\nfrom lvmrs.training import Objective\n\n@dataclass(frozen=True)\nclass Mine(Objective):\n"
        f"    sigma: float\n    def loss(self, model, x, y, generator):\n        {body}"
        for label, body in {
            "loses None": "return None",
            "loses a number": "return 1.0",
            "loses NaN": "return model(x).sum() * float('nan')",
            "loses several numbers": "return model(x)",
            "raises": "raise ValueError('no loss')",
            "exits": "raise SystemExit(0)",
        }.items()
    },
}


def damaged_code() -> Iterator[Damage]:
    """Files of code for each kind of part."""
    kinds = {
        "code of a model": {**_ANY, **_MODELS},
        "code of data": {**_ANY, **_DATA},
        "hash of data": _HASHED,
        "code of a planner": {**_ANY, **_PLANNERS},
        "code of a map": _MAPS,
        "code of a noise": _NOISES,
        "code of an objective": {**_ANY, **_OBJECTIVES},
    }
    for kind, sources in kinds.items():
        for label, source in sources.items():
            yield Damage(kind, label, _written(source))


def _written(source: str) -> Callable[[Path, Path], None]:
    def make(world: Path, given: Path) -> None:
        (given / "mine.py").write_text(source)

    return make
