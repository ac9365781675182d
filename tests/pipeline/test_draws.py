"""Draws: strict reading of answers (whole words only), their codes and bills, and a whole distribution of one call."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from screening.labels import LABELS, Label
from screening.pipeline.draws import (
    MARK,
    RAW_LIMIT,
    Answer,
    Bill,
    Draw,
    LabelDistribution,
    Usage,
    bare_word,
    decode_draws,
    encode_draws,
    read_answer,
    read_distribution,
    screened_thread,
    unusable,
)
from screening.text.conversation import PlacedTurn, Question, Role, Thread
from tests.fixtures.replies import WORDS

SAFE, UNSAFE, ESCALATE = LABELS
USAGE = Usage(input_tokens=400, output_tokens=3, cache_read_tokens=100, cache_write_tokens=20)
ALONE = {
    "safe": SAFE, " Safe.\n": SAFE, "‘safe’": SAFE, "**UNSAFE**": UNSAFE, '"unsafe"': UNSAFE, "`escalate`": ESCALATE,
}  # fmt: skip
NO_LABEL = [
    *(word for word in WORDS if word.strip()),
    "un safe", "safe, safe", "safe1", "The text is safe", "escalated", "safe!", "safe,", "~safe", "safe\ufe0f",
    "_safe_", "#safe", "[safe]", "1. safe",
]  # fmt: skip
ENDED_BADLY = {
    "refusal": Answer.REFUSAL,
    "max_tokens": Answer.CUT,
    "model_context_window_exceeded": Answer.CUT,
    "tool_use": Answer.UNPARSABLE,
    None: Answer.UNPARSABLE,
}


@pytest.mark.parametrize(
    ("answer", "stop_reason", "expected"),
    [
        *((answer, "end_turn", Draw(label=label, usage=USAGE)) for answer, label in ALONE.items()),
        *((answer, "end_turn", unusable(Answer.UNPARSABLE, answer, USAGE)) for answer in NO_LABEL),
        *(("safe", reason, unusable(kind, "safe", USAGE)) for reason, kind in ENDED_BADLY.items()),
        *((empty, "end_turn", unusable(Answer.EMPTY, empty or "", USAGE)) for empty in (None, "", "  \n")),
    ],
)
def test_anything_but_a_label_alone_is_an_escalate_draw_that_is_kept_and_paid_for(answer, stop_reason, expected):
    assert read_answer(answer, stop_reason, USAGE) == expected


@given(st.text(max_size=400), st.sampled_from(["end_turn", "stop_sequence", "max_tokens", "refusal"]))
def test_only_an_exact_word_can_be_anything_but_escalate(answer, stop_reason):
    draw = read_answer(answer, stop_reason, Usage())
    assert len(draw.raw) <= RAW_LIMIT
    if draw.label is not Label.ESCALATE:
        assert bare_word(answer) == draw.label.value and stop_reason in {"end_turn", "stop_sequence"}


def test_every_draw_is_stored_as_one_character_and_what_is_unusable_can_never_be_a_safe_draw():
    codes = "SUE?!_~#@"
    draws = decode_draws(codes)
    assert encode_draws(draws) == codes
    assert [draw.answer for draw in draws[:3]] == [Answer.LABEL] * 3
    assert [draw.label for draw in draws] == [SAFE, UNSAFE] + [ESCALATE] * 7
    with pytest.raises(ValueError, match="not a draw code: 'x'"):
        decode_draws("Sx")
    assert read_answer("Walnut.", "end_turn", Usage(), {"walnut": SAFE}).label is SAFE
    for label in LABELS:
        assert read_answer(label.value, "end_turn", Usage(), {"walnut": SAFE}).answer is Answer.UNPARSABLE
    assert unusable(Answer.CUT, "y" * (RAW_LIMIT + 1), USAGE).raw == "y" * RAW_LIMIT
    assert (unusable(Answer.EMPTY).raw, unusable(Answer.EMPTY).usage) == ("", Usage())
    with pytest.raises(ValueError):
        Draw(label=SAFE, answer=Answer.REFUSAL)


def test_a_bill_shows_the_draws_up_to_the_first_that_is_not_in_and_adds_tokens_kind_by_kind():
    bill, safe, unsafe = Bill(), Draw(label=SAFE), Draw(label=UNSAFE)
    shown = [bill.in_order()]
    for place, draw in ((2, safe), (0, unsafe), (1, safe)):
        bill.record_answer(place, draw)
        shown.append(bill.in_order())
    assert shown == [[], [], [unsafe], [unsafe, safe, safe]]
    other = Usage(input_tokens=10, output_tokens=1, cache_read_tokens=5, cache_write_tokens=2)
    both = Usage(input_tokens=410, output_tokens=4, cache_read_tokens=105, cache_write_tokens=22)
    assert USAGE + other == both


def test_the_model_is_shown_the_turns_there_was_room_for_with_who_speaks_and_what_is_judged():
    turns = tuple(
        PlacedTurn(role=role, named=0, start=0, end=5, shown=shown, judged=judged)
        for role, shown, judged in [
            (Role.USER, None, False),
            (Role.ASSISTANT, (3, 8), False),
            (Role.USER, (10, 13), True),
        ]
    )
    shown = screened_thread(Thread(question=Question.REPLY, turns=turns), "A: hello\n-bye-")
    assert (shown.question, shown.left_out) == ("reply", 1)
    assert [(turn.role, turn.text, turn.judged) for turn in shown.turns] == [
        ("assistant", "hello", False),
        ("user", "bye", True),
    ]


# --- a distribution


def of(*shares, **unknown):
    return LabelDistribution(labels=dict(zip(LABELS, shares, strict=True)), **{"unknown": 0.0} | unknown)


def test_each_rival_is_excluded_by_itself_and_too_much_unknown_decides_nothing():
    told = of(0.25, 0.5, 0.0, unknown=0.25)
    found = [(one.rival, one.leader, one.scale, one.value, one.needed, one.excluded) for one in told.comparisons()]
    assert found == [
        (SAFE, UNSAFE, "probability", 0.25, 0.25, False),
        (ESCALATE, UNSAFE, "probability", 0.5, 0.25, True),
    ]
    assert {of(*shares).gap for shares in ((0.75, 0.125, 0.5), (0.125, 0.5, 0.75), (0.5, 0.75, 0.125))} == {0.25}
    assert of(0.75, 0.0, 0.0, unknown=0.25, most_unknown=0.25).verdict() is not None
    assert of(0.75, 0.0, 0.0, unknown=0.25, most_unknown=0.24).verdict() is None


def test_its_code_is_read_back():
    told = of(0.123456789, 0.5, 0.25, unknown=0.126543, most_unknown=0.2)
    assert told.code == "=0.123457|0.5|0.25|0.126543|0.2"
    back = read_distribution(told.code)
    assert back is not None and back.labels == {SAFE: 0.123457, UNSAFE: 0.5, ESCALATE: 0.25}
    assert (back.unknown, back.most_unknown, back.code) == (0.126543, 0.2, told.code)
    assert read_distribution("SSUE?") is None and read_distribution("") is None
    with pytest.raises(ValueError):
        read_distribution(MARK + "0.5|0.5|0|0")
