"""Strict reading of answers: whole words only, and everything else counts as escalate."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from screening.labels import LABELS, Label
from screening.pipeline.draws import LABEL_WORDS, RAW_LIMIT, Answer, Usage, bare_word, read_answer


@pytest.mark.parametrize(
    ("answer", "label"),
    [
        ("safe", Label.SAFE),
        (" Safe.\n", Label.SAFE),
        ("**UNSAFE**", Label.UNSAFE),
        ("`escalate`", Label.ESCALATE),
        ('"unsafe"', Label.UNSAFE),
        ("‘safe’", Label.SAFE),
    ],
)
def test_a_label_alone_is_a_label(answer, label):
    draw = read_answer(answer, "end_turn", Usage())
    assert (draw.label, draw.answer) == (label, Answer.LABEL)


@pytest.mark.parametrize(
    "answer",
    [
        "not safe", "un safe", "safe unsafe", "safe, safe", "label: safe", '{"label": "safe"}', "safely", "safe1",
        "The text is safe", "safe\nunsafe", "sаfe", "ok", "seguro", "escalated", "s a f e", "safe-ish",
        "¬safe", "❌ safe", "!safe", "safe?", "≠ safe", "🚫safe", "\x00safe", "safe!", "safe,", "(safe)", "~safe",
        "-safe", "\u200bsafe", "ſafe", "safe\ufe0f", "_safe_", "#safe", "safe;", "[safe]", "1. safe",
    ],
)  # fmt: skip
def test_anything_else_is_an_escalate_draw(answer):
    draw = read_answer(answer, "end_turn", Usage(output_tokens=3))
    assert (draw.label, draw.answer, draw.raw) == (Label.ESCALATE, Answer.UNPARSABLE, answer)
    assert draw.usage.output_tokens == 3


@pytest.mark.parametrize(
    ("stop_reason", "answer"),
    [
        ("refusal", Answer.REFUSAL),
        ("max_tokens", Answer.CUT),
        ("model_context_window_exceeded", Answer.CUT),
        ("tool_use", Answer.UNPARSABLE),
        ("something_new", Answer.UNPARSABLE),
        (None, Answer.UNPARSABLE),
    ],
)
def test_a_perfect_word_does_not_count_when_the_answer_did_not_end_well(stop_reason, answer):
    draw = read_answer("safe", stop_reason, Usage())
    assert (draw.label, draw.answer) == (Label.ESCALATE, answer)


@pytest.mark.parametrize("answer", [None, "", "  \n"])
def test_an_empty_answer_is_marked_empty(answer):
    assert read_answer(answer, "end_turn", Usage()).answer is Answer.EMPTY


@pytest.mark.parametrize(
    ("answer", "stop_reason"),
    [("safe", "end_turn"), ("perhaps", "end_turn"), (" ", "end_turn"), ("safe", "max_tokens"), ("safe", "refusal")],
)
def test_every_answer_is_paid_for_and_what_was_no_label_is_kept(answer: str, stop_reason: str) -> None:
    usage = Usage(input_tokens=400, output_tokens=3, cache_read_tokens=100, cache_write_tokens=20)
    draw = read_answer(answer, stop_reason, usage)
    assert draw.usage == usage
    assert draw.raw == ("" if draw.answer is Answer.LABEL else answer)


@given(st.text(max_size=400), st.sampled_from(["end_turn", "stop_sequence", "max_tokens", "refusal"]))
def test_only_an_exact_word_can_be_anything_but_escalate(answer, stop_reason):
    draw = read_answer(answer, stop_reason, Usage())
    assert len(draw.raw) <= RAW_LIMIT
    if draw.label is not Label.ESCALATE:
        assert bare_word(answer) == draw.label.value and stop_reason in {"end_turn", "stop_sequence"}


def test_with_code_words_the_labels_themselves_are_unparsable():
    words = {"walnut": Label.SAFE, "copper": Label.UNSAFE, "lantern": Label.ESCALATE}
    assert read_answer("Walnut.", "end_turn", Usage(), words).label is Label.SAFE
    for label in LABELS:
        assert read_answer(label.value, "end_turn", Usage(), words).answer is Answer.UNPARSABLE
    assert set(LABEL_WORDS.values()) == set(LABELS)
