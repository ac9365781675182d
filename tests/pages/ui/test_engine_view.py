"""A case's draws and the pipeline as they are drawn: what the rule knows, in words, and text as nothing but text."""

import random
import re
from collections import Counter
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from math import log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pages.batches.progress import ways_html
from pages.ui.engine_view import (
    LINE,
    NO_DECISION,
    TRACE_POINTS,
    State,
    badge_html,
    bands_fold_html,
    bars_html,
    diagram_html,
    evidence_sentence,
    legend_html,
    live_html,
    node_view,
    node_views,
    steps,
    way_html,
    words,
)
from pages.ui.texts import texts_html
from screening.labels import LABELS, Label
from screening.pipeline.config import preset
from screening.pipeline.draws import decode_draws, read_distribution
from screening.pipeline.files import shipped_pipelines
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
from storage.batches.results import Ways

RECOMMENDED, PAPER = preset("recommended"), preset("paper")
UNANIMOUS_SAFE = "S" * 11  # E(11, 0) ≥ 1000, and 10 draws are not enough (spec/statistics.md section 2)


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.shown = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.opened.append(tag)

    def handle_data(self, data: str) -> None:
        self.shown += data


def _parsed(html: str) -> _Tags:
    parser = _Tags()
    parser.feed(html)
    return parser


def test_each_state_is_said_in_words() -> None:
    def states(draws: dict[str, str], *, ended: bool) -> list[State]:
        return [view.state for view in node_views(RECOMMENDED, draws, ended=ended)]

    assert states({}, ended=False) == [State.WAITING] * 3
    assert states({"worker/main": "SS"}, ended=False)[0] is State.SAMPLING
    assert states({"worker/main": "SS"}, ended=True) == [State.STOPPED, State.NOT_ASKED, State.NOT_ASKED]
    assert states({"worker/main": "EEEEEE", "risk/main": "U" * 6}, ended=True)[:2] == [State.IDENTIFIED] * 2
    assert states({"worker/main": "SU" * 43}, ended=True)[0] is State.FUTILITY


def test_an_identified_label_is_past_the_line_against_both_rivals() -> None:
    view = node_view(RECOMMENDED.nodes[0], UNANIMOUS_SAFE, ended=True)
    # E(11, 0) is 1,102 over either rival; the lines are 1/0.001 over unsafe and 1/0.025 over escalate
    assert [words(each) for each in view.compared] == [
        "1,102:1 · needs 1,000:1 · ✓ ruled out",
        "1,102:1 · needs 40.0:1 · ✓ ruled out",
    ]
    html = live_html([view], ended=True)
    assert html.count('class="n out"') == 2 and "✓ Answered: safe" in badge_html(view)


def test_where_no_answer_was_usable_nothing_looks_settled() -> None:
    view = node_view(RECOMMENDED.nodes[0], "?" * 6, ended=True)
    assert view.state is State.NO_ANSWER and view.compared == ()
    assert "ruled out</span>" not in bars_html(view.compared, view.rule)


@pytest.mark.parametrize("codes", ["U" * 6, "S" * 20 + "U" * 6, "=0.7|0.2|0.1|0|1"])
def test_the_sentence_says_how_constant_the_answers_are_and_never_that_they_are_right(codes: str) -> None:
    label = Label.UNSAFE if codes == "U" * 6 else Label.SAFE
    said = evidence_sentence(codes, label)
    assert said.endswith("Shows consistency, not correctness.") and "chance" not in said
    assert codes[0] == "=" or said.startswith(
        f"{codes.count(label.value[0].upper())} of {len(codes)} answers: {label}."
    )


@settings(max_examples=50, deadline=None)
@given(st.text(alphabet="SUE?!_~", max_size=5))
def test_bars_stay_on_the_axis_and_the_trace_stays_small(codes: str) -> None:
    for pipeline in (RECOMMENDED, PAPER):
        view = node_view(pipeline.nodes[0], codes, ended=False)
        assert len(view.trace) <= TRACE_POINTS
        assert all(0 <= point <= 1 for point in view.trace)
        html = live_html([view], ended=False)
        parsed = _parsed(html)
        assert set(parsed.opened) <= {"style", "div", "section", "h4", "p", "span", "i", "b", "u"}
        assert all(0 <= float(width) <= 100 for width in re.findall(r"width:([-0-9.]+)%", html))
        assert not codes or all(label in parsed.shown for label in LABELS)


@pytest.mark.parametrize(
    "hostile",
    ["<img src=x onerror=alert(1)>", "</div><script>alert(1)</script>", "![x](http://x.example/a.png)", "$x$ :red[a]"],
)
def test_a_hostile_text_stays_text(hostile: str) -> None:
    parsed = _parsed(texts_html(hostile, None, None, hostile))
    assert set(parsed.opened) == {"p", "div"}
    assert parsed.shown.count(hostile) == 2


