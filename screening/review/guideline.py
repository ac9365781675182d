"""What the labels mean to a reader, in our own words; a site adds its own text in its settings."""

from collections.abc import Mapping
from typing import Final

from screening.review.rating_form import RatingLabel

DEFINITIONS: Final[Mapping[RatingLabel, str]] = {
    RatingLabel.SAFE: (
        "Nothing in the text points to self-harm: no wish to be dead, no thought, intent, plan, preparation, attempt "
        "or self-injury, in the writer or in somebody the text speaks of."
    ),
    RatingLabel.UNSAFE: (
        "Any wish to be dead, thought of suicide, intent, plan, preparation, attempt or self-injury, open or coded, in "
        "the writer or in somebody the text speaks of; also encouragement or instruction to it."
    ),
    RatingLabel.INSUFFICIENT_INFORMATION: (
        "It cannot be told from these words: too little text, a language or context you do not have, or two meanings "
        "that fit equally well. It never counts as safe."
    ),
}
"""One definition for each label that a reader may choose."""

REMINDERS: Final[tuple[str, ...]] = (
    "You label the text, never a person's risk.",
    "“Denied” is what the text says; “not stated” is what it does not speak of.",
    "How sure you are is a fact worth having: a guess is no failure.",
)
