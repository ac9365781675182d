"""Upload a file, check its rows and costs, follow the run, download the results."""

import streamlit as st

st.title("Batches")
