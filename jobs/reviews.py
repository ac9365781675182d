"""What is asked of clinicians' reviews: how far they agree, changes of mind, and an audit's cases by what was read of
them. Each function takes the database first, so that it runs beside the server as well (`jobs.computing`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

from screening.evaluation.agreement import (
    Coefficient,
    Ratings,
    agreement_report,
    krippendorff_alpha,
    ratings_of,
    with_interval,
)
from screening.evaluation.metrics import Proportion
from screening.review.policy import Actor
from screening.review.review_form import ReviewLabel
from screening.words import count_of
from storage.database import Database
from storage.research.cells import MOST_LISTED
from storage.research.reliability import audited_reviews
from storage.research.review_table import (
    PriorityReviews,
    ReviewedCase,
    Switch,
    open_disagreements,
    review_table,
    reviewers_of,
    reviews_by_priority,
    switches,
)

LABELS = (ReviewLabel.SAFE.value, ReviewLabel.INSUFFICIENT_INFORMATION.value, ReviewLabel.UNSAFE.value)
AGAINST = ("adjudicated", "reference")
FEWEST = 2
"""Cases that a coefficient takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switching:
    """Changes of mind after the AI's view was shown: of all reviews, and against one kind of label."""

    switched: Proportion
    to_right: Proportion
    to_wrong: Proportion


Pair = tuple[str, str, Proportion]
"""Two reviewers, under pseudonyms, and on how many of the cases that both reviewed by chance they said the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreed:
    """Cases with blinded reviews, and by how many reviewers. The coefficients are of those ``at_random``: sampled for
    a second review, whatever the first reviewer did. ``otherwise`` counts the others with reviews of two or more;
    ``disputed`` would be at random, but wait for adjudication.
    """

    cases: int
    at_random: int
    otherwise: int
    reviewers: int
    disputed: int
    coefficients: tuple[Coefficient, ...]
    pairs: tuple[Pair, ...]
    priorities: PriorityReviews
    switching: Mapping[str, Switching]


def measure_agreement(db: Database, actor: Actor, key: str, batch_id: str | None) -> Agreed:
    """Of one batch or of all; ``key`` is the site's pseudonym key. Raises Forbidden."""
    table = review_table(db, actor, key, batch_id)
    changes = switches(db, actor, key, batch_id)
    at_random = sum(len(of_case) >= 2 for of_case in _at_random(table))
    return Agreed(
        cases=len(table),
        at_random=at_random,
        otherwise=sum(len(case.reviews) >= 2 for case in table) - at_random,
        reviewers=len(reviewers_of(table)),
        disputed=open_disagreements(db, actor, batch_id),
        coefficients=coefficients(table) if table else (),
        pairs=agreement_by_pair(table),
        priorities=reviews_by_priority(db, actor, batch_id),
        switching={against: tally_switches(changes, against=against) for against in AGAINST},
    )


def main_figure(db: Database, actor: Actor, key: str) -> tuple[Coefficient, int]:
    """The main coefficient with its interval, and how many disputed cases are not in it yet."""
    table = review_table(db, actor, key)
    alpha = with_interval(krippendorff_alpha, _ratings(table))
    return _of_enough(alpha), open_disagreements(db, actor)


def coefficients(table: Sequence[ReviewedCase]) -> tuple[Coefficient, ...]:
    """Each coefficient with its interval, of cases sampled for a second review; the same reviews give the same figures.

    Cases with a second review because of what was said of them would tell how reviewers part where something is in
    doubt: in a simulation α is 0.41 with them where it is 0.76 of all cases that were reviewed.
    """
    report = agreement_report(_ratings(table), [ReviewLabel.UNSAFE.value, ReviewLabel.SAFE.value])
    return tuple(map(_of_enough, report))


