"""Data sets of the user's own: whatever their code raises gets one sentence, sys.exit too, and answers are checked."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from lvmrs import data
from lvmrs.errors import DataError
from lvmrs.training.batches import in_order

HALF = torch.full((1, 2, 2), 0.5)


class Own(data.Dataset):
    """Each method does what it is told to: it raises an exception, or gives an answer."""

    name, split = "own", "test"

    def __init__(self, **told: Any) -> None:
        self.told = told

    def _do(self, method: str, otherwise: Any) -> Any:
        answer = self.told.get(method, otherwise)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def __len__(self) -> int:
        return self._do("len", 3)  # type: ignore[no-any-return]

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self._do("item", (HALF, 1))  # type: ignore[no-any-return]

    def many(self, indices: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        return self._do("many", super().many(indices))  # type: ignore[no-any-return]

    def fingerprint(self) -> str:
        return self._do("hash", "a hash")  # type: ignore[no-any-return]

    def largest_label(self) -> int | None:
        return self._do("largest", 1)  # type: ignore[no-any-return]


def use(own: data.Dataset) -> None:
    """All that lvmrs does with a data set."""
    len(own)
    data.checked_input(own, 0)
    own.many([0, 1])
    own.fingerprint()
    data.check_labels(own, 10)


def test_a_good_one_passes() -> None:
    use(Own())
    assert [label for _, label in Own()] == [1, 1, 1]


FAILING = {
    "len": "own: its length is not known",
    "item": "own: input 0 cannot be read",
    "many": "own: inputs cannot be read",
    "hash": "own: it has no fingerprint",
    "largest": "own: its largest label is not known",
}


class Mute(Exception):  # noqa: N818
    """Its message fails, too."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize("method", FAILING)
@pytest.mark.parametrize(
    ("raised", "words"),
    [
        (SystemExit(0), "(it calls sys.exit)"),
        (ValueError("first\nsecond"), "(ValueError: first)"),
        (IndexError("gone"), "(IndexError: gone)"),
        (MemoryError(), "(MemoryError)"),
        (RecursionError("deep"), "(RecursionError: deep)"),
        (StopIteration(), "(StopIteration)"),
        (Mute(), "(Mute)"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_whatever_it_raises_is_one_sentence(method: str, raised: BaseException, words: str) -> None:
    with pytest.raises(DataError) as caught:
        use(Own(**{method: raised}))
    assert str(caught.value) == f"{FAILING[method]} {words}"


@pytest.mark.parametrize("method", FAILING)
def test_control_c_and_our_own_errors_pass(method: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        use(Own(**{method: KeyboardInterrupt()}))
    with pytest.raises(DataError, match=r"^just so$"):
        use(Own(**{method: DataError("just so")}))


PAIRS = torch.stack([HALF, HALF])
ODD: list[tuple[str, Any, str]] = [
    ("len", -1, "its length is -1; expected a whole number from 0"),
    ("len", 10**30, "its length is 1000000000000000000000000000000"),
    ("len", 2.5, "its length is 2.5"),
    ("len", None, "its length is None"),
    ("item", None, "input 0 is NoneType; expected a pair of input and label"),
    ("item", HALF, "input 0 is Tensor; expected a pair"),
    ("item", (HALF, 1, 2), "input 0 is tuple; expected a pair"),
    ("item", (HALF, None), "input 0 has label None; expected a class number from 0"),
    ("item", (HALF, 1.5), "input 0 has label 1.5"),
    ("item", (HALF, torch.tensor([1, 2])), "input 0 has label tensor([1, 2])"),
    ("item", (HALF.long(), 1), "input 0 is torch.int64; expected a floating-point tensor"),
    ("item", (HALF.to(torch.complex64), 1), "input 0 is torch.complex64"),
    ("item", (HALF.to_sparse(), 1), "input 0 is torch.sparse_coo; expected a floating-point tensor"),
    ("item", (torch.zeros(0, 3), 1), "input 0 is empty (shape (0, 3))"),
    ("item", (torch.empty(2, 2, device="meta"), 1), "input 0 cannot be read"),
    ("many", None, "a batch is NoneType; expected a pair of inputs and labels"),
    ("many", (PAIRS.long(), torch.tensor([1, 1])), "a batch of inputs is torch.int64"),
    ("many", (PAIRS + 1, torch.tensor([1, 1])), "a batch of inputs has values outside [0, 1]"),
    ("many", (PAIRS, [1, 1]), "the labels of a batch are not class numbers"),
    ("many", (PAIRS, torch.tensor([1])), "the labels of a batch are not class numbers"),
    ("many", (PAIRS, torch.tensor([1, -1])), "the labels of a batch are not class numbers"),
    ("many", (PAIRS, torch.tensor([1.0, 1.0])), "the labels of a batch are not class numbers"),
    ("hash", None, "its fingerprint is None; expected a string"),
    ("hash", "", "its fingerprint is ''; expected a string"),
    ("largest", "9", "its largest label is '9'"),
    ("largest", -3, "its largest label is -3"),
]


@pytest.mark.parametrize(("method", "answer", "sentence"), ODD)
def test_answers_of_the_wrong_kind_are_refused(method: str, answer: Any, sentence: str) -> None:
    with pytest.raises(DataError) as caught:
        use(Own(**{method: answer}))
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


CODE = """
import sys
import numpy as np
from lvmrs.data import Dataset
if "{at}" == "import":
    sys.exit(0)
def make(split):
    if "{at}" == "function":
        sys.exit(0)
    return np.zeros((2, 1, 2, 2)), [0, 1]
def odd(split):
    return object(), [[1], [2, 3]]
class Empty(Dataset):
    def __init__(self, split): pass
    def __len__(self): return 0
    def __getitem__(self, index): sys.exit(0)
    def fingerprint(self): return "none"
def __getattr__(name):
    if name == "exits":
        sys.exit(0)
    raise AttributeError(name)
"""


@pytest.mark.parametrize(
    ("at", "name", "sentence"),
    [
        ("import", "make", "own_import.py cannot be imported (it calls sys.exit)"),
        ("function", "make", "the function failed (it calls sys.exit)"),
        ("attribute", "exits", "own_attribute.py cannot be imported (it calls sys.exit)"),
        ("arrays", "odd", "inputs and labels are not arrays (ValueError"),
        ("empty", "Empty", "there are no inputs in split 'test'"),
    ],
)
def test_code_that_makes_data(tmp_path: Path, at: str, name: str, sentence: str) -> None:
    file = tmp_path / f"own_{at}.py"
    file.write_text(CODE.format(at=at))
    with pytest.raises(DataError) as caught:
        data.load(f"python:{file}:{name}")
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
    assert (at == "import") == (f"own_{at}" not in sys.modules)


@pytest.mark.parametrize("workers", [0, 1])
def test_data_that_fail_in_a_worker_give_the_same_sentence(workers: int) -> None:
    with pytest.raises(DataError) as caught:
        list(in_order(Own(item=SystemExit(0)), 2, workers))
    assert str(caught.value) == "own: input 0 cannot be read (it calls sys.exit)"
