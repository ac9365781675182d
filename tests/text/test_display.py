"""What would be invisible is marked, and a mask shows no letter."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from screening.text.display import visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("note: \u202eefas", "note: ⟨U+202E⟩efas"),
        ("d\xadie", "d⟨U+00AD⟩ie"),
        ("d\u200bie\ufeff", "d⟨U+200B⟩ie⟨U+FEFF⟩"),
        ("fine\U000e006c", "fine⟨U+E006C⟩"),
        ("ok\ufe0f ❤\ufe0f", "ok⟨U+FE0F⟩ ❤\ufe0f"),
        ("a\x00b\x1bc\td\r\ne\rf", "a⟨U+0000⟩b⟨U+001B⟩c\td\r\ne⟨U+000D⟩f"),
        ("tired \ud83d", "tired ⟨U+D83D⟩"),
        ("a\u2028b", "a⟨U+2028⟩b"),
        ("<b>plain</b> $x$ 👩\u200d👧", "<b>plain</b> $x$ 👩\u200d👧"),
    ],
)
def test_markers(text: str, shown: str) -> None:
    assert visible(text) == shown


@settings(max_examples=100)
@given(st.text(st.characters(codec=None, categories=None)))
def test_what_is_shown_holds_nothing_that_reorders_or_breaks(text: str) -> None:
    shown = visible(text)
    shown.encode("utf-8")
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200f\u061c\u202a-\u202e\u2066-\u2069]", shown)
