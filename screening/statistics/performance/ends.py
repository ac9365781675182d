"""How a rule's runs end, as probabilities, and their collection while a programme follows the runs."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from screening.labels import LABELS


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """Probabilities of a node's possible ends, and its mean number of calls, at ``probabilities`` of the labels.

    ``identified`` is in the order of `LABELS`; it and ``abstained`` add up to 1.
    """

    probabilities: tuple[float, ...]
    identified: tuple[float, ...]
    abstained: float
    mean_calls: float

    @property
    def right(self) -> float:
        """Probability of naming the mode (any of them, if several labels are equally probable)."""
        return sum(self._identified_shares(is_mode=True))

    @property
    def wrong(self) -> float:
        """Probability of naming a label that is not the mode: what ``delta`` bounds."""
        return sum(self._identified_shares(is_mode=False))

    def _identified_shares(self, *, is_mode: bool) -> list[float]:
        top = max(self.probabilities)
        return [
            named
            for named, probability in zip(self.identified, self.probabilities, strict=True)
            if (probability == top) is is_mode
        ]


@dataclass(slots=True)
class Ends:
    """Where the probability has gone so far. It collects: the one thing here that changes."""

    probabilities: tuple[float, ...]
    identified: list[float] = field(default_factory=lambda: [0.0] * len(LABELS))
    abstained: float = 0.0
    calls: float = 0.0

    def identify(self, arm: int, mass: float, calls: float) -> None:
        """This much probability names ``arm`` after so many calls."""
        self.identified[arm] += mass
        self.calls += mass * calls

    def abstain(self, mass: float, calls: float) -> None:
        """This much probability abstains after so many calls."""
        self.abstained += mass
        self.calls += mass * calls

    def performance(self) -> Performance:
        """The result, once all probability has ended."""
        return Performance(
            probabilities=self.probabilities,
            identified=tuple(self.identified),
            abstained=self.abstained,
            mean_calls=self.calls,
        )


def no_ends_yet(probabilities: Sequence[float]) -> Ends:
    """Nothing followed yet, at these probabilities; ValueError unless they are K and add up to 1."""
    if len(probabilities) != len(LABELS) or min(probabilities) < 0 or abs(sum(probabilities) - 1) > 1e-9:
        raise ValueError("one probability per label, adding up to 1")
    return Ends(probabilities=tuple(map(float, probabilities)))
