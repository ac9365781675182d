"""Audit sampling: which decided cases a clinician also reads, and the tally that estimates are made from.

Without it only what the engine flagged gets read, and the misses stay invisible. The coin depends on the seed and
the case alone, so it can be tossed at ingest, recorded, and checked by anyone with the seed.

How many unsafe texts reviewers recognize, and what that makes of a share that they found.

A bound on what reviewers call unsafe is no bound on what is unsafe: with reviewers who recognize 80% it lies below the
truth in more than its 5%. Where they recognize a share s, and call few safe texts unsafe, the truth is at most the
bound divided by s.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from hmac import digest

from screening.evaluation.monitoring import betting_sequence
from screening.labels import Label, Outcome


def audit_coin(seed: str, case_id: str) -> float:
    """A number in [0, 1) that is uniform over case ids, and always the same for one seed and case.

    The seed is a secret of the site: who knows it can tell in advance which cases are audited.

    >>> audit_coin("a seed", "case 1") == audit_coin("a seed", "case 1") != audit_coin("a seed", "case 2")
    True
    """
    head = digest(seed.encode(), case_id.encode(), sha256)[:8]
    return (int.from_bytes(head, "big") >> 11) / 2**53  # 53 bits: every value is a float, none rounds to 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditCase:
    """A settled case as verification sees it.

    ``blind_first`` is the review given before the engine's label was shown; None while there is none, and where it
    was "insufficient information", which ``inconclusive`` then says.
    ``by_several`` says that more than one reviewer settled the case, with ``settled`` (None: insufficient information);
    ``disputed`` that a further reviewer is still due; ``unreadable`` that no blind review can come any more: the first
    one was given after the reveal, or the text was erased before it.
    ``tossed_at`` is the π that the coin was compared with where
    ``probability`` is larger, because what the engine called unsafe is read anyway; None where they are the same.
    A review given after the reveal, or to a case that neither the coin nor the engine sent to a human, has no
    place here: who picks such cases picks the answer.
    """

    stratum: str
    outcome: Outcome
    probability: float
    coin: float
    blind_first: Label | None = None
    inconclusive: bool = False
    by_several: bool = False
    settled: Label | None = None
    disputed: bool = False
    unreadable: bool = False
    tossed_at: float | None = None

    def __post_init__(self) -> None:
        if not (0 < self.probability <= 1 and 0 <= self.coin < 1):
            raise ValueError("an audit probability lies in (0, 1] and its coin in [0, 1)")

    @property
    def selected(self) -> bool:
        """Whether a review was due: by the coin, or because the engine committed to nothing."""
        return self.outcome is Outcome.HUMAN_REVIEW or self.coin < self.probability

    @property
    def coin_probability(self) -> float:
        """The π of the coin: what a case labeled safe has as its chance to be read."""
        return self.probability if self.tossed_at is None else self.tossed_at

    @property
    def label(self) -> Label | None:
        """What the text is taken to be: what several reviewers settled, else what the one reviewer said."""
        if self.disputed:
            return None
        return self.settled if self.by_several else self.blind_first

    @property
    def read(self) -> bool:
        """Whether the review that was due has given safe or unsafe."""
        return self.selected and self.label in (Label.SAFE, Label.UNSAFE)

    @property
    def unclear(self) -> bool:
        """Whether the reviewers found that the text holds too little information."""
        return self.selected and not self.disputed and (self.settled is None if self.by_several else self.inconclusive)

    @property
    def read_again(self) -> bool:
        """Whether it was read and waits for a further review: most of what is read as unsafe does, what is read as
        safe seldom, so bounds must not leave it out.
        """
        return self.selected and self.disputed

    @property
    def waiting(self) -> bool:
        """Whether a first review that is due has not been given."""
        return self.selected and not (self.read or self.unclear or self.read_again or self.unreadable)

    @property
    def lost(self) -> bool:
        """Whether a blind review was due and can no longer be given."""
        return self.selected and self.unreadable

    def with_first_review_only(self) -> "AuditCase":
        """The same with the first reviewer's word alone."""
        return replace(self, by_several=False, settled=None, disputed=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stratum:
    """The tally of one stratum and outcome: of ``cases``, ``selected`` were due; ``read`` gave safe or unsafe.

    ``read_again`` were read and wait for a further review, ``lost`` can no longer be read blind.
    ValueError unless unsafe ≤ read ≤ selected ≤ cases.
    """

    name: str
    outcome: Outcome
    probability: float
    cases: int
    selected: int
    read: int
    unsafe: int
    inconclusive: int = 0
    read_again: int = 0
    lost: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.unsafe <= self.read <= self.selected - self.waiting <= self.selected <= self.cases:
            raise ValueError("a tally needs unsafe ≤ read ≤ selected ≤ cases")

    @property
    def unsettled(self) -> int:
        """Texts whose reviews gave no label, or none yet: what they are may depend on why. A lost one is among them:
        who was shown the outcome before the review may have chosen which to look at.
        """
        return self.inconclusive + self.read_again + self.lost

    @property
    def waiting(self) -> int:
        """First reviews still due."""
        return self.selected - self.read - self.inconclusive - self.read_again - self.lost

    def if_unsettled_were(self, label: Label) -> "Stratum":
        """The same, had every text whose reviews gave no label been this one."""
        unsafe = self.unsafe + (self.unsettled if label is Label.UNSAFE else 0)
        return replace(self, read=self.read + self.unsettled, unsafe=unsafe, inconclusive=0, read_again=0, lost=0)


def tally_by_stratum(counted: Iterable[tuple[AuditCase, int]]) -> tuple[Stratum, ...]:
    """The tallies of cases that stand for so many alike by stratum, outcome and π, sorted; a case sent to a human has
    π = 1.
    """
    tallies: dict[tuple[str, Outcome, float], list[tuple[AuditCase, int]]] = {}
    for case, count in counted:
        probability = 1.0 if case.outcome is Outcome.HUMAN_REVIEW else case.probability
        tallies.setdefault((case.stratum, case.outcome, probability), []).append((case, count))
    return tuple(_tally(*key, tallies[key]) for key in sorted(tallies))


def _tally(name: str, outcome: Outcome, probability: float, counted: list[tuple[AuditCase, int]]) -> Stratum:
    return Stratum(
        name=name,
        outcome=outcome,
        probability=probability,
        cases=sum(count for _, count in counted),
        selected=sum(count for case, count in counted if case.selected),
        read=sum(count for case, count in counted if case.read),
        unsafe=sum(count for case, count in counted if case.read and case.label is Label.UNSAFE),
        inconclusive=sum(count for case, count in counted if case.unclear),
        read_again=sum(count for case, count in counted if case.read_again),
        lost=sum(count for case, count in counted if case.lost),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognized:
    """The share of unsafe texts that a reviewer recognizes, from ``pairs`` blinded double reviews in which at least one
    said unsafe; ``both`` in which both did. None without such a pair.
    """

    pairs: int
    both: int
    share: float | None
    at_least: float | None


def recognized_share(both: Sequence[bool], delta: float = 0.025) -> Recognized:
    """From double reviews of texts chosen at random, in their order: of each in which one or both said unsafe, whether
    both did. The lower limit holds at every look with probability 1-δ.

    Two reviewers who recognize the share s of unsafe texts, each for himself, and call no safe text unsafe, agree on
    s/(2-s) of the texts that either calls unsafe: s = 2a/(1+a), the positive agreement (Chapman 1951; Cicchetti and
    Feinstein 1990). A safe text called unsafe makes it smaller, so that a bound divided by it stays one. What all
    reviewers overlook alike makes it larger: that no double review shows.

    >>> recognized_share([True] * 8 + [False] * 4).share  # 2 · (2/3) / (5/3)
    0.8
    """
    if not both:
        return Recognized(pairs=0, both=0, share=None, at_least=None)
    agreed = sum(both) / len(both)
    (look,) = betting_sequence([float(each) for each in both], looks=[len(both)], delta=2 * delta)
    return Recognized(
        pairs=len(both), both=sum(both), share=2 * agreed / (1 + agreed), at_least=2 * look.low / (1 + look.low)
    )


def corrected_bound(bound: float, recognized: float) -> float:
    """The bound of a share of unsafe texts of which reviewers recognize this share: 1 at most.

    >>> round(corrected_bound(0.04, 0.8), 3), corrected_bound(0.9, 0.5)
    (0.05, 1.0)
    """
    return 1.0 if recognized <= bound else bound / recognized
