"""What people are shown: the invisible is marked; a mask finds what it says, leaves the rest, and ends soon."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from screening.text.display import visible
from screening.text.masking import mask

MARKED = {
    "note: \u202eefas": "note: ⟨U+202E⟩efas",
    "d\xadie": "d⟨U+00AD⟩ie",
    "d\u200bie\ufeff": "d⟨U+200B⟩ie⟨U+FEFF⟩",
    "fine\U000e006c": "fine⟨U+E006C⟩",
    "ok\ufe0f ❤\ufe0f": "ok⟨U+FE0F⟩ ❤\ufe0f",
    "a\x00b\x1bc\td\r\ne\rf": "a⟨U+0000⟩b⟨U+001B⟩c\td\r\ne⟨U+000D⟩f",
    "tired \ud83d": "tired ⟨U+D83D⟩",
    "a\u2028b": "a⟨U+2028⟩b",
    "<b>plain</b> $x$ 👩\u200d👧": "<b>plain</b> $x$ 👩\u200d👧",
}
FOUND = {
    "ann.b+c@mail.example.org": "[mail]",
    "ann (at) example.org": "[mail]",
    "https://example.org/a?b=c": "[link]",
    "www.example.org": "[link]",
    "facebook.com/ann.b": "[link]",
    "@ann_b": "[handle]",
    "u/sad_person": "[handle]",
    "+44 7700 900123": "[phone]",
    "(212) 555-0147": "[phone]",
    "07700 900123": "[phone]",
    "943 476 5919": "[phone]",
    "patient 48213": "patient [number]",
}
LEFT = (
    "I took 20 pills at 10.30.",
    "In 2019 it was 7/10, now 9/10.",
    "I am 17 and want to die.",
    "Ann lives in Berlin.",
)


def test_markers() -> None:
    assert {text: visible(text) for text in MARKED} == MARKED


@settings(max_examples=100)
@given(st.text(st.characters(codec=None, categories=None)))
def test_what_is_shown_holds_nothing_that_reorders_or_breaks(text: str) -> None:
    shown = visible(text)
    shown.encode("utf-8")
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200f\u061c\u202a-\u202e\u2066-\u2069]", shown)


def test_what_is_found() -> None:
    assert {text: mask(f"Please {text} now.") for text in FOUND} == {
        text: f"Please {shown} now." for text, shown in FOUND.items()
    }
    assert [mask(text) for text in LEFT] == list(LEFT)


@pytest.mark.parametrize("part", ["a.", "1 ", "a@", "@a", "1(", "(", "www.", "call 212 555 0147 ", "1"])
def test_hostile_texts_end_quickly(part: str) -> None:
    begun = time.monotonic()
    mask(part * (100_000 // len(part)))
    assert time.monotonic() - begun < 20
