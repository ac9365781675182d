"""What is left out is still what the pinned Streamlit does as it starts, and the components are found without it."""

import asyncio
import inspect
import socket
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from streamlit import config, delta_generator
from streamlit.components.v2 import component_manager, manifest_scanner
from streamlit.components.v2.manifest_scanner import scan_component_manifests
from streamlit.proto.NewSession_pb2 import CustomThemeConfig
from streamlit.runtime import app_session
from streamlit.watcher.polling_path_watcher import PollingPathWatcher
from streamlit.web.server.starlette.starlette_server import _bind_socket

from pages.ui.streamlit_start import OURS, _written_once, our_components, send_at_once

ROOT = Path(__file__).parents[3]


def test_the_library_still_goes_by_what_is_set() -> None:
    assert "time.sleep(_POLLING_PERIOD_SECS)" in inspect.getsource(PollingPathWatcher)
    assert "if not _use_warning_has_been_displayed:" in inspect.getsource(delta_generator._maybe_print_use_warning)
    finding = inspect.getsource(component_manager.BidiComponentManager.discover_and_register_components)
    assert "scan_component_manifests()" in finding and "import (\n                scan_component_manifests" in finding


def test_our_package_is_all_that_the_library_would_find() -> None:
    (manifest, folder), *others = scan_component_manifests()
    assert not others and [(manifest, folder)] == our_components()
    assert manifest.name == OURS and len(manifest.components) >= 5 and (folder / "assets").is_dir()


def test_a_process_that_cannot_read_the_components_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any fault of the library's reader is silent, and pages would come without their desk."""
    monkeypatch.setattr(manifest_scanner, "_load_pyproject", lambda _path: None)
    with pytest.raises(RuntimeError, match="cannot be read"):
        our_components()


def _theme(section: str) -> dict[str, Any]:
    """What our settings say in this section: pages that were tested before may have been run without them."""
    found: Any = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text(encoding="utf-8"))
    for part in section.split("."):
        found = found.get(part, {})
    return {name: value for name, value in found.items() if not isinstance(value, dict)}


def test_the_theme_is_the_one_of_the_settings_whoever_asks_and_however_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "get_options_for_section", _theme)
    sections = [*(f"theme.{kind.value}" for kind in config.CustomThemeCategories), "theme"]
    kept = _written_once(app_session._populate_theme_msg)
    for _ in range(2):
        for section in sections:
            written, copied = CustomThemeConfig(), CustomThemeConfig()
            app_session._populate_theme_msg(written, section)
            kept(copied, section)
            assert copied == written and bool(written.ByteSize()) == (section in ("theme", "theme.light", "theme.dark"))
    assert inspect.getsource(app_session.AppSession._create_new_session_message).count("_populate_theme_msg(") == 6
    whole = CustomThemeConfig()
    kept(whole)
    kept(whole.light.sidebar, "theme.light.sidebar")
    assert not whole.HasField("light"), "nothing is said of it"


def test_the_look_of_charts_is_written_before_the_first_and_not_at_the_start() -> None:
    code = """if True:
        import sys
        from pages.ui import streamlit_command
        streamlit_command.put_off_chart_theme()
        import streamlit.elements.plotly_chart
        print("plotly" in sys.modules)
        from pages.research import figures
        import plotly.io
        print(plotly.io.templates.default, plotly.io.templates["streamlit"].layout.colorway is not None)
    """
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert ran.stdout.split() == ["False", "streamlit", "True"], ran.stderr


def test_app_and_worker_begin_without_what_takes_long_to_import() -> None:
    heavy = "('scipy', 'alembic', 'pandas', 'plotly.graph_objs._figure', 'anthropic', 'procrastinate')"
    code = f"import sys, worker, app, gc; print([n for n in {heavy} if n in sys.modules], gc.isenabled())"
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert ran.stdout.split("\n")[0] == "[] True", ran.stderr


async def _sends_at_once(address: str) -> bool:
    """Whether a connection to a socket as Streamlit opens it sends each write as it comes."""
    found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def look(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found.set_result(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    with _bind_socket(address, 0, 5) as listening:
        async with await asyncio.start_server(look, sock=listening):
            _, writer = await asyncio.open_connection(address, listening.getsockname()[1])
            at_once = bool(await found)
            writer.close()
    return at_once


def test_what_the_server_writes_leaves_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with _bind_socket("127.0.0.1", 0, 5) as listening:
        assert listening.proto != socket.IPPROTO_TCP, "the event loop does it by itself: leave ours out"
    monkeypatch.setattr("asyncio.base_events._set_nodelay", lambda _connection: None)
    assert not asyncio.run(_sends_at_once("127.0.0.1"))
    send_at_once()
    assert asyncio.run(_sends_at_once("127.0.0.1"))
