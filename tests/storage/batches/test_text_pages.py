"""Long texts are read in small pages: what is in memory depends on no file."""

import tracemalloc

import pytest

from screening.datasets.rows import RejectedRow
from screening.review.actors import LOCAL_USER
from storage.batches import text_pages
from storage.batches.intake import add_rows, read_rejected
from storage.database import Database
from storage.research.relabelled import export_relabelled
from tests.storage.batch_of import NOW, batch

WORDS = [f"{number:05} " * 20 for number in range(12)]  # 120 characters each


def test_pages_join_without_loss(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_pages, "CHARACTERS", 300)
    batch_id = batch(db, WORDS, closed=False)
    add_rows(db, batch_id, [RejectedRow(row=row, reason="empty", detail="x" * 200) for row in range(13, 20)], NOW)
    assert [row.text for row in export_relabelled(db, LOCAL_USER.at(NOW), batch_id, "key")] == WORDS
    assert [row.row for row in read_rejected(db, LOCAL_USER, batch_id)] == list(range(13, 20))


def test_long_texts_are_not_in_memory_all_at_once(db: Database) -> None:
    batch_id, mega = batch(db, closed=False), 1_000_000
    for first in range(1, 61, 10):
        long = [RejectedRow(row=row, reason="empty", original_json="x" * mega) for row in range(first, first + 10)]
        add_rows(db, batch_id, long, NOW)
        del long
    tracemalloc.start()
    try:
        read = sum(len(row.original_json or "") for row in read_rejected(db, LOCAL_USER, batch_id))
        assert read == 60 * mega and tracemalloc.get_traced_memory()[1] < 40 * mega
    finally:
        tracemalloc.stop()
