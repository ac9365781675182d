"""A reply counts only if it is what was asked: each faulty one is sent to every call, through the real library."""

import asyncio
import gzip
import json
import random
import time
import tracemalloc
from functools import partial
from typing import Any

import pytest

from screening.labels import Outcome
from screening.models.wire import (
    LARGEST_BODY,
    Expected,
    PreparedCall,
    SeenIds,
    UnreadableBody,
    completion_draw,
    least_tokens,
    read_bounded,
)
from screening.pipeline.config import preset
from screening.pipeline.draws import LABEL_WORDS, Answer, SamplerError, encode_draws
from screening.pipeline.engine import Guard, Reason, screen
from tests.fixtures import tables
from tests.fixtures.replies import FAULTY, MODEL, completion, message, reply
from tests.models.asking import TEXT, asked, draw_batch
from tests.stub_server import Fault, RawReply, StubPlan, StubServer

once = partial(asked, max_retries=0, model=MODEL)


async def drawn(sent: RawReply | dict[str, Any], count: int = 2, **changes: Any) -> str:
    raw = sent if isinstance(sent, RawReply) else reply(sent)
    async with once(StubPlan(raw=raw), **changes) as (_, sampler):
        return "".join(sorted(encode_draws(await sampler.draw(draw_batch(count)))))


@pytest.mark.parametrize("name", [name for name in FAULTY if not name.startswith("word ") or "afe?" in name])
async def test_no_faulty_reply_ends_safe(name):
    """Words that are no label are read in tests/pipeline/test_draws.py, and all sent by `make faults`."""
    async with once(StubPlan(raw=FAULTY[name])) as (_, sampler):
        try:
            result = await screen(TEXT, Guard(), preset("recommended"), sampler)
        except SamplerError:
            return
    assert result.outcome is Outcome.HUMAN_REVIEW
    assert result.reason in {Reason.NO_ANSWER, Reason.TOO_LONG}


TABLES = tables(__file__)


@pytest.mark.parametrize(("protocol", "changes", "codes"), TABLES["asked"])
async def test_a_reply_counts_only_if_it_is_what_was_asked_and_is_marked_as_what_it_was(protocol, changes, codes):
    """Two draws of a whole reply with these changes."""
    sent = message(**changes) if protocol == "messages" else completion(**changes)
    assert await drawn(sent, protocol=protocol) == codes


async def test_a_reply_counts_under_an_accepted_name_and_also_compressed():
    assert await drawn(message(model="tiny"), accepted_names=("tiny",)) == "SS"
    packed = gzip.compress(json.dumps(message(id="msg_1")).encode())
    assert await drawn(reply(packed, content_encoding="gzip"), count=1) == "S"


