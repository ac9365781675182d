"""What a model has been asked and what it cost, counted by the process that asked."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from screening.engine.draws import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCounts:
    """A snapshot. ``attempts`` are requests sent; each of ``calls`` took one attempt and maybe retries.

    ``answered`` calls became a draw, also where the wave they belonged to failed: their ``usage`` was paid.
    ``failures`` counts failed attempts by kind.
    """

    calls: int
    attempts: int
    retries: int
    answered: int
    failures: Mapping[str, int]
    usage: Usage


SILENT_AFTER = 20
"""Refused requests in a row, of whatever calls, after which a service is asked one thing at a time."""


class Ledger:
    """Counts up; `counts` gives the snapshot. One event loop, so no locking."""

    def __init__(self) -> None:
        self._unanswered = 0
        self._calls = self._attempts = self._retries = self._answered = 0
        self._failures: Counter[str] = Counter()
        self._usage = Usage()

    def count_call(self) -> None:
        """A draw was asked for."""
        self._calls += 1

    def count_attempt(self, *, retry: bool) -> None:
        """A request goes out."""
        self._attempts += 1
        self._retries += retry

    def count_failure(self, kind: str) -> None:
        """A request brought no answer."""
        self._unanswered += kind != "timeout"  # what was never refused is held back by its own waiting
        self._failures[kind] += 1

    def count_answer(self, usage: Usage) -> None:
        """An answer came and was paid for."""
        self._answered += 1
        self._unanswered = 0
        self._usage += usage

    @property
    def silent(self) -> bool:
        """Whether the service has answered nobody for so long that asking again and again helps nobody."""
        return self._unanswered >= SILENT_AFTER

    def counts(self) -> CallCounts:
        """The counts so far."""
        return CallCounts(
            calls=self._calls,
            attempts=self._attempts,
            retries=self._retries,
            answered=self._answered,
            failures=dict(self._failures),
            usage=self._usage,
        )
