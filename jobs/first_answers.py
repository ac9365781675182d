"""Whether a batch's model answers at all: one whose first cases bring nothing usable is not asked on."""

from collections import Counter
from dataclasses import dataclass, field

from screening.pipeline.draws import SamplerError
from screening.pipeline.engine import Reason, Screening, unusable_draws

FIRST_CASES = 3
"""So many cases without a usable answer, and none with one, pause the batch."""


@dataclass(slots=True)
class FirstAnswers:
    """What one process has seen of each batch since it began."""

    _without: Counter[str] = field(default_factory=Counter)
    _usable: set[str] = field(default_factory=set)

    def look_at(self, batch_id: str, result: Screening) -> None:
        """Takes note of a case. SamplerError, which pauses the batch, at the last of its first cases: a batch that goes
        on then has as many again.
        """
        draws = [draw for run in result.runs for draw in run.draws]
        if batch_id in self._usable or not draws:
            return
        if result.reason is not Reason.NO_ANSWER or unusable_draws(draws) < len(draws):
            self._usable.add(batch_id)
            return
        self._without[batch_id] += 1
        if self._without[batch_id] >= FIRST_CASES:
            del self._without[batch_id]
            raise SamplerError(
                "no_usable_answer",
                f"None of the answers to the first {FIRST_CASES} texts was a label: the model does not do as asked.",
                stops_batch=True,
            )
