"""Methods from their names and settings, and back."""

from typing import Any

import pytest

from lvmrs.errors import InvalidArgumentError
from lvmrs.kernel.method import Method
from lvmrs.planners.settings import from_record, method, settings


@pytest.mark.parametrize(
    ("name", "settings", "sentence"),
    [
        ("python:evil.py:Evil", {}, "method python:evil.py:Evil does not come with lvmrs"),
        ("LVM", {"foo": 1}, "method LVM has no setting foo"),
        ("LVM", {"maps": ["python:evil.py:Evil"]}, "maps must be one of hardmax"),
    ],
)
def test_what_a_manifest_names_is_not_run(name: str, settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidArgumentError, match=sentence):
        from_record(name, settings)


def test_a_manifest_says_whether_paper_has_the_union() -> None:
    for name, union in (("paper", False), ("paper-union", True)):
        stored = settings(method(name, bound="hoeffding"))
        assert stored["union"] is union
        assert from_record("Paper", stored) == method(name, bound="hoeffding")
    assert method("paper") != method("paper-union")


class Handmade(Method):
    """Not a dataclass."""

    def __init__(self, bounds: tuple[str, ...], pull: float = 1.0) -> None:
        self.bounds, self.pull = bounds, pull


def test_a_method_that_is_not_a_dataclass_is_made_by_its_settings() -> None:
    made = method(Handmade, bound="betting", pull=None)
    assert vars(made) == {"bounds": ("betting",), "pull": 1.0}


@pytest.mark.parametrize(
    ("name", "choices", "sentence"),
    [
        (Handmade, {}, "method Handmade needs bounds; give it, or give the class a default"),
        (Handmade, {"bound": "betting", "width": 1.0}, "width is not a setting of method Handmade; leave it out"),
        ("fixed", {}, "method fixed needs map; give one of hardmax, softmax, sparsemax"),
        (
            "cohen",
            {"width": 1.0},
            "width is not a setting of method cohen: it counts votes, and a width is for duels; leave it out",
        ),
    ],
)
def test_settings_that_cannot_be_chosen_or_are_missing(name: Any, choices: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidArgumentError) as refusal:
        method(name, **choices)
    assert str(refusal.value).startswith(sentence)
