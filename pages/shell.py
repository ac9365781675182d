"""The script behind every page: page settings, navigation, the sign-in gate, the notice, then the page itself."""

from pathlib import Path

import streamlit as st

from pages.components import resources
from pages.components.navigation import pages_for
from pages.components.notices import footer_html, notice_html
from pages.components.sign_in import current_actor, gate
from storage.policy import Forbidden

ICON = Path(__file__).parent / "components" / "icon.png"

st.set_page_config(page_title="Second Look", page_icon=str(ICON), layout="wide")
person = current_actor()
page = st.navigation(pages_for(person), position="top" if person else "hidden")  # first, always: see app.py
site = resources.site()
st.html(notice_html(site, simulated=resources.settings().simulated))
body, end = st.container(), st.container()
end.html(footer_html(site))  # before the page, which may stop the script
with body:
    if person is None:
        gate()
        st.stop()
    resources.intake_runs()
    try:
        page.run()
    except Forbidden as refused:
        st.error(f"{refused}.", icon=":material/block:")
