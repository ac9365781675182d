"""Algorithm 1 on many recorded sequences: where arms are dropped, then where the budget ends the others."""

from functools import cached_property

import numpy as np

from screening.labels import LABELS
from screening.statistics.rules.protocol import Ended
from screening.statistics.rules.runs.ends import ENDS, NONE, Codes, Draws, Integers, Mask, Runs
from screening.statistics.rules.successive_elimination import SuccessiveElimination
from screening.statistics.rules.tables import (
    earliest_drop_table,
    elimination_draws_needed,
    least_gap_table,
    rounds_to_drop,
)

ARMS = len(LABELS)
NO_DRAW = 255
NEVER = 1 << 40


class EliminationPaths:
    """The way of every sequence through Algorithm 1.

    ``three`` counts successes by arm, sequence and round while all arms are active. ``first`` is the round that
    first drops an arm (`NEVER` if none within record and budget). For the sequences that then have two arms,
    numbered by ``slot``, ``pair`` says which and ``two`` counts their successes by round since.
    """

    def __init__(self, rule: SuccessiveElimination, draws: Draws, lengths: Integers) -> None:
        self.rule, self.lengths = rule, lengths
        self.most = min(rule.budget, draws.shape[1])
        self.reach = np.minimum(lengths, rule.budget)
        self.draws = np.pad(draws[:, : self.most], ((0, 0), (0, ARMS)), constant_values=NO_DRAW)
        self.gaps = least_gap_table(rule, self.most + ARMS)
        self._follow_three()
        self._follow_two()

    def _follow_three(self) -> None:
        rounds = -(-self.most // ARMS)
        hits = self.draws[:, : ARMS * rounds].reshape(len(self.draws), rounds, ARMS) == np.arange(ARMS, dtype=np.uint8)
        self.three = np.zeros((ARMS, len(self.draws), rounds + 1), dtype=np.int32)
        for arm in range(ARMS):
            np.cumsum(hits[..., arm], axis=1, out=self.three[arm, :, 1:])
        lag = self.three.max(axis=0) - self.three.min(axis=0)
        drops = (lag >= self.gaps[: rounds + 1]) & (ARMS * np.arange(rounds + 1) <= self.reach[:, None])
        self.first = np.where(drops.any(axis=1), drops.argmax(axis=1), NEVER)

    def _follow_two(self) -> None:
        dropped = np.flatnonzero(self.first < NEVER)
        successes = self.three[:, dropped, self.first[dropped]]
        stays = successes.max(axis=0) - successes < self.gaps[self.first[dropped]]
        alone = stays.sum(axis=0) == 1
        self.alone, self.winner = dropped[alone], stays[:, alone].argmax(axis=0)
        self.rows = dropped[~alone]
        self.pair = np.stack([stays[:, ~alone].argmax(axis=0), ARMS - 1 - stays[::-1, ~alone].argmax(axis=0)])
        self.slot = np.full(len(self.draws), NONE)
        self.slot[self.rows] = np.arange(len(self.rows))
        start = ARMS * self.first[self.rows]
        rounds = max(0, -(-(self.most - int(start.min(initial=self.most))) // 2))
        self.two = np.zeros((2, len(self.rows), rounds + 1), dtype=np.int32)
        for turn, arms in enumerate(self.pair):
            pulls = np.minimum(start[:, None] + 2 * np.arange(rounds) + turn, self.most)
            self.two[turn, :, 1:] = self.draws[self.rows[:, None], pulls] == arms[:, None]
            self.two[turn, :, 0] = self.three[arms, self.rows, self.first[self.rows]]
        np.cumsum(self.two, axis=2, out=self.two)

    @cached_property
    def calls_at_exhaustion(self) -> Integers:
        """Calls after which no further round can be paid, where no label is identified."""
        start = np.where(self.slot != NONE, ARMS * self.first, 0)
        active = np.where(self.slot != NONE, ARMS - 1, ARMS)
        return np.asarray(start + (self.rule.budget - start) // active * active)

    def identify(self, runs: Runs) -> Mask:
        """Write down every sequence that names a label within record and budget; returns which do not."""
        runs.identify(self.alone, self.winner, ARMS * self.first[self.alone])
        lead, first = self.two[0] - self.two[1], self.first[self.rows][:, None]
        later = np.arange(lead.shape[1])
        calls = ARMS * first + 2 * later
        rounds = np.minimum(first + later, len(self.gaps) - 1)
        ends = (np.abs(lead) >= self.gaps[rounds]) & (calls <= self.reach[self.rows][:, None])
        named = np.flatnonzero(ends.any(axis=1))
        at = ends.argmax(axis=1)[named]
        label = np.where(lead[named, at] > 0, self.pair[0, named], self.pair[1, named])
        runs.identify(self.rows[named], label, calls[named, at])
        return np.asarray(runs.ended == NONE)

    def exhaust(self, runs: Runs, rows: Integers) -> None:
        """Without curtailment: abstain where the budget ends, if the record reaches so far."""
        reached = rows[self.calls_at_exhaustion[rows] <= self.lengths[rows]]
        runs.abstain(
            reached, np.full(len(reached), ENDS.index(Ended.EXHAUSTED), np.int8), self.calls_at_exhaustion[reached]
        )

    def curtail(self, runs: Runs, rows: Integers) -> None:
        """Go on wave by wave, as the engine looks, and abstain at the first look without hope."""
        drops = earliest_drop_table(self.rule, self.most + ARMS)
        position = np.zeros(len(rows), dtype=np.int64)
        while len(rows):
            ended, wave = self._look(rows, position, drops)
            stopped = runs.abstain(rows, ended, position)
            position = position + wave
            going = ~stopped & (position <= self.lengths[rows])
            self._break_off(runs, rows[~stopped & ~going], drops)
            rows, position = rows[going], position[going]

    def _break_off(self, runs: Runs, rows: Integers, drops: Integers) -> None:
        """Abstain where the record ends within a wave because it was without hope."""
        ended, _ = self._look(rows, self.lengths[rows], drops)
        hopeless = np.where(ended == ENDS.index(Ended.CURTAILED), ended, NONE).astype(np.int8)
        runs.abstain(rows, hopeless, self.lengths[rows])

    def _look(self, rows: Integers, position: Integers, drops: Integers) -> tuple[Codes, Integers]:
        """How each run has ended at its position, or `NONE`, and then how long the next wave is."""
        ended = np.full(len(rows), NONE, dtype=np.int8)
        wave = np.zeros(len(rows), dtype=np.int64)
        two = position >= ARMS * self.first[rows]
        for active, chosen in ((ARMS, np.flatnonzero(~two)), (2, np.flatnonzero(two))):
            if len(chosen) == 0:
                continue
            successes, pulled, complete = self._state(active, rows[chosen], position[chosen])
            rounds = rounds_to_drop(successes, pulled, complete, drops)
            needed, remaining = elimination_draws_needed(rounds, pulled), self.rule.budget - position[chosen]
            whole = np.minimum((remaining + pulled) // active, np.where(rounds > 0, rounds, NEVER).min(axis=0))
            wave[chosen] = np.where(needed <= remaining - (active - 1), needed, whole * active - pulled)
            hopeless = np.where(needed > remaining, ENDS.index(Ended.CURTAILED), NONE)
            exhausted = (pulled == 0) & (remaining < active)
            ended[chosen] = np.where(exhausted, ENDS.index(Ended.EXHAUSTED), hopeless)
        return ended, wave

    def _state(self, active: int, rows: Integers, position: Integers) -> tuple[Integers, Integers, Integers]:
        """Successes of the active arms in pulling order, pulls made in this round, and complete rounds."""
        before = ARMS * self.first[rows] if active == 2 else np.zeros(len(rows), dtype=np.int64)
        rounds, pulled = np.divmod(position - before, active)
        table, where = (self.two, self.slot[rows]) if active == 2 else (self.three, rows)
        successes = np.stack([table[turn, where, rounds + (pulled > turn)] for turn in range(active)])
        return successes.astype(np.int64), pulled, before // ARMS + rounds
