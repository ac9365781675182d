"""What a site may set while it runs, as versions that are never overwritten; and the stop button.

Start-up options (database, model, keys) are not here but in `screening.settings`.
"""

import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from enum import StrEnum
from itertools import accumulate
from typing import Annotated, Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints
from sqlalchemy import Connection, insert, select

from screening.evaluation.audit import AuditPlan
from screening.review.policy import Acting, Action, Actor, require
from screening.review.review_form import Disposition, ReviewLabel
from screening.review.triage import Priority
from screening.settings import Settings
from storage.audit_log import append, serialise
from storage.database import Database, Source, Stale, reading, record
from storage.schema import settings_versions

LONGEST_WORDING = 300


def _in_thousandths(share: float) -> float:
    """Finer shares could not be shown as they are: 1.25 % would be claimed as 1.2 %."""
    if abs(1000 * share - round(1000 * share)) > 1e-6:
        raise ValueError("give a share in whole thousandths")
    return round(share, 3)


def _without_controls(words: str) -> str:
    """Lines may end; other control characters and halves of surrogate pairs could not be shown or stored."""
    if any(unicodedata.category(letter) in ("Cc", "Cs") and letter != "\n" for letter in words):
        raise ValueError("plain text only")
    return words


def _web_address(address: str) -> str:
    """Empty, or an address that a message may lead to."""
    parts = urlsplit(address.strip())
    if address.strip() and (
        parts.scheme not in ("https", "http") or not parts.hostname or parts.query or parts.fragment
    ):
        raise ValueError("give the address as people open it, for example https://second-look.example.org")
    return address.strip().rstrip("/")


def _known_zone(name: str) -> str:
    """A name of the time zone database."""
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError) as unknown:
        raise ValueError("no such time zone") from unknown
    return name


def _offered(choices: tuple[Disposition, ...]) -> tuple[Disposition, ...]:
    if not choices or Disposition.UNDECIDED in choices or len(set(choices)) < len(choices):
        raise ValueError("offer at least one disposition, each once")
    return choices


Days = Annotated[int, Field(ge=1, le=36_500)] | None
Minutes = Annotated[float, Field(gt=0, le=60 * 24 * 30)]
Share = Annotated[float, AfterValidator(_in_thousandths)]
WebAddress = Annotated[str, AfterValidator(_web_address)]
Words = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_WORDING),
    AfterValidator(_without_controls),
]
StudyWords = Annotated[
    str, StringConstraints(strip_whitespace=True, max_length=1_000), AfterValidator(_without_controls)
]
BREAK_WORDING = "You have opened {texts} texts since your last break. Take a break: your place is saved."
HELP_TEXT = "US: call 911 in immediate danger, call or text 988. Elsewhere: findahelpline.com."
INTENDED_USE = (
    "Second Look labels texts. It does not predict what a person will do, it is not a crisis service, and nobody "
    "watches it in real time."
)


class SecondReviewRule(StrEnum):
    """Reviews that ask for a second one by themselves."""

    SAFE = ReviewLabel.SAFE.value
    UNSAFE = ReviewLabel.UNSAFE.value
    INSUFFICIENT_INFORMATION = ReviewLabel.INSUFFICIENT_INFORMATION.value
    UNSURE = "unsure"  # any label with a certainty at or below `unsure_at`
    SOFTENED = "softened"  # unsafe before the AI's view was shown, another label after it


_FourMinutes = tuple[Minutes, Minutes, Minutes, Minutes]


