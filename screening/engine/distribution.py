"""A node's whole label distribution in one call, where a server gives it: exact label and gap, and nothing sampled.

No stopping rule takes part, so no error level holds: the label is the mode of what the server says it would answer to
this one question, provided that the part it does not tell could not change it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from screening.engine.draws import Usage
from screening.labels import LABELS, Label
from screening.stopping.rules import Comparison, Ended, Verdict

MARK = "="
"""The first character of a distribution's code, which is stored in place of the codes of draws."""
_DIGITS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelDistribution:
    """Probability of each label; ``unknown`` is the rest, so that all sum to 1. Above ``most_unknown`` it decides
    nothing, and the node is sampled instead.
    """

    labels: Mapping[Label, float]
    unknown: float
    most_unknown: float = 1.0
    usage: Usage = field(default_factory=Usage)

    @property
    def gap(self) -> float:
        """The most probable label's lead over the second."""
        first, second, _ = sorted(self.labels.values(), reverse=True)
        return first - second

    def mode(self) -> Label | None:
        """The label that stays most probable wherever the unknown part belongs; None where none does."""
        leader = max(LABELS, key=lambda label: self.labels[label])
        return leader if self.gap > self.unknown else None

    def verdict(self) -> Verdict | None:
        """What one call has settled; None where too much is unknown, so that the node must be sampled.

        >>> known = {Label.SAFE: 0.7, Label.UNSAFE: 0.2, Label.ESCALATE: 0.1}
        >>> LabelDistribution(labels=known, unknown=0.0).verdict().label
        <Label.SAFE: 'safe'>
        >>> str(LabelDistribution(labels={**known, Label.SAFE: 0.3}, unknown=0.4).verdict().ended)
        'too_close'
        """
        if self.unknown > self.most_unknown:
            return None
        label = self.mode()
        return Verdict(label=label, ended=Ended.TOO_CLOSE if label is None else Ended.IDENTIFIED, calls=1)

    def comparisons(self) -> tuple[Comparison, ...]:
        """The most probable label's lead over each other; its line is the unknown part, which could go to the other."""
        leader = max(LABELS, key=lambda label: self.labels[label])
        leads = {rival: self.labels[leader] - self.labels[rival] for rival in LABELS if rival is not leader}
        return tuple(
            Comparison(
                rival=rival,
                leader=leader,
                scale="probability",
                value=lead,
                needed=self.unknown,
                excluded=lead > self.unknown,
            )
            for rival, lead in leads.items()
        )

    @property
    def code(self) -> str:
        """The distribution as one word, stored in place of the codes of draws.

        >>> LabelDistribution(labels={Label.SAFE: 0.7, Label.UNSAFE: 0.2, Label.ESCALATE: 0.1}, unknown=0.0).code
        '=0.7|0.2|0.1|0|1'
        """
        shares = (*(self.labels[label] for label in LABELS), self.unknown, self.most_unknown)
        return MARK + "|".join(f"{share:.{_DIGITS}g}" for share in shares)


def read_distribution(code: str) -> LabelDistribution | None:
    """The distribution that a code stands for; None for the codes of draws.

    >>> read_distribution("SSU") is None, read_distribution("=0.7|0.2|0.1|0|1").mode()
    (True, <Label.SAFE: 'safe'>)
    """
    if not code.startswith(MARK):
        return None
    *shares, unknown, most_unknown = map(float, code.removeprefix(MARK).split("|"))
    labels = dict(zip(LABELS, shares, strict=True))
    return LabelDistribution(labels=labels, unknown=unknown, most_unknown=most_unknown)
