"""Settings: what is live, versions, the stop button, accounts, the model card, and who may change what."""

import asyncio
from typing import Literal

import pytest
from streamlit.testing.v1 import AppTest

from pages.research import reports
from pages.site import model_panel as live
from pages.site.model_panel import PENDING
from pages.ui import context
from pages.ui.auth import Unidentified, again_html, sign_in_of
from screening.labels import Outcome
from screening.models.canaries import ALL, Probed
from screening.pipeline.config import preset
from screening.pipeline.draws import Preflight
from screening.pipeline.engine import Reason
from screening.review.actors import LOCAL_USER, Role
from screening.settings import Settings
from storage import settings_store
from storage.batches import configurations
from storage.batches.configurations import Configuration
from storage.database import Database
from storage.settings_store import SiteSettings
from storage.site import accounts
from tests.pages.conftest import Opener, press, restart, script_at, sign_in, words_on
from tests.storage.inbox_cases import ADMIN, ANN, NOW, RESEARCHER, register
from tests.stub_server.server import StubServer


def test_the_live_configuration_is_the_one_screenings_keep(open_page: Opener, page_database: Database) -> None:
    page = open_page("settings")
    assert not page.exception
    version = context.configuration(preset("certified")).version
    facts = " ".join(page.table[0].value.iloc[:, 0].map(str))
    assert version in facts and "Worker → Risk → Legal" in facts and "{'" not in facts
    assert "Simulated agents answer by themselves" in page.info[0].value


def test_a_save_is_a_version_that_says_what_changed(open_page: Opener, page_database: Database) -> None:
    page = open_page("settings")
    page.number_input(key="lease_minutes_v0").set_value(20.0)
    page.text_area(key="help_text_v0").set_value("Call the ward.")
    page = press(page, "Save as a new version")
    assert page.success[0].value == "Version 1 is active."
    assert settings_store.current(page_database).settings.lease_minutes == 20
    assert "Case lock (minutes): 15 → 20" in page.dataframe[0].value["Changed"][0]
    assert "Call the ward." in words_on(page), "the notice of every page"
    page.text_area(key="help_text_v1").set_value(" ")
    assert "In crisis?" not in words_on(press(page, "Save as a new version")), "no question without an answer"


def test_what_is_kept_beyond_the_limits_of_the_form_is_shown_as_it_is(
    open_page: Opener, page_database: Database
) -> None:
    kept = SiteSettings(
        audit_at_most=0.02, lease_minutes=0.5, break_after_texts=10_000, target_minutes=(0.5, 15, 240, 43_200),
        unscreened_minutes=2_000, notify_minutes=(0.5, 5, 15, 2_000), notify_next_after_minutes=300,
    )  # fmt: skip
    settings_store.change(page_database, LOCAL_USER.at(NOW), kept, 0)
    page = open_page("settings")
    assert not page.exception
    assert page.number_input(key="break_after_texts_v1").value == 10_000
    page.number_input(key="lease_minutes_v1").set_value(20.0)
    assert not press(page, "Save as a new version").exception
    assert settings_store.current(page_database).settings == kept.model_copy(update={"lease_minutes": 20.0})


def test_an_administrator_fixes_the_plan_and_sees_what_it_takes(open_page: Opener, page_database: Database) -> None:
    page = open_page("settings")
    needed = next(one for one in page.metric if one.label == "Reviewed unsafe texts needed")
    assert needed.value == "59"
    assert next(button for button in page.button if button.label == "Lock plan").disabled
    page.number_input(key="audit_allowed_misses_v0").set_value(1)
    page.number_input(key="audit_at_most_v0").set_value(4.5).run()
    needed = next(one for one in page.metric if one.label == "Reviewed unsafe texts needed")
    # (1 - 0.045) ** n + n * 0.045 * (1 - 0.045) ** (n - 1) <= 0.05 first at n = 104
    assert needed.value == "104"
    assert settings_store.current(page_database).version == 0, "nothing is changed before it is fixed"
    page = press(page, "Lock plan")
    assert not page.exception and page.success[0].value == "Version 1 is active."
    plan = settings_store.audit_plan(page_database)
    assert (plan.at_most, plan.confidence, plan.allowed_misses, plan.changes) == (0.045, 0.95, 1, 1)
    changed = next(frame.value for frame in page.dataframe if "Changed" in frame.value.columns)["Changed"][0]
    assert changed == "Missed at most, %: 0.05 → 0.045; Misses allowed: 0 → 1"
    assert "Last changed on" in " ".join(one.value for one in page.markdown)


