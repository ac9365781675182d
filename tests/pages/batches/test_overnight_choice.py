"""Batches: overnight is offered where an administrator allows it and the file is for research, and said otherwise."""

from datetime import UTC, datetime

import pytest
from streamlit.testing.v1 import AppTest

from pages.ui.labels import NOT_PRIVATE
from screening.review.actors import LOCAL_USER
from storage.batches.overnight import is_overnight
from storage.database import Database
from storage.settings_store import change, current
from tests.pages.conftest import Opener, restart, start, upload

LABELLED = "text,label\n" + "".join(f"Lecture {number} was moved to the afternoon.,safe\n" for number in range(4))


@pytest.fixture
def behind_a_model(page_database: Database, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A site behind the Messages API; nothing answers there."""
    monkeypatch.setenv("SECOND_LOOK_SAMPLER", "anthropic")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    restart()
    return page_database


def _allow(db: Database) -> None:
    now = current(db)
    change(
        db, LOCAL_USER.at(datetime.now(UTC)), now.settings.model_copy(update={"overnight_allowed": True}), now.version
    )


def _captions(page: AppTest) -> str:
    return " ".join(caption.value for caption in page.caption)


@pytest.mark.parametrize(
    ("allowed", "sampler", "more", "words"),
    [
        (False, "anthropic", "", ""),
        (True, "anthropic", "A day at sea.,\n", "Overnight is not possible: 1 of 5 rows have no reference label."),
        (True, "simulated", "", "Message batches need a model behind the Messages API."),
    ],
)
def test_it_is_offered_where_it_is_allowed_possible_and_for_research_alone(
    behind_a_model: Database,
    open_page: Opener,
    monkeypatch: pytest.MonkeyPatch,
    allowed: bool,
    sampler: str,
    more: str,
    words: str,
) -> None:
    monkeypatch.setenv("SECOND_LOOK_SAMPLER", sampler)
    restart()
    if allowed:
        _allow(behind_a_model)
    page = upload(open_page, (LABELLED + more).encode())
    assert not any(box.label.startswith("Overnight") for box in page.checkbox)
    assert words in _captions(page) and (words or "vernight" not in _captions(page))


def test_who_chooses_it_is_told_what_the_service_is_not_and_the_batch_begins_so(
    behind_a_model: Database, open_page: Opener
) -> None:
    _allow(behind_a_model)
    page = upload(open_page, LABELLED.encode())
    next(box for box in page.checkbox if box.label.startswith("Overnight")).check().run()
    assert any(NOT_PRIVATE in warning.value for warning in page.warning)
    batch_id = start(page)
    assert is_overnight(behind_a_model, batch_id)
    page = open_page("batches", batch=batch_id)
    assert "The first round has not begun." in _captions(page)
