"""Every finding forbids what it should."""

import pytest

from screening.pipeline.engine import Guard, Reason, guard_for
from screening.text.flags import FORBIDS, Flag, Forbids


@pytest.mark.parametrize("flag", list(Flag))
def test_each_flag_has_its_consequence(flag: Flag) -> None:
    guard = guard_for([flag.value])
    assert (guard.refuse_screening is not None) == (FORBIDS[flag] is Forbids.SCREENING)
    assert (guard.refuse_safe is not None) == (FORBIDS[flag] >= Forbids.SAFE)
    assert guard.second_look == (FORBIDS[flag] is Forbids.UNCHECKED_SAFE)


def test_a_text_without_findings_forbids_nothing() -> None:
    assert guard_for([]) == Guard()


def test_the_gravest_reason_is_the_one_that_is_told() -> None:
    assert guard_for(["no_words", "suspected_injection"]).refuse_safe is Reason.SUSPECTED_INJECTION


def test_a_finding_of_a_later_version_refuses_safe_and_says_that_it_cannot_be_read() -> None:
    guard = guard_for(["a finding of a later version"])
    assert guard == Guard(refuse_safe=Reason.UNREADABLE)
