"""Methods from their names and settings, and back."""

from typing import Any

import pytest

from lvmrs.errors import InvalidArgumentError
from lvmrs.method_settings import made_again


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
        made_again(name, settings)
