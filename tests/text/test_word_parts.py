"""What an index of texts holds finds every text that has the words, in any script, and no text is lost by it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from screening.text.word_parts import holds, parts_needed, parts_of


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I have the PILLS ready", "pill read"),
        ("我今晚想自杀", "自杀"),
        ("我今晚想死", "死"),
        ("Мне страшно", "страш"),
        ("ｆｕｌｌ width", "full"),
        ("Straße", "strasse"),
    ],
)
def test_words_are_found_by_a_part_of_them_in_any_script(text: str, words: str) -> None:
    assert holds(text, words) and parts_needed(words) <= parts_of(text)


def test_what_does_not_stand_there_is_not_found() -> None:
    assert not parts_needed("bridges") <= parts_of("a bright ridge")
    assert parts_needed("bridge") <= parts_of("a bright ridge"), "all its pieces do: what is found is looked at again"
    assert not holds("a bright ridge", "bridge") and not holds("night", "bridge night")
    assert parts_needed("  ") == parts_of(" \n") == frozenset()


@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=5))
def test_a_text_that_holds_the_words_has_all_their_pieces(before: str, words: str, after: str) -> None:
    text = before + words + after
    if holds(text, words):
        assert parts_needed(words) <= parts_of(text)
    assert all(-(2**31) <= part < 2**31 for part in parts_of(text))
