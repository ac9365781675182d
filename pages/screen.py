"""Screen one text and watch the agents' labels being eliminated."""

import streamlit as st

st.title("Screen a text")
