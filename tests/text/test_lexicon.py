"""What is looked for only where it can stand is what would be found everywhere, and long texts are read in time."""

import random
import re
import time

import pytest

from screening.text.injection import injection_flags
from screening.text.lexicon import Lexicon, Readings, alternatives, required_words
from screening.text.received import receive
from screening.text.risk_statements import risk_statements
from tests.injection.suite import read_probes
from tests.text.sentences import ENGLISH, ORDINARY, STATED

QUIET = [text for text in (*ORDINARY, *ENGLISH) if " " in text and not risk_statements(text)]


def test_what_a_match_must_hold() -> None:
    for expression, needed in {
        "abc(?:de)?(?:fg|hi)": {"abcfg", "abchi", "abcdefg", "abcdehi"},
        r"\bkill\b.{0,9}\b(?:this|that)\b": {"kill"},
        "(?:abcd|efgh)|ijkl": {"abcd", "efgh", "ijkl"},
        "(?:abcd|.)x": None,
        "(?:abcd)*x": None,
        "(?:abcd){0,2}": None,
        "(?:abcd){2,}": {"abcd"},
        "(?=abcd)x(?!efgh)": None,
        r"ab\x63d\u0065efgh": {"efgh"},
        r"a[|)b]cd": {"a|cd", "a)cd", "abcd"},
        r"[^a]bcd[x-z]": {"bcd"},
        "死にたい": {"死にたい"},
        r"a\.b\|c": {"a.b|c"},
    }.items():
        assert required_words(expression) == needed, expression
    assert list(alternatives(r"(a|b)c|[|]\||d")) == ["(a|b)c", r"[|]\|", "d"]


@pytest.mark.parametrize(
    ("name", "sections"), [("risk_statements", ("statements", "others", "unspaced")), ("injection", ("strong", "weak"))]
)
def test_no_match_is_lost_to_what_is_needed(name: str, sections: tuple[str, ...]) -> None:
    """Every expression of the lists that matches a text would have been tried on it."""
    wordings = list(Lexicon(name).wordings(*sections, compiled=re.compile))
    tried = 0
    for text in (*STATED, *ORDINARY[::4], *(one.text for one in read_probes("attacks.jsonl"))):
        among = f" {text.lower()} "
        found = {id(one) for one, _ in Readings().look_for(wordings, among)}
        matching = [one for one in wordings if one.expression.search(among)]
        assert [one.expression.pattern for one in matching if id(one) not in found] == [], text
        tried += len(matching)
    assert tried >= 40


def _long(rng: random.Random, least: int) -> list[str]:
    parts: list[str] = []
    while sum(map(len, parts)) < least:
        parts.append(rng.choice(QUIET))
    return parts


@pytest.mark.parametrize(
    "hidden",
    [
        "I w4nt t0 d13",
        "I am going to k i l l myself",
        "I will kill&nbsp;myself tonight",
        "I don&#39;t want to live anymore",
    ],
)
def test_a_disguised_statement_is_found_wherever_it_stands_in_a_long_text(hidden: str) -> None:
    alone = {one.kind for one in risk_statements(hidden)}
    for length, share in ((500, 0.0), (3_000, 0.3), (6_000, 1.0)):
        parts = _long(random.Random(hidden), length)
        parts.insert(round(share * len(parts)), hidden)
        assert alone and alone <= {one.kind for one in risk_statements(". ".join(parts))}


def test_a_text_eight_times_as_long_takes_no_more_than_its_share() -> None:
    """Eight times is what is owed; what tries every pair of places would take sixty-four times."""

    def seconds(length: int) -> float:
        text = ". ".join(_long(random.Random(1), length))
        begun = time.process_time()
        receive(text, detectors=[injection_flags])
        return time.process_time() - begun

    seconds(1_000)  # compiles the patterns
    assert seconds(8_000) < 24 * max(seconds(1_000) for _ in range(2))