class SiteSettings(BaseModel):
    """Every setting of a site that has versions, with its default. What each does is said where a page asks for it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    stopped: bool = False
    target_minutes: _FourMinutes = (5, 15, 240, 1440)  # of P0 to P3
    follow_up_minutes: tuple[Minutes, Minutes] = (60, 1440)  # to contact somebody now; of other dispositions
    overnight_allowed: bool = False
    unscreened_minutes: Minutes = 15
    audit_urgent_share: Annotated[Share, Field(ge=0, le=1)] = 0.1
    lease_minutes: Minutes = 15
    break_after_texts: Annotated[int, Field(ge=1)] = 25
    second_review_rate: Annotated[float, Field(ge=0, le=1)] = 0.05
    unsure_at: Annotated[int, Field(ge=1, le=5)] = 2
    second_review_rules: tuple[SecondReviewRule, ...] = tuple(SecondReviewRule)[2:]
    dispositions: Annotated[tuple[Disposition, ...], AfterValidator(_offered)] = tuple(Disposition)[1:]
    break_wording: Words = BREAK_WORDING
    guideline: Annotated[str, Field(max_length=8_000)] = ""
    idle_minutes: Minutes = 30
    absolute_minutes: Minutes = 720
    help_text: Annotated[str, Field(max_length=300)] = HELP_TEXT
    protocol_address: WebAddress = ""
    intended_use: Annotated[str, Field(max_length=1_000)] = INTENDED_USE
    # the plan of the audit: see `AuditPlan`
    audit_at_most: Annotated[Share, Field(ge=0.001, le=0.5)] = 0.05
    audit_confidence: Annotated[Share, Field(ge=0.5, le=0.999)] = 0.95
    audit_allowed_misses: Annotated[int, Field(ge=0, le=100)] = 0
    audit_floor: Annotated[Share, Field(ge=0.001, le=1)] | None = None
    audit_report_on: date | None = None
    # what a report says of the study: see STARD
    study_texts: StudyWords = ""
    study_events: StudyWords = ""
    study_registration: StudyWords = ""
    study_protocol: StudyWords = ""
    study_funding: StudyWords = ""
    notify_minutes: _FourMinutes = (1, 5, 15, 60)  # between two messages of a priority
    notify_next_after_minutes: Minutes = 5
    public_address: WebAddress = ""
    time_zone: Annotated[str, AfterValidator(_known_zone)] = "UTC"
    keep_texts_days: Days = None  # None keeps them
    keep_drafts_days: Days = None
    keep_rejected_days: Days = None
    keep_messages_days: Days = None
    keep_sessions_days: Days = None
    erasure_by_two: bool = False
    accepted_model_names: tuple[str, ...] = ()  # beside the one asked and those of the environment

    @property
    def lease(self) -> timedelta:
        """How long a claim lasts without a sign of activity."""
        return timedelta(minutes=self.lease_minutes)

    @property
    def targets(self) -> Mapping[Priority, timedelta]:
        """Time to the first human look, by priority, as `triage.due_at` takes it."""
        minutes = zip(Priority, self.target_minutes, strict=True)
        return {priority: timedelta(minutes=target) for priority, target in minutes}


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsVersion:
    """The settings as they were from ``at`` on; version 0 is the defaults, before anybody set anything."""

    version: int
    settings: SiteSettings
    by: str | None = None
    at: datetime | None = None


_LATEST = select(settings_versions).order_by(settings_versions.c.version.desc()).limit(1)
LATEST_BODY = select(settings_versions.c.body).order_by(settings_versions.c.version.desc()).limit(1).scalar_subquery()
"""What `settings_of` reads, as a column of whatever a transaction asks anyway."""


def settings_of(body: Mapping[str, Any] | None) -> SiteSettings:
    """The settings in force; None is the defaults, before anybody set anything."""
    return SiteSettings() if body is None else SiteSettings.model_validate(body)


def current(db: Source) -> SettingsVersion:
    with reading(db) as conn:
        row = conn.execute(_LATEST).first()
    return SettingsVersion(version=0, settings=SiteSettings()) if row is None else _version(row)


def second_review_rates(conn: Connection) -> Callable[[datetime], float]:
    """The share sampled for a second review as it was in force at any time: by the last version made until then."""
    rows = conn.execute(select(settings_versions).order_by(settings_versions.c.version)).all()
    times = list(accumulate((row.at for row in rows), max))
    rates = [one.second_review_rate for one in (SiteSettings(), *(settings_of(row.body) for row in rows))]
    return lambda at: rates[bisect_right(times, at)]


def is_stopped(db: Database) -> bool:
    """Whether the stop button is pressed: every new decision then goes to a person."""
    return current(db).settings.stopped


def history(db: Database, actor: Actor) -> tuple[SettingsVersion, ...]:
    require(actor, Action.VIEW_SETTINGS)
    rows = db.rows(select(settings_versions).order_by(settings_versions.c.version.desc()))
    return tuple(_version(row) for row in rows)


def audit_plan(db: Database) -> AuditPlan:
    """The plan of the audit in force, with its last change."""
    plan = _plan_of(SiteSettings())
    for row in db.rows(select(settings_versions).order_by(settings_versions.c.version)):
        now = _plan_of(settings_of(row.body))
        if now != replace(plan, since=None, changes=0):
            plan = replace(now, since=row.at, changes=plan.changes + 1)
    return plan


def _plan_of(settings: SiteSettings) -> AuditPlan:
    names = ("at_most", "confidence", "allowed_misses", "floor", "report_on")
    return AuditPlan(**{name: getattr(settings, f"audit_{name}") for name in names})


def change(db: Database, by: Acting, settings: SiteSettings, based_on: int) -> SettingsVersion:
    """A new version, made from version ``based_on``, that one where nothing differs; Stale when it is not the one in
    force. The same change by the same person again is the version that the first made. The stop button stays as it is.
    """
    require(by.actor, Action.CHANGE_SETTINGS)

    def made_from(before: SettingsVersion) -> SiteSettings:
        after = settings.model_copy(update={"stopped": before.settings.stopped})
        again = (before.version, before.by, before.settings) == (based_on + 1, by.id, after)
        if before.version != based_on and not again:
            raise Stale("the settings were changed in the meantime")
        return after

    return _add(db, by, "settings_changed", made_from)


def accept_model_name(db: Database, by: Acting, name: str) -> SettingsVersion:
    """Let answers under this name of a model count from now on, in what begins after it; twice changes nothing."""
    require(by.actor, Action.CHANGE_SETTINGS)

    def made_from(before: SettingsVersion) -> SiteSettings:
        names = dict.fromkeys((*before.settings.accepted_model_names, name))
        return before.settings.model_copy(update={"accepted_model_names": tuple(names)})

    return _add(db, by, "model_name_accepted", made_from)


def settings_now(db: Database, settings: Settings) -> Settings:
    """The options with the names of models that an administrator has accepted on the settings page."""
    names = dict.fromkeys((*settings.accepted_model_names, *current(db).settings.accepted_model_names))
    return settings.model_copy(update={"accepted_model_names": tuple(names)})


def stop(db: Database, by: Acting) -> SettingsVersion:
    """Press the stop button; pressing it twice changes nothing."""
    require(by.actor, Action.STOP)
    return _add(db, by, "stopped", lambda before: before.settings.model_copy(update={"stopped": True}))


def start(db: Database, by: Acting) -> SettingsVersion:
    require(by.actor, Action.START)
    return _add(db, by, "started", lambda before: before.settings.model_copy(update={"stopped": False}))


def _add(
    db: Database, by: Acting, action: str, made_from: Callable[[SettingsVersion], SiteSettings]
) -> SettingsVersion:
    """A new version made from the one in force, which no other replaces meanwhile; that one where nothing differs."""
    with db.write() as conn:
        serialise(conn)
        before = current(conn)
        after = made_from(before)
        body, old = after.model_dump(mode="json"), before.settings.model_dump(mode="json")
        if not (changed := sorted(name for name in body if body[name] != old[name])):
            return before
        version = before.version + 1
        conn.execute(insert(settings_versions).values(version=version, body=body, by=by.id, at=by.now))
        append(conn, by, action, f"settings/{version}", {"changed": changed}, settings_versions)
    return SettingsVersion(version=version, settings=after, by=by.id, at=by.now)


def _version(row: Any) -> SettingsVersion:
    return record(SettingsVersion, row, settings=SiteSettings.model_validate(row.body))
