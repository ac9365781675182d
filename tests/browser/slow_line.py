"""A line between browser and server that can be slow, or cut: a plain TCP proxy."""

import socket
import threading
import time
from contextlib import suppress

from tests.processes import free_port


class SlowLine:
    """Forwards every connection to the server at ``of``; what the browser sends waits ``delay_s`` before it goes on."""

    def __init__(self, of: str) -> None:
        self.delay_s = 0.0
        self._port = int(of.rpartition(":")[2])
        self._open: set[socket.socket] = set()
        self._cut = False
        self._listener = socket.create_server(("127.0.0.1", free_port()))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Every connection ends, and new ones are refused at once."""
        self._cut = True
        for each in list(self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        self._cut = False

    def close(self) -> None:
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                browser, _ = self._listener.accept()
            except OSError:
                return
            if self._cut:
                browser.close()
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self._port))
            except OSError:  # the server is down
                browser.close()
                continue
            self._open |= {browser, server}
            threading.Thread(target=self._forward, args=(browser, server, True), daemon=True).start()
            threading.Thread(target=self._forward, args=(server, browser, False), daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket, slow: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                if slow and self.delay_s:
                    time.sleep(self.delay_s)
                target.sendall(data)
        for each in (source, target):
            self._open.discard(each)
            with suppress(OSError):
                each.close()
