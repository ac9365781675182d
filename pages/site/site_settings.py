"""Forms made from the model of the settings and `site_settings.toml`, and the versions that saving makes. Each form
saves what it alone holds.
"""

import tomllib
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st
from pydantic import ValidationError
from streamlit.delta_generator import DeltaGenerator

from pages.ui import context, widgets
from pages.ui.words import DISPOSITION_WORDS, local_time, words_of
from screening.review.policy import Action, Actor, is_allowed
from storage.database import Database, Stale
from storage.settings_store import SecondReviewRule, SettingsVersion, SiteSettings, change, current, history

CHOICE_WORDS = {
    code.value: words
    for table in (words_of(SecondReviewRule, "second_review"), DISPOSITION_WORDS)
    for code, words in table.items()
}
Filled = dict[str, Any]
_MODEL = SiteSettings.model_json_schema()["properties"]
ASKED: Mapping[str, Mapping[str, Any]] = {
    name: _MODEL[name] | words
    for name, words in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")).items()
}


def settings_form(
    db: Database, person: Actor, form: str, button: str, *, check: Callable[[Filled], str | None] | None = None
) -> None:
    """The fields of one form with its button; for whoever may not change them, to read only.

    Somebody else's newer version of these fields is shown and refuses the save: what was typed stays until it is
    loaded. ``check`` is asked at each change and shows or refuses, where the fields follow what is typed.
    """
    may, key, now = is_allowed(person, Action.CHANGE_SETTINGS), f"{form}_shown", current(db)
    shown: SettingsVersion = st.session_state.setdefault(key, now)
    theirs = differences(shown.settings, now.settings, form)
    if theirs:
        st.warning(f"Version {now.version} was saved meanwhile by {now.by}: {'; '.join(theirs)}.")
        if st.button(f"Load version {now.version}", key=f"{form}_load"):
            del st.session_state[key]
            st.rerun()
    if check is None:
        with st.form(f"{form}_form", border=False):
            filled = _fields(form, shown, disabled=not may)
            pressed = st.form_submit_button(button, type="primary", disabled=not may, key=f"{form}_save")
    else:
        filled = _fields(form, shown, disabled=not may)
        refused = check(filled)
        if refused:
            st.error(refused)
        unchanged = all(getattr(shown.settings, name) == value for name, value in filled.items())
        pressed = st.button(button, disabled=not may or unchanged or bool(refused), key=f"{form}_save")
    if pressed and theirs:
        st.error("Not saved: somebody else has changed this too. Load their version first.")
    elif pressed:
        _save(db, person, form, now, filled)
    widgets.show_said(form)


def _save(db: Database, person: Actor, form: str, now: SettingsVersion, filled: Filled) -> None:
    try:
        settings = SiteSettings.model_validate(now.settings.model_dump() | filled)
        made = change(db, person.at(context.now()), settings, now.version)
    except Stale:
        st.error("Not saved: somebody else saved at the same moment. Reload the page.")
    except ValidationError as wrong:
        first = wrong.errors()[0]
        st.error(f"Not saved: {_label(str(first['loc'][0]))}: {first['msg'].removeprefix('Value error, ')}.")
    else:
        del st.session_state[f"{form}_shown"]
        widgets.say_after_rerun(form, f"Version {made.version} is active.")


def _fields(form: str, shown: SettingsVersion, *, disabled: bool) -> Filled:
    """What each field holds, by the name of its setting; small fields four in a row."""
    filled: Filled = {}
    section, places = None, _places()
    for name, field in ASKED.items():
        if field["form"] != form:
            continue
        if field.get("section") != section:
            section, places = field["section"], _places()
            st.markdown(f"**{section}**")
        key, now = f"{name}_v{shown.version}", getattr(shown.settings, name)
        options: Filled = {"disabled": disabled, "help": field.get("help")}
        kind = next(each for each in field.get("anyOf", [field]) if each.get("type") != "null")
        if "choices" in field:
            words = CHOICE_WORDS.__getitem__
            chosen = st.multiselect(field["title"], field["choices"], list(now), words, key=key, **options)
            filled[name] = tuple(chosen)
        elif "parts" in field:
            filled[name] = tuple(
                _number(next(places), field["title"].format(part), kind, value, f"{part}_{key}", options)
                for part, kind, value in zip(field["parts"], field["prefixItems"], now, strict=True)
            )
        elif kind["type"] in ("number", "integer"):
            scale = 100 if field.get("percent") else 1
            filled[name] = _number(next(places), field["title"], kind, now, key, options, scale)
        elif kind["type"] == "boolean":
            filled[name] = st.checkbox(field["title"], now, key=key, **options)
        elif kind.get("format") == "date":
            tomorrow = context.now().date() + timedelta(days=1)  # a day that was fixed stays shown when it has come
            filled[name] = next(places).date_input(
                field["title"], now, min_value=min(tomorrow, now or tomorrow), key=key, **options
            )
        elif long := kind.get("maxLength", 0):
            typed = st.text_area(field["title"], now, 68 if long <= 1_000 else 140, long, key=key, **options)
            filled[name] = typed.strip()
        else:
            filled[name] = st.text_input(field["title"], now, 300, key=key, **options).strip()
    return filled


def _places() -> Iterator[DeltaGenerator]:
    while True:
        yield from st.columns(4, vertical_alignment="bottom")


def _number(
    place: DeltaGenerator,
    label: str,
    kind: Mapping[str, Any],
    now: float | None,
    key: str,
    options: Mapping[str, Any],
    scale: int = 1,
) -> float | None:
    """``kind`` is the setting's entry in the model's JSON schema: whole or not, and where it may lie."""
    whole = kind["type"] == "integer"
    step = 1 if whole else 0.01 if kind.get("maximum") == 1 else 0.5 if scale > 1 else 1.0
    asked: Any = {
        "value": now,
        "min_value": kind.get("minimum", kind.get("exclusiveMinimum")),
        "max_value": kind.get("maximum"),
    }
    asked = {name: None if one is None else int(one) if whole else float(scale * one) for name, one in asked.items()}
    typed: float | None = place.number_input(
        label, step=step, format="%d" if whole else "%g", key=key, **asked, **options
    )
    return None if typed is None else round(typed / scale, 3) if scale > 1 else typed


def _label(name: str) -> str:
    title = ASKED[name]["title"] if name in ASKED else "{}"
    return name.replace("_", " ") if "{}" in title else title


def answers(site: SiteSettings) -> tuple[tuple[str, str], ...]:
    """What a report asks of the study with the site's answers; what nobody has answered is said to be open."""
    asked = [name for name, field in ASKED.items() if field["form"] == "study"]
    return tuple((_label(name), getattr(site, name) or "not stated by this site") for name in asked)


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


def differences(old: SiteSettings, new: SiteSettings, form: str | None = None) -> list[str]:
    """What changed from one version to the next, in one form alone where it is named.

    >>> differences(SiteSettings(), SiteSettings(lease_minutes=20)), differences(SiteSettings(), SiteSettings(), "site")
    (['Case lock (minutes): 15 → 20'], [])
    """
    was, now = old.model_dump(mode="json"), new.model_dump(mode="json")
    changed = [name for name in now if was[name] != now[name] and form in (None, ASKED.get(name, {}).get("form"))]
    return [f"{_label(name)}: {_show(was[name])} → {_show(now[name])}" for name in changed]


def _show(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
