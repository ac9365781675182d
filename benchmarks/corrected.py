"""Coverage of the corrected figures (screening/evaluation/corrected.py), for `make simulate`."""

from dataclasses import dataclass, field

import numpy as np

from screening.evaluation.corrected import (
    RATES,
    READ_SAFE,
    READ_UNSAFE,
    UNREAD,
    Benchmark,
    Estimate,
    Readers,
    Study,
    draw_sample,
)
from screening.evaluation.metrics import wilson
from screening.labels import Outcome

TEXTS, REVIEWS, DRAWS, RUNS = 500, 120, 9, 400
_SAFE, _UNSAFE, _PERSON = range(len(Outcome))
Line = tuple[str, str, str, int]


@dataclass(slots=True)
class _Covered:
    """How often limits held the truth, and how wide they were."""

    held: list[bool] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)

    def add(self, found: Estimate, truth: float) -> bool:
        held = found.low is not None and found.high is not None and found.low - 1e-9 <= truth <= found.high + 1e-9
        self.held.append(held)
        self.widths.append(found.width)
        return held

    def line(self, claim: str, nominal: str = "95 %") -> Line:
        return claim, nominal, f"{np.mean(self.held):.1%}", len(self.held)


def corrected(seed: int) -> list[Line]:
    """500 texts of which 10 % are labelled wrong, three conditions on their draws, 120 read."""
    lines: list[Line] = []
    for name, together in (("labels wrong at random", 0.1), ("wrong labels where the model errs too", 0.5)):
        lines += _one_benchmark(np.random.default_rng(seed), name, together)
    return [*lines, *_stopping(np.random.default_rng(seed)), *_erring_readers(np.random.default_rng(seed))]


def make_benchmark(random: np.random.Generator, together: float = 0.1) -> tuple[np.ndarray, Benchmark]:
    """What is true of 500 texts (30 % unsafe), and a benchmark of them: the model is wrong about one in ten for good,
    one label in ten is wrong, of those the model is wrong about the share ``together``.
    """
    unsafe, wrong = random.random(TEXTS) < 0.3, random.random(TEXTS) < 0.1
    steady = random.beta(20, 1, TEXTS)
    drawn = random.random((DRAWS, TEXTS)) < np.where(wrong != unsafe, steady, 1 - steady)
    noise = np.where(wrong, together, (0.1 - 0.1 * together) / 0.9)
    labels = (unsafe != (random.random(TEXTS) < noise)).astype(np.int8)
    said = drawn.sum(axis=0)
    outcomes = {
        "MV n=1": np.where(drawn[0], _UNSAFE, _SAFE),
        "MV n=3": np.where(drawn[:3].sum(axis=0) >= 2, _UNSAFE, _SAFE),
        "clear majority": np.where((said >= 3) & (said <= 6), _PERSON, np.where(said >= 5, _UNSAFE, _SAFE)),
    }
    against = np.where(labels == 1, 1 - said / DRAWS, said / DRAWS)
    codes = {name: each.astype(np.int8) for name, each in outcomes.items()}
    return unsafe, Benchmark.of(labels, codes, against)


def truth_of(name: str, unsafe: np.ndarray, told: np.ndarray) -> float:
    """The figure, counted on what is true."""
    decided = told != _PERSON
    if name == "accuracy":
        return float(((told == _UNSAFE) == unsafe)[decided].mean())
    counted = decided & (unsafe if name == "fnr" else ~unsafe)
    return float((told == (_SAFE if name == "fnr" else _UNSAFE))[counted].mean())


def read_texts(order: np.ndarray, unsafe: np.ndarray) -> np.ndarray:
    """Readings that are right of these texts."""
    readings = np.full(TEXTS, UNREAD, np.int8)
    readings[order] = np.where(unsafe[order], READ_UNSAFE, READ_SAFE)
    return readings


