"""Options that look alike: each is told from the other, and the one chosen is the one acted on."""

from datetime import UTC, datetime

from hypothesis import example, given
from hypothesis import strategies as st
from sqlalchemy import select

from pages.ui.widgets import batch_titles, unique_labels
from screening.review.actors import LOCAL_USER, Actor, Role
from storage.batches.batches import list_batches
from storage.database import Database
from storage.review import claims
from storage.schema import inbox_entries
from tests.pages.review.desk import OpenDesk
from tests.storage.batch_of import batch
from tests.storage.inbox_cases import fill, register

ONE = Actor(id="kim1", name="Dr Kim", roles=frozenset({Role.REVIEWER}))
TWO = Actor(id="kim2", name="Dr Kim", roles=frozenset({Role.REVIEWER}))
PIECES = st.text(st.sampled_from("aA ·x'\\\ud83d"), max_size=12)


@given(st.dictionaries(PIECES, PIECES, max_size=6))
@example({"1" * 32: "Kim", "2" * 32: "Kim", "3" * 32: "Kim · 111111"})  # named after the end of another's key
def test_no_two_options_have_the_same_words(words: dict[str, str]) -> None:
    assert len(set(unique_labels(words).values())) == len(words)


def test_of_two_colleagues_of_one_name_the_one_chosen_gets_the_case(page_database: Database) -> None:
    register(page_database, ONE, TWO)
    [case_id] = fill(page_database)
    claims.claim(page_database, LOCAL_USER.at(datetime.now(UTC)), case_id)
    page = OpenDesk(case=case_id)
    names = [name for _, name in page["case"]["colleagues"]]
    assert len(set(names)) == 2, "told apart"
    page.ask("hand_over", note="please read it", to="kim1")
    assert page_database.value(select(inbox_entries.c.assignee)) == "kim1"


def test_batches_of_one_file_name_and_minute_are_told_apart(page_database: Database) -> None:
    made = batch(page_database), batch(page_database)
    titles = batch_titles(list_batches(page_database, LOCAL_USER))
    assert titles.keys() == set(made) and len(set(titles.values())) == 2