def test_direction_overrides_are_made_visible() -> None:
    shown = texts_html("a\u202eb", None, None)
    assert "\u202e" not in shown and "⟨U+202E⟩" in shown


RUNS = 40
CERTIFIED, VILLE = preset("certified").nodes[0].rule, PairwiseMixture(budget=100)
ROUNDS, VOTE = SuccessiveElimination(budget=200), MajorityVote(n=7)
RULES = {"certified": CERTIFIED, "ville": VILLE, "paper": ROUNDS, "vote": VOTE}


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
        for struck, rival, thick, width, line, said, fate_words in rows:
            gone = Label(rival) in out
            assert {bool(struck), bool(thick), bool(said), "✓ ruled out" in fate_words} == {gone}
            assert (float(width) > LINE) is gone or not line
            seen["out" if gone else "in"] += 1
        figures = _FIGURE.findall(bands_fold_html(rule, codes).replace("\n", ""))
        assert {Label(name) for fate, name, _ in figures if fate == "out"} == out
        since = steps(rule, codes)[1]
        for fate, name, fate_words in figures:
            assert fate_words == (f"ruled out after answer {since[Label(name)]}" if fate == "out" else "")
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
    [(CERTIFIED, "at most 5%"), (VILLE, "at most 5%"), (ROUNDS, "at most 5%"), (VOTE, "no error bound")],
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


def _listed(html: str) -> list[str]:
    return [re.sub("<[^>]+>", "", item) for item in re.findall(r"<li[ >].*?(?=<ul>|</li>)", html.partition("<ol>")[2])]


def test_the_list_names_every_agent_and_every_way() -> None:
    listed = _listed(diagram_html(shipped_pipelines()["four_agents"], {}))
    assert [words for words in listed if "→" not in words] == ["Worker", "Risk", "Cultural context", "Legal"]
    assert listed[1:5] == ["safe → safe", "unsafe → unsafe", "escalate → Risk", "no decision → a clinician"]
    assert len(listed) == 4 * 5


def test_titles_and_marks_are_text() -> None:
    node = preset("recommended").nodes[0].model_copy(update={"title": "<img src=x>"})
    rest = preset("recommended").nodes[1:]
    pipeline = preset("recommended").model_copy(update={"nodes": (node, *rest)})
    html = diagram_html(pipeline, {"worker": "<b>"}, {("worker", NO_DECISION): (1, '"')})
    assert "<img" not in html and html.count("&lt;img src=x&gt;") == 2 and 'href="&#34;"' in html


def test_the_way_of_a_text_follows_its_draws() -> None:
    pipeline = preset("recommended")
    live = way_html(pipeline, {"worker/main": "E" * 6, "risk/main": "SS"}, ended=False)
    assert _listed(live.partition("<ol>")[1] + live.partition("<ol>")[2])[3] == "escalate → Risk (taken)"
    assert 'aria-current="step"><b>Risk</b> <span>2 of ≤ 100 calls</span>' in live
    done = way_html(pipeline, {"worker/main": "U" * 6}, ended=True, outcome="unsafe")
    assert "unsafe · 6 calls" in done and done.count("not asked") == 4 and "o-unsafe reached" in done
    open_end = way_html(pipeline, {"worker/main": "SU" * 50}, ended=True, outcome="human_review")
    assert "no decision → a clinician (taken)" in open_end


FOUND = Ways(
    asked={"worker": 1_000, "risk": 90},
    taken={
        ("worker", Label.SAFE): 900,
        ("worker", Label.ESCALATE): 90,
        ("worker", None): 10,
        ("risk", Label.UNSAFE): 90,
    },
    kept_back=0,
)


def test_counts_stand_on_the_ways_and_outcomes_open_their_cases() -> None:
    html = ways_html(preset("recommended"), FOUND, "b&1", linked=True)
    assert "1,000 texts" in html and "safe → safe: 900" in html and "escalate → Risk: 90" in html
    assert 'href="/results?batch=b%261&amp;node=worker&amp;outcome=safe"' in html
    assert 'href="/results?batch=b%261&amp;node=worker&amp;outcome=human_review"' in html
    assert 'href="/results?batch=b%261&amp;way=worker%3Aescalate"' in html
    assert html.count("<a ") == 2 * 4  # in the picture and in the list; a way that nobody went opens nothing


def test_what_an_agent_did_not_settle_is_counted_and_opened_apart_from_its_label() -> None:
    taken = {("worker", Label.ESCALATE): 90, ("worker", None): 10}
    html = ways_html(preset("paper"), Ways(asked={"worker": 100}, taken=taken, kept_back=0), "b1", linked=True)
    assert 'way=worker%3Aescalate" target="_self">escalate 90</a>' in html
    assert 'way=worker%3Ano+decision" target="_self">no decision 10</a>' in html
