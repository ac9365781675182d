"""What the Labels page asks: which reference labels to read again, what to mix them with, and what the corrected data
set then says. Each function takes the database first, so that it runs beside the server as well (`jobs.computing`).
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from jobs.computing import tell
from jobs.evaluating import OWN, Ask, Cases, cases_of, columns, kept_by_draws, references_and_outcomes
from screening.evaluation.corrected import (
    RATES,
    UNREAD,
    Estimate,
    Rate,
    Reviewers,
    Study,
    contradicted_share,
    draw_sample,
    strata_of,
)
from screening.evaluation.label_errors import PossibleError, Ranking, ReviewOrder, review_order
from screening.evaluation.metrics import NONE, Codes, Floats, Integers
from storage.database import Database
from storage.research.recordings import (
    Named,
    Reviews,
    accepted_references,
    case_names,
    entered_mask,
    reviews_in,
)

MOST_SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """The first `MOST_SHOWN` that never came to review: of ``labels`` in all, of which ``entered`` did; ``left_out``
    cannot be ranked.
    """

    labels: int
    entered: int
    left_out: int
    first: tuple[tuple[Named, PossibleError], ...]

    @property
    def free(self) -> int:
        return self.labels - self.entered


def rank_labels(db: Database, ask: Ask, ranking: Ranking) -> Ranked:
    all_rows, order = order_labels(db, ask, ranking)
    free = _free(db, ask, all_rows, order)
    shown = free[:MOST_SHOWN].tolist()
    rows = all_rows[order.cases[shown]].tolist()
    named = case_names(db, ask.actor, ask.batch_id, rows)
    lines = tuple((named[row], order.at(place)) for row, place in zip(rows, shown, strict=True) if row in named)
    return Ranked(labels=len(order.cases), entered=len(order.cases) - len(free), left_out=order.left_out, first=lines)


def choose_labels(
    db: Database, ask: Ask, ranking: Ranking, top: int, seed: str | None
) -> tuple[tuple[str, ...], Mapping[str, float]]:
    """The cases of the first places and, with a seed, as many others drawn beside them, each with its probability."""
    rows, order = order_labels(db, ask, ranking)
    free = _free(db, ask, rows, order)
    drawn, chance = ((), 0.0) if seed is None else controls(free, top, seed)
    picked, mixed = (cases_of(db, ask, rows[order.cases[places]])[1] for places in (free[:top], list(drawn)))
    return picked, dict(zip(mixed, [chance] * len(drawn), strict=True))


def controls(free: Integers, top: int, seed: str) -> tuple[tuple[int, ...], float]:
    """As many places as the ``top`` first ones, at random among the ``free`` ones behind them; and the probability with
    which each of these was drawn.

    Reading only what the model contradicts would flatter the model: 0.85 becomes 0.91 in a simulation. Whatever was not
    picked has a chance, so that those drawn stand for all of it.
    """
    rest = free[top:].tolist()
    drawn = tuple(random.Random(seed).sample(rest, min(len(free[:top]), len(rest))))  # noqa: S311 (no secret)
    return drawn, len(drawn) / len(rest) if rest else 0.0


@kept_by_draws
def order_labels(db: Database, ask: Ask, ranking: Ranking) -> tuple[Integers, ReviewOrder]:
    """The rows of the batch, and the order of their labels by place among them."""
    batch = columns(db, ask)
    tell("Ranking the labels")
    places = {node.name: place for place, node in enumerate(batch.configuration.pipeline.nodes)}
    # nodes that the pipeline does not have come last
    nodes = sorted(batch.drawn.nodes.items(), key=lambda each: (places.get(each[0], len(places)), each[0]))
    return batch.rows, review_order(batch.drawn.references, {name: node.counts for name, node in nodes}, ranking)


def _free(db: Database, ask: Ask, rows: Integers, order: ReviewOrder) -> Integers:
    return np.flatnonzero(~entered_mask(db, ask.actor, ask.batch_id, rows)[order.cases])


def count_corrected_labels(db: Database, ask: Ask, version: int | None) -> tuple[int, int, Mapping[str, Cases]]:
    """The labels accepted as of a version, against the file's: how many texts have an original label, how many labels
    one reviewer changed alone, and the cases with a label that was reviewed, changed and removed.
    """
    batch = columns(db, ask)
    original = batch.drawn.references
    after, read = accepted_references(db, ask.actor, ask.batch_id, batch, version)
    changed = read[(after[read] != NONE) & (after[read] != original[read])]
    several = reviews_in(db, ask.actor, ask.batch_id, batch.rows).by_several
    places = {"reviewed": read, "changed": changed, "removed": read[after[read] == NONE]}
    return (
        int((original != NONE).sum()),
        int((~several[changed]).sum()),
        {kind: cases_of(db, ask, batch.rows[of_it]) for kind, of_it in places.items()},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrected:
    """What conditions are worth by the labels that reviews give, estimated for all texts: by rate and condition, with
    limits that hold for all conditions together; the same less what the last condition has; and the share of original
    labels that are wrong. ``texts`` have an original label; of these ``picked`` and ``drawn`` were reviewed blinded,
    ``due`` are picked and not reviewed yet, ``waiting`` are drawn and not reviewed yet, ``free`` were never sent.
    """

    texts: int
    picked: int
    drawn: int
    due: int
    waiting: int
    free: int
    wrong: Estimate
    rates: Mapping[Rate, Mapping[str, Estimate]]
    differences: Mapping[Rate, Mapping[str, Estimate]]


def corrected(
    references: Codes, outcomes: Mapping[str, Codes], contradicted: Floats, reviews: Reviews, sensitivity: float = 1.0
) -> Corrected:
    """The estimates: texts that were drawn by chance stand for all that were not picked and whose draws support their
    label, or contradict it, alike; picked ones stand for themselves. All arrays are of shape (N,); texts without an
    original label are left out. ``sensitivity`` is the share of unsafe texts that reviewers recognize.
    """
    known = references != NONE
    labels, picked, entered = reviews.labels[known], reviews.picked[known], reviews.entered[known]
    study = Study(
        references=references[known],
        outcomes={name: each[known] for name, each in outcomes.items()},
        strata=strata_of(contradicted[known], picked),
        reviews=labels,
        reviewers=Reviewers(sensitivity=sensitivity),
    )
    reviewed, own = labels != UNREAD, list(outcomes)[-1]
    return Corrected(
        texts=int(known.sum()),
        picked=int((picked & reviewed).sum()),
        drawn=int((~picked & reviewed).sum()),
        due=int((picked & ~reviewed).sum()),
        waiting=int((entered & ~picked & ~reviewed).sum()),
        free=int((~entered).sum()),
        wrong=study.wrong_labels(),
        rates={rate: study.rates(rate) for rate in RATES},
        differences={rate: study.differences(rate, own) for rate in RATES},
    )


def measure_corrected(db: Database, ask: Ask, sensitivity: float = 1.0) -> Corrected:
    """Every condition that settles all texts, and what the batch did, against what reviews say; for reviewers who
    recognize this share of unsafe texts. ValueError where no text has an original label.
    """
    batch = columns(db, ask)
    tell("Estimating from reviews")
    references, every = references_and_outcomes(db, ask)
    told = {each.name: each.outcome for each in every if each.name == OWN or (each.outcome != NONE).all()}
    reviews = reviews_in(db, ask.actor, ask.batch_id, batch.rows)
    return corrected(references, told, contradicted_share(batch.drawn), reviews, sensitivity)


def draw_for_review(db: Database, ask: Ask, budget: int, seed: int) -> Mapping[str, float]:
    """Texts to be reviewed so that the corrected figures get narrow, with the probability of each: at random among
    those that never came to the queue, more of those whose draws contradict their label.
    """
    batch = columns(db, ask)
    reviews = reviews_in(db, ask.actor, ask.batch_id, batch.rows)
    free = np.flatnonzero((batch.drawn.references != NONE) & ~reviews.entered)
    if not len(free):
        return {}
    strata = strata_of(contradicted_share(batch.drawn)[free])
    chosen = draw_sample(strata, budget, seed)
    chances = np.bincount(strata[chosen], minlength=2) / np.maximum(np.bincount(strata, minlength=2), 1)
    _, ids = cases_of(db, ask, batch.rows[free[chosen]])
    return dict(zip(ids, chances[strata[chosen]].tolist(), strict=True))
