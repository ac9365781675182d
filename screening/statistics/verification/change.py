"""What changes: ratings after the reveal (switch rate), and the engine's outcomes from one window to another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import hypot

from scipy.stats import chi2_contingency, norm

from screening.statistics.metrics import Proportion, wilson

LEAST_EXPECTED = 5
"""Expected count in every cell below which the chi-squared approximation is not used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """A blind first rating, the rating after the reveal, and the reference label from *other* readers, if any."""

    blind_first: str
    final: str
    reference: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchRate:
    """How often seeing the engine's label changed a rating, and whether for the better.

    ``right_to_wrong`` is over ratings that were right first (harm by the engine's suggestion), ``wrong_to_right``
    over those wrong first (help). Ratings without a reference count only in ``switched``.
    """

    switched: Proportion
    right_to_wrong: Proportion
    wrong_to_right: Proportion
    without_reference: int


def switch_rate(revisions: Sequence[Revision]) -> SwitchRate:
    """The switch rate over ratings that were followed by a reveal, revised or not.

    A case's own final rating must not be its reference: every switch would count as right.
    """
    known = [each for each in revisions if each.reference is not None]
    right = [each for each in known if each.blind_first == each.reference]
    wrong = [each for each in known if each.blind_first != each.reference]
    return SwitchRate(
        switched=Proportion(sum(each.final != each.blind_first for each in revisions), len(revisions)),
        right_to_wrong=Proportion(sum(each.final != each.reference for each in right), len(right)),
        wrong_to_right=Proportion(sum(each.final == each.reference for each in wrong), len(wrong)),
        without_reference=len(revisions) - len(known),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareChange:
    """One outcome's share before and after, with limits of the difference; None when a window is empty."""

    name: str
    before: Proportion
    after: Proportion
    difference: float | None
    low: float | None
    high: float | None

    @property
    def moved(self) -> bool:
        """Whether the limits exclude "no change"."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The change of a mix: each share's, limits at 95 % for all of them together, and one test of the whole."""

    shares: tuple[ShareChange, ...]
    p_value: float | None
    reason: str | None = None

    @property
    def moved(self) -> bool:
        """Whether any share moved by more than chance."""
        return any(share.moved for share in self.shares)


def drift(before: Mapping[str, int], after: Mapping[str, int], confidence: float = 0.95) -> Drift:
    """The change from one window's counts (of labels and kinds of abstention) to another's.

    The windows are fixed in advance and do not overlap. Limits are Newcombe's (1998, method 10,
    doi:10.1002/(SICI)1097-0258(19980430)17:8<873::AID-SIM779>3.0.CO;2-I) at a level shared by the outcomes. The p-value
    is the chi-squared test's; None, with the reason, where its approximation does not hold.
    """
    names = sorted(name for name in {*before, *after} if before.get(name, 0) + after.get(name, 0))
    totals = sum(before.values()), sum(after.values())
    z = float(norm.ppf(1 - (1 - confidence) / max(1, len(names)) / 2))
    shares = tuple(
        _change(name, Proportion(before.get(name, 0), totals[0]), Proportion(after.get(name, 0), totals[1]), z)
        for name in names
    )
    p_value, reason = _homogeneity([[each.before.numerator, each.after.numerator] for each in shares], totals)
    return Drift(shares=shares, p_value=p_value, reason=reason)


def _change(name: str, before: Proportion, after: Proportion, z: float) -> ShareChange:
    old = wilson(before.numerator, before.denominator, z)
    new = wilson(after.numerator, after.denominator, z)
    if old is None or new is None or before.value is None or after.value is None:
        return ShareChange(name=name, before=before, after=after, difference=None, low=None, high=None)
    difference = after.value - before.value
    return ShareChange(
        name=name,
        before=before,
        after=after,
        difference=difference,
        low=difference - hypot(after.value - new[0], old[1] - before.value),
        high=difference + hypot(new[1] - after.value, before.value - old[0]),
    )


def _homogeneity(table: list[list[int]], totals: tuple[int, int]) -> tuple[float | None, str | None]:
    if not all(totals):
        return None, "a window is empty"
    if len(table) < 2:
        return None, "there is one outcome only"
    test = chi2_contingency(table, correction=False)
    if test.expected_freq.min() < LEAST_EXPECTED:
        return None, f"an outcome is too rare for the test (fewer than {LEAST_EXPECTED} expected)"
    return float(test.pvalue), None
