"""The live view says what the rule knows, in words, and shows a text as nothing but text."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pages.ui.engine_view import (
    TRACE_POINTS,
    State,
    badge_html,
    bars_html,
    evidence_sentence,
    live_html,
    node_view,
    node_views,
    words,
)
from pages.ui.texts import texts_html
from screening.labels import LABELS, Label
from screening.pipeline.config import preset

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
