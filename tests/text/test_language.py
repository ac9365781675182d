"""Other languages go to a person; ordinary short English does not."""

import pytest

from screening.text.flags import Flag
from screening.text.language import is_supported
from screening.text.received import receive
from tests.text.sentences import ENGLISH, OTHER


def test_false_alarms_on_short_informal_english_stay_below_one_in_fifty() -> None:
    alarms = [text for text in ENGLISH if receive(text).flags & {Flag.UNSUPPORTED_LANGUAGE, Flag.OBFUSCATED}]
    print(f"false alarms: {len(alarms)} of {len(ENGLISH)}")
    assert len(alarms) / len(ENGLISH) < 1 / 50, alarms


@pytest.mark.parametrize("text", OTHER)
def test_another_language_is_not_supported(text: str) -> None:
    assert Flag.UNSUPPORTED_LANGUAGE in receive(text).flags


def test_one_sentence_in_another_language_is_enough() -> None:
    english = "I had a good day at work and then we all went out for dinner. " * 20
    assert is_supported(english)
    assert not is_supported(english + "Ya no quiero vivir.")


def test_no_letters_say_nothing_about_the_language() -> None:
    assert is_supported("741741 - 🙃")