def test_a_save_against_a_newer_version_is_refused_and_the_newer_one_is_shown(
    open_page: Opener, page_database: Database
) -> None:
    page = open_page("settings")
    page.number_input(key="lease_minutes_v0").set_value(20.0)
    settings_store.change(page_database, LOCAL_USER.at(NOW), SiteSettings(idle_minutes=7), 0)
    page = press(page, "Save as a new version")
    assert len(page.error) == 1 and not page.exception
    assert any("Sign-in ends when idle for (min): 30 → 7" in one.value for one in page.warning)
    assert page.number_input(key="lease_minutes_v0").value == 20, "what was typed is still there"
    assert (settings_store.current(page_database).settings.lease_minutes, _versions(page_database)) == (15, 1)
    page = press(page, "Load version 1")
    assert page.number_input(key="idle_minutes_v1").value == 7 and not page.error
    page.number_input(key="lease_minutes_v1").set_value(20.0)
    page = press(page, "Save as a new version")
    found = settings_store.current(page_database).settings
    assert (found.lease_minutes, found.idle_minutes, _versions(page_database)) == (20, 7, 2)
    press(page, "Save as a new version")
    assert _versions(page_database) == 2, "nothing was changed, nothing is saved"


def _versions(db: Database) -> int:
    return len(settings_store.history(db, LOCAL_USER))


def test_what_was_typed_in_one_form_outlives_what_is_done_in_others(open_page: Opener, page_database: Database) -> None:
    page = open_page("settings")
    page.number_input(key="audit_allowed_misses_v0").set_value(2).run()
    page.number_input(key="P1_notify_minutes_v0").set_value(7.0)
    page = press(page, "Save")
    settings_store.stop(page_database, LOCAL_USER.at(NOW))
    page.run()
    assert page.number_input(key="audit_allowed_misses_v0").value == 2
    press(page, "Lock plan")
    found = settings_store.current(page_database).settings
    assert (found.audit_allowed_misses, found.notify_minutes[1], found.stopped) == (2, 7, True)


def test_the_stop_button_is_on_every_page_and_can_be_released(open_page: Opener, page_database: Database) -> None:
    page = open_page("screen")
    page = press(page, "Pause now")
    assert settings_store.is_stopped(page_database)
    assert "AI decisions paused" in words_on(page)
    press(page, "Resume AI decisions")
    assert not settings_store.is_stopped(page_database)


def test_an_administrator_gives_roles(open_page: Opener, page_database: Database) -> None:
    register(page_database, ANN)
    page = open_page("settings")
    page.multiselect(key="roles_ann_reviewer").set_value([Role.SENIOR, Role.ADMIN])
    page = press(page, "Save roles")
    assert not page.exception and page.success[0].value == "Roles saved."
    page.multiselect(key="roles_ann_admin_senior").set_value([Role.SENIOR])
    page = press(page, "Save roles")
    assert page.error[0].value == "This is the last account that can manage accounts."


def test_roles_that_another_administrator_changed_are_not_saved_over(
    open_page: Opener, page_database: Database
) -> None:
    register(page_database, ADMIN, ANN)
    page = press(_choose(open_page("settings"), ANN.id), "End sessions")
    accounts.set_roles(page_database, ADMIN.at(NOW), ANN.id, frozenset())
    page = press(page, "Save roles")
    assert {one.id: one.roles for one in accounts.list_accounts(page_database, ADMIN)}[ANN.id] == frozenset()
    assert next(box for box in page.multiselect if box.label == "Roles").value == []


def _choose(page: AppTest, account_id: str) -> AppTest:
    return next(box for box in page.selectbox if box.label == "Account").set_value(account_id).run()


def test_the_card_says_what_is_not_measured_and_escapes_what_could_be_markup(page_database: Database) -> None:
    configuration = context.configuration(context.usual_pipeline())
    sections = reports.card_sections(page_database, LOCAL_USER, context.settings(), configuration)
    sections.append(("Model", ["<b>![x](http://outside.example)"]))
    text, page = reports.card_markdown(sections, NOW), reports.card_html(sections, NOW)
    assert "Do not use for real cases" in text and "Nothing has been measured" in text
    assert "![x]" not in text and "\\!\\[x\\]" in text
    assert "<b>" not in page and "&lt;b&gt;" in page


