"""Parts of many pages: options told apart, figures computed beside, and the banner of what keeps texts waiting."""

import time
from collections.abc import Callable
from datetime import timedelta
from itertools import product
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sqlalchemy import update

from jobs.computing import NotComputed
from jobs.process import system_clock
from pages.review.routes import View, snapshot
from pages.ui import context, shell, widgets
from pages.ui.context import compute, compute_again, compute_meanwhile
from pages.ui.words import error_words
from screening.pipeline.files import NO_LABEL
from screening.review.policy import LOCAL_USER
from storage.batches import intake, pending
from storage.batches.batch_state import BatchState
from storage.batches.entries import NO_WORKER, StalledBatch
from storage.database import Database
from storage.schema import pending_cases
from storage.settings_store import SiteSettings
from storage.site import health, outbox
from tests.databases import write
from tests.jobs.running import batch, open_batch_of
from tests.pages.conftest import Opener, words_on
from tests.storage import batch_of

PIECES = st.text(st.sampled_from("aA ·x'\\\ud83d"), max_size=12)


@given(st.dictionaries(PIECES, PIECES, max_size=6))
@example({"1" * 32: "Kim", "2" * 32: "Kim", "3" * 32: "Kim · 111111"})  # named after the end of another's key
def test_no_two_options_have_the_same_words(words: dict[str, str]) -> None:
    assert len(set(widgets.unique_labels(words).values())) == len(words)


def named(_db: Database, folder: str) -> str:
    """What stands in the file, once it is there; it is taken away."""
    file = Path(folder) / "now"
    eventually(lambda: file.exists() or None)
    words = file.read_text(encoding="utf-8")
    file.unlink()
    if words == "bad":
        raise ValueError("the words of a text")
    return words


def eventually(look: Callable[[], object]) -> object:
    until = time.monotonic() + 60
    while (found := look()) is None and time.monotonic() < until:
        time.sleep(0.02)
    return found


def test_nobody_waits_and_values_are_kept(page_database: Database, tmp_path: Path) -> None:
    """What is computed for an earlier moment is not taken for that of a later one; what failed is told, and tried
    again.
    """
    folder = str(tmp_path)

    def put(words: str) -> None:
        (tmp_path / "next").write_text(words, encoding="utf-8")
        (tmp_path / "next").rename(tmp_path / "now")  # whole from the first moment

    put("one")
    assert [compute(named, folder, standing=1, cases=1) for _ in range(2)] == ["one"] * 2
    assert compute_meanwhile(named, folder, standing=3) is compute_meanwhile(named, folder, standing=4) is None
    for standing, words in ((3, "three"), (4, "four")):
        put(words)
        assert eventually(lambda: compute_meanwhile(named, folder, standing=standing)) == words  # noqa: B023
    put("five")
    assert [compute_again(named, folder, standing=standing) for standing in (5, 6)] == ["five", "five"]
    put("six")
    assert eventually(lambda: compute_again(named, folder, standing=6) == "six" or None)
    put("bad")
    with pytest.raises(NotComputed, match="ValueError"):
        eventually(lambda: compute_meanwhile(named, folder, standing=7))
    put("seven")
    assert eventually(lambda: compute_meanwhile(named, folder, standing=7)) == "seven"
    put("bad")
    one, same = (context._begin(named, folder, standing=8, cases=context.AT_ONCE + 1) for _ in range(2))
    assert one is same and one.wait(60)  # whoever asked was gone before it failed
    put("eight")
    assert compute(named, folder, standing=8) == "eight"
    with pytest.raises(NotComputed):
        context._result((named, (folder,), 8), one)
    assert compute(named, folder, standing=8) == "eight", "who wakes late takes it from nobody"


def test_each_stalled_batch_is_told_in_its_own_words_with_since_when_and_how_many_wait() -> None:
    states = (BatchState.RUNNING, BatchState.PAUSED, BatchState.CAPPED, None)
    causes = (NO_WORKER, "connection", "authentication", "max_cost", "server_error", "preflight_failed")
    for cause, state in product(causes, states):
        still = StalledBatch(batch_id="b", cause=cause, since=batch_of.NOW, waiting=3, state=state)
        told = " ".join(shell.banner_lines([still], SiteSettings(), batch_of.NOW + timedelta(minutes=5)))
        assert all(words in told for words in (error_words(cause)[1:], "since 12:00 UTC", "3 texts are not screened"))


def test_rows_that_nobody_takes_in_are_told_of_on_every_page_that_has_the_banner(
    open_page: Opener, page_database: Database
) -> None:
    """And in the inbox, by its own poll, as texts that wait for a person are. One look serves all for a few seconds."""
    now = system_clock()
    assert shell.stalled_lines(page_database, now) == ()
    halted = [open_batch_of(page_database)[0] for _ in range(2)]
    for batch_id in halted:
        intake.stop_intake(page_database, LOCAL_USER.at(now), batch_id, "file_refused")
    assert shell.stalled_lines(page_database, now + timedelta(seconds=1)) == ()
    assert len(shell.stalled_lines(page_database, now + timedelta(seconds=4))) == 1
    batch(page_database, 2)
    pending.record_error(page_database, batch_of.waiting(page_database)[0], "server_error", "no", system_clock())

    def shown() -> list[str]:
        shell.stalled.forget()
        polled = snapshot(page_database, LOCAL_USER.at(system_clock()), View())["still"]
        return [" ".join(polled), *(words_on(open_page(page)) for page in (None, "screen", "batches"))]

    for words in ("Part of 2 files was not imported, the first since", "1 text is not screened"):
        assert all(words in page for page in shown()), words
    for batch_id in halted:
        intake.resume_intake(page_database, LOCAL_USER.at(now), batch_id)
    write(page_database, update(pending_cases).values(ready_at=system_clock()))
    assert not any(words in page for words in ("was not imported", "1 text is not") for page in shown())


def test_a_batch_without_worker_or_model_says_so(open_page: Opener, page_database: Database) -> None:
    batch_id = batch(page_database, 2)
    assert "no background service is running" in words_on(open_page("batches", batch=batch_id))
    health.beat(page_database, "w1", "worker", system_clock())
    shown = words_on(open_page("batches", batch=batch_id))
    assert "Running" in shown and "no background service is running" not in shown
    for cause, said in (
        ("connection", "! The model cannot be reached"),
        (NO_LABEL, "! The model gives no usable answers"),
    ):
        outbox.keep_fault(page_database, health.Fault.MODEL, system_clock(), down=True, cause=cause)
        assert said in words_on(open_page("batches", batch=batch_id))
        (table,) = open_page("batches").dataframe
        assert list(table.value["State"]) == [said]
