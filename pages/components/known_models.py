"""Refusing, on any page, a pipeline that names a server or a model which the site does not know."""

import streamlit as st

from jobs.agents import unanswerable
from pages.components import resources
from pages.components.words import literal
from screening.engine.pipeline import PipelineConfig


def known_models_or_refuse(pipeline: PipelineConfig) -> bool:
    """Whether the site knows every server and model that this pipeline names; the page says which it does not."""
    wrong = unanswerable(resources.settings_now(), pipeline)
    if wrong:
        st.error(literal(f"{wrong[:1].upper()}{wrong[1:]}."), icon=":material/block:")
    return not wrong
