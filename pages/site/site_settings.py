"""The site's own settings as a form: each save is a version."""

from dataclasses import dataclass

import pandas as pd
import streamlit as st

from pages.ui.format import local_time
from pages.ui.labels import DISPOSITION_WORDS, NOT_PRIVATE
from pages.ui.widgets import number_field, save_when_pressed, settings_shown
from screening.review.actors import Actor
from screening.review.policy import Action, is_allowed
from screening.review.rating_form import Disposition
from screening.review.triage import Tier
from storage.database import Database
from storage.settings_store import LONGEST_WORDING, SecondReadingRule, SettingsVersion, SiteSettings, current, history

RULE_WORDS = {
    SecondReadingRule.SAFE: "Every safe review",
    SecondReadingRule.UNSAFE: "Every unsafe review",
    SecondReadingRule.INSUFFICIENT_INFORMATION: "Insufficient information",
    SecondReadingRule.UNSURE: "Low confidence, whatever the label",
    SecondReadingRule.SOFTENED: "Unsafe before the AI's result was shown, another label after it",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number of the settings: its name there, what it is called, and where it may lie."""

    name: str
    label: str
    low: float
    high: float


NUMBERS = (
    Number(name="lease_minutes", label="Case lock (minutes)", low=1, high=240),
    Number(name="idle_minutes", label="Sign-in ends when idle for (min)", low=1, high=1_440),
    Number(name="absolute_minutes", label="Sign-in ends in any case after (min)", low=5, high=10_080),
    Number(name="break_after_texts", label="Break prompt after texts opened", low=1, high=500),
)


def settings_form(db: Database, person: Actor) -> None:
    """The form; for whoever may not change it, to read only."""
    shown, may = settings_shown(db, "site_save"), is_allowed(person, Action.CHANGE_SETTINGS)
    st.caption(f"Version {current(db).version}." + ("" if may else " An administrator can change these."))
    with st.form("site_settings", border=False):
        filled = _fields(shown, disabled=not may)
        pressed = st.form_submit_button("Save as a new version", type="primary", disabled=not may, key="site_save")
    save_when_pressed(db, person, "site_save", shown, filled, pressed=pressed)


def _fields(shown: SettingsVersion, *, disabled: bool) -> dict[str, object]:
    now, key = shown.settings, f"v{shown.version}"
    filled: dict[str, object] = {}
    st.markdown("**Response-time targets (minutes)**")
    targets = [
        number_field(
            column, tier.name, 1.0, 43_200.0, float(minutes), 1.0, "%g", key=f"{tier.name}_{key}", disabled=disabled
        )
        for column, tier, minutes in zip(st.columns(4), Tier, now.target_minutes, strict=True)
    ]
    filled["target_minutes"] = tuple(targets)
    filled |= reach_fields(now, key, disabled=disabled)
    for column, number in zip(st.columns(4), NUMBERS, strict=True):
        value = getattr(now, number.name)
        kind = type(value)
        filled[number.name] = number_field(
            column,
            number.label,
            kind(number.low),
            kind(number.high),
            value,
            kind(1),
            format="%g" if kind is float else "%d",
            key=f"{number.name}_{key}",
            disabled=disabled,
        )
    left, middle, right = st.columns([1, 1, 2])
    filled["second_reading_rate"] = left.number_input(
        "Share randomly double-reviewed", 0.0, 1.0, now.second_reading_rate, 0.01, "%g", key=f"rate_{key}",
        disabled=disabled, help="Inter-rater agreement is computed from these reviews alone.",
    )  # fmt: skip
    filled["unsure_at"] = middle.number_input(
        "Low confidence: at or below", 1, 5, now.unsure_at, key=f"unsure_{key}", disabled=disabled
    )
    filled["second_reading_rules"] = tuple(
        right.multiselect(
            "Always second-review", list(SecondReadingRule), list(now.second_reading_rules),
            format_func=lambda rule: RULE_WORDS[rule], key=f"rules_{key}", disabled=disabled,
        )
    )  # fmt: skip
    filled["dispositions"] = tuple(
        st.multiselect(
            "Dispositions offered, in this order", list(Disposition)[1:], list(now.dispositions),
            format_func=lambda each: DISPOSITION_WORDS[each], key=f"dispositions_{key}", disabled=disabled,
            help="One is required for every unsafe text and every P0 or P1 case.",
        )
    )  # fmt: skip
    filled["break_wording"] = st.text_area(
        "Wording of the break prompt", now.break_wording, 70, LONGEST_WORDING, key=f"break_{key}", disabled=disabled,
        help="Plain text, shown as it is; {texts} stands for the number of texts opened since the last break.",
    )  # fmt: skip
    filled["help_text"] = st.text_input("Help wording", now.help_text, 300, key=f"help_{key}", disabled=disabled)
    filled["protocol_address"] = st.text_input(
        "Address of your protocol", now.protocol_address, 300, key=f"protocol_{key}", disabled=disabled,
        help="Linked beside the help wording at every case.",
    )  # fmt: skip
    filled["intended_use"] = st.text_area(
        "Intended use", now.intended_use, max_chars=1_000, key=f"use_{key}", disabled=disabled
    )
    filled["guideline"] = st.text_area(
        "Guideline for reviewers", now.guideline, 140, 8_000, key=f"guideline_{key}", disabled=disabled,
        help="Plain text, shown as it is beside what the labels mean (G on the inbox).",
    )  # fmt: skip
    return filled


def versions(db: Database, person: Actor) -> None:
    """Every version with what it changed, the newest first."""
    found = list(history(db, person))
    if not found:
        st.caption("Never changed: the defaults are active.")
        return
    before = [*found[1:], SettingsVersion(version=0, settings=SiteSettings())]
    rows = [
        {
            "Version": one.version,
            "When": local_time(one.at) if one.at else "",
            "By": one.by,
            "Changed": "; ".join(differences(old.settings, one.settings)),
        }
        for one, old in zip(found, before, strict=True)
    ]
    st.dataframe(pd.DataFrame(rows), hide_index=True, alt="Versions of the settings")


def differences(old: SiteSettings, new: SiteSettings) -> list[str]:
    """What changed from one version to the next.

    >>> differences(SiteSettings(), SiteSettings(lease_minutes=20))
    ['lease minutes: 15 → 20']
    """
    was, now = old.model_dump(mode="json"), new.model_dump(mode="json")
    changed = [name for name in now if was[name] != now[name]]
    return [f"{name.replace('_', ' ')}: {_show(was[name])} → {_show(now[name])}" for name in changed]


def _show(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def reach_fields(now: SiteSettings, key: str, *, disabled: bool) -> dict[str, object]:
    """What becomes of what is called unsafe or cannot be screened, as the form gives it."""
    st.markdown("**What is sent to review**")
    minutes, share = st.columns(2)
    overnight = st.checkbox(
        "Research files may be screened overnight by message batches", now.overnight_allowed, key=f"overnight_{key}",
        disabled=disabled, help=NOT_PRIVATE,
    )  # fmt: skip
    return {
        "overnight_allowed": overnight,
        "unscreened_minutes": number_field(
            minutes, "Send unscreened texts to review after (min)", 1.0, 1_440.0, float(now.unscreened_minutes), 1.0,
            format="%g", key=f"unscreened_{key}", disabled=disabled,
            help="Where a fault keeps a text from being screened and its upload has unsafe texts reviewed.",
        ),
        "audit_urgent_share": round(
            share.number_input(
                "Share of quality checks disguised as P1", 0.0, 1.0, now.audit_urgent_share, 0.05, format="%.3f",
                key=f"urgent_{key}", disabled=disabled, help="So that P1 does not always mean: labeled unsafe.",
            ),
            3,
        ),
    }  # fmt: skip
