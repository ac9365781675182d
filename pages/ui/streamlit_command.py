"""Streamlit's command line as a site starts it: what it imports for charts alone waits for the first chart."""

import sys
from importlib import import_module
from types import ModuleType
from typing import NoReturn

THEME = "streamlit.elements.lib.streamlit_plotly_theme"
"""Writes Streamlit's look of Plotly's figures as it starts: a third of all that its own imports take."""


class _PutOff(ModuleType):
    """Stands in the place of that module until `write_chart_theme`."""

    def configure_streamlit_plotly_theme(self) -> None:
        """What Streamlit calls as it starts."""


def run(script: str) -> NoReturn:
    """Serve this script with the switches of this process's command line; ends the process."""
    put_off_chart_theme()
    from streamlit.web.cli import main

    sys.exit(main(["run", script, *sys.argv[1:]], prog_name="streamlit"))


def put_off_chart_theme() -> None:
    """Before Streamlit is imported."""
    sys.modules[THEME] = _PutOff(THEME)


def write_chart_theme() -> None:
    """What was put off, before the first figure is made; nothing where Streamlit was started otherwise."""
    if isinstance(sys.modules.get(THEME), _PutOff):
        del sys.modules[THEME]
        import_module(THEME).configure_streamlit_plotly_theme()
