"""Settings: each form saves what was filled in or refuses it and keeps nothing; who may change what; secrets; tries."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest
from sqlalchemy import select
from streamlit.testing.v1 import AppTest

from pages.research import reports
from pages.site import model_panel
from pages.ui import context
from screening.labels import Outcome
from screening.models.canaries import ALL, Probed
from screening.pipeline.config import preset
from screening.pipeline.draws import Preflight
from screening.pipeline.engine import Reason
from screening.review.policy import LOCAL_USER, Role
from screening.settings import Settings
from storage import schema, settings_store
from storage.batches import configurations
from storage.database import Database
from storage.review import erasure, evidence
from storage.settings_store import SiteSettings, current
from storage.site import accounts
from storage.site.outbox import Kind, list_recipients
from tests.pages.conftest import Opener, press, restart, script_at, sign_in, words_on
from tests.storage import batch_of, inbox_cases
from tests.storage.people import ADMIN, ANN, NOW, RESEARCHER
from tests.stub_server.server import StubServer

BY = LOCAL_USER.at(NOW)
VERSION = "Save as a new version"
PROGRAM_NAME, WEBHOOK = "new_program-Name", "new_program-Webhook (https), notified of final labels"
"""Inputs without a key: their form and their label."""


def submit(page: AppTest, button: str, values: Mapping[str, Any]) -> AppTest:
    kinds = (page.number_input, page.text_input, page.text_area, page.selectbox, page.checkbox, page.time_input)
    inputs = [one for kind in kinds for one in kind]
    for name, value in values.items():
        (one,) = (each for each in inputs if name in (each.key, f"{each.form_id}-{each.label}"))
        one.set_value(value)
    return press(page, button)


def recipient(target: str, kind: Kind = Kind.WEBHOOK, **more: Any) -> dict[str, Any]:
    return {"notify_name": "Ward *one*", "notify_kind": kind, "notify_target": target, **more}


def test_a_form_saves_what_was_filled_in_and_nothing_else(open_page: Opener, page_database: Database) -> None:
    """What is kept beyond the limits of a form is shown and stays as it is."""
    kept = SiteSettings(
        audit_at_most=0.02, lease_minutes=0.5, break_after_texts=10_000, target_minutes=(0.5, 15, 240, 43_200),
        unscreened_minutes=2_000, notify_minutes=(0.5, 5, 15, 2_000), notify_next_after_minutes=300,
    )  # fmt: skip
    settings_store.change(page_database, BY, kept, 0)
    page = open_page("settings")
    facts = " ".join(page.table[0].value.iloc[:, 0].map(str))
    assert context.configuration(preset("certified")).version in facts and "Worker → Risk → Legal" in facts
    assert page.number_input(key="break_after_texts_v1").value == 10_000
    saved: tuple[tuple[str, int, dict[str, Any]], ...] = (  # a button, the version its form began with, what is new
        (VERSION, 1, {"lease_minutes": 20.0, "help_text": "Call the ward."}),
        (VERSION, 2, {"audit_urgent_share": 0.123, "second_review_rate": 0.0125}),
        ("Save times", 1, {"erasure_by_two": True, "keep_texts_days": 90}),
        ("Save", 1, {"P1_notify_minutes": 7.0, "public_address": "https://a.example", "time_zone": "Europe/Berlin"}),
    )
    for made, (button, begun, filled) in enumerate(saved, 2):
        page = submit(page, button, {f"{name}_v{begun}": value for name, value in filled.items()})
        if filled.pop("P1_notify_minutes", None):
            filled["notify_minutes"] = (0.5, 7, 15, 2_000)
        kept = kept.model_copy(update=filled)
        assert (current(page_database).settings, current(page_database).version) == (kept, made), button
        if made == 2:
            assert "Case lock (minutes): 0.5 → 20" in page.dataframe[0].value["Changed"][0]
            assert "Call the ward." in words_on(page), "the notice of every page"


def test_what_a_form_refuses_is_said_and_nothing_is_kept(open_page: Opener, page_database: Database) -> None:
    page, add, create = open_page("settings"), "Add", "Create token"
    for button, filled in (
        ("Save", {"time_zone_v0": "Nowhere/Town"}),
        (add, recipient("http://hooks.example.org/x")),
        (add, recipient("json://127.0.0.1/x", Kind.SERVICE)),
        (add, recipient("mailtos://", Kind.SERVICE)),
        (add, recipient("https://hooks.example.org/x", notify_quiet_from=time(22))),
        (create, {PROGRAM_NAME: " ", WEBHOOK: ""}),
        (create, {PROGRAM_NAME: "Intake", WEBHOOK: "http://example.org/x"}),
        (create, {PROGRAM_NAME: "Intake", WEBHOOK: "no address"}),
    ):
        page = submit(page, button, filled)
        assert page.error, filled
        assert not list_recipients(page_database, LOCAL_USER) and not accounts.list_programs(page_database, LOCAL_USER)
        assert current(page_database).version == 0


def test_the_plan_is_fixed_with_what_it_takes_and_a_later_day(open_page: Opener, page_database: Database) -> None:
    def needed() -> str:
        return next(one.value for one in page.metric if one.label == "Reviewed unsafe texts needed")

    now, day = datetime.now(UTC), timedelta(days=1)
    fixed = SiteSettings(audit_report_on=(now - 2 * day).date())
    settings_store.change(page_database, LOCAL_USER.at(now - 3 * day), fixed, 0)
    page = open_page("settings")
    assert page.date_input(key="audit_report_on_v1").value == fixed.audit_report_on, "it has come and stays shown"
    assert needed() == "59" and page.button(key="plan_save").disabled and not page.error
    page.number_input(key="audit_allowed_misses_v1").set_value(1)
    page.number_input(key="audit_at_most_v1").set_value(4.5)
    page.date_input(key="audit_report_on_v1").set_value(now.date()).run()
    # (1 - 0.045) ** n + n * 0.045 * (1 - 0.045) ** (n - 1) <= 0.05 first at n = 104
    assert needed() == "104" and current(page_database).version == 1, "nothing is changed before it is fixed"
    assert page.button(key="plan_save").disabled and len(page.error) == 1
    page.date_input(key="audit_report_on_v1").set_value((now + day).date()).run()
    page.button(key="plan_save").click().run()
    plan = settings_store.audit_plan(page_database)
    assert (plan.at_most, plan.allowed_misses, plan.report_on) == (0.045, 1, (now + day).date())
    changed = next(frame.value for frame in page.dataframe if "Changed" in frame.value.columns)["Changed"][0]
    assert "Missed at most, %: 0.05 → 0.045" in changed and "Misses allowed: 0 → 1" in changed


def test_what_was_typed_outlives_other_saves_and_overwrites_none(open_page: Opener, page_database: Database) -> None:
    def saved() -> tuple[float, float, int, int]:
        now = current(page_database)
        return now.settings.lease_minutes, now.settings.idle_minutes, now.settings.audit_allowed_misses, now.version

    page = open_page("settings")
    page.number_input(key="audit_allowed_misses_v0").set_value(2).run()
    page.number_input(key="lease_minutes_v0").set_value(20.0)
    settings_store.change(page_database, BY, SiteSettings(idle_minutes=7), 0)
    page = press(page, VERSION)
    assert len(page.error) == 1 and any("30 → 7" in one.value for one in page.warning) and saved() == (15, 7, 0, 1)
    assert page.number_input(key="lease_minutes_v0").value == 20
    page = press(page, "Load version 1")
    assert page.number_input(key="idle_minutes_v1").value == 7 and not page.error
    page.number_input(key="lease_minutes_v1").set_value(20.0)
    for _ in range(2):  # the second time nothing was changed, and nothing is saved
        page = press(page, VERSION)
        assert saved() == (20, 7, 0, 2)
    page = press(press(page, "Pause now"), "Lock plan")
    assert saved() == (20, 7, 2, 4) and settings_store.is_stopped(page_database)
    press(page, "Resume AI decisions")
    assert not settings_store.is_stopped(page_database)


def test_an_administrator_gives_roles_and_saves_over_nobody_s(open_page: Opener, page_database: Database) -> None:
    def roles_of_ann() -> frozenset[Role]:
        return next(one.roles for one in accounts.list_accounts(page_database, LOCAL_USER) if one.id == ANN.id)

    inbox_cases.register(page_database, ANN)
    page = open_page("settings")
    page.multiselect(key="roles_ann_reviewer").set_value([Role.SENIOR, Role.ADMIN])
    page = press(page, "Save roles")
    assert page.success and roles_of_ann() == {Role.SENIOR, Role.ADMIN}
    page.multiselect(key="roles_ann_admin_senior").set_value([Role.SENIOR])
    page = press(page, "Save roles")
    assert page.error and Role.ADMIN in roles_of_ann(), "the last account that can manage accounts"
    inbox_cases.register(page_database, ADMIN)
    page = open_page("settings")
    page = next(box for box in page.selectbox if box.label == "Account").set_value(ANN.id).run()
    page = press(page, "End sessions")
    accounts.set_roles(page_database, ADMIN.at(NOW), ANN.id, frozenset())
    page = press(page, "Save roles")
    assert not roles_of_ann() and next(box for box in page.multiselect if box.label == "Roles").value == []


def test_secrets_of_webhooks_and_programs_are_shown_once(open_page: Opener, page_database: Database) -> None:
    hook = recipient("https://hooks.example.org/token-123")
    page = submit(open_page("settings"), "Add", hook)
    (made,) = list_recipients(page_database, LOCAL_USER)
    assert len(page.code[0].value) == 64 and made.shown == "hooks.example.org"
    page = press(page, "Send a test")
    assert page_database.values(select(schema.notifications.c.event)) == ["test"] and not page.code
    assert "token-123" not in " ".join(one.value for one in page.text)
    page = submit(page, "Add", hook)
    assert page.error and list_recipients(page_database, LOCAL_USER) == [made], "it is there already"
    page = press(press(page, "Switch off"), "Remove")
    assert not list_recipients(page_database, LOCAL_USER)
    page = submit(page, "Create token", {PROGRAM_NAME: "<b>Intake</b>", WEBHOOK: ""})
    (token,) = (one.value for one in page.code)
    program = accounts.program_of(page_database, token)
    assert (program.name, program.scopes) == ("<b>Intake</b>", {accounts.Scope.SUBMIT, accounts.Scope.OUTCOMES})
    kept = page_database.rows(select(schema.programs)) + page_database.rows(select(schema.audit_events))
    assert not [word for word in (token, "token-123", "Ward") if word in str(kept)]
    assert not page.run().code
    page.button(key=f"revoke_program_{program.id}").click().run()
    with pytest.raises(accounts.UnknownToken):
        accounts.program_of(page_database, token)


def test_a_case_is_looked_for_erased_and_by_two_where_asked_for(open_page: Opener, page_database: Database) -> None:
    """Nobody confirms their own request."""
    batch_of.batch(page_database, ["one text", "another"])
    case_id, other = batch_of.waiting(page_database)
    for each in (case_id, other):
        batch_of.decide(page_database, each)

    def text() -> str:
        return evidence.reveal_text(page_database, BY, case_id).text

    page = submit(open_page("settings"), "Show how many", {"erase_value": case_id, "erase_reason": "letter of today"})
    assert any(one.value.startswith("1 case ") for one in page.info)
    page = submit(page, "Show how many", {"erase_value": f"not {case_id}"})
    page = submit(page, "Erase", {"erase_value": case_id})
    assert page.error and text() == "one text", "it was not looked at"
    page = submit(page, "Erase", {"erase_sure_0": True})
    assert page.success and text() == schema.ERASED
    submit(page, "Save times", {"erasure_by_two_v0": True})
    chosen = erasure.Selection(by=erasure.By.CASE, value=other)
    asked = erasure.erase(page_database, BY, chosen, "letter")
    page = press(open_page("settings"), "Preview expired data")
    assert page.info and page.button(key=f"confirm_{asked.waits_for}").disabled
    page.button(key=f"withdraw_{asked.waits_for}").click().run()
    assert erasure.open_requests(page_database, LOCAL_USER) == []


def test_the_card_says_what_is_not_measured_and_escapes_what_could_be_markup(page_database: Database) -> None:
    configuration = context.configuration(context.usual_pipeline())
    sections = reports.card_sections(page_database, LOCAL_USER, context.settings(), configuration)
    sections.append(("Model", ["<b>![x](http://outside.example)"]))
    text, page = reports.card_markdown(sections, NOW), reports.card_html(sections, NOW)
    assert "Do not use for real cases" in text and "Nothing has been measured" in text
    assert "![x]" not in text and "\\!\\[x\\]" in text
    assert "<b>" not in page and "&lt;b&gt;" in page


def test_a_model_is_tried_once_and_told_without_its_key() -> None:
    """As on the page: one call from a thread without a loop."""

    async def ask() -> tuple[Preflight, Preflight, int]:
        async with StubServer() as stub:
            settings = Settings(anthropic_api_key="secret", anthropic_base_url=stub.url, sampler="chat")
            found = await asyncio.to_thread(model_panel.try_settings, settings)
            away = settings.model_copy(update={"anthropic_base_url": "http://127.0.0.1:9/"})
            return found, await asyncio.to_thread(model_panel.try_settings, away), stub.counters.requests

    found, away, requests = asyncio.run(ask())
    assert found.ok and requests == 1 and not away.ok and "secret" not in away.message


def test_an_administrator_accepts_a_model_s_other_name_and_who_may_only_read_pauses(
    open_page: Opener, page_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A site with a model server, which answered its probes under another name: they are tried again."""
    name = "another-1"
    monkeypatch.setenv("SECOND_LOOK_SAMPLER", "anthropic")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9/")
    restart()
    made = context.configuration(context.usual_pipeline())
    ends = dict.fromkeys(ALL, (str(Outcome.HUMAN_REVIEW), str(Reason.NO_ANSWER)))
    probed = Probed(ends=ends, calls=8, other_names=(name,))
    configurations.keep_preflight(page_database, made.preflight_key, probed, NOW)
    inbox_cases.register(page_database, RESEARCHER)
    with monkeypatch.context() as shared:
        shared.setattr("pages.ui.http.sign_in_configured", lambda: True)
        restart()
        page = sign_in(open_page(), RESEARCHER.id, context.now(), name="Rae")
        page = page.switch_page(script_at("settings")).run()
        assert not page.exception and name in [code.value for code in page.code]
        assert page.number_input(key="lease_minutes_v0").disabled
        assert not {"Save roles", "Accept this name"} & {button.label for button in page.button}
        page = press(page, "Pause now")
        assert settings_store.is_stopped(page_database)
        assert "Resume AI decisions" not in {button.label for button in page.button}
    restart()
    page = press(open_page("settings"), "Accept this name")
    assert current(page_database).settings.accepted_model_names == (name,)
    assert "Accept this name" not in [button.label for button in page.button]
    now = context.configuration(context.usual_pipeline())
    assert now.sampler["answers_as"] == sorted({name, context.settings().model})
    assert now.version != made.version, "calibrations are made for another configuration"
    assert model_panel.PENDING in [caption.value for caption in page.caption]
