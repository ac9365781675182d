"""What runs in the browser: the files of our Streamlit components, in `assets`. No Python of the program is here."""

__version__ = "1.0.0"
