"""The simulated agents: draws that nothing but their number decides, and what the scorer makes of kinds of text."""

import tomllib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from screening.labels import LABELS, Label
from screening.models.simulated import ROLES, EvidenceReader, Lexicon, SimulatedSampler, load_lexicon
from screening.pipeline.draws import Draw, DrawRequest, NodeAgent, ScreenedText, Usage, encode_draws

SAMPLER = SimulatedSampler(0)
AMBIGUOUS = ScreenedText(text="My social life is dead until the exams are over.")
TEXTS = tomllib.loads((Path(__file__).parent / "evidence.toml").read_text(encoding="utf-8"))
EVIDENCE = {kind: texts for kind, texts in TEXTS.items() if kind != "replies"}


def _request(first: int, count: int, *, text: ScreenedText = AMBIGUOUS, node: str = "worker") -> DrawRequest:
    return DrawRequest(node=node, text=text, first=first, count=count)


async def _codes(request: DrawRequest, seed: int = 0) -> str:
    return encode_draws(await SimulatedSampler(seed).draw(request))


def _evidence(text: str, reply: str | None = None) -> str:
    return SAMPLER.evidence(ScreenedText(text=text, reply=reply))


async def test_draws_are_the_same_on_every_machine_in_batches_of_any_size_and_order() -> None:
    # Pinned: the key is BLAKE2b of lengths and parts, so no process, platform or Python version enters.
    at_once = await _codes(_request(0, 60))
    assert at_once.startswith("ESEESSEEEEEEEEEESSEESESUEESSSSESSEEESEEE")
    late = await _codes(_request(40, 20))
    in_batches = await _codes(_request(0, 7)) + await _codes(_request(7, 1)) + await _codes(_request(8, 32))
    assert in_batches + late == at_once
    assert await _codes(_request(5, 0)) == ""
    assert len(await _codes(_request(0, 5, text=ScreenedText(text="I am tired \ud83d")))) == 5
    assert await SAMPLER.draw(_request(0, 1)) in ([Draw(label=label, usage=Usage())] for label in LABELS)


async def test_seed_node_text_reply_and_variant_each_make_their_own_draws() -> None:
    requests = [
        _request(0, 60),
        _request(0, 60, node="worker_again"),
        _request(0, 60, text=ScreenedText(text=AMBIGUOUS.text + " ")),
        _request(0, 60, text=ScreenedText(text=AMBIGUOUS.text, reply="")),
        DrawRequest(node="worker", text=AMBIGUOUS, first=0, count=60, variant="second_look"),
    ]
    streams = [await _codes(request) for request in requests] + [await _codes(requests[0], seed=1)]
    assert len(set(streams)) == len(streams)


async def test_draws_come_from_the_distribution_that_is_published() -> None:
    n = 10_000
    for node in ROLES:
        counts = Counter(draw.label for draw in await SAMPLER.draw(_request(0, n, node=node)))
        for label, share in SAMPLER.shares(node, AMBIGUOUS).items():
            deviation = (share * (1 - share) / n) ** 0.5
            assert abs(counts[label] / n - share) < 4 * deviation  # four standard deviations; the seed is fixed


async def test_a_node_plays_its_role_whatever_it_is_called() -> None:
    asked = _request(0, 60, node="cultural_context")
    told = replace(asked, agent=NodeAgent(role="legal"))
    legal = await SAMPLER.draw(replace(asked, agent=NodeAgent(prompt="legal_2")))
    assert await SAMPLER.draw(told) == legal != await SAMPLER.draw(asked)
    assert SAMPLER.shares("risk_confirmation", AMBIGUOUS) == SAMPLER.shares("risk", AMBIGUOUS)


@pytest.mark.timeout(30)  # an expression that goes over a text again and again would need minutes
@pytest.mark.parametrize(
    "unit", ["want to ", "i ", "a", '"', "I do not want to ", "1 ", "he said that ", "кил ", "x*", "ing"]
)
def test_no_text_of_thirty_thousand_characters_takes_long_and_its_tail_counts(unit: str) -> None:
    assert _evidence(unit * (30_000 // len(unit)) + ". I want to kill myself.") == "clear"


def test_a_lexicon_in_which_graver_evidence_reads_milder_or_shares_do_not_add_up_is_refused() -> None:
    kinds = [kind.model_dump() for kind in load_lexicon().kinds]
    for changed, words in (
        (kinds[::-1], "safe must never rise"),
        ([kind | {"risk": (0.5, 0.4, 0.2)} for kind in kinds], "risk: not a probability distribution"),
    ):
        with pytest.raises(ValidationError, match=words):
            Lexicon.model_validate(load_lexicon().model_dump() | {"kinds": changed})


@pytest.mark.parametrize("kind", EVIDENCE)
def test_texts_are_taken_for_the_evidence_that_they_hold_and_safe_is_likely_for_what_is_benign_alone(kind: str) -> None:
    assert {text: _evidence(text) for text in EVIDENCE[kind]} == dict.fromkeys(EVIDENCE[kind], kind)
    for text in EVIDENCE[kind]:
        shares = {node: SAMPLER.shares(node, ScreenedText(text=text)) for node in ROLES}
        if kind in ("benign", "clear"):
            assert shares["worker"][Label.SAFE if kind == "benign" else Label.UNSAFE] == 0.95
        else:
            assert all(each[Label.SAFE] + 0.15 < max(each.values()) for each in shares.values())


def test_the_reply_is_judged_with_what_it_answers() -> None:
    for text, reply, kind in TEXTS["replies"]:
        assert _evidence(text, reply) == kind, (text, reply)


def test_a_statement_that_begins_inside_a_milder_one_is_seen_all_the_same() -> None:
    lexicon = load_lexicon()
    statements = lexicon.statements | {"clear": ("never before did i plan to kill myself", "kill myself")}
    reader = EvidenceReader(lexicon.model_copy(update={"statements": statements}))
    assert reader.kind(ScreenedText(text="Never before did I plan to kill myself")) == "clear"
