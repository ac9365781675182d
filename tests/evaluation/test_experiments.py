"""Recording once and replaying every condition: the paper's shape, pairs on the same draws, nothing asked twice."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from screening.evaluation.experiments import (
    OUTCOMES,
    Record,
    consistent_misses,
    frontier,
    our_conditions,
    paper_conditions,
)
from screening.evaluation.metrics import compare, evaluate, outcome_codes, reference_codes
from screening.evaluation.recording import (
    DrawBook,
    Item,
    Purse,
    draw_lines,
    find_unsettled,
    growing_file,
    read_draws,
    read_growing,
    record_draws,
    run_book,
)
from screening.labels import Label, Outcome
from screening.models.simulated import KnownSampler
from screening.pipeline.draws import Draw, SamplerError, ScreenedText, Usage

OURS = our_conditions()
ALL = (*paper_conditions(), *OURS)
NEARLY_ALL_SAFE = {Label.SAFE: 0.98, Label.UNSAFE: 0.01, Label.ESCALATE: 0.01}
NEARLY_ALL_UNSAFE = {Label.SAFE: 0.01, Label.UNSAFE: 0.98, Label.ESCALATE: 0.01}


def items_of(distributions):
    """Items whose reference is the most probable label, and the agents that know their distributions."""
    texts = [ScreenedText(text=f"text {number}") for number in range(len(distributions))]
    modes = [max((Label.SAFE, Label.UNSAFE), key=shares.__getitem__) for shares in distributions]
    items = tuple(Item(id=text.text, text=text, reference=mode) for text, mode in zip(texts, modes, strict=True))
    return items, KnownSampler(0, dict(zip(texts, distributions, strict=True)))


class Counting:
    """Passes requests on and keeps which draws were asked for."""

    def __init__(self, live, tokens=0):
        self.live, self.spent, self.asked = live, Usage(input_tokens=tokens), []

    async def draw(self, request):
        self.asked += [(request.text.text, request.node, request.first + more) for more in range(request.count)]
        return [Draw(label=draw.label, usage=self.spent) for draw in await self.live.draw(replace(request, bill=None))]


def recorded(distributions):
    """All draws that any condition needs of them."""
    items, sampler = items_of(distributions)
    book = DrawBook(items)
    asyncio.run(record_draws(ALL, book, sampler))
    return book


def test_the_sweep_has_the_paper_s_shape_and_ours_decides_at_a_tenth_of_the_calls():
    book = recorded([NEARLY_ALL_SAFE] * 20 + [NEARLY_ALL_UNSAFE] * 20)
    results = run_book(ALL, book)[0]
    found = {result.name: result for result in results}
    # 3 rounds of 3 at each of 3 nodes, the tenth call buys no round; 16 rounds of 3, as the paper pays them
    for impossible, calls in (("B=10", 27), ("B=50", 144)):
        assert (found[impossible].accuracy.value, found[impossible].escalation_rate.value) == (None, 1)
        assert found[impossible].mean_calls == calls
    assert 0 < found["B=75"].accuracy.denominator < found["B=100"].accuracy.denominator  # 75 is the first that decides
    ours, paper = found["pairwise δ=0.05"], found["B=100"]
    assert ours.accuracy.denominator == 40 and ours.accuracy.value == 1
    assert ours.mean_calls <= paper.mean_calls / 10
    assert not any(result.unsettled for result in results)


def test_no_draw_is_asked_for_twice_and_none_that_no_condition_needs():
    split = {Label.SAFE: 0.45, Label.UNSAFE: 0.4, Label.ESCALATE: 0.15}
    items, live = items_of([NEARLY_ALL_SAFE, split] * 3)
    book, sampler = DrawBook(items), Counting(live)
    fetched, _ = asyncio.run(record_draws(ALL, book, sampler))
    assert len(set(sampler.asked)) == len(sampler.asked) == fetched == book.draws
    assert asyncio.run(record_draws(ALL, book, sampler)) == (0, {})
    assert max(number for _, _, number in sampler.asked) + 1 == 150  # the largest budget of any condition


def test_cases_short_of_draws_are_counted_and_never_decided():
    items, live = items_of([NEARLY_ALL_SAFE] * 5)
    book, failing = DrawBook(items), Breaking(live, 0, stops_batch=False)
    _, failed = asyncio.run(record_draws(ALL, book, failing))
    assert failed == {"overloaded": 5} and failing.asked == 5  # once a case, not once a condition
    for result in run_book(ALL, book)[0]:
        assert (result.unsettled, result.n, result.pending) == (5, 0, 5)
        assert result.accuracy.value is None
    pointless = Breaking(live, 0)
    asyncio.run(record_draws(ALL, DrawBook(items), pointless, concurrency=2))
    assert pointless.asked <= 2, "an error that makes going on pointless ends the pass"


def test_offline_no_rate_is_that_of_the_texts_that_a_short_record_settles():
    """The certified rule calls unsafe after 5 alike answers and safe after 11, Ville's levels need 6: of what was
    recorded they settle what was labeled safe, so that every unsafe text looks missed.
    """
    items, _ = items_of([NEARLY_ALL_SAFE] * 3 + [NEARLY_ALL_UNSAFE] * 2)
    record = Record.from_codes({"worker": ["S" * 72, "S" * 11, "S" * 11, "S" * 11, "U" * 5]})
    references = reference_codes([item.reference for item in items])
    record = replace(record, references=references, subset=np.arange(5) == 4)
    found = {result.name: result for result, _ in map(record.measure, ALL)}
    assert [found[name].unsettled for name in ("certified", "recommended", "B=100", "B=50")] == [0, 1, 4, 5]
    whole, short = found["certified"], found["recommended"]
    assert (short.n, short.mean_calls, short.cost_usd) == (4, None, None) and frontier((short,)) == ()
    assert (whole.fnr.value, whole.subset_fnr.value, short.subset_fnr.unsettled) == (0.5, 0.0, 1)
    for name in ("accuracy", "fpr", "fnr", "escalation_rate"):
        limits, final = getattr(short, name), getattr(whole, name)
        assert final.value is not None and limits.low <= final.value <= limits.high
        assert limits.value is None or name == "fpr"


def test_tokens_and_costs_follow_the_draws_used_and_one_unknown_makes_them_undefined():
    items, live = items_of([NEARLY_ALL_SAFE] * 3)
    book, prices = DrawBook(items), lambda usage: usage.input_tokens / 1000
    asyncio.run(record_draws(ALL, book, Counting(live, tokens=10), price=prices))
    for some in (book, read_draws(draw_lines(book), items)):
        for result in run_book(ALL, some)[0]:
            assert result.tokens == 10 * (result.calls or 0)
            assert result.cost_usd == pytest.approx(0.01 * (result.calls or 0))
    book.of(0, "worker").tokens = None
    assert all(result.tokens is None for result in run_book(ALL, book)[0])
    few = DrawBook(items)
    asyncio.run(record_draws(OURS, few, Counting(live, tokens=10), price=prices))
    assert {bool(each.unsettled): each.cost_usd is None for each in run_book(ALL, few)[0]} == {False: False, True: True}
    later = DrawBook(items)
    asyncio.run(record_draws(OURS, later, Counting(live, tokens=10), price=prices))
    asyncio.run(record_draws(ALL, later, Counting(live, tokens=10)))  # the rest at an unknown price
    assert all(result.cost_usd is None for result in run_book(ALL, later)[0])
    for line in ('{"id": "text 0", "node": "worker", "draws": "SX"}', "SSS", '{"id": "text 0", "draws": "S"}'):
        with pytest.raises(ValueError, match="line 2"):
            read_draws(["", line], items)


def test_consistently_missed_are_those_that_every_deciding_condition_calls_safe():
    book = recorded([NEARLY_ALL_SAFE, NEARLY_ALL_UNSAFE, NEARLY_ALL_SAFE])
    _, results = run_book([each for each in ALL if each.name in ("B=10", "B=150", "recommended")], book)
    references, outcomes = reference_codes([Label.UNSAFE, Label.UNSAFE, Label.SAFE]), [told.outcome for told in results]
    assert [OUTCOMES[codes[0]] for codes in outcomes] == [Outcome.HUMAN_REVIEW, Outcome.SAFE, Outcome.SAFE]
    for some, by, deciders in ((outcomes[:1], [0, 0, 0], 0), (outcomes[:2], [1, 0, 0], 1), (outcomes, [2, 0, 0], 2)):
        missed, deciding = consistent_misses(references, some)
        assert (missed.tolist(), deciding) == (by, deciders)


class Breaking:
    """Answers a draw batch out of order, and breaks down after so many answers: those that came were paid for."""

    def __init__(self, live, answers, *, stops_batch=True):
        self.live, self.left, self.made, self.asked = live, answers, list[tuple[str, int]](), 0
        self.error = SamplerError("overloaded", "no answer", stops_batch=stops_batch)

    async def draw(self, request):
        self.asked += 1
        draws = await self.live.draw(replace(request, bill=None))
        for place in (*range(1, len(draws), 2), *range(0, len(draws), 2)):
            if not self.left:
                raise self.error
            self.left -= 1
            self.made.append((request.text.text, request.first + place))
            assert request.bill is not None
            request.bill.record_answer(place, draws[place])
        return draws


@pytest.mark.parametrize("answers", [0, 1, 3, 7, 40])
def test_no_paid_answer_is_lost_or_asked_for_twice_wherever_it_breaks_off(answers, tmp_path):
    items, live = items_of([NEARLY_ALL_SAFE] * 3)
    path = tmp_path / "draws.jsonl"
    first = Breaking(live, answers)
    with growing_file(path, book := DrawBook(items)) as keep:
        asyncio.run(record_draws(OURS, book, first, keep=keep, concurrency=1))
        as_killed = path.read_text()
    for cut in (as_killed, as_killed + '{"id": "text', path.read_text()):  # killed, killed while it wrote, ended
        path.write_text(cut)
        book = read_growing(path, items)
        assert book.draws + sum(len(each.ahead) for each in book.nodes.values()) == len(first.made)
        second = Breaking(live, 10_000)
        asyncio.run(record_draws(OURS, book, second))
        assert not set(first.made) & set(second.made)
        assert not find_unsettled(OURS, book)
    whole = DrawBook(items)
    asyncio.run(record_draws(OURS, whole, live))
    assert {key: each.codes for key, each in book.nodes.items()} == {k: each.codes for k, each in whole.nodes.items()}


def test_a_recording_ends_before_it_costs_more_than_it_may():
    items, live = items_of([NEARLY_ALL_SAFE] * 40)
    book, purse = DrawBook(items), Purse(most_usd=1.0, per_call=0.005)
    paid = {"price": lambda _usage: 0.01, "purse": purse, "concurrency": 4}
    _, failed = asyncio.run(record_draws(OURS, book, Counting(live, tokens=10), **paid))
    assert failed.keys() == {"max_usd"} and 0.7 < purse.spent_usd <= 1.0 + 1e-9
    assert purse.spent_usd == pytest.approx(0.01 * book.draws)


def _result(name, calls, right, wrong, escalated):
    told = [Outcome.SAFE] * right + [Outcome.UNSAFE] * wrong + [Outcome.HUMAN_REVIEW] * escalated
    references = reference_codes([Label.SAFE] * len(told))
    metrics = evaluate(references, outcome_codes(told), calls=np.full(len(told), calls))
    return replace(metrics, name=name)


def test_the_front_is_of_all_texts_and_never_goes_down():
    """Who decides a tenth well is beaten by who decides all nearly as well; of two that do the same the first stays."""
    every = [
        _result("few", 9, 20, 0, 180),  # 10% of all
        _result("all", 10, 190, 10, 0),  # 95%
        _result("twin", 10, 190, 0, 10),
        _result("beaten", 12, 180, 0, 20),
        _result("dear", 70, 191, 9, 0),
    ]
    for order in (every, every[::-1]):
        kept = frontier(order)
        assert [each.name for each in kept] == ["few", "all" if order is every else "twin", "dear"]
        shares = [each.worst.accuracy.value or 0.0 for each in kept]
        assert shares == sorted(shares) and len(set(shares)) == len(shares)


def test_two_conditions_are_compared_on_the_cases_that_both_settle():
    book = recorded([NEARLY_ALL_SAFE] * 12 + [NEARLY_ALL_UNSAFE] * 8)
    found = {told.name: told for told in run_book(ALL, book)[1]}
    labels = reference_codes([Label.UNSAFE, *(item.reference for item in book.items[1:])])
    (same,) = compare(labels, found["B=100"], [found["B=100"]])
    assert (same.only_first, same.only_second, same.p_value) == (0, 0, 1.0)
    (other,) = compare(labels, found["B=10"], [found["certified"]])  # the one decides nothing, the other all
    differences = dict(other.differences)
    assert other.only_first == 0 and other.only_second == 19 and other.p_value == pytest.approx(2 / 2**19)
    assert differences["Decided correctly"].value == pytest.approx(19 / 20)
    assert differences["False negative (missed)"].value == pytest.approx(1 / 9)
    assert differences["Escalated"].value == -1.0 and differences["Calls a text"].n == 20
    others = [found[name] for name in ("certified", "recommended", "MV n=5")]
    together = compare(labels, found["B=10"], others)
    assert [each.second for each in together] == ["certified", "recommended", "MV n=5"]
    wide, narrow = dict(together[0].differences)["Calls a text"], differences["Calls a text"]
    assert wide.confidence == pytest.approx(1 - 0.05 / 3)
    assert wide.high - wide.low >= narrow.high - narrow.low > 0
