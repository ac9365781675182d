"""Changes to Streamlit's own behaviour: work at its start and afterwards that a site does not need, and small writes
that should leave at once.

These are private names of Streamlit: a test checks what they do in the pinned version.
"""

import socket
from asyncio import base_events
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from streamlit import delta_generator
from streamlit.components.v2 import manifest_scanner
from streamlit.components.v2.manifest_scanner import ComponentManifest
from streamlit.proto.NewSession_pb2 import CustomThemeConfig
from streamlit.runtime import app_session
from streamlit.watcher import polling_path_watcher

OURS = "second-look-browser"
"""The one package that brings components."""


def skip_unused() -> None:
    """Skip the work that a site does not need, in this process."""
    # It checks the files of its own settings five times a second: a fifth of what an idle app does.
    polling_path_watcher._POLLING_PERIOD_SECS = 1.0  # type: ignore[misc]
    # At the first element it asks whether somebody types at a Python prompt, and looks up every module for that.
    delta_generator._use_warning_has_been_displayed = True
    # It reads the metadata of every installed package to find components.
    ours = our_components()
    manifest_scanner.scan_component_manifests = lambda max_workers=None: ours
    # Each run of a page or of a part of one looks the whole theme up in the settings: a millisecond of the thread that
    # answers everybody.
    app_session._populate_theme_msg = _written_once(app_session._populate_theme_msg)


def send_at_once() -> None:
    """Have what the server writes leave at once, in this process.

    The event loop asks for that (TCP_NODELAY) where a socket says that it is TCP, and Streamlit opens its own without
    saying so. A second small write then waits until the browser has confirmed the first, which browsers put off for
    40 ms and more: the body of every answer behind its head, every message of a page's run behind the one before.
    """
    base_events._set_nodelay = _send_at_once  # type: ignore[attr-defined]


def _send_at_once(connection: socket.socket) -> None:
    if connection.family in {socket.AF_INET, socket.AF_INET6} and connection.type == socket.SOCK_STREAM:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def our_components() -> list[tuple[ComponentManifest, Path]]:
    """What our package declares. RuntimeError where that cannot be read: Streamlit would go on without the desk, and a
    process that ends before it serves is started again.
    """
    found = manifest_scanner._process_single_package(metadata.distribution(OURS))
    if found is None:
        raise RuntimeError(f"the components of the package {OURS} cannot be read: install it anew")
    return [found]


def _written_once(write: Callable[[CustomThemeConfig, str], None]) -> Callable[..., None]:
    """The same, of each section of the settings once; what a section leaves unsaid stays unsaid."""
    kept: dict[str, CustomThemeConfig] = {}

    def copy(theme: CustomThemeConfig, section: str = "theme") -> None:
        if section not in kept:
            write(written := CustomThemeConfig(), section)
            kept[section] = written
        if kept[section].ByteSize():
            theme.MergeFrom(kept[section])

    return copy
