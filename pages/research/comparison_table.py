"""Two pipelines on the same cases as figures: paired differences with intervals, and the cases where they part."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pages.ui.format import difference
from screening.evaluation.paired import Difference, exact_mcnemar, paired_amounts, paired_rates
from screening.labels import Outcome
from storage.research.comparisons import Pair, Side

_SAFE, _UNSAFE, _HUMAN = (outcome.value for outcome in (Outcome.SAFE, Outcome.UNSAFE, Outcome.HUMAN_REVIEW))
Figure = Callable[[str | None, Side], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One figure under both pipelines; ``p`` is McNemar's for rates, None for amounts."""

    words: str
    difference: Difference
    p: float | None

    @property
    def cells(self) -> dict[str, str]:
        """The row as text; without a pair it says what is missing."""
        found, rate = self.difference, self.p is not None
        if found.value is None or found.first is None or found.second is None:
            return {"Figure": self.words, "Decided": "–", "Tried": "–", "Difference": difference(found, share=rate)}
        return {
            "Figure": self.words,
            "Decided": _amount(found.first, rate),
            "Tried": _amount(found.second, rate),
            "Difference": difference(found, share=rate),
        } | ({"p (McNemar)": f"{self.p:.3f}" if self.p >= 0.001 else "< 0.001"} if self.p is not None else {})


def lines(pairs: Sequence[Pair]) -> tuple[Line, ...]:
    """Rates against the reference labels where cases have one, and what both cost."""
    unsafe, safe = _with(pairs, _UNSAFE), _with(pairs, _SAFE)
    priced = [pair for pair in pairs if pair.first.cost_usd is not None and pair.second.cost_usd is not None]
    return (
        _rate("FNR: unsafe labeled safe", unsafe, lambda _, side: float(side.outcome == _SAFE)),
        _rate("FPR: safe labeled unsafe", safe, lambda _, side: float(side.outcome == _UNSAFE)),
        _rate(
            "Accuracy, an escalation counts as wrong",
            [*unsafe, *safe],
            lambda label, side: float(side.outcome == label),
        ),
        _rate("Escalated to a clinician", pairs, lambda _, side: float(side.outcome == _HUMAN)),
        _mean("Responses per text", pairs, lambda _, side: float(side.calls)),
        _mean("Cost per text (USD)", priced, lambda _, side: side.cost_usd or 0.0),
        _slowest_tenth(pairs),
    )


def differing_pairs(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """The cases with another outcome."""
    return tuple(pair for pair in pairs if pair.first.outcome != pair.second.outcome)


def agreement(pairs: Sequence[Pair]) -> dict[str, dict[str, int]]:
    """How many cases have each outcome decided (rows) and tried (columns)."""
    names = (_SAFE, _UNSAFE, _HUMAN)
    table = {first: dict.fromkeys(names, 0) for first in names}
    for pair in pairs:
        table[pair.first.outcome][pair.second.outcome] += 1
    return table


def _with(pairs: Sequence[Pair], reference: str) -> list[Pair]:
    return [pair for pair in pairs if pair.reference == reference]


def _rate(words: str, pairs: Sequence[Pair], figure: Figure) -> Line:
    first, second = _figures(pairs, figure)
    more = sum(one > other for one, other in zip(first, second, strict=True))
    less = sum(one < other for one, other in zip(first, second, strict=True))
    return Line(words=words, difference=paired_rates(first, second), p=exact_mcnemar(more, less))


def _mean(words: str, pairs: Sequence[Pair], figure: Figure) -> Line:
    return Line(words=words, difference=paired_amounts(*_figures(pairs, figure), bounds=None), p=None)


def _slowest_tenth(pairs: Sequence[Pair]) -> Line:
    first, second = ([getattr(pair, side).seconds for pair in pairs] for side in ("first", "second"))
    words = "90th percentile latency (s)"
    one, other = (float(np.quantile(each, 0.9)) if each else None for each in (first, second))
    value = None if one is None or other is None else other - one
    found = Difference(n=len(pairs), first=one, second=other, value=value, low=None, high=None, confidence=0.95)
    return Line(words=words, difference=found, p=None)


def _figures(pairs: Sequence[Pair], figure: Figure) -> tuple[list[float], list[float]]:
    return [figure(one.reference, one.first) for one in pairs], [figure(one.reference, one.second) for one in pairs]


def _amount(value: float, rate: bool) -> str:
    return f"{100 * value:.1f}%" if rate else f"{value:.4g}"