@pytest.mark.parametrize(
    ("unique", "many", "refused"),
    [(True, 999, 200), (False, 999, 2), (False, 64, 12), (False, 1, 11)],
    ids=["ids that prove something", "three digits", "two digits", "one id for all"],
)
def test_where_ids_repeat_for_different_replies_they_prove_nothing(unique, many, refused):
    """720 fresh answers of a server that numbers its replies small; the first repeats may be told as such."""
    chance, seen = random.Random(35), SeenIds(unique=unique)
    replies = [message(id=f"chatcmpl-{chance.randrange(many)}", created=number // 12) for number in range(720)]
    told = sum(seen.objection(one) is not None for one in replies)
    assert told >= refused if unique else told <= refused


def test_one_answer_sent_again_and_again_is_refused_on_every_server():
    for unique in (True, False):
        seen = SeenIds(unique=unique)
        assert [seen.objection(message(id="msg_1")) is None for _ in range(5)] == [True, False, False, False, False]
        assert seen.objection(message(id="")) == "the reply has an empty id"
        assert seen.objection(message(id=...)) == "the reply has no id"


@pytest.mark.parametrize(("usage", "answer"), TABLES["usage"])
def test_an_answer_to_fewer_tokens_than_were_sent_is_none_and_a_server_that_counts_none_says_nothing(usage, answer):
    expected = Expected(models=frozenset({MODEL}), words=LABEL_WORDS, seen=SeenIds(), least_tokens=100)
    draw = completion_draw(completion(usage=usage), expected)
    assert draw.answer == answer and (draw.answer is Answer.LABEL or "of at least 100" in draw.raw)


def test_the_least_tokens_of_a_call_are_those_of_what_all_calls_of_a_text_share():
    record = '{"text": "We walked, slowly.\\u2028Home! 我们走路回家。 \x85 (there)."}\n'
    fixed, user = "One word: safe, unsafe or escalate.", f"<record-ab12>\n{record}</record-ab12>"
    system: list[dict[str, object]] = [{"text": fixed}, {"text": "The record's tag is ab12."}]
    call = PreparedCall(system=system, user=user, extra_body={}, words=LABEL_WORDS)
    assert call.least_tokens == (least_tokens(fixed) + least_tokens(record)) * 19 // 20


async def test_a_bomb_takes_neither_memory_nor_time_and_a_body_is_given_up_once_it_is_too_large():
    tracemalloc.start()
    begun = time.monotonic()
    with pytest.raises(SamplerError) as error:
        await drawn(FAULTY["a gzip bomb"], 1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert error.value.kind == "malformed" and peak < 40_000_000 and time.monotonic() - begun < 20
    read = 0

    async def endless():
        nonlocal read
        while True:
            read += 1
            yield b"x" * 16_384

    with pytest.raises(UnreadableBody):
        await read_bounded(endless(), None)
    assert read <= LARGEST_BODY // 16_384 + 1


@pytest.mark.parametrize(
    ("status", "text"),
    [(413, "x"), (400, "the request exceeds the available context size"), (400, "prompt is too long: 9000 tokens")],
)
async def test_a_text_too_long_for_the_model_goes_to_a_human(status, text):
    refusal = reply({"error": {"message": text}}, status)
    async with once(StubPlan(raw=refusal)) as (_, sampler):
        result = await screen(TEXT, Guard(), preset("recommended"), sampler)
    assert (result.outcome, result.reason, result.node) == (Outcome.HUMAN_REVIEW, Reason.TOO_LONG, "worker")


# --- a server of one's own, which stands only so many calls at once


async def test_the_first_call_may_take_as_long_as_loading_a_model_does():
    """The library's own limit must not cut what ours allows; the second call has the usual time."""
    loading = {"adaptive": True, "call_timeout_s": 0.5, "node_deadline_s": 10.0}
    async with once(StubPlan(latency_s=1.2), **loading) as (stub, sampler):
        assert encode_draws(await sampler.draw(draw_batch(1))) == "S"
        with pytest.raises(SamplerError) as late:
            await sampler.draw(draw_batch(1))
    assert late.value.kind == "timeout" and stub.counters.requests == 2


async def test_a_server_that_answers_nobody_is_not_asked_for_every_call_of_a_draw_batch_in_turn():
    """One call at a time is let through to it: those that wait behind one that failed for good are not sent."""
    silent = {"adaptive": True, "call_timeout_s": 0.2, "node_deadline_s": 0.4}
    async with once(StubPlan(faults={Fault.HANG: 1.0}), **silent) as (stub, sampler):
        with pytest.raises(SamplerError) as failed:
            await sampler.draw(draw_batch(11))
    assert failed.value.kind in ("timeout", "deadline") and stub.counters.requests <= 2


async def test_a_server_that_stands_two_calls_at_once_loses_none_in_the_end():
    """It queues the rest beyond the time limit, as a real one does; without the adaptive limit every draw batch is
    lost."""

    class TwoAtOnce(StubServer):
        places = asyncio.Semaphore(2)

        async def _answer(self, request, body, number):
            async with self.places:
                await asyncio.sleep(0.3)
                return await super()._answer(request, body, number)

    careful = {"adaptive": True, "concurrency": 16, "call_timeout_s": 1.0, "max_retries": 6}
    async with asked(TwoAtOnce(), model=MODEL, node_deadline_s=300.0, **careful) as (stub, sampler):
        draws = await sampler.draw(draw_batch(16))
    assert encode_draws(draws) == "S" * 16 and 1 < stub.counters.max_in_flight <= 16
