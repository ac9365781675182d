"""Label counts: all that a rule needs to know of draws whose order does not matter."""

from dataclasses import dataclass, replace
from typing import Self

from screening.labels import LABELS, Label


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelCounts:
    """How often each label was drawn, in the order of `LABELS`."""

    counts: tuple[int, ...] = (0,) * len(LABELS)

    @property
    def calls(self) -> int:
        """Draws observed so far."""
        return sum(self.counts)

    def with_one_more(self, label: Label) -> Self:
        """The same with one more draw of this label."""
        return replace(self, counts=tuple(n + (other is label) for other, n in zip(LABELS, self.counts, strict=True)))
