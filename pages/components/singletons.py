"""Objects that a process has exactly once: made at first use, kept until it ends.

Not `st.cache_resource`: clearing the caches drops its entries, and two threads that come first may each make one. There
must be one database, and one record of the files being taken in, for as long as the process lives.
"""

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")
_all: "list[Singleton[Any]]" = []


class Singleton(Generic[T]):
    """The function's value, made once for all threads. A function that raises is asked again at the next call."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: list[T] = []
        self._lock = threading.RLock()
        self.__doc__ = make.__doc__
        _all.append(self)

    def __call__(self) -> T:
        if not self._made:
            with self._lock:
                if not self._made:
                    self._made.append(self._make())
        return self._made[0]

    def forget(self) -> None:
        """Forget the value: the next call makes a new one."""
        with self._lock:
            self._made.clear()


def singleton(make: Callable[[], T]) -> Singleton[T]:
    """Decorates a function without arguments, in a module that is imported once (a page's script is not)."""
    return Singleton(make)


def forget_all() -> None:
    """As if the process had just started: for a test with another database."""
    for one in _all:
        one.forget()
