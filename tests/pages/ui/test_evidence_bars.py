"""What is drawn as excluded is excluded by the rule, and what is excluded looks so: over many simulated nodes."""

import random
import re
from collections import Counter
from collections.abc import Iterator
from html import unescape
from math import log

import pytest

from pages.ui.engine_view import LINE, bands_fold_html, bars_html, legend_html, steps
from screening.labels import LABELS, Label
from screening.pipeline.config import preset
from screening.pipeline.draws import decode_draws, read_distribution
from screening.stopping.evidence import log_evidence
from screening.stopping.rules import (
    Draws,
    MajorityVote,
    Pairwise,
    PairwiseMixture,
    StoppingRule,
    SuccessiveElimination,
    conclude,
    label_numbers,
)

RUNS = 40
CERTIFIED, VILLE = preset("certified").nodes[0].rule, PairwiseMixture(budget=100)
PAPER, VOTE = SuccessiveElimination(budget=200), MajorityVote(n=7)
RULES = {"certified": CERTIFIED, "ville": VILLE, "paper": PAPER, "vote": VOTE}


def _run(rule: StoppingRule, chance: random.Random) -> str:
    """The codes of one node until it stopped, its model somewhere between sure and torn."""
    weights = [chance.random() ** 3 + 0.02 for _ in LABELS]
    codes = ""
    while conclude(rule, _numbers(codes)) is None:
        codes += chance.choices("SUE", weights)[0]
    return codes


def _prefixes(rule: StoppingRule) -> Iterator[str]:
    """The end of each run, and some moment on the way to it."""
    for seed in range(RUNS):
        chance = random.Random(seed)
        codes = _run(rule, chance)
        yield from (codes, codes[: chance.randint(1, len(codes))])


def _numbers(codes: str) -> Draws:
    return label_numbers(draw.label for draw in decode_draws(codes))


def _excluded(rule: StoppingRule, codes: str) -> set[Label]:
    """By the definition of each rule, worked out from the answers alone."""
    labels = [draw.label for draw in decode_draws(codes)]
    counts = Counter(labels)
    if isinstance(rule, Pairwise):
        leader = max(LABELS, key=lambda label: counts[label])
        return {
            rival
            for rival in LABELS
            if rival is not leader and log_evidence(counts[leader], counts[rival]) >= -log(rule.level(leader, rival))
        }
    return {each.rival for each in rule.comparisons(_numbers(codes)) if each.excluded}


_ROW = re.compile(
    r'<span class="n( out)?">(?:\w+ over )?<b>(\w+)</b></span>'
    r'<div class="sl-over( out)?" aria-hidden="true"><i style="width:([0-9.]+)%"></i>(<u[^>]*></u>)?</div>'
    r'<span class="v( out)?">([^<]*)</span>'
)

_FIGURE = re.compile(r'<figure class="(in|out)">.*?<b>(\w+)</b><span>([^<]*)</span>')


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_bars_and_shares_draw_a_label_as_out_exactly_when_the_rule_has_excluded_it(rule: StoppingRule) -> None:
    seen = Counter[str]()
    for codes in _prefixes(rule):
        rows = _ROW.findall(bars_html(rule.comparisons(_numbers(codes)), rule))
        assert len(rows) == 2
        out = _excluded(rule, codes)
        for struck, rival, thick, width, line, said, words in rows:
            gone = Label(rival) in out
            assert {bool(struck), bool(thick), bool(said), "✓ ruled out" in words} == {gone}
            assert (float(width) > LINE) is gone or not line
            seen["out" if gone else "in"] += 1
        figures = _FIGURE.findall(bands_fold_html(rule, codes).replace("\n", ""))
        assert {Label(name) for fate, name, _ in figures if fate == "out"} == out
        since = steps(rule, codes)[1]
        for fate, name, words in figures:
            assert words == (f"ruled out after answer {since[Label(name)]}" if fate == "out" else "")
    assert seen["in"] > RUNS / 5 and (rule is VOTE or seen["out"] > RUNS / 5)


def test_excluded_since_is_the_start_of_the_time_up_to_now() -> None:
    # after UUUUUU safe is excluded (E(6, 0) = 40.1 ≥ 40), after one S it is not (E(6, 1) is about 8), and then again
    codes = "UUUUU" + "S" + "U" * 6
    assert _excluded(VILLE, codes) == {Label.SAFE, Label.ESCALATE}
    since = steps(VILLE, codes)[1]
    assert Label.SAFE not in _excluded(VILLE, codes[: since[Label.SAFE] - 1])
    assert all(Label.SAFE in _excluded(VILLE, codes[:at]) for at in range(since[Label.SAFE], len(codes) + 1))


@pytest.mark.parametrize(
    ("rule", "words"),
    [(CERTIFIED, "at most 5%"), (VILLE, "at most 5%"), (PAPER, "at most 5%"), (VOTE, "no error bound")],
)
def test_the_legend_says_what_the_rule_promises_once(rule: StoppingRule, words: str) -> None:
    legend = unescape(legend_html([rule, rule], read_off=False))
    assert legend.count(words) == 1 and ("threshold</p>" in legend) is (rule is not VOTE)


@pytest.mark.parametrize(
    ("code", "out"), [("=0.7|0.2|0.1|0|1", 2), ("=0.5|0.25|0.05|0.3|1", 1), ("=0.4|0.4|0.2|0|1", 1)]
)
def test_probabilities_read_off_exclude_by_more_than_is_unknown(code: str, out: int) -> None:
    told = read_distribution(code)
    assert told is not None
    html = bars_html(told.comparisons(), CERTIFIED)
    # leads of 0.5 and 0.6 over nothing; 0.25 (not more than 0.3) and 0.45; 0.0 (a tie) and 0.2
    assert html.count("✓ ruled out") == html.count('class="n out"') == out
    assert "unknown" in unescape(legend_html([], read_off=True))
