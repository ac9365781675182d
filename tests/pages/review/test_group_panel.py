"""Other texts of the same author or group, on the inbox: offered with the case on the desk, shown when asked for."""

from sqlalchemy import select, update
from streamlit.testing.v1 import AppTest

from screening.review.triage import Tier
from storage.database import Database
from storage.schema import audit_events, cases
from tests.pages.conftest import Opener
from tests.pages.review.desk import save, take_next
from tests.storage.inbox_cases import fill

HOSTILE = "<b>near</b> ![x](http://out.example/a.png)"


def _keys(page: AppTest) -> set[str]:
    return {str(button.key) for button in page.button}


def _shown(page: AppTest) -> str:
    return " ".join(element.proto.body for element in page.get("html"))


def test_they_are_shown_when_asked_for_and_gone_with_the_next_case(open_page: Opener, page_database: Database) -> None:
    ids = fill(page_database, [Tier.P1, Tier.P3, Tier.P3])
    with page_database.write() as conn:
        conn.execute(update(cases).where(cases.c.id.in_(ids[:2])).values(group_name="author 7"))
        conn.execute(update(cases).where(cases.c.id == ids[1]).values(text=HOSTILE))
    page = open_page("inbox")
    assert "show_group" not in _keys(page)
    page = take_next(page)
    assert page.button(key="show_group").label == "One other text of the same author or group"
    assert "near" not in _shown(page)
    page.button(key="show_group").click().run()
    assert not page.exception
    assert "&lt;b&gt;near&lt;/b&gt;" in _shown(page) and HOSTILE not in _shown(page)
    with page_database.read() as conn:
        seen = conn.execute(select(audit_events.c.subject).where(audit_events.c.action == "near_text_viewed"))
        assert set(seen.scalars()) == {ids[1]}
    page.button(key="hide_group").click().run()
    assert "near" not in _shown(page)
    page = take_next(save(page))
    page = take_next(save(page))
    assert "show_group" not in _keys(page), "the last one has no group"
