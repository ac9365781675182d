"""Which reference labels to read again, what to mix them with, and what the relabelled data set then says."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from screening.engine.draws import decode_draws
from screening.labels import OUTCOMES, Label, Outcome
from screening.review.actors import Actor
from screening.statistics.label_noise import NodeDraws, Ranking, ReadingOrder, SecondLook, reading_order
from screening.statistics.metrics import Metrics, evaluate
from storage.batches.results import results
from storage.database import Database
from storage.research.recorded_draws import RecordedBatch, adjudicated_labels


def node_draws(batch: RecordedBatch) -> list[NodeDraws]:
    """Each case's draws as counts by node and label."""
    counted: list[dict[str, Mapping[Label, int]]] = [{} for _ in batch.items]
    for (case, node), drawn in batch.book.nodes.items():
        if drawn.codes:
            counted[case][node] = _counts(drawn.codes)
    return list(counted)


def _counts(codes: str) -> Mapping[Label, int]:
    """How often each label was drawn; each kind of code is decoded once."""
    found = Counter[Label]()
    for code, times in Counter(codes).items():
        found[decode_draws(code)[0].label] += times
    return found


def rank(batch: RecordedBatch, ranking: Ranking) -> ReadingOrder:
    """The batch's reference labels, the most contradicted first."""
    return reading_order([item.reference for item in batch.items], node_draws(batch), ranking)


def agreements(looks: Sequence[SecondLook], chosen: Sequence[int], seed: str) -> tuple[int, ...]:
    """As many cases as were chosen, at random among those whose draws support their label.

    Reading only what the model contradicts would flatter the model: 0.85 becomes 0.91 in a simulation.
    """
    supporting = [look.case for look in looks if look.evidence < 0 and look.case not in set(chosen)]
    return tuple(random.Random(seed).sample(supporting, min(len(chosen), len(supporting))))  # noqa: S311 (no secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class Relabelled:
    """A version of a batch's labels: the metrics against it, and the cases whose labels clinicians gave, changed, and
    took away.
    """

    name: str
    metrics: Metrics
    adjudicated_cases: tuple[str, ...] = ()
    changed_cases: tuple[str, ...] = ()
    withdrawn_cases: tuple[str, ...] = ()

    @property
    def adjudicated(self) -> int:
        """How many labels clinicians gave."""
        return len(self.adjudicated_cases)

    @property
    def changed(self) -> int:
        """How many of them differ from the file's."""
        return len(self.changed_cases)

    @property
    def withdrawn(self) -> int:
        """How many say that the text holds too little information."""
        return len(self.withdrawn_cases)


def relabelled_metrics(db: Database, actor: Actor, batch: RecordedBatch, version: int | None) -> tuple[Relabelled, ...]:
    """The batch's own outcomes against the file's labels, and against those accepted as of a version, side by side."""
    found = {each.case_id: each for each in results(db, actor, batch.batch_id)}
    outcomes = [_outcome(found[case_id].outcome) for case_id in batch.case_ids]
    accepted = adjudicated_labels(db, actor, batch.batch_id, version)
    original = [item.reference for item in batch.items]
    after = [
        _label(accepted[case_id]) if case_id in accepted else as_it_came
        for case_id, as_it_came in zip(batch.case_ids, original, strict=True)
    ]
    read = [place for place, case_id in enumerate(batch.case_ids) if case_id in accepted]
    before = evaluate(original, outcomes)
    return (
        Relabelled(name="the file's labels", metrics=before),
        Relabelled(
            name="adjudicated where read",
            metrics=evaluate(after, outcomes),
            adjudicated_cases=tuple(batch.case_ids[place] for place in read),
            changed_cases=tuple(
                batch.case_ids[at] for at in read if after[at] is not None and after[at] is not original[at]
            ),
            withdrawn_cases=tuple(batch.case_ids[place] for place in read if after[place] is None),
        ),
    )


def _outcome(word: str) -> Outcome | None:
    return Outcome(word) if word in OUTCOMES else None


def _label(word: str) -> Label | None:
    return Label(word) if word in (Label.SAFE.value, Label.UNSAFE.value) else None
