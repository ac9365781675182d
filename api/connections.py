"""Connections to the door: how many are open at once, and how long each may take to say what it wants.

Nobody has signed in yet when a connection opens, so whoever opens many and says half of a request holds memory and
places of others. The server in use waits for the rest of a head for ever.
"""

import asyncio
from typing import ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_OPEN = 256
"""Connections at once; one more is closed as it opens."""
HEAD_WITHIN_S = 10.0
LARGEST_HEAD = 16_384
"""Bytes of a request before its body."""


class ImpatientProtocol(H11Protocol):
    """HTTP as the server speaks it, hung up on where the head of a request does not arrive in time."""

    most_open: ClassVar[int] = MOST_OPEN
    head_within_s: ClassVar[float] = HEAD_WITHIN_S
    open_now: ClassVar[int] = 0
    _head_due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count it; close it where too many are open."""
        type(self).open_now += 1
        super().connection_made(transport)
        if self.open_now > self.most_open:
            transport.abort()
        else:
            self._expect_head()

    def data_received(self, data: bytes) -> None:
        """Wait no longer once a head is whole, and anew where the next one begins."""
        super().data_received(data)
        if self._answering():
            self._forget_head()
        elif self._head_due is None:
            self._expect_head()

    def on_response_complete(self) -> None:
        """The next request may have begun already."""
        super().on_response_complete()
        if self._head_due is None and not self._answering():
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """One fewer."""
        type(self).open_now -= 1
        self._forget_head()
        super().connection_lost(exc)

    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _expect_head(self) -> None:
        self._head_due = self.loop.call_later(self.head_within_s, self._hang_up)

    def _forget_head(self) -> None:
        if self._head_due is not None:
            self._head_due.cancel()
            self._head_due = None

    def _hang_up(self) -> None:
        self._head_due = None
        if not self._answering():
            self.transport.abort()
