"""What a clinician records about one text: C-SSRS-informed text coding in our own words, not a questionnaire.

The label and the certainty are compulsory, and a disposition where `needs_disposition` says so. "Denied" (the writer
says there is none) and "not stated" (the text does not speak of it) are different values everywhere. It describes a
text, never a person's risk.
"""

from enum import StrEnum
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from screening.review.triage import Priority

FORM_VERSION: Final = 3
"""Version of the fields, their values and the reason codes; stored with each review."""
CODING: Final = (
    "subject", "ideation", "intent", "plan", "means", "behaviour", "timeframe", "protective_factors",
)  # fmt: skip
"""The fields of the clinical coding, which is not compulsory."""

LONGEST_NOTE: Final = 4_000
MOST_MARKS: Final = 20
"""Marks of a review, in text and reply together."""


class ReviewLabel(StrEnum):
    SAFE = "safe"
    UNSAFE = "unsafe"
    INSUFFICIENT_INFORMATION = "insufficient_information"


class Subject(StrEnum):
    SELF = "self"
    SOMEONE_ELSE = "someone_else"
    QUOTATION_OR_FICTION = "quotation_or_fiction"
    PROFESSIONAL = "professional"
    UNCLEAR = "unclear"


class Intent(StrEnum):
    NOT_STATED = "not_stated"
    DENIED = "denied"
    UNCERTAIN = "uncertain"
    STATED = "stated"


class Plan(StrEnum):
    NOT_STATED = "not_stated"
    DENIED = "denied"
    VAGUE = "vague"
    FULL = "full"


class Means(StrEnum):
    """Whether means are at hand; never which."""

    NOT_STATED = "not_stated"
    DENIED = "denied"
    MENTIONED = "mentioned"
    AT_HAND = "at_hand"


class Behaviour(StrEnum):
    NOT_STATED = "not_stated"
    DENIED = "denied"
    SELF_HARM = "self_harm"
    PREPARATION = "preparation"
    ABORTED = "aborted"
    INTERRUPTED = "interrupted"
    ATTEMPT = "attempt"


class Timeframe(StrEnum):
    NOT_STATED = "not_stated"
    PAST = "past"
    RECENT = "recent"
    CURRENT = "current"
    IMMINENT = "imminent"


class ProtectiveFactor(StrEnum):
    """What holds the writer, in the text's own account."""

    PEOPLE = "people"
    REASONS_TO_LIVE = "reasons_to_live"
    IN_TREATMENT = "in_treatment"
    SEEKING_HELP = "seeking_help"
    BELIEFS = "beliefs"
    FUTURE_PLANS = "future_plans"
    DENIED = "denied"


class ReasonCode(StrEnum):
    """Why the AI or the original label may have gone wrong here, or what made the text hard."""

    MISSED_PASSIVE_IDEATION = "missed_passive_ideation"
    NEGATION = "negation"
    HISTORY = "history"
    QUOTATION = "quotation"
    METAPHOR = "metaphor"
    THIRD_PARTY = "third_party"
    CODED_LANGUAGE = "coded_language"
    LANGUAGE = "language"
    CONTEXT_MISSING = "context_missing"
    PROMPT_INJECTION = "prompt_injection"
    POLICY_TOO_STRICT = "policy_too_strict"
    LABEL_ERROR = "label_error"
    DUPLICATE = "duplicate"
    OTHER = "other"


class Disposition(StrEnum):
    UNDECIDED = "undecided"
    CONTACT_NOW = "contact_now"
    CARE_TEAM = "care_team"
    PROTECTIVE_SERVICES = "protective_services"
    MONITOR = "monitor"
    IN_CARE = "in_care"
    NONE = "none"


