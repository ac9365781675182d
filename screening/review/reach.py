"""What happens to a text that the agents call unsafe: a site's setting, and a batch's choice when it begins."""

from enum import StrEnum


class Reach(StrEnum):
    """Whether a text called unsafe reaches a person, and how. What is left to a person always does."""

    READ = "read"
    """It enters the inbox like any other urgent case and is read blind: all of them are."""
    LIST = "list"
    """It is put on a worklist, to be acknowledged by somebody who sees what it was called."""
    COUNT = "count"
    """It is counted; a person reads it only where the audit's coin falls on it."""


_FATES = {
    Reach.READ: "enter the inbox too and are read by a clinician",
    Reach.LIST: "are put on a worklist to be acknowledged",
    Reach.COUNT: "are only counted",
}


def fate(reach: Reach) -> str:
    """What happens to texts called unsafe, as the end of a sentence about them.

    >>> fate(Reach.COUNT)
    'are only counted'
    """
    return _FATES[reach]


def reach_sentence(plain: Reach, labelled: Reach) -> str:
    """What a site does with what its agents do not call safe, true whatever the batches on it chose.

    >>> reach_sentence(Reach.READ, Reach.READ).partition(". ")[2].partition(".")[0]
    'Texts they call unsafe enter the inbox too and are read by a clinician'
    """
    first = "What the agents leave to a person goes to the inbox of the clinicians."
    second = f"Texts they call unsafe {fate(plain)}"
    if labelled is not plain:
        second += f"; in files with reference labels they {fate(labelled)}"
    return f"{first} {second}. A batch may be set otherwise when it begins, and its page says so."
