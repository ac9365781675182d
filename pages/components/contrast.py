"""Two places where Streamlit writes small text in the primary colour, which is too dark for that on a dark page."""

import streamlit as st

_STYLE = """<style>
[data-testid=stSliderThumbValue] p,
[role=tab][aria-selected=true],[role=tab][aria-selected=true] *{color:light-dark(#0f5f73,#6cc3d8)}
</style>"""


def legible_controls() -> None:
    """Slider values and the chosen tab at 4.5:1 or more; call it once on a page that has either."""
    st.html(_STYLE)
