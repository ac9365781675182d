"""The script behind every page: page settings, navigation, the sign-in gate, the notice, then the page itself."""

from pathlib import Path

import streamlit as st

from pages.components import resources
from pages.components.navigation import pages_for
from pages.components.notices import notice_html
from pages.components.sign_in import current_actor, gate
from storage.policy import Forbidden

ICON = Path(__file__).parent / "components" / "icon.png"

st.set_page_config(page_title="Second Look", page_icon=str(ICON), layout="wide")
person = current_actor()
page = st.navigation(pages_for(person), position="top" if person else "hidden")  # first, always: see app.py
st.html(notice_html(resources.settings()))
if person is None:
    gate()
    st.stop()
try:
    page.run()
except Forbidden as refused:
    st.error(f"{str(refused).capitalize()}.", icon=":material/block:")
