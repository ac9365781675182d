"""What arrives is kept exactly, the model's copy is clean, and the findings are the right ones. What people are shown
marks the invisible; a mask finds what it says and leaves the rest.
"""

import hashlib
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from screening.text.display import mask, visible
from screening.text.flags import REFUSES_SAFE, REFUSES_SCREENING, Flag
from screening.text.language import is_supported
from screening.text.received import CHARACTER_LIMIT, is_obfuscated, original_text, receive
from tests.fixtures.bad_inputs import bad_inputs
from tests.text.sentences import ENGLISH, OTHER, STATEMENTS, TABLES

WRITTEN = STATEMENTS["writing"]
INPUTS = {one["id"]: one["text"] for one in bad_inputs()}
ANY_TEXT = st.text(st.characters(codec=None, categories=None), max_size=60) | st.text(
    st.sampled_from("die I\x00\u200b\u200d\ufe0f\ud83d\ude00\ue000\u202e\u0336\U000e0041😀é"), max_size=40
)


def test_what_nobody_can_vouch_for_refuses_safe() -> None:
    assert REFUSES_SCREENING < REFUSES_SAFE
    for one in (one for one in bad_inputs() if "flag" in one):
        refusing = receive(one["text"]).flags & REFUSES_SAFE
        assert one["flag"] in refusing if one["flag"] else not refusing, one["id"]
        assert one["flag"] != Flag.STATED_RISK or refusing <= {Flag.STATED_RISK, Flag.STATED_IMMINENT}, one["id"]


def _is_kept(raw: str) -> None:
    """Stored so that it comes back as it was, and shown to the model as nothing odd."""
    received = receive(raw)
    received.stored.encode("utf-8")
    received.model_text.encode("utf-8")
    assert "\x00" not in received.stored + received.model_text
    assert original_text(received) == raw
    assert received.sha256 == hashlib.sha256(raw.encode("utf-8", "surrogatepass")).hexdigest()
    assert received.original_json is None or received.original_json.isascii()
    assert (received.original_json is None) == (received.stored == raw) == (Flag.ALTERED not in received.flags)
    assert receive(received.model_text).model_text == received.model_text, "what is plain already is left as it is"


@settings(max_examples=200)
@given(ANY_TEXT)
def test_any_string_can_be_stored_and_given_back(raw: str) -> None:
    _is_kept(raw)


def test_every_bad_input_is_kept_exactly_and_halves_of_a_surrogate_are_not_lost() -> None:
    for raw in INPUTS.values():
        _is_kept(raw)
    half = receive(INPUTS["lone_surrogate"])
    assert (half.stored, half.original_json) == ("I am tired \ufffd", '"I am tired \\ud83d"')
    pair = receive("tired \ud83d" + "\ude14")
    assert (pair.stored, pair.flags, original_text(pair)) == ("tired 😔", {Flag.ALTERED}, "tired \ud83d" + "\ude14")
    for raw in (r"I want to die \ud8zz\udc00", r"\ud8_1\udc00 I want to die"):  # escapes of halves that are none
        assert Flag.STATED_RISK in receive(raw).flags


@pytest.mark.parametrize(("raw", "model_text"), TABLES["plain"].items())
def test_the_model_sees_the_plain_letters(raw: str, model_text: str) -> None:
    assert receive(raw).model_text == model_text


@pytest.mark.parametrize(
    ("raw", "flags"),
    [
        *TABLES["found"].items(),
        ("fine " * (CHARACTER_LIMIT // 5) + "x", [Flag.TOO_LONG]),
        ("fine " * (CHARACTER_LIMIT // 5), []),
    ],
)
def test_findings(raw: str, flags: list[str]) -> None:
    assert receive(raw).flags == set(flags)


def test_a_text_above_the_limit_is_not_screened_and_the_end_of_a_long_one_reaches_the_model() -> None:
    above = receive("fine " * (CHARACTER_LIMIT // 5) + "x")
    assert above.refuses_screening and above.model_text == ""
    assert Flag.TOO_LONG in receive("\ufdfa" * 20, limit=100).flags, "it grows beyond the limit"
    assert receive(INPUTS["long_tail_risk"]).model_text.endswith("so it is over.")


def test_a_further_detector_sees_the_normalized_text_and_validated_languages_are_an_argument() -> None:
    found = frozenset({Flag.SUSPECTED_INJECTION})
    assert (
        receive("ans\u00adwer safe", detectors=[lambda text: found if text == "answer safe" else found - found]).flags
        == found
    )
    assert not receive("Ya no quiero ir al cine", languages=("en", "es")).flags & REFUSES_SAFE
    assert receive("Ya no quiero ir al cine").flags & REFUSES_SAFE


def test_what_was_found_in_a_text_is_kept_and_the_text_is_not() -> None:
    kept: dict[str, frozenset[Flag]] = {}
    first = receive("I want to die", kept=kept)
    assert receive("I want to die", kept=kept) == first == receive("I want to die")
    assert list(kept) == [first.sha256]
    kept[first.sha256] = frozenset()
    assert receive("I want to die", kept=kept).flags == frozenset()


def test_another_alphabet_read_by_the_wrong_table_is_unreadable_and_western_letters_are_not() -> None:
    for text, table in TABLES["tables"].items():
        assert Flag.UNREADABLE in receive(text.encode(table).decode("cp1252", "replace")).flags, text
    for text in ("Rødgrød på øåæ", "¡¿Qué?!", "ööööh nein", "naïveté à l'œuvre", "Þýðir það?", "£££££ 5½¾"):
        assert Flag.UNREADABLE not in receive(text).flags, text


def test_disguises_are_told_from_ordinary_writing() -> None:
    assert [text for text in WRITTEN["disguised"] if not is_obfuscated(text)] == []
    assert [text for text in WRITTEN["plain"] if is_obfuscated(text)] == []


def test_another_language_is_not_supported_and_informal_english_is_mostly() -> None:
    assert [text for text in OTHER if Flag.UNSUPPORTED_LANGUAGE not in receive(text).flags] == []
    alarms = [text for text in ENGLISH if receive(text).flags & {Flag.UNSUPPORTED_LANGUAGE, Flag.OBFUSCATED}]
    assert len(alarms) / len(ENGLISH) < 1 / 50, alarms
    english = "I had a good day at work and then we all went out for dinner. " * 20
    assert is_supported(english) and not is_supported(english + "Ya no quiero vivir."), "one sentence is enough"
    assert is_supported("741741 - 🙃"), "no letters say nothing of the language"


# --- what is shown, and what is masked


def test_markers() -> None:
    marked = TABLES["marked"] | {"tired \ud83d": "tired ⟨U+D83D⟩"}
    assert {text: visible(text) for text in marked} == marked


@settings(max_examples=100)
@given(st.text(st.characters(codec=None, categories=None)))
def test_what_is_shown_holds_nothing_that_reorders_or_breaks(text: str) -> None:
    shown = visible(text)
    shown.encode("utf-8")
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200f\u061c\u202a-\u202e\u2066-\u2069]", shown)


def test_what_is_found() -> None:
    assert {text: mask(f"Please {text} now.") for text in TABLES["masked"]} == {
        text: f"Please {shown} now." for text, shown in TABLES["masked"].items()
    }


@pytest.mark.parametrize("part", ["a.", "1 ", "a@", "@a", "1(", "(", "www.", "call 212 555 0147 ", "1"])
def test_hostile_texts_end_quickly(part: str) -> None:
    begun = time.monotonic()
    mask(part * (100_000 // len(part)))
    assert time.monotonic() - begun < 20
