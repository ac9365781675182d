"""The same press twice is one: texts, batches, settings, decisions on a case."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from sqlalchemy import func, select

from screening.datasets.rows import NewCase
from screening.review.actors import LOCAL_USER
from screening.text.received import receive
from storage.batches.batches import NewBatch
from storage.batches.configurations import save_configuration
from storage.batches.single_texts import submit
from storage.database import Database
from storage.schema import batches, cases, pending_cases
from storage.settings_store import SiteSettings, StaleSettings, change
from tests.storage.batch_of import CONFIGURATION
from tests.storage.inbox_cases import ADMIN, NOW


def hand_in(db: Database, key: str | None) -> str:
    version = save_configuration(db, CONFIGURATION, NOW)
    new = NewBatch(name="one", configuration_version=version, seed=1, kind="interactive", submission=key)
    return submit(
        db, LOCAL_USER.at(NOW), NewCase(row=1, external_id="text", text=receive("Some words to screen.")), new
    )


def _counts(db: Database) -> list[int]:
    return [db.value(select(func.count()).select_from(one)) for one in (batches, cases, pending_cases)]


def test_a_text_handed_in_twice_under_one_key_is_one_case(db: Database) -> None:
    assert hand_in(db, "press 1") == hand_in(db, "press 1")
    assert _counts(db) == [1, 1, 1]
    assert hand_in(db, "press 2") != hand_in(db, None)
    assert _counts(db) == [3, 3, 3]


def test_so_it_is_when_both_arrive_at_the_same_moment(db: Database) -> None:
    together = Barrier(4)
    save_configuration(db, CONFIGURATION, NOW)

    def press() -> str:
        together.wait()
        return hand_in(db, "press 1")

    with ThreadPoolExecutor(4) as pool:
        found = {future.result() for future in [pool.submit(press) for _ in range(4)]}
    assert len(found) == 1 and _counts(db) == [1, 1, 1]


def test_settings_saved_twice_are_one_version_and_a_colleague_s_are_stale(db: Database) -> None:
    wanted = SiteSettings(lease_minutes=20)
    assert [change(db, ADMIN.at(NOW), wanted, 0).version for _ in range(2)] == [1, 1]
    with pytest.raises(StaleSettings):
        change(db, LOCAL_USER.at(NOW), wanted, 0)
    with pytest.raises(StaleSettings):
        change(db, ADMIN.at(NOW), SiteSettings(lease_minutes=25), 0)
