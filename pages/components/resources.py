"""Composition root of the pages: settings, the database and who is asking, each made once per process."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import streamlit as st

from screening.settings import Settings
from storage.actors import LOCAL_USER, Actor
from storage.database import Database


@st.cache_resource
def settings() -> Settings:
    """The site's options, read once."""
    return Settings()


@st.cache_resource
def database() -> Database:
    """The one engine of this process, its tables up to date."""
    opened = Database(settings().database_url)
    opened.prepare()
    return opened


def now() -> datetime:
    """This moment, aware, in UTC."""
    return datetime.now(UTC)


def entropy(size: int) -> bytes:
    """Unpredictable bytes for identifiers."""
    return os.urandom(size)


def sign_in_configured() -> bool:
    """Whether people must sign in at their institution (an [auth] section in the secrets file)."""
    return bool(st.secrets.load_if_toml_exists() and "auth" in st.secrets)


def actor() -> Actor:
    """Who is asking. Call it on every page: the services want to know each time."""
    signed_in: Actor | None = st.session_state.get("actor") if sign_in_configured() else LOCAL_USER
    if signed_in is None:
        st.stop()
    return signed_in


def sampler_description() -> Mapping[str, Any]:
    """Which agents answer here, as every screening records it."""
    chosen = settings()
    if chosen.simulated:
        return {"agents": "simulated", "seed": chosen.seed}
    return {
        "agents": chosen.agents,
        "model": chosen.model,
        "temperature": chosen.temperature,
        "base_url": chosen.anthropic_base_url,
    }
