"""Draws: their codes, their tokens, what a draw batch's bill shows of them, and the turns that a model is shown."""

import pytest

from screening.labels import Label
from screening.pipeline.draws import (
    RAW_LIMIT,
    Answer,
    Bill,
    Draw,
    ScreenedThread,
    ScreenedTurn,
    Usage,
    decode_draws,
    encode_draws,
    screened_thread,
    unusable,
)
from screening.text.conversation import PlacedTurn, Question, Role, Thread

SAFE, UNSAFE = Draw(label=Label.SAFE), Draw(label=Label.UNSAFE)


def test_tokens_of_two_calls_are_added_kind_by_kind() -> None:
    one = Usage(input_tokens=400, output_tokens=3, cache_read_tokens=100, cache_write_tokens=20)
    other = Usage(input_tokens=10, output_tokens=1, cache_read_tokens=5, cache_write_tokens=2)
    both = Usage(input_tokens=410, output_tokens=4, cache_read_tokens=105, cache_write_tokens=22)
    assert one + other == both


def test_every_draw_is_stored_as_one_character_and_read_back() -> None:
    codes = "SUE?!_~#@"
    draws = decode_draws(codes)
    assert encode_draws(draws) == codes
    assert [draw.answer for draw in draws[:3]] == [Answer.LABEL] * 3
    assert [draw.label for draw in draws] == [Label.SAFE, Label.UNSAFE] + [Label.ESCALATE] * 7
    with pytest.raises(ValueError, match="not a draw code: 'x'"):
        decode_draws("Sx")


def test_an_unusable_answer_keeps_its_start_and_its_price() -> None:
    spent = Usage(output_tokens=9)
    draw = unusable(Answer.CUT, "y" * (RAW_LIMIT + 1), spent)
    assert (draw.label, draw.answer, draw.usage) == (Label.ESCALATE, Answer.CUT, spent)
    assert draw.raw == "y" * RAW_LIMIT
    assert (unusable(Answer.EMPTY).raw, unusable(Answer.EMPTY).usage) == ("", Usage())


def test_a_bill_shows_the_draws_up_to_the_first_that_is_not_in() -> None:
    bill = Bill()
    assert bill.in_order() == []
    bill.record_answer(2, SAFE)
    bill.record_answer(0, UNSAFE)
    assert bill.in_order() == [UNSAFE]
    bill.record_answer(1, SAFE)
    assert bill.in_order() == [UNSAFE, SAFE, SAFE]


def test_the_model_is_shown_the_turns_there_was_room_for_with_who_speaks_and_what_is_judged() -> None:
    def turn(role: Role, shown: tuple[int, int] | None, *, judged: bool) -> PlacedTurn:
        return PlacedTurn(role=role, named=0, start=0, end=5, shown=shown, judged=judged)

    turns = (
        turn(Role.USER, None, judged=False),
        turn(Role.ASSISTANT, (3, 8), judged=False),
        turn(Role.USER, (10, 13), judged=True),
    )
    shown = screened_thread(Thread(question=Question.REPLY, turns=turns), "A: hello\n-bye-")
    assert shown == ScreenedThread(
        turns=(
            ScreenedTurn(role="assistant", text="hello", judged=False),
            ScreenedTurn(role="user", text="bye", judged=True),
        ),
        question="reply",
        left_out=1,
    )