def agreement_by_pair(table: Sequence[ReviewedCase]) -> tuple[Pair, ...]:
    """Each two reviewers who both reviewed a sampled case, by name: an order of their figures would be a ranking."""
    labels, found = _at_random(table), []
    for one, other in combinations(reviewers_of(table), 2):
        same = [of_case[one] == of_case[other] for of_case in labels if one in of_case and other in of_case]
        if same:
            found.append((one, other, Proportion(sum(same), len(same))))
    return tuple(found)


def _at_random(table: Sequence[ReviewedCase]) -> list[Mapping[str, str]]:
    """The labels of the cases that were sampled, without third reviews: only where two differ is there one."""
    sampled = (case.reviews.items() for case in table if case.at_random)
    return [{who: said["label"] for who, said in given if said["review"] != "third"} for given in sampled]


def _ratings(table: Sequence[ReviewedCase]) -> Ratings:
    reviewers = reviewers_of(table)
    return ratings_of([[of_case.get(each) for each in reviewers] for of_case in _at_random(table)], LABELS)


def _of_enough(found: Coefficient) -> Coefficient:
    if found.cases >= FEWEST:
        return found
    words = f"{count_of(found.cases, 'case')} with a second review at random, and it takes {FEWEST}"
    return replace(found, value=None, low=None, high=None, reason=words)


def tally_switches(reviews: Sequence[Switch], *, against: str) -> Switching:
    """``against`` is ``adjudicated`` or ``reference``, of other people: a case's own last label would make every switch
    right. Wrong→right is of first labels that were wrong (help by the AI), and right→wrong of those right (harm).
    """
    judged = [(one, truth) for one in reviews if (truth := getattr(one, against)) is not None]
    wrong = [(one, truth) for one, truth in judged if one.first != truth]
    right = [(one, truth) for one, truth in judged if one.first == truth]
    return Switching(
        switched=Proportion(sum(one.first != one.last for one in reviews), len(reviews)),
        to_right=Proportion(sum(one.last == truth for one, truth in wrong), len(wrong)),
        to_wrong=Proportion(sum(one.last != truth for one, truth in right), len(right)),
    )


def count_revisions(
    db: Database, actor: Actor, key: str
) -> tuple[Switching, Mapping[str, tuple[int, tuple[str, ...]]]]:
    """How often a review changed after the reveal; and for each kind of change in words, how many cases there are with
    it, and the first `MOST_LISTED` of them. Of all closed cases, against the data set's label: the adjudication may be
    the reviewer's own. Raises Forbidden.
    """
    found = switches(db, actor, key)
    changed = [review for review in found if review.first != review.last]
    known = [review for review in changed if review.reference is not None]
    kinds = {
        "Changed after the reveal": changed,
        "Right first, then wrong": [review for review in known if review.first == review.reference],
        "Wrong first, then right": [review for review in known if review.last == review.reference],
    }
    cases = {words: tuple(dict.fromkeys(review.case_id for review in of_it)) for words, of_it in kinds.items()}
    listed = {words: (len(ids), ids[:MOST_LISTED]) for words, ids in cases.items()}
    return tally_switches(found, against="reference"), listed


Kind = tuple[str, str]
"""What the review found (``read``, ``unsafe``, ``inconclusive``, ``not blind``), and of which cases: an outcome, or all
of them (empty).
"""


def audit_cases(db: Database, actor: Actor, version: str) -> Mapping[Kind, tuple[int, tuple[str, ...]]]:
    """How many cases of each kind the audit of a configuration holds, and the first `MOST_LISTED` of them, in the order
    in which they were settled. Raises Forbidden.
    """
    found: dict[Kind, list[str]] = {}
    for case_id, case in audited_reviews(db, actor, version):
        if case.unreadable:
            kinds = [("not blind", "")]
        else:
            state = {"read": case.state == "read", "unsafe": case.unsafe, "inconclusive": case.state == "inconclusive"}
            kinds = list(product((words for words, holds in state.items() if holds), ("", case.outcome.value)))
        for kind in kinds:
            found.setdefault(kind, []).append(case_id)
    return {kind: (len(ids), tuple(ids[:MOST_LISTED])) for kind, ids in found.items()}