def test_a_model_that_cannot_be_reached_is_told_without_its_key() -> None:
    settings = Settings(
        anthropic_api_key="secret-key",
        anthropic_base_url="http://127.0.0.1:9/",
        sampler="anthropic",  # type: ignore[arg-type]
    )
    found = live.try_settings(settings)
    assert not found.ok and "secret" not in found.message


@pytest.mark.parametrize("protocol", ["anthropic", "chat"])
def test_a_model_that_answers_is_tried_once(protocol: Literal["anthropic", "chat"]) -> None:
    """As on the page: one call from a thread without a loop, against the stub of either protocol."""

    async def ask() -> tuple[Preflight, int]:
        async with StubServer() as stub:
            settings = Settings(anthropic_api_key="key", anthropic_base_url=stub.url, sampler=protocol)  # type: ignore[arg-type]
            return await asyncio.to_thread(live.try_settings, settings), stub.counters.requests

    found, requests = asyncio.run(ask())
    assert found.ok and "answered with the label" in found.message and requests == 1


NAME = "another-1"


@pytest.fixture
def answered_as_another(page_database: Database, monkeypatch: pytest.MonkeyPatch) -> Configuration:
    """The live configuration of a site with a model server, which answered its probes under another name."""
    monkeypatch.setenv("SECOND_LOOK_SAMPLER", "anthropic")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9/")
    restart()
    made = context.configuration(context.usual_pipeline())
    ends = dict.fromkeys(ALL, (str(Outcome.HUMAN_REVIEW), str(Reason.NO_ANSWER)))
    probed = Probed(ends=ends, calls=8, other_names=(NAME,))
    configurations.keep_preflight(page_database, made.preflight_key, probed, NOW)
    return made


def test_an_administrator_accepts_a_model_s_other_name_and_it_is_tried_again(
    open_page: Opener, page_database: Database, answered_as_another: Configuration
) -> None:
    page = open_page("settings")
    assert not page.exception and NAME in [code.value for code in page.code]
    page = press(page, "Accept this name")
    assert not page.exception and settings_store.current(page_database).settings.accepted_model_names == (NAME,)
    assert "Accept this name" not in [button.label for button in page.button]
    now = context.configuration(context.usual_pipeline())
    assert now.sampler["answers_as"] == sorted({NAME, context.settings().model})
    assert now.version != answered_as_another.version, "calibrations are made for another configuration"
    assert PENDING in [caption.value for caption in page.caption]


CLAIMS = {"iss": "https://idp.example", "sub": "0", "iat": 1_790_000_000, "name": "Ann Example", "nonce": "n1"}


def test_a_sign_in_is_known_by_issuer_subject_and_moment() -> None:
    found = sign_in_of(CLAIMS)
    assert (found.subject, found.display_name) == ("https://idp.example|0", "Ann Example")
    assert found.session_id == sign_in_of(dict(CLAIMS)).session_id
    assert found.session_id != sign_in_of(CLAIMS | {"nonce": "n2"}).session_id
    assert len(sign_in_of(CLAIMS | {"sub": "x" * 400}).subject) < 100
    for missing in ("iss", "sub", "iat"):
        with pytest.raises(Unidentified):
            sign_in_of({name: value for name, value in CLAIMS.items() if name != missing})


def test_the_way_back_keeps_the_address_and_stays_here() -> None:
    found = again_html("https://site.example/inbox", {"case": "01", "x": '"'})
    assert 'href="/sign-in-again?next=%2Finbox%3Fcase%3D01%26x%3D%2522"' in found


@pytest.fixture
def signed_in(open_page: Opener, page_database: Database, monkeypatch: pytest.MonkeyPatch) -> AppTest:
    """The settings page of somebody who signed in as a researcher, a moment ago."""
    register(page_database, RESEARCHER)
    monkeypatch.setattr("pages.ui.http.sign_in_configured", lambda: True)
    restart()
    page = sign_in(open_page(), RESEARCHER.id, context.now(), name="Rae")
    return page.switch_page(script_at("settings")).run()


@pytest.mark.usefixtures("answered_as_another")
def test_who_may_not_change_settings_reads_them(signed_in: AppTest) -> None:
    assert not signed_in.exception and NAME in [code.value for code in signed_in.code]
    assert signed_in.number_input(key="lease_minutes_v0").disabled
    labels = {button.label for button in signed_in.button}
    assert "Pause now" in labels and not {"Save roles", "Accept this name"} & labels
    press(signed_in, "Pause now")
    assert any("A senior reviewer or an administrator can resume them" in one.value for one in signed_in.markdown)
