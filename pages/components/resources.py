"""Composition root of the pages: settings, the database and who is asking, each made once per process."""

from datetime import UTC, datetime
from typing import Any

import streamlit as st

from jobs.agents import Agents
from jobs.intake import configuration_of
from pages.components import http
from pages.components.singletons import singleton
from screening.engine.pipeline import PipelineConfig, preset
from screening.review.actors import LOCAL_USER, Acting, Actor
from screening.settings import Settings
from storage import settings_store
from storage.batches.configurations import Configuration
from storage.batches.pipelines import active_version
from storage.database import Database
from storage.settings_store import SiteSettings, current


@singleton
def settings() -> Settings:
    """The site's options, read once."""
    return Settings()


@singleton
def database() -> Database:
    """The one engine of this process, its tables up to date."""
    opened = Database(Settings().database_url)
    opened.prepare()
    return opened


def now() -> datetime:
    """This moment, aware, in UTC."""
    return datetime.now(UTC)


@singleton
def sign_in_configured() -> bool:
    """Whether people must sign in. Looked up once: a secrets file that is removed later opens nothing."""
    return http.sign_in_configured()


def actor() -> Actor:
    """Who is asking, as the shell found on this very run. Call it on every page: the services want to know."""
    signed_in: Actor | None = st.session_state.get("actor") if sign_in_configured() else LOCAL_USER
    if signed_in is None:
        st.stop()
    return signed_in


def actor_now() -> Acting:
    """Who is asking, at this moment: the value that services take as ``by``."""
    return actor().at(now())


@singleton
def agents_description() -> dict[str, Any]:
    """What the usual agents of the present settings say of themselves, as every configuration records it."""
    return dict(Agents(settings()).describe(settings().seed))


def configuration(pipeline: PipelineConfig) -> Configuration:
    """What a text is screened with when it is handed in now with this pipeline."""
    chosen = settings_now()
    names = {"answers_as": sorted({chosen.model, *chosen.accepted_model_names})}
    described = agents_description() | (names if chosen.accepted_model_names and not chosen.simulated else {})
    return configuration_of(chosen, described, pipeline)


def settings_now() -> Settings:
    """The options with what an administrator has added to them on the settings page."""
    return settings_store.settings_now(database(), settings())


def usual_pipeline() -> PipelineConfig:
    """What a text is screened with unless somebody chooses otherwise: the site's own pipeline, else the preset."""
    return own_pipeline() or preset(settings().preset, budget=settings().budget)


def own_pipeline() -> PipelineConfig | None:
    """The pipeline that the site has put into service; None while it screens with the preset."""
    own = active_version(database())
    return own.pipeline if own else None


def site() -> SiteSettings:
    """What the site has set while it runs: wording, targets, and whether the stop button is pressed."""
    return current(database()).settings
