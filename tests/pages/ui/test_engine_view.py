"""A case's draws and the pipeline as they are drawn: what the rule knows, and text as nothing but text."""

import random
import re
from collections import Counter
from math import log

import pytest

from pages.ui.engine_view import (
    LINE,
    NO_DECISION,
    TRACE_POINTS,
    State,
    bands_fold_html,
    bars_html,
    diagram_html,
    legend_html,
    node_views,
    steps,
    way_html,
)
from pages.ui.html import texts_html
from screening.labels import LABELS, Label
from screening.pipeline import config, files
from screening.pipeline.draws import decode_draws
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

RECOMMENDED = config.preset("recommended")
RUNS = 12
CERTIFIED, VILLE = config.preset("certified").nodes[0].rule, PairwiseMixture(budget=100)
ROUNDS, VOTE = SuccessiveElimination(budget=200), MajorityVote(n=7)
RULES = {"certified": CERTIFIED, "ville": VILLE, "paper": ROUNDS, "vote": VOTE}


@pytest.mark.parametrize(
    ("draws", "ended", "states"),
    [
        ({}, False, "WAITING WAITING WAITING"),
        ({"worker/main": "SS"}, False, "SAMPLING WAITING WAITING"),
        ({"worker/main": "SS"}, True, "STOPPED NOT_ASKED NOT_ASKED"),
        ({"worker/main": "EEEEEE", "risk/main": "U" * 6}, True, "IDENTIFIED IDENTIFIED NOT_ASKED"),
        ({"worker/main": "SU" * 43}, True, "FUTILITY NOT_ASKED NOT_ASKED"),
        ({"worker/main": "?" * 6}, True, "NO_ANSWER NOT_ASKED NOT_ASKED"),
    ],
)
def test_each_node_has_its_state(draws: dict[str, str], ended: bool, states: str) -> None:
    views = node_views(RECOMMENDED, draws, ended=ended)
    assert [view.state.name for view in views] == states.split()
    assert len(views[0].trace) <= TRACE_POINTS and all(0 <= point <= 1 for point in views[0].trace)
    assert views[0].state is not State.NO_ANSWER or "ruled out" not in bars_html(views[0].compared, views[0].rule)


@pytest.mark.parametrize("hostile", ["<img src=x onerror=alert(1)>", "</div><script>a()</script>", "![x](http://x)"])
def test_a_text_stays_text(hostile: str) -> None:
    escaped = hostile.replace("<", "&lt;").replace(">", "&gt;")
    shown = texts_html(f"a\u202eb{hostile}", None, None, hostile)
    assert shown.count(escaped) == 3 and "\u202e" not in shown and "⟨U+202E⟩" in shown
    assert set(re.findall(r"<(\w+)", shown)) == {"p", "div"}
    first, *rest = RECOMMENDED.nodes
    pipeline = RECOMMENDED.model_copy(update={"nodes": (first.model_copy(update={"title": hostile}), *rest)})
    html = diagram_html(pipeline, {"worker": "<b>"}, {("worker", NO_DECISION): (1, '"')})
    assert html.count(escaped) == 2 and "<b><" not in html and 'href="&#34;"' in html


def _numbers(codes: str) -> Draws:
    return label_numbers(draw.label for draw in decode_draws(codes))


def _excluded(rule: StoppingRule, codes: str) -> set[Label]:
    """By the definition of each rule, worked out from the answers alone."""
    counts = Counter(draw.label for draw in decode_draws(codes))
    if isinstance(rule, Pairwise):
        leader = max(LABELS, key=lambda label: counts[label])
        rivals = {label: -log(rule.level(leader, label)) for label in LABELS if label is not leader}
        return {one for one, line in rivals.items() if log_evidence(counts[leader], counts[one]) >= line}
    return {each.rival for each in rule.comparisons(_numbers(codes)) if each.excluded}


_ROW = re.compile(
    r'<span class="n( out)?">(?:\w+ over )?<b>(\w+)</b></span>'
    r'<div class="sl-over( out)?" aria-hidden="true"><i style="width:([0-9.]+)%"></i>(<u[^>]*></u>)?</div>'
    r'<span class="v( out)?">([^<]*)</span>'
)
_FIGURE = re.compile(r'<figure class="(in|out)">.*?<b>(\w+)</b><span>([^<]*)</span>')


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_label_is_drawn_as_out_exactly_when_the_rule_has_excluded_it(rule: StoppingRule) -> None:
    """At the end of each run, its model somewhere between sure and torn, and at some moment on the way to it."""
    seen = Counter[bool]()
    for seed in range(RUNS):
        chance, whole = random.Random(seed), ""
        weights = [chance.random() ** 3 + 0.02 for _ in LABELS]
        while conclude(rule, _numbers(whole)) is None:
            whole += chance.choices("SUE", weights)[0]
        for codes in (whole, whole[: chance.randint(1, len(whole))]):
            rows = _ROW.findall(bars_html(rule.comparisons(_numbers(codes)), rule))
            out = _excluded(rule, codes)
            assert len(rows) == 2
            for struck, rival, thick, width, line, said, fate in rows:
                gone = Label(rival) in out
                assert {bool(struck), bool(thick), bool(said), "✓ ruled out" in fate} == {gone}
                assert 0 <= float(width) <= 100 and ((float(width) > LINE) is gone or not line)
                seen[gone] += 1
            since = steps(rule, codes)[1]
            figures = _FIGURE.findall(bands_fold_html(rule, codes).replace("\n", ""))
            assert {Label(name) for fate, name, _ in figures if fate == "out"} == out
            for fate, name, said in figures:
                assert said == (f"ruled out after answer {since[Label(name)]}" if fate == "out" else "")
            for label, at in since.items():
                assert label not in _excluded(rule, codes[: at - 1]) and label in _excluded(rule, codes[:at])
    legend = legend_html([rule, rule], read_off=False)
    assert legend.count("no error bound" if rule is VOTE else "at most 5%") == 1, "what it promises, once"
    assert seen[False] > 1 and (rule is VOTE or seen[True] > 1)


def _listed(html: str) -> list[str]:
    return [re.sub("<[^>]+>", "", item) for item in re.findall(r"<li[ >].*?(?=<ul>|</li>)", html.partition("<ol>")[2])]


def test_every_agent_and_every_way_is_listed_and_the_one_of_a_text_follows_its_draws() -> None:
    listed = _listed(diagram_html(files.shipped_pipelines()["four_agents"], {}))
    assert [words for words in listed if "→" not in words] == ["Worker", "Risk", "Cultural context", "Legal"]
    assert listed[1:5] == ["safe → safe", "unsafe → unsafe", "escalate → Risk", "no decision → a clinician"]
    assert len(listed) == 4 * 5
    live = way_html(RECOMMENDED, {"worker/main": "E" * 6, "risk/main": "SS"}, ended=False)
    assert _listed(live)[3] == "escalate → Risk (taken)" and 'aria-current="step"><b>Risk</b>' in live
    done = way_html(RECOMMENDED, {"worker/main": "U" * 6}, ended=True, outcome="unsafe")
    assert done.count("not asked") == 4 and "o-unsafe reached" in done
    open_end = way_html(RECOMMENDED, {"worker/main": "SU" * 50}, ended=True, outcome="human_review")
    assert "no decision → a clinician (taken)" in open_end
