"""The index of texts finds what is open, forgets what was closed, and nothing of what was erased is left in it."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy import insert, select, text, update

from screening.review.triage import Tier
from screening.text.word_parts import parts_needed
from storage.database import Database
from storage.review import claims, erasure, search, text_index
from storage.review.erasure import By, Selection
from storage.review.ratings import submit_rating
from storage.review.search import Search, find
from storage.review.taking_back import take_back
from storage.schema import batch_events, batches, cases, inbox_entries, open_texts, texts_to_index
from tests.databases import write
from tests.storage.inbox_cases import ADMIN, ANN, BO, NOW, SENIOR, fill, form, register

WORD = "zanzibarquince"


def with_texts(db: Database, *texts: str) -> list[str]:
    """Open cases of these texts."""
    ids = fill(db, [Tier.P2] * len(texts))
    with db.write() as conn:
        for case_id, written in zip(ids, texts, strict=True):
            conn.execute(update(cases).where(cases.c.id == case_id).values(text=written, model_text=None, reply=None))
    return ids


def found(db: Database, words: str) -> list[str]:
    return [each.case_id for each in find(db, SENIOR.at(NOW), Search(words=words, texts=True))]


def indexed(db: Database) -> set[str]:
    return set(db.values(select(open_texts.c.case_id)))


def by_index(db: Database, words: str) -> list[str]:
    with db.read() as conn:
        return sorted(text_index.find_candidates(conn, words) or ())


def test_texts_are_found_before_and_after_the_index_has_them(db: Database) -> None:
    bridge, chinese = with_texts(db, "The Bridge at night", "我今晚想自杀")
    expected = {"bridge nigh": [bridge], "自杀": [chinese], "杀": [chinese], "bridge 自杀": [], "ridges": []}
    assert {words: found(db, words) for words in expected} == expected
    assert by_index(db, "bridge") == []
    assert text_index.catch_up(db) == 2 and text_index.catch_up(db) == 0
    assert {words: found(db, words) for words in expected} == expected
    assert by_index(db, "bridge") == [bridge]


def test_the_index_alone_finds_them_once_it_has_caught_up(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    *_, last = with_texts(db, *["a day like others"] * 12, "the bridge")
    text_index.catch_up(db)
    monkeypatch.setattr(search, "FIRST_READ", 3)
    assert found(db, "bridge") == [last]


def test_words_of_very_many_are_found_among_those_due_first(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with_texts(db, *["a day like others"] * 12)
    text_index.catch_up(db)
    monkeypatch.setattr(text_index, "MOST_FOUND", 5)
    monkeypatch.setattr(search, "FIRST_READ", 3)
    assert len(found(db, "others")) == 3


def _close(db: Database, case_id: str) -> str:
    claim = claims.claim(db, SENIOR.at(NOW), case_id)
    submit_rating(db, SENIOR.at(NOW), case_id, claim.token, form("unsafe", 5), "a" * 32)
    return claim.token


def test_a_closed_case_leaves_and_one_taken_back_returns(db: Database) -> None:
    register(db, ANN, BO, SENIOR)
    first, second = with_texts(db, f"{WORD} one", f"{WORD} two")
    text_index.catch_up(db)
    _close(db, first)
    assert found(db, WORD) == [second], "at once, whatever the index still has"
    text_index.catch_up(db)
    assert indexed(db) == {second} and by_index(db, WORD) == [second]
    take_back(db, SENIOR.at(NOW + timedelta(seconds=5)), first, "a" * 32)
    text_index.catch_up(db)
    assert indexed(db) == {first, second} and by_index(db, WORD) == sorted((first, second))


def test_a_case_that_leaves_before_it_was_indexed_is_not_taken_in(db: Database) -> None:
    (case_id,) = with_texts(db, WORD)
    write(db, inbox_entries.delete().where(inbox_entries.c.case_id == case_id))
    text_index.catch_up(db)
    assert indexed(db) == set()
    assert db.rows(select(texts_to_index)) == []


def _erased(db: Database, ids: list[str]) -> None:
    with db.write() as conn:
        conn.execute(update(cases).where(cases.c.id.in_(ids)).values(group_name="gone"))
        batch = conn.execute(select(batches.c.id)).scalar_one()
        event = {"batch_id": batch, "event": "intake_closed", "detail": {}, "actor": "rae", "at": NOW}
        conn.execute(insert(batch_events).values(event))
    erasure.erase(db, ADMIN.at(NOW), Selection(by=By.GROUP, value="gone"), "asked for by letter")


@pytest.mark.parametrize("before", [lambda db, case_id: None, _close])
def test_what_is_erased_is_in_the_index_no_more(db: Database, before: Callable[[Database, str], object]) -> None:
    register(db, ANN, BO, SENIOR)
    first, second = with_texts(db, f"{WORD} one", "another day")
    text_index.catch_up(db)
    before(db, first)
    text_index.catch_up(db)
    _erased(db, [first])
    text_index.catch_up(db)
    assert found(db, WORD) == by_index(db, WORD) == [] and indexed(db) == {second}
    assert by_index(db, "another") == [second], "the rest is found as before"


def test_no_piece_of_an_erased_word_is_left_in_an_embedded_database(sqlite_url: str) -> None:
    db = Database(sqlite_url)
    register(db, ANN, BO, SENIOR)
    first, _second = with_texts(db, f"{WORD} one", "another day")
    text_index.catch_up(db)
    pieces = "SELECT count(*) FROM open_text_parts_data WHERE instr(block, :piece)"
    first_piece = text_index._words(parts_needed("zanz"))[0]
    term = {"piece": first_piece[2:].encode()}  # of one like the term before it, only what differs is kept
    assert db.value(text(pieces), term) > 0
    _erased(db, [first])
    assert db.value(text(pieces), term) == 0
    db.close()


def test_others_may_write_while_the_pieces_of_words_are_found_and_between_two_transactions(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where very many came in at once it goes on for minutes: whoever saves a reading must not wait for it."""
    with_texts(db, *[f"{WORD} {number}" for number in range(3)])
    find_parts, wrote, slept = text_index.parts_of, [], []

    def beside_a_writer(written: str) -> frozenset[int]:
        with db.write() as conn:  # would wait for the lock of the index's own transaction, in vain
            wrote.append(conn.execute(update(cases).values(priority=1)).rowcount)
        return find_parts(written)

    monkeypatch.setattr(text_index, "parts_of", beside_a_writer)
    monkeypatch.setattr(text_index, "AT_ONCE", 2)
    monkeypatch.setattr(text_index, "sleep", slept.append)
    assert text_index.catch_up(db) == 3
    assert wrote == [3] * 3 and len(slept) == 2 and all(slept)


def test_a_text_that_was_changed_after_it_was_read_is_taken_in_as_it_is_then(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    (case_id,) = with_texts(db, "the bridge")
    find_parts = text_index.parts_of

    def changed_meanwhile(written: str) -> frozenset[int]:
        if written == "the bridge":
            write(db, update(cases).values(text="the river"))
        return find_parts(written)

    monkeypatch.setattr(text_index, "parts_of", changed_meanwhile)
    text_index.catch_up(db)
    assert (by_index(db, "bridge"), by_index(db, "river")) == ([], [case_id])
