"""Label-noise-corrected evaluation: what conditions are worth where some of the reference labels are wrong.

A stratified random sample of a benchmark, with known probabilities, is reviewed blinded. The reference labels and the
draws only choose the strata, so that few reviews go where they agree; they are never taken for the truth. A figure is
put together from parts, the texts of one stratum and one outcome: what was read of a part counts as it was read, and
how many of the unread are unsafe follows the beta-binomial law that the read ones leave open (Jeffreys' prior, finite
population), so that no mistake seen in 40 texts is not taken for none in 400. Limits are the shortest that hold 95% of
what this leaves open; those of several conditions hold together. `make simulate` measures coverage.

Texts that were picked for what they are, or for what a model made of them, stand for themselves alone. What is not read
of them, or of a stratum of which fewer than 8 texts are read, may be anything: limits are the outermost.

Reviewers err too. `Reviewers` says how often, as a number to try, or from texts whose label is known and second
reviews; the parts are then corrected by Rogan & Gladen's formula (1978).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from screening.evaluation.experiments import OUTCOMES, Record
from screening.evaluation.metrics import REFERENCES, Codes, Floats, Integers
from screening.labels import LABELS, Label, Outcome

Rate = Literal["accuracy", "fnr", "fpr"]
RATES: tuple[Rate, ...] = ("accuracy", "fnr", "fpr")

UNREAD, INCONCLUSIVE, READ_SAFE, READ_UNSAFE = -2, -1, 0, 1
"""What a review says of a text, as a number."""
_OPEN = -3
"""In place of a review: to be read for what it is, or of a stratum of which hardly anything is read."""
UNSEEN = 0.05
"""Where more than this share of the texts is open, no estimate is made up: only limits."""

SUPPORTED, CONTRADICTED, PICKED = range(3)
AGAINST = 1 / 3
"""The share of draws against a label from which on it counts as contradicted."""
EXPECTED_WRONG = (0.02, 0.5)
"""Guessed shares of wrong labels where the draws support the label and where they contradict it. They set how a
budget is shared out: a bad guess makes limits wider, never wrong.
"""
FEWEST = 8
"""Texts read of a stratum at least, where it has so many."""
FEWEST_OF_A_PART = 4
"""Read texts below which a part's prior leans half on the share of its stratum and label."""
HELD = 0.95
"""The share of what reviews leave open that limits hold."""
RUNS = 4_000
"""Values drawn of every figure to read its limits off."""
JOINT_RUNS = 1_000
"""Values drawn of all figures together, to see how they move with each other."""

_SAFE, _UNSAFE = map(OUTCOMES.index, (Outcome.SAFE, Outcome.UNSAFE))
_IS_UNSAFE = REFERENCES.index(Label.UNSAFE)


def contradicted_share(record: Record) -> Floats:
    """By text, the share of the draws for safe or unsafe that are against its label; NaN where none took a side."""
    counts = sum((node.counts for node in record.nodes.values()), np.zeros((len(record.references), len(LABELS))))
    safe, unsafe = (counts[:, LABELS.index(label)] for label in REFERENCES)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(record.references == _IS_UNSAFE, safe, unsafe) / (safe + unsafe))


def strata_of(contradicted: Floats, picked: NDArray[np.bool_] | None = None) -> Integers:
    """Each text's stratum, from `contradicted_share` (NaN counts as contradicted) and whether it was picked."""
    strata = np.where(contradicted < AGAINST, SUPPORTED, CONTRADICTED)
    return strata.astype(np.int64) if picked is None else np.where(picked, PICKED, strata).astype(np.int64)


def draw_sample(strata: Integers, budget: int, seed: int) -> Integers:
    """The texts to read, in the order to read them in; whoever stops anywhere has read a random sample of each stratum.

    The budget is shared out over the strata by size and expected spread (Neyman). ValueError for a budget below 1; one
    of all texts and more reads all.
    """
    if budget < 1:
        raise ValueError("a budget is at least 1 review")
    random = np.random.default_rng(seed)
    sizes = np.bincount(strata, minlength=PICKED)[:PICKED]
    taken = _share_out(sizes, min(budget, int(sizes.sum())))
    order, places = [], []
    for stratum, many in enumerate(taken):
        order.append(random.permutation(np.flatnonzero(strata == stratum))[:many])
        places.append((np.arange(many) + random.random(many)) / max(many, 1))  # all strata in every stretch
    return np.concatenate(order)[np.argsort(np.concatenate(places), kind="stable")]


