"""The guards: what they let through, what they say, what mypy refuses, and that they need no torch."""

import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import torch

from lvmrs._util import files, machine
from lvmrs.errors import InvalidArgumentError, shown
from lvmrs.kernel import checks, radius
from lvmrs.kernel.checks import Numbers

READERS = ["lvmrs.kernel.checks", "lvmrs.analysis", "lvmrs.cli", "lvmrs.registry", "lvmrs.record"]


@pytest.mark.parametrize("module", READERS)
def test_what_only_reads_does_not_import_torch(module: str) -> None:
    code = f"import sys, {module}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout == "False\n"


def test_the_command_line_starts_without_scipy() -> None:
    code = "import sys, lvmrs.cli; print([name for name in ('scipy', 'torch') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout == "[]\n"


def test_guards_work_where_torch_was_not_imported() -> None:
    code = (
        "import sys; from lvmrs.kernel import checks; "
        "print(checks.count('n', 3, least=1), checks.real('x', [1, 2]).tolist(), 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout == "3 [1.0, 2.0] False\n"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, 1.0),
        (True, 1.0),
        (np.float32(0.5), 0.5),
        (np.int64(3), 3.0),
        ([1, 2.5], [1.0, 2.5]),
        (((1, 2), (3, 4)), [[1.0, 2.0], [3.0, 4.0]]),
        ([[[1.0]]], [[[1.0]]]),
        (np.arange(3), [0.0, 1.0, 2.0]),
        ([np.arange(2), np.arange(2)], [[0.0, 1.0], [0.0, 1.0]]),
        (torch.tensor([1, 2]), [1.0, 2.0]),
        (torch.tensor([0.5], requires_grad=True), [0.5]),
        (torch.tensor(0.25, dtype=torch.bfloat16), 0.25),
        ([torch.tensor(1.0), 2.0], [1.0, 2.0]),
    ],
)
def test_numbers_of_every_kind_become_float64(value: Numbers, expected: object) -> None:
    array = checks.real("value", value)
    assert array.dtype == np.float64
    assert array.tolist() == expected


def test_single_numbers_become_those_of_python() -> None:
    count = checks.count("n", np.float64(5), least=1)
    sigma = checks.positive_number("sigma", torch.tensor(0.5))
    assert (count, type(count)) == (5, int)
    assert (sigma, type(sigma)) == (0.5, float)
    assert checks.positive_number("lipschitz", float("inf"), infinite=True) == float("inf")
    assert checks.alpha(np.float32(0.5)) == 0.5


