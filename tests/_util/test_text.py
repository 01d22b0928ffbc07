"""Nothing that comes from outside is printed raw."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lvmrs._util.text import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("σ = 0.5, é, 日本, 🎉", "σ = 0.5, é, 日本, 🎉"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("a\nb\tc\rd\x00", "a\\nb\\tc\\rd\\x00"),
        ("\x9b31m\u2028\u202e\U000e0041", "\\u009b31m\\u2028\\u202e\\U000e0041"),
        ("\udcff\udc80", "\\xff\\x80"),
        ("\ud800", "\\ud800"),
    ],
)
def test_controls_are_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text(st.characters(exclude_categories=())))
def test_what_is_shown_is_printable(text: str) -> None:
    assert printable(text).isprintable()
    assert printable(printable(text)) == printable(text)
