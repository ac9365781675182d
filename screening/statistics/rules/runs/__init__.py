"""A stopping rule run on many recorded sequences of draws at once, with the same ends as draw by draw.

The looks are those of the engine: a rule is asked for its verdict when a whole wave is in, or where the record ends
because nothing could be identified any more and the rest of the wave was broken off. Label numbers follow
the order of `LABELS`; a value above them is no draw (the padding after a sequence's end).
"""

from functools import singledispatch

import numpy as np

from screening.labels import LABELS, Label
from screening.statistics.rules.majority_vote import MajorityVote
from screening.statistics.rules.pairwise_mixture import PairwiseMixture
from screening.statistics.rules.protocol import Ended
from screening.statistics.rules.runs.elimination import EliminationPaths
from screening.statistics.rules.runs.ends import ENDS, NONE, Codes, Draws, Integers, Runs
from screening.statistics.rules.successive_elimination import SuccessiveElimination
from screening.statistics.rules.tables import least_count_table, pairwise_draws_needed

__all__ = ["ENDS", "NONE", "Codes", "Draws", "Integers", "Runs", "run"]


@singledispatch
def run(rule: object, draws: Draws, lengths: Integers) -> Runs:
    """The rule's verdicts on ``draws`` of shape (sequences, most draws), of which row i has ``lengths[i]``."""
    raise TypeError(f"no runs for {type(rule).__name__}")


@run.register
def _(rule: MajorityVote, draws: Draws, lengths: Integers) -> Runs:
    runs = Runs.without_verdict(lengths)
    rows = np.flatnonzero(lengths >= rule.n)
    counts = np.stack([(draws[rows, : rule.n] == arm).sum(axis=1) for arm in range(len(LABELS))])
    tie = (counts == counts.max(axis=0)).sum(axis=0) > 1
    runs.identify(rows, np.where(tie, LABELS.index(Label.ESCALATE), counts.argmax(axis=0)), np.full(len(rows), rule.n))
    runs.ended[rows[tie]] = ENDS.index(Ended.EXHAUSTED)
    return runs


@run.register
def _(rule: SuccessiveElimination, draws: Draws, lengths: Integers) -> Runs:
    runs, paths = Runs.without_verdict(lengths), EliminationPaths(rule, draws, lengths)
    rows = np.flatnonzero(paths.identify(runs))
    if rule.curtail:
        paths.curtail(runs, rows)
    else:
        paths.exhaust(runs, rows)
    return runs


@run.register
def _(rule: PairwiseMixture, draws: Draws, lengths: Integers) -> Runs:
    runs, most = Runs.without_verdict(lengths), min(rule.budget, draws.shape[1])
    table = least_count_table(rule, most)
    seen = _counts_so_far(draws[:, :most])
    rows, position = np.arange(len(draws)), np.zeros(len(draws), dtype=np.int64)
    while len(rows):
        needed = pairwise_draws_needed(seen[:, rows, position], table)
        earliest, remaining = needed.min(axis=0), rule.budget - position
        named = earliest <= 0
        runs.identify(rows[named], needed[:, named].argmin(axis=0), position[named])
        stopped = runs.abstain(rows, _abstentions(rule, earliest, remaining), position)
        position = position + np.minimum(earliest, remaining)
        going = ~named & ~stopped & (position <= lengths[rows])
        broken_off = rows[~named & ~stopped & ~going]
        needed = pairwise_draws_needed(seen[:, broken_off, lengths[broken_off]], table)
        ended = _abstentions(rule, needed.min(axis=0), rule.budget - lengths[broken_off])
        runs.abstain(broken_off, ended, lengths[broken_off])
        rows, position = rows[going], position[going]
    return runs


def _counts_so_far(draws: Draws) -> Integers:
    """Shape (K, sequences, draws + 1): how often each label was drawn before each position."""
    seen = np.zeros((len(LABELS), len(draws), draws.shape[1] + 1), dtype=np.int64)
    for arm in range(len(LABELS)):
        np.cumsum(draws == arm, axis=1, out=seen[arm, :, 1:])
    return seen


def _abstentions(rule: PairwiseMixture, earliest: Integers, remaining: Integers) -> Codes:
    """How each run abstains now, or `NONE`."""
    hopeless = (earliest > remaining) & rule.curtail
    ended = np.where(hopeless, ENDS.index(Ended.CURTAILED), NONE)
    ended = np.where(remaining == 0, ENDS.index(Ended.EXHAUSTED), ended)
    return np.where(earliest <= 0, NONE, ended).astype(np.int8)
