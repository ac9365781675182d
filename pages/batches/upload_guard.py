"""Who may send a file, and how much: asked before Streamlit takes the file into memory, where it would lie for as long
as the page is open.
"""

import json
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable

from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pages.components import resources
from pages.components.http import signed_in_claims
from pages.components.sign_in import Unidentified, sign_in_of
from pages.components.web_socket import own_page
from screening.review.actors import LOCAL_USER, Actor
from screening.review.policy import Action, is_allowed
from storage.audit_log import record_refusal
from storage.review import presence
from storage.site.accounts import SessionEnded

HOUR_S = 3600.0


class TooMuch(Exception):
    """This person has sent as much within an hour as one person may."""


class Allowances:
    """How many files and bytes each person has sent within the last hour. Threads may share it."""

    def __init__(self, files: int, size: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._files, self._size, self._clock = files, size, clock
        self._sent: defaultdict[str, deque[list[float]]] = defaultdict(deque)
        self._lock = threading.Lock()

    def begin(self, person: str) -> Callable[[int], None]:
        """Count one more file; the function returned counts its bytes as they come. Both raise TooMuch."""
        with self._lock:
            sent = self._recent(person)
            if len(sent) >= self._files or sum(size for _, size in sent) >= self._size:
                raise TooMuch
            file = [self._clock(), 0.0]
            sent.append(file)

        def count_bytes(size: int) -> None:
            with self._lock:
                file[1] += size
                if sum(each for _, each in self._recent(person)) > self._size:
                    raise TooMuch

        return count_bytes

    def _recent(self, person: str) -> deque[list[float]]:
        sent = self._sent[person]
        while sent and sent[0][0] <= self._clock() - HOUR_S:
            sent.popleft()
        return sent


class UploadGuard:
    """Takes a file from a page of this host, from somebody in a session that is still valid who may create batches,
    and only so many and so much an hour. Everything else is refused before its first byte is read.
    """

    def __init__(self, app: ASGIApp, *, sign_in: bool, allowances: Allowances | None = None) -> None:
        self._app = app
        self._sign_in = sign_in
        self._allowances = allowances

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or "/_stcore/upload_file/" not in scope["path"] or scope["method"] != "PUT":
            await self._app(scope, receive, send)
            return
        try:
            person = await run_in_threadpool(uploader, scope, sign_in=self._sign_in)
            received = self._of_the_site().begin(person.id)
        except TooMuch:
            await _refuse(429, "You have sent as many files as one person may within an hour.", scope, receive, send)
        except Refused as refusal:
            await _refuse(refusal.status, str(refusal), scope, receive, send)
        else:
            await self._app(scope, _count_parts(receive, received), send)

    def _of_the_site(self) -> Allowances:
        if self._allowances is None:
            limits = resources.settings()
            self._allowances = Allowances(limits.uploads_per_hour, limits.upload_megabytes_per_hour * 1_000_000)
        return self._allowances


class Refused(Exception):
    """This request may send no file; the message is for the person."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


def uploader(scope: Scope, *, sign_in: bool) -> Actor:
    """Who sends a file, looked up in the accounts. Raises Refused."""
    if not own_page(scope):
        raise Refused(403, "Files are sent from this site's own pages.")
    if not sign_in:
        return LOCAL_USER
    claims = signed_in_claims(scope)
    if claims is None:
        raise Refused(401, "Sign in first.")
    try:
        found = sign_in_of(json.loads(claims))
        person = presence.enter(resources.database(), found, resources.now(), active=False)
    except (SessionEnded, Unidentified, ValueError):
        raise Refused(401, "Your session has ended: sign in again.") from None
    if not is_allowed(person, Action.CREATE_BATCH):
        record_refusal(resources.database(), person.at(resources.now()), Action.CREATE_BATCH)
        raise Refused(403, "Your role does not let you create batches.")
    return person


async def _refuse(status: int, words: str, scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse(words, status_code=status)(scope, receive, send)


def _count_parts(receive: Receive, received: Callable[[int], None]) -> Receive:
    """The file's parts, until there were too many: then it is as if the sender had gone."""

    async def count_part() -> Message:
        message = await receive()
        try:
            received(len(message.get("body", b"")))
        except TooMuch:
            return {"type": "http.disconnect"}
        return message

    return count_part
