"""A database of its own for every test of a page, and the shell script under AppTest."""

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

import pytest
import streamlit as st
from streamlit import config
from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Dataframe

from pages.batches.progress import intake_runs
from pages.ui import context, shell
from screening.review.policy import LOCAL_USER
from storage.audit_log import events
from storage.database import Database

config.set_option("runner.magicEnabled", False)  # as in .streamlit/config.toml, which is not read in a test's folder
ROOT = Path(__file__).parent.parent.parent


def script_at(address: str) -> str:
    (file,) = (entry.file for entry in shell.ENTRIES if address == (entry.address or entry.file))
    return str(ROOT / "pages" / f"{file}.py")


def restart() -> None:
    """Forget what a process of the app keeps, as a new one would."""
    st.cache_resource.clear()
    context.forget_all()


MAIN = sys.modules["__main__"]
Opener = Callable[..., AppTest]


def words_on(page: AppTest) -> str:
    """All words that a page shows outside of its widgets and tables, without marks of Markdown and HTML."""
    bodies = [one.proto.body.rpartition("</style>")[2] for one in page.get("html")]
    kinds = (page.title, page.markdown, page.caption, page.warning, page.error, page.info, page.success)
    bodies += [one.value for kind in kinds for one in kind] + [one.label for one in page.expander]
    bodies += [f"{one.value}{one.label}" for one in page.metric]
    return re.sub(r"<[^>]+>|:(red|green|orange)\[|[*\[\]\\]", "", " ".join(bodies))


def html_on(page: AppTest) -> str:
    return " ".join(element.proto.body for element in page.get("html"))


def press(page: AppTest, label: str) -> AppTest:
    """The page after a press on the button of this label, or on the first one that begins with it."""
    exact = [button for button in page.button if button.label == label]
    page = [*exact, *(button for button in page.button if button.label.startswith(label))][0].click().run()
    assert not page.exception, page.exception
    return page


def refusals(db: Database) -> list[tuple[str, str | None, object]]:
    """Who was refused what, of which subject, by the audit log; the last first."""
    found = [event for event in events(db, LOCAL_USER) if event.action == "refused"]
    return [(event.actor, event.subject, event.details["asked"]) for event in found]


def sign_in(page: AppTest, subject: str, at: datetime, **claims: object) -> AppTest:
    """The page of somebody of whom their institution says that they signed in at this moment."""
    page.user = {"is_logged_in": True, "iss": "idp", "sub": subject, "iat": at.timestamp(), **claims}
    return page.run()


def in_address(page: AppTest, name: str) -> str:
    value = page.query_params[name]
    return value if isinstance(value, str) else value[0]


def upload(open_page: Opener, content: bytes, name: str = "texts.csv") -> AppTest:
    """The check of a file that was uploaded."""
    page = open_page("batches")
    page.file_uploader[0].set_value((name, content, "text/csv")).run()
    assert not page.exception, page.exception
    return page


def start(page: AppTest) -> str:
    """Start what the check shows, and wait until its rows are in; the batch's id."""
    press(page, "Start screening")
    intake_runs().wait()
    return in_address(page, "batch")


def choose_rows(page: AppTest, table: Dataframe, rows: Sequence[int], *cells: tuple[int, str]) -> None:
    """Run the page with these rows of the table as drawn last ticked, and cells and buttons clicked before pressed."""
    states = page._tree.get_widget_states()
    chosen = {"selection": {"rows": list(rows), "columns": [], "cells": cells}}
    states.widgets.add(id=table.proto.id, string_value=json.dumps(chosen))
    page._run(states)
    assert not page.exception, page.exception


@pytest.fixture(autouse=True)
def main_module() -> Iterator[None]:
    """A page takes the main module's place; processes that a later test starts begin with it."""
    yield
    sys.modules["__main__"] = MAIN


@pytest.fixture(scope="session", autouse=True)
def _installed_components() -> Iterator[None]:
    """Looked up once, as the app does: each run under AppTest is a new server, which looks for them anew."""
    with pytest.MonkeyPatch.context() as patch:
        found = manifest_scanner.scan_component_manifests()
        patch.setattr(manifest_scanner, "scan_component_manifests", lambda: found)
        yield


@pytest.fixture(scope="session")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder without the developer's .env, there for as long as a process that a test leaves behind."""
    return tmp_path_factory.mktemp("elsewhere")


@pytest.fixture
def page_database(
    sqlite_template: Path, tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Database]:
    """The database that the pages of this test use."""
    shutil.copy(sqlite_template, tmp_path / "pages.db")
    monkeypatch.chdir(elsewhere)
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{tmp_path / 'pages.db'}")
    monkeypatch.setenv("SECOND_LOOK_DATA_DIRECTORY", str(tmp_path / "data"))
    monkeypatch.setenv("SECOND_LOOK_SAMPLER", "simulated")
    restart()
    opened = context.database()
    yield opened
    opened.close()
    restart()


@pytest.fixture
def open_page(page_database: Database) -> Opener:
    """Open a page through the shell, as a person would: ``open_page("batches", batch="…")``."""

    def opened(name: str | None = None, **query: str) -> AppTest:
        app = AppTest.from_file(str(ROOT / "pages" / "shell.py"), default_timeout=120)
        if name is not None and not script_at(name).endswith(f"/{name}.py"):
            app.run()  # it knows a page whose address is not its file's name only once the shell has run
        for key, value in query.items():
            app.query_params[key] = value
        if name is not None:
            app.switch_page(script_at(name))
        return app.run()

    return opened
