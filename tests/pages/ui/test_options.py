"""Options that look alike: each is told from the other, and the one chosen is the one acted on."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select, update
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Selectbox

from pages.research.choices import batch_titles
from pages.ui.widgets import unique_labels
from screening.review.actors import LOCAL_USER, Actor, Role
from storage.batches import counts
from storage.batches.batches import list_batches
from storage.database import Database
from storage.identifiers import new_id
from storage.review import claims, inbox, ratings
from storage.schema import cases, inbox_entries
from storage.site.accounts import list_accounts
from tests.pages.conftest import Opener
from tests.pages.review.desk import ask, desk
from tests.storage.batch_of import batch
from tests.storage.inbox_cases import ADMIN, NOW, fill, form, register

ONE = Actor(id="kim1", name="Dr Kim", roles=frozenset({Role.REVIEWER}))
TWO = Actor(id="kim2", name="Dr Kim", roles=frozenset({Role.REVIEWER}))
PIECES = st.text(st.sampled_from("aA ·x'\\\ud83d"), max_size=12)


def _box(page: AppTest, label: str) -> Selectbox:
    return next(box for box in page.selectbox if box.label == label)


def _press(page: AppTest, label: str) -> AppTest:
    page = next(button for button in page.button if button.label == label).click().run()
    assert not page.exception, page.exception
    return page


@given(st.dictionaries(PIECES, PIECES, max_size=6))
def test_no_two_options_have_the_same_words(words: dict[str, str]) -> None:
    assert len(set(unique_labels(words).values())) == len(words)


def test_a_name_made_up_after_the_end_of_another_key_is_no_way_in() -> None:
    words = {"1" * 32: "Kim", "2" * 32: "Kim", "3" * 32: "Kim · 111111"}
    shown = unique_labels(words)
    assert len(set(shown.values())) == 3 and all(said.endswith(f" · {key}") for key, said in shown.items())


def test_of_two_accounts_of_one_name_the_one_chosen_gets_the_role(open_page: Opener, page_database: Database) -> None:
    register(page_database, ADMIN, ONE, TWO)
    page = open_page("settings")
    place = [account.id for account in list_accounts(page_database, LOCAL_USER)].index("kim1")
    page = _box(page, "Account").select_index(place).run()
    page.multiselect(key="roles_kim1_reviewer").set_value([Role.SENIOR])
    page = _press(page, "Save roles")
    roles = {account.id: account.roles for account in list_accounts(page_database, LOCAL_USER)}
    assert roles["kim1"] == {Role.SENIOR} and roles["kim2"] == {Role.REVIEWER}
    assert _box(page, "Account").value == "kim1", "the next press is for the same account"


def test_of_two_colleagues_of_one_name_the_one_chosen_gets_the_case(open_page: Opener, page_database: Database) -> None:
    register(page_database, ONE, TWO)
    [case_id] = fill(page_database)
    claims.claim(page_database, LOCAL_USER.at(datetime.now(UTC)), case_id)
    page = open_page("inbox", case=case_id)
    names = dict(map(reversed, desk(page)["case"]["colleagues"]))
    assert len(names) == 2, "told apart"
    ask(page, "hand_over", note="please read it", to=next(to for name, to in names.items() if to == "kim1"))
    assert page_database.value(select(inbox_entries.c.assignee)) == "kim1"


def test_batches_of_one_file_name_and_minute_are_told_apart(page_database: Database) -> None:
    made = batch(page_database), batch(page_database)
    titles = batch_titles(list_batches(page_database, LOCAL_USER))
    assert titles == {key: f"posts.csv · 2026-11-20 12:00 UTC · 0 texts · {key[-6:]}" for key in made}


@pytest.mark.parametrize("name", ["errors", "evaluation", "label_noise"])
def test_of_two_batches_of_one_name_the_one_chosen_is_shown(
    open_page: Opener, page_database: Database, name: str
) -> None:
    made = batch(page_database, ["a"]), batch(page_database, ["b"])
    for chosen in (*made, *made):
        page = open_page(name, batch=next(other for other in made if other != chosen))
        page = _box(page, "Batch").set_value(chosen).run()
        assert not page.exception and _box(page, "Batch").value == chosen
        assert page.query_params["batch"] in (chosen, [chosen])


def test_agreement_in_the_older_of_two_batches_of_one_name(open_page: Opener, page_database: Database) -> None:
    [older], [newer] = fill(page_database), fill(page_database)
    claim = claims.claim(page_database, LOCAL_USER.at(datetime.now(UTC)), older)
    reading = form("safe", 5), new_id(datetime.now(UTC))
    ratings.submit_rating(page_database, LOCAL_USER.at(datetime.now(UTC)), older, claim.token, *reading)
    with page_database.write() as conn:
        found = {row.id: row.batch_id for row in conn.execute(select(cases.c.id, cases.c.batch_id))}
        for batch_id in found.values():
            counts.open_tallies(conn, batch_id)
    page = open_page("agreement")
    page = _box(page, "Batch").set_value(found[older]).run()
    assert page.metric[0].value == "1"
    page = _box(page, "Batch").set_value(found[newer]).run()
    assert "No closed case" in page.info[0].value


def test_the_audit_log_tells_people_of_one_name_apart(open_page: Opener, page_database: Database) -> None:
    register(page_database, ONE, TWO)
    [case_id] = fill(page_database)
    for who in (ONE, TWO):
        claim = claims.claim_next(page_database, who.at(NOW))
        assert claim is not None
        inbox.decline(page_database, who.at(NOW), case_id, claim.token)
    page = open_page("audit")
    page = _box(page, "Person").set_value("kim1").run()
    assert set(page.dataframe[0].value["Who"]) == {"Dr Kim · kim1"}


def test_groups_that_differ_by_what_is_not_shown_are_two(open_page: Opener, page_database: Database) -> None:
    batch_id = batch(page_database, ["a", "b"], references="SS")
    with page_database.write() as conn:
        for row, group in ((1, "north\u202e"), (2, "north⟨U+202E⟩")):
            conn.execute(update(cases).where(cases.c.row == row).values(group_name=group))
    page = open_page("errors", batch=batch_id)
    box = _box(page, "Group")
    assert len(set(box.options)) == 2
    for group in ("north\u202e", "north⟨U+202E⟩"):
        assert _box(_box(page, "Group").set_value(group).run(), "Group").value == group
