"""What is for one browser alone, at an address that nobody can guess."""

import secrets
import threading
from collections import OrderedDict
from typing import Generic, Protocol, TypeVar


class OfBrowser(Protocol):
    """What is for one browser, as `browser_of` tells it."""

    @property
    def browser(self) -> str: ...


B = TypeVar("B", bound=OfBrowser)


class Addresses(Generic[B]):
    """Entries with addresses that nobody can guess, ``under`` a path, each only for its own browser; in this process.
    Beyond ``most`` the oldest are forgotten. Threads may share it.
    """

    def __init__(self, under: str, most: int) -> None:
        self._under, self._most, self._known, self._lock = under, most, OrderedDict[str, B](), threading.Lock()

    def take(self, one: B) -> str:
        """Give this entry an address, and return that."""
        token = secrets.token_urlsafe(24)
        with self._lock:
            self._known[token] = one
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        return f"{self._under}/{token}"

    def find(self, token: str, browser: str) -> B | None:
        """What has this address; None where there is none, or it is another browser's."""
        with self._lock:
            found = self._known.get(token)
        return found if found and found.browser == browser else None
