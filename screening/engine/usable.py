"""An escalation that rests on unusable answers alone is no answer of the model: marked here for all who show it."""

from collections.abc import Sequence
from dataclasses import replace

from screening.engine.draws import Answer, Draw
from screening.labels import LABELS, Label
from screening.stopping.rules import Ended, StoppingRule, Verdict, conclude, label_numbers

MOST_UNUSABLE = 12
"""A node ends once so many of its answers were no label: more calls would say no more."""


def unusable_draws(draws: Sequence[Draw]) -> int:
    """How many of the answers were no label."""
    return sum(draw.answer is not Answer.LABEL for draw in draws)


def with_usable_grounds(rule: StoppingRule, draws: Sequence[Draw], verdict: Verdict | None) -> Verdict | None:
    """The verdict, or `Ended.NO_ANSWER` where an identified escalation does not stand on usable answers alone, and
    where a node without a verdict has had `MOST_UNUSABLE` unusable answers. The way of the case is that of escalate.
    """
    unusable = unusable_draws(draws)
    if unusable == 0:
        return verdict
    if verdict is None:
        spent = Verdict(label=Label.ESCALATE, ended=Ended.NO_ANSWER, calls=len(draws))
        return spent if unusable >= MOST_UNUSABLE else None
    if verdict.ended is not Ended.IDENTIFIED or verdict.label is not Label.ESCALATE:
        return verdict
    usable = [draw.label for draw in draws if draw.answer is Answer.LABEL]
    return verdict if _identifies_escalate(rule, usable) else replace(verdict, ended=Ended.NO_ANSWER)


def unusable_sentence(draws: Sequence[Draw]) -> str:
    """How many answers were no label, in words.

    >>> from screening.engine.draws import unusable
    >>> unusable_sentence([unusable(Answer.CUT)] * 6)
    '6 of 6 answers were no label'
    """
    return f"{unusable_draws(draws)} of {len(draws)} answers were no label"


def _identifies_escalate(rule: StoppingRule, usable: Sequence[Label]) -> bool:
    """Whether these answers alone lead to escalate; where a rule has no guarantee, whether it is the most frequent."""
    if rule.error_bound is None:
        counts = {label: usable.count(label) for label in LABELS}
        return counts[Label.ESCALATE] > max(counts[Label.SAFE], counts[Label.UNSAFE])
    verdict = conclude(rule, label_numbers(usable))
    return verdict is not None and verdict.ended is Ended.IDENTIFIED and verdict.label is Label.ESCALATE