SENTENCES: dict[str, tuple[Callable[[], object], str]] = {
    "count": (lambda: checks.count("n0", 0, least=1), "n0 must be a whole number of at least 1, got 0.0"),
    "fraction of one": (lambda: checks.count("n", 2.5, least=1), "n must be a whole number of at least 1, got 2.5"),
    "counts": (lambda: checks.count("n", [1, 2], least=1), "n must be a single number, got shape (2,)"),
    "sigma": (lambda: checks.positive_number("sigma", -1), "sigma must be positive and finite, got -1.0"),
    "sigmas": (lambda: checks.positive_number("sigma", [1.0]), "sigma must be a single number, got shape (1,)"),
    "alpha 0": (lambda: checks.alpha(0), "alpha must lie strictly between 0 and 1, got 0.0"),
    "alpha 1": (lambda: checks.alpha(1), "alpha must lie strictly between 0 and 1, got 1.0"),
    "alpha NaN": (lambda: checks.alpha(float("nan")), "alpha must not be NaN, got nan"),
    "alpha tiny": (lambda: checks.alpha(1e-301), "alpha must be at least 1e-300, got 1e-301"),
    "confidence": (
        lambda: checks.fraction("confidence", [0.5, 2.0]),
        "confidence must lie strictly between 0 and 1, got 2.0 at index 1",
    ),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_a_mistake_has_its_sentence(name: str) -> None:
    mistake, sentence = SENTENCES[name]
    with pytest.raises(InvalidArgumentError) as caught:
        mistake()
    assert str(caught.value) == sentence


def test_auto_is_a_gpu_if_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for there, kind in ((True, "cuda"), (False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        assert machine.device_to_run_on("auto").type == kind
    assert machine.device_to_run_on("cpu").type == "cpu"
    with pytest.raises(InvalidArgumentError, match="device 'gpu' cannot be used here"):
        machine.device_to_run_on("gpu")


def test_mypy_refuses_what_is_no_number() -> None:
    """Each comment below is an error of mypy if it is not needed (``warn_unused_ignores``, part of ``strict``)."""
    wrong: list[Callable[[], object]] = [
        lambda: radius.r2("a", 0.1, sigma=1.0),  # type: ignore[arg-type]
        lambda: radius.r2(0.9, object(), sigma=1.0),  # type: ignore[arg-type]
        lambda: radius.r2(0.9, 0.1, sigma=None),  # type: ignore[arg-type]
        lambda: radius.r2(["a"], 0.1, sigma=1.0),  # type: ignore[arg-type]
        lambda: radius.r2([["a"]], 0.1, sigma=1.0),  # type: ignore[arg-type]
        lambda: radius.r2({0.9}, 0.1, sigma=1.0),  # type: ignore[arg-type]
        lambda: radius.r2(0.9j, 0.1, sigma=1.0),  # type: ignore[arg-type]
        lambda: radius.r2(Fraction(9, 10), 0.1, sigma=1.0),  # type: ignore[arg-type]
    ]
    for call in wrong:
        with pytest.raises(InvalidArgumentError, match="must be a number or an array of numbers"):
            call()


class _Speechless:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (torch.zeros(2, 2), "tensor([[0., 0.], [0., 0.]])"),
        (object(), "<object object>"),
        (_Speechless(), "<_Speechless>"),
        (10**5000, "<int>"),
        ("x" * 100, "'" + "x" * 78 + "…"),
    ],
    ids=["a tensor", "an object", "no words", "too many digits", "long"],
)
def test_a_value_is_shown_in_one_line_without_addresses(value: object, text: str) -> None:
    assert shown(value) == text


@pytest.mark.parametrize(
    ("guard", "sentence"),
    [
        (lambda: checks.seed("seed", 1.0), "seed must be a whole number from 0 to 2⁶³ − 1, got 1.0"),
        (lambda: checks.seed("seed", 1 << 63), "seed must be a whole number from 0 to"),
        (lambda: checks.shape([1, 0]), "shape must be a whole number of at least 1, got 0.0 at index 1"),
        (lambda: checks.shape([[1]]), "shape must be a list of numbers, got shape (1, 1)"),  # type: ignore[list-item]
        (lambda: checks.shape([1, 10**6, 10**6]), "shape must have at most 2,147,483,648 numbers"),
        (lambda: checks.radii([0.5, -1]), "radii must be at least 0 and finite, got -1.0 at index 1"),
        (lambda: checks.radii(0.5), "radii must be a list of numbers, got shape ()"),
        (lambda: checks.instances("runs", [], int, "runs"), "runs must be runs, and there is none; give at least"),
        (lambda: checks.instances("runs", "ab", str, "names"), "runs must be names, got 'ab'"),
        (lambda: checks.count("digits", 2000, least=0, most=1074), "of at least 0 and at most 1074, got 2000.0"),
        (lambda: checks.text("name", 5), "name must be a text, got 5"),
        (lambda: checks.model(None), "model must be callable on a batch of inputs, got NoneType"),
        (lambda: files.place(5), "5 is no path; give the name of a file or directory"),  # type: ignore[arg-type]
    ],
)
def test_what_is_not_of_its_kind_is_refused(guard: Callable[[], object], sentence: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        guard()
    assert sentence in str(caught.value)


def test_no_radii_are_radii() -> None:
    assert checks.radii([]) == [] == checks.radii(())