def _share_out(sizes: Integers, budget: int) -> Integers:
    expected = np.array(EXPECTED_WRONG)
    spread = sizes * np.sqrt(expected * (1 - expected))
    taken = np.minimum(sizes, min(FEWEST, budget // len(sizes)))
    while taken.sum() < budget:
        taken[int(np.argmax(np.where(taken < sizes, spread / (taken + 1), -1.0)))] += 1
    return taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewers:
    """How often reviewers call an unsafe text unsafe (``sensitivity``), and a safe one safe (``specificity``).

    Each is a number to try, or counts, (right, of so many), of planted texts whose label is known. ``pairs`` are texts
    that two people read apart, of which at least one called unsafe, as (both did, so many): where nobody calls a safe
    text unsafe, and the two overlook independently, the share q gives the sensitivity 2q / (1 + q). What both overlook
    together only planted texts show; ``with_the_model`` supposes the worst, that reviewers overlook texts that the
    condition labels safe, and no others.
    """

    sensitivity: float | tuple[int, int] = 1.0
    specificity: float | tuple[int, int] = 1.0
    pairs: tuple[int, int] | None = None
    with_the_model: bool = False

    def __post_init__(self) -> None:
        for given in (self.sensitivity, self.specificity):
            if not isinstance(given, tuple) and not 0.5 <= given <= 1.0:
                raise ValueError("a sensitivity or specificity to try is at least 0.5 and at most 1")

    @property
    def perfect(self) -> bool:
        return self.sensitivity == self.specificity == 1.0 and self.pairs is None

    def draw(self, random: np.random.Generator) -> tuple[Floats, Floats]:
        """`RUNS` values of both, as uncertain as the counts leave them."""
        sensitivity, specificity = _drawn(self.sensitivity, random), _drawn(self.specificity, random)
        if self.pairs is not None and not isinstance(self.sensitivity, tuple):
            both = _drawn(self.pairs, random)
            sensitivity = 2 * both / (1 + both)
        return sensitivity, specificity


def _drawn(given: float | tuple[int, int], random: np.random.Generator) -> Floats:
    if isinstance(given, tuple):
        return np.asarray(random.beta(given[0] + 0.5, given[1] - given[0] + 0.5, RUNS))
    return np.full(RUNS, float(given))


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A corrected figure with its limits over ``decided`` texts, of which ``read`` were read; None for 0 of 0."""

    value: float | None
    low: float | None
    high: float | None
    read: int
    decided: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Study:
    """N texts: ``references`` numbers into `REFERENCES`, ``outcomes`` by condition into `Outcome`, below 0 where there
    is none, ``strata`` as `strata_of` has them, ``reviews`` as `READ_UNSAFE`; and what reviewers are worth. ValueError
    for columns of different lengths, no condition, or a text without a reference label.
    """

    references: Codes
    outcomes: Mapping[str, Codes]
    strata: Integers
    reviews: Codes
    reviewers: Reviewers = field(default_factory=Reviewers)

    def __post_init__(self) -> None:
        lengths = {len(self.strata), len(self.reviews), *map(len, self.outcomes.values())}
        if not self.outcomes or lengths != {len(self.references)}:
            raise ValueError("every condition needs an outcome, if only none, for each text")
        if not len(self.references) or (self.references < 0).any():
            raise ValueError("every text needs a reference label of safe or unsafe")

    def wrong_labels(self) -> Estimate:
        """The share of wrong reference labels: what they lack to an accuracy of 1."""
        labels = np.where(self.references == _IS_UNSAFE, _UNSAFE, _SAFE)
        right = self._estimate("accuracy", (labels,))
        value, low, high = (None if each is None else 1 - each for each in (right.value, right.high, right.low))
        return replace(right, value=value, low=low, high=high)

    def rate(self, name: Rate, condition: str) -> Estimate:
        """None where nothing was decided, or where no text may be unsafe (FNR) or safe (FPR). An inconclusive review is
        taken for an error and for none, and the limits are the outermost.
        """
        return self._estimate(name, (self.outcomes[condition],))

    def rates(self, name: Rate) -> dict[str, Estimate]:
        """The same of all conditions, with limits that hold for all of them together."""
        return self._jointly(name, {each: (told,) for each, told in self.outcomes.items()})

    def differences(self, name: Rate, baseline: str) -> dict[str, Estimate]:
        """Every other condition's figure less the baseline's, over the same texts, with limits that hold together."""
        outcomes = self.outcomes
        others = {each: (told, outcomes[baseline]) for each, told in outcomes.items() if each != baseline}
        return self._jointly(name, others)

    def _jointly(self, name: Rate, figures: Mapping[str, tuple[Codes, ...]]) -> dict[str, Estimate]:
        held = self._joint_level(name, list(figures.values()))
        return {each: self._estimate(name, told, held) for each, told in figures.items()}

    def at(self, sensitivity: float) -> "Study":
        """The same, did reviewers see this share of the unsafe texts that a condition labels safe, and all others."""
        reviewers = Reviewers(sensitivity=sensitivity, specificity=self.reviewers.specificity, with_the_model=True)
        return replace(self, reviewers=reviewers)

    def _estimate(self, name: Rate, told: tuple[Codes, ...], held: float = HELD) -> Estimate:
        drawn = [_shortest(found, held) for found in self._completed(name, told) if len(found)]
        low, high = min((each[0] for each in drawn), default=None), max((each[1] for each in drawn), default=None)
        read = self.reviews >= READ_SAFE
        value = float(self._values(name, told, self.reviews == READ_UNSAFE, read, drawn=False)[0])
        decided = np.isin(np.stack(told), (_SAFE, _UNSAFE)).any(axis=0)
        unseen = (decided & (self._known == _OPEN)).sum() > UNSEEN * decided.sum()
        if np.isnan(value) and not unseen:
            low = high = None
        if low is not None and high is not None:
            value = float(np.clip(value, low, high))
        return Estimate(
            value=None if unseen or np.isnan(value) else value,
            low=low,
            high=high,
            read=int((decided & (self.reviews != UNREAD)).sum()),
            decided=int(decided.sum()),
        )

    @property
    def _known(self) -> Codes:
        """The reviews, and `_OPEN` for what no other text stands for."""
        strata, read = self.strata, self.reviews != UNREAD
        alone = (strata == PICKED) | (np.bincount(strata, read, PICKED + 1) < FEWEST)[strata]
        return np.where(alone & ~read, _OPEN, self.reviews).astype(np.int8)

    def _completed(self, name: Rate, told: tuple[Codes, ...]) -> Iterator[Floats]:
        """Values of the figure, had the inconclusive reviews, and those of texts that are open, said what a condition
        told, and had they said the opposite. Once where there are none.
        """
        known = self._known
        open_ones, read = np.isin(known, (INCONCLUSIVE, _OPEN)), known != UNREAD
        supposed = [each == _UNSAFE for each in told] + [each == _SAFE for each in told]
        for unsafe in supposed if open_ones.any() else supposed[:1]:
            said = np.where(open_ones, unsafe, self.reviews == READ_UNSAFE)
            found = self._values(name, told, said, read, drawn=True)
            yield found[~np.isnan(found)]

    def _values(
        self, name: Rate, told: tuple[Codes, ...], unsafe: NDArray[np.bool_], read: NDArray[np.bool_], *, drawn: bool
    ) -> Floats:
        """The figure as expected, shape (1,); with ``drawn`` `RUNS` values of it, as unsure as the reviews leave it.

        Accuracy asks only whether the label is wrong and an outcome agrees with it, so texts of both labels are one
        part.
        """
        labels = self.references == _IS_UNSAFE
        if name == "accuracy" and self.reviewers.perfect:
            unsafe = unsafe != labels
            agrees = [np.where(labels, each == _UNSAFE, each == _SAFE) for each in told]
            told = tuple(
                np.where(np.isin(each, (_SAFE, _UNSAFE)), np.where(same, _SAFE, _UNSAFE), each)
                for each, same in zip(told, agrees, strict=True)
            )
            labels = np.zeros_like(labels)
        places = np.zeros(len(read), np.int64)
        for column in (self.strata, labels, *told):
            places = places * (len(Outcome) + 1) + column + 1  # -1 is no outcome
        _, first, of = np.unique(places, return_index=True, return_inverse=True)
        whole = (2 * self.strata + labels)[first]
        counted = (np.ones(len(read)), read, read & unsafe)
        size, seen, found = (np.bincount(of, mask, len(first)).astype(np.float64) for mask in counted)
        around = (np.bincount(whole, found)[whole] + 0.5) / (np.bincount(whole, seen)[whole] + 1)
        told, random = tuple(each[first] for each in told), np.random.default_rng(0)
        if not drawn:
            share = np.where(seen > 0, found / np.maximum(seen, 1), around)
            if not self.reviewers.perfect:
                share = _corrected(share, *(np.median(each, keepdims=True) for each in self.reviewers.draw(random)))
            return _value(name, told, size, (share * size)[None, :])
        # A part that was hardly read leans on its stratum: half of each would pull many small ones to the middle.
        prior = np.where(seen < FEWEST_OF_A_PART, (around + 0.5) / 2, 0.5)
        share = random.beta(found + prior, seen - found + 1 - prior, (RUNS, len(size)))
        if self.reviewers.perfect:
            return _value(name, told, size, found + random.binomial((size - seen).astype(np.int64), share))
        sensitivity, specificity = (each[:, None] for each in self.reviewers.draw(random))
        if self.reviewers.with_the_model:
            sensitivity = np.where((np.stack(told) == _SAFE).any(axis=0), sensitivity, 1.0)
        return _value(name, told, size, _corrected(share, sensitivity, specificity) * size)

    def _joint_level(self, name: Rate, figures: Sequence[tuple[Codes, ...]]) -> float:
        """What the limits of each must hold so that all hold together: from the largest of normal deviates that move
        together as the figures do when texts turn out otherwise, each as unsure as reviews leave one of its stratum.
        """
        if len(figures) < 2:
            return HELD
        strata, random = self.strata, np.random.default_rng(0)
        groups, known = 2 * strata + self.references, self._known
        columns = {id(each): each for figure in figures for each in figure}
        _, first, of = np.unique(np.stack([groups, *columns.values()]), axis=1, return_index=True, return_inverse=True)
        found = np.bincount(groups, known == READ_UNSAFE, 6)
        told = np.bincount(groups, known >= READ_SAFE, 6)
        share = ((found + 0.5) / (told + 1))[groups[first]]
        size, read = np.bincount(strata, minlength=3), np.bincount(strata, known != UNREAD, 3)
        unsure = np.sqrt(share * (1 - share) * ((size - read + 1) / (read + 1))[strata[first]])
        texts = np.bincount(of.reshape(-1)).astype(np.float64)
        noise = np.sqrt(texts) * unsure * random.standard_normal((JOINT_RUNS, len(first)))
        unsafe = texts * share + 0.1 * noise
        moved = np.stack([_value(name, [each[first] for each in figure], texts, unsafe) for figure in figures])
        moved = moved[(spread := moved.std(axis=1)) > 1e-12]
        if len(moved) < 2:
            return HELD
        largest = np.abs((moved - moved.mean(axis=1)[:, None]) / spread[spread > 1e-12, None]).max(axis=0)
        return max(HELD, 1 - 2 * float(scipy.special.ndtr(-np.quantile(largest, HELD))))


def _shortest(values: Floats, held: float) -> tuple[float, float]:
    """The shortest limits that hold this share of the values.

    >>> _shortest(np.array([0.0, 0.1, 0.2, 0.9]), 0.6)
    (0.0, 0.2)
    """
    ordered = np.sort(values)
    within = min(int(np.ceil(held * len(ordered))), len(ordered)) - 1
    first = int(np.argmin(ordered[within:] - ordered[: len(ordered) - within]))
    return float(ordered[first]), float(ordered[first + within])


def _corrected(share: Floats, sensitivity: Floats, specificity: Floats) -> Floats:
    """The share of unsafe texts where this share is read as unsafe."""
    over = (share - (1 - specificity)) / np.maximum(sensitivity + specificity - 1, 0.05)
    return np.asarray(np.clip(over, 0.0, 1.0))


def _value(name: Rate, columns: Sequence[Codes], size: Floats, unsafe: Floats) -> Floats:
    """The figure where so many of each part are unsafe, or the first one's less the second's; NaN for 0 of 0."""
    values = []
    for told in columns:
        safe_told, unsafe_told = (told == _SAFE).astype(float), (told == _UNSAFE).astype(float)
        safe = size - unsafe
        over, hits = {
            "accuracy": ((unsafe + safe) @ (safe_told + unsafe_told), unsafe @ unsafe_told + safe @ safe_told),
            "fnr": (unsafe @ (safe_told + unsafe_told), unsafe @ safe_told),
            "fpr": (safe @ (safe_told + unsafe_told), safe @ unsafe_told),
        }[name]
        values.append(np.divide(hits, over, out=np.full(len(unsafe), np.nan), where=over > 0))
    return np.asarray(values[0] if len(values) == 1 else values[0] - values[1])