class TextMark(BaseModel):
    """Words that decided a review: characters ``start`` up to ``end`` of a part of the text as received."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    part: Literal["text", "reply"] = "text"
    start: Annotated[int, Field(ge=0)]
    end: int

    @model_validator(mode="after")
    def _holds_something(self) -> Self:
        if self.end <= self.start:
            raise ValueError("a mark holds at least one character")
        return self


class ReviewForm(BaseModel):
    """One review. ``certainty`` runs from 1 (a guess) to 5 (no doubt); ``ideation`` None is not stated, 0 denied.

    ``read_to_end`` says whether the end of the text had been on the screen; None where nobody can tell.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    label: ReviewLabel
    certainty: Annotated[int, Field(ge=1, le=5)]
    subject: Subject | None = None
    ideation: Literal[0, 1, 2, 3, 4, 5] | None = None
    intent: Intent = Intent.NOT_STATED
    plan: Plan = Plan.NOT_STATED
    means: Means = Means.NOT_STATED
    behaviour: Behaviour = Behaviour.NOT_STATED
    timeframe: Timeframe = Timeframe.NOT_STATED
    protective_factors: tuple[ProtectiveFactor, ...] = ()
    reason_codes: tuple[ReasonCode, ...] = ()
    disposition: Disposition = Disposition.UNDECIDED
    note: Annotated[str, Field(max_length=LONGEST_NOTE)] = ""
    marks: Annotated[tuple[TextMark, ...], Field(max_length=MOST_MARKS)] = ()
    read_to_end: bool | None = None

    @property
    def coded(self) -> bool:
        """Whether the clinical coding was filled in at all; where not, "not stated" says nothing of the text.

        >>> ReviewForm(label="safe", certainty=5).coded, ReviewForm(label="safe", certainty=5, ideation=0).coded
        (False, True)
        """
        return any(getattr(self, name) != ReviewForm.model_fields[name].default for name in CODING)

    @field_validator("protective_factors", "reason_codes")
    @classmethod
    def _once(cls, values: tuple[StrEnum, ...]) -> tuple[StrEnum, ...]:
        return tuple(sorted(set(values)))


def needs_disposition(label: ReviewLabel, priority: Priority) -> bool:
    """Whether a review with this label of a case of this priority must say what happens next.

    >>> [needs_disposition(ReviewLabel.UNSAFE, Priority.P3), needs_disposition(ReviewLabel.SAFE, Priority.P1)]
    [True, True]
    >>> needs_disposition(ReviewLabel.INSUFFICIENT_INFORMATION, Priority.P2)
    False
    """
    return label is ReviewLabel.UNSAFE or priority <= Priority.P1


def contradictions(form: ReviewForm) -> tuple[str, ...]:
    """What does not fit together, in words for the reviewer; it is pointed out, never corrected.

    >>> contradictions(ReviewForm(label="unsafe", certainty=4, ideation=1, plan="full"))
    ('A full plan is recorded with ideation below level 3.',)
    """
    level, safe, own = form.ideation, form.label is ReviewLabel.SAFE, form.subject in (Subject.SELF, None)
    at_most = 5 if level is None else level
    grave = (level or 0) >= 3 or form.plan is Plan.FULL or form.intent is Intent.STATED
    nothing = level == 0 and form.behaviour in (Behaviour.NOT_STATED, Behaviour.DENIED)
    found = {
        "A full plan is recorded with ideation below level 3.": form.plan is Plan.FULL and at_most < 3,
        "Intent is stated with ideation below level 4.": form.intent is Intent.STATED and at_most < 4,
        "Intent is denied with ideation at level 4 or 5.": form.intent is Intent.DENIED and (level or 0) >= 4,
        "Plan is denied with ideation at level 5.": form.plan is Plan.DENIED and level == 5,
        "The timeframe is imminent and ideation is denied.": form.timeframe is Timeframe.IMMINENT and level == 0,
        "Protective factors are both named and denied.": (
            ProtectiveFactor.DENIED in form.protective_factors and len(form.protective_factors) > 1
        ),
        "The label is safe, but ideation, plan or intent are recorded as grave.": safe and own and grave,
        "The label is safe, but the timeframe is imminent.": safe and form.timeframe is Timeframe.IMMINENT,
        "The label is safe, but the disposition is contact now.": safe and form.disposition is Disposition.CONTACT_NOW,
        "The label is unsafe, but ideation is denied and no behavior is recorded.": (
            form.label is ReviewLabel.UNSAFE and nothing and form.subject is Subject.SELF
        ),
    }
    return tuple(words for words, holds in found.items() if holds)