def _one_benchmark(random: np.random.Generator, name: str, together: float) -> list[Line]:
    alone = {rate: _Covered() for rate in (*RATES, "wrong labels")}
    jointly: dict[str, list[bool]] = {}
    by_chance = []
    for run in range(RUNS):
        unsafe, benchmark = make_benchmark(random, together)
        order = draw_sample(benchmark, REVIEWS, run)
        study = Study(benchmark=benchmark, readings=read_texts(order, unsafe))
        wrong = float(((benchmark.references == 1) != unsafe).mean())
        alone["wrong labels"].add(study.wrong_labels(), wrong)
        for rate in RATES:
            truths = {each: truth_of(rate, unsafe, told) for each, told in benchmark.outcomes.items()}
            alone[rate].add(study.rate(rate, "MV n=3"), truths["MV n=3"])
            if run % 2 == 0:
                held = _Covered()
                for each, found in study.rates(rate).items():
                    held.add(found, truths[each])
                jointly.setdefault(f"{rate} of three conditions together", []).append(all(held.held))
                held = _Covered()
                for each, found in study.differences(rate, "MV n=1").items():
                    held.add(found, truths[each] - truths["MV n=1"])
                jointly.setdefault(f"differences of {rate} together", []).append(all(held.held))
        some = random.permutation(TEXTS)[:REVIEWS]
        right = (benchmark.outcomes["MV n=3"] == _UNSAFE)[some] == unsafe[some]
        low, high = wilson(int(right.sum()), REVIEWS) or (0.0, 1.0)
        by_chance.append(high - low)
    share = np.mean(alone["accuracy"].widths) / np.mean(by_chance)
    return [
        *(each.line(f"Corrected {rate}, {name}: limits hold the truth") for rate, each in alone.items()),
        *((f"… {what}", "95 %", f"{np.mean(held):.1%}", len(held)) for what, held in jointly.items()),
        ("… width of the accuracy's limits, that of 120 texts read at random being 1", "0.5", f"{share:.2f}", RUNS),
    ]


def _stopping(random: np.random.Generator) -> list[Line]:
    """A look after every 20 readings, until the accuracy's limits are .07 apart."""
    covered, read = _Covered(), []
    for run in range(RUNS // 2):
        unsafe, benchmark = make_benchmark(random)
        order = draw_sample(benchmark, 240, run)
        for many in range(40, 241, 20):
            found = Study(benchmark=benchmark, readings=read_texts(order[:many], unsafe)).rate("accuracy", "MV n=3")
            if found.width <= 0.07 or many == 240:
                covered.add(found, truth_of("accuracy", unsafe, benchmark.outcomes["MV n=3"]))
                read.append(many)
                break
    return [
        covered.line("Corrected accuracy, read until its limits are .07 apart (a look every 20)"),
        ("… texts read until then (median)", "–", f"{np.median(read):.0f}", len(read)),
    ]


def _erring_readers(random: np.random.Generator) -> list[Line]:
    """Readers of .80 and .98: their word taken for the truth, and corrected by 40 + 40 planted texts."""
    as_read, known = _Covered(), {rate: _Covered() for rate in (*RATES, "wrong labels")}
    for run in range(RUNS):
        unsafe, benchmark = make_benchmark(random)
        order = draw_sample(benchmark, REVIEWS, run)
        word = np.where(unsafe, random.random(TEXTS) < 0.8, random.random(TEXTS) < 0.02)
        study = Study(benchmark=benchmark, readings=read_texts(order, word))
        planted = Readers(
            sensitivity=(int(random.binomial(40, 0.8)), 40), specificity=(int(random.binomial(40, 0.98)), 40)
        )
        corrected_study = Study(benchmark=benchmark, readings=study.readings, readers=planted)
        wrong = float(((benchmark.references == 1) != unsafe).mean())
        as_read.add(study.wrong_labels(), wrong)
        known["wrong labels"].add(corrected_study.wrong_labels(), wrong)
        for rate in RATES:
            truth = truth_of(rate, unsafe, benchmark.outcomes["MV n=3"])
            known[rate].add(corrected_study.rate(rate, "MV n=3"), truth)
    return [
        as_read.line("Wrong labels, readers of .80 taken for the truth", "not 95 %"),
        *(
            each.line(f"… {rate}, corrected by 40 unsafe and 40 safe planted texts (width {np.mean(each.widths):.2f})")
            for rate, each in known.items()
        ),
    ]
