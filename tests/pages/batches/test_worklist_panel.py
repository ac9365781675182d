"""The worklist on a batch's page: what is ticked is what is acknowledged, whatever comes in meanwhile."""

from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Dataframe

from screening.labels import Outcome
from screening.review.actors import LOCAL_USER
from screening.review.reach import Reach
from storage.database import Database
from storage.review.worklist import MOST, worklist
from tests.pages.conftest import Opener, choose_rows
from tests.storage.batch_of import batch, decide, waiting


def _listed(db: Database, batch_id: str) -> list[int]:
    return [one.row for one in worklist(db, LOCAL_USER, batch_id, MOST)[0]]


def _table(page: AppTest) -> Dataframe:
    return next(one for one in page.dataframe if "Row" in one.value.columns)


def test_what_is_ticked_is_acknowledged(open_page: Opener, page_database: Database) -> None:
    batch_id = batch(page_database, ["one", "two", "three"], reach=Reach.LIST)
    for case_id in waiting(page_database):
        decide(page_database, case_id, Outcome.UNSAFE)
    page = open_page("batches", batch=batch_id)
    assert next(one.value for one in page.caption if "estimate" in one.value).startswith("3 texts to sign off")
    choose_rows(page, _table(page), [1, 2])
    page.button(key="acknowledge").click()
    choose_rows(page, _table(page), [1, 2])
    assert _listed(page_database, batch_id) == [1] and page.success[0].value == "2 signed off."


def test_nobody_acknowledges_a_text_that_came_into_the_place_of_the_one_ticked(
    open_page: Opener, page_database: Database
) -> None:
    """Texts are settled in any order: in a full list one more moved those behind it by a place, under the ticks."""
    batch_id = batch(page_database, [f"text {row}" for row in range(60)], reach=Reach.LIST)
    late, *others = (waiting(page_database)[at] for at in (4, *range(4), *range(5, 60)))
    for case_id in others:
        decide(page_database, case_id, Outcome.UNSAFE)
    page = open_page("batches", batch=batch_id)
    assert list(_table(page).value["Row"])[:6] == [1, 2, 3, 4, 6, 7]
    shown = _table(page)
    choose_rows(page, shown, [4])
    decide(page_database, late, Outcome.UNSAFE)
    page.button(key="acknowledge").click()
    choose_rows(page, shown, [4])
    assert _listed(page_database, batch_id) == list(range(1, 61)), "the fifth text was shown to nobody"
    assert list(_table(page).value["Row"])[:6] == [1, 2, 3, 4, 5, 6] and page.button(key="acknowledge").disabled
