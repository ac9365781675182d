"""Fields of the settings: what reaches a person, and when."""

import streamlit as st

from pages.ui.labels import NOT_PRIVATE
from pages.ui.widgets import number_field
from storage.settings_store import SiteSettings


def reach_fields(now: SiteSettings, key: str, *, disabled: bool) -> dict[str, object]:
    """What becomes of what is called unsafe or cannot be screened, as the form gives it."""
    st.markdown("**What reaches a person**")
    minutes, share = st.columns(2)
    overnight = st.checkbox(
        "Research files may be screened overnight by message batches", now.overnight_allowed, key=f"overnight_{key}",
        disabled=disabled, help=NOT_PRIVATE,
    )  # fmt: skip
    return {
        "overnight_allowed": overnight,
        "unscreened_minutes": number_field(
            minutes, "Not screened: to the inbox after minutes", 1.0, 1_440.0, float(now.unscreened_minutes), 1.0,
            format="%g", key=f"unscreened_{key}", disabled=disabled,
            help="Where a fault keeps a text from being screened and its batch has texts called unsafe read.",
        ),
        "audit_urgent_share": round(
            share.number_input(
                "Share of audit samples shown as P1", 0.0, 1.0, now.audit_urgent_share, 0.05, format="%.3f",
                key=f"urgent_{key}", disabled=disabled, help="So that P1 does not mean: called unsafe.",
            ),
            3,
        ),
    }  # fmt: skip
