"""Which model is asked and how: the settings of a real model, and what its interface accepts."""

import hashlib
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from urllib.parse import urlsplit

from screening.labels import Spoken

ANTHROPIC_URL = "https://api.anthropic.com"
VERSION, VERSION_WITH_TEMPERATURE = "2026-10-21", "2023-06-01"
"""The version header that the vendor's library sends, and the last one under which a temperature is accepted."""
FIRST_WITHOUT_TEMPERATURE = (4, 7)
_GENERATION = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?:[-.](\d{1,2})(?!\d))?")


NEUTRAL: Mapping[str, float] = {"top_p": 1.0, "top_k": 1_000_000, "min_p": 0.0}
"""Values that truncate nothing, sent to servers that are not Anthropic's: their own would distort the distribution.
``top_k`` is larger than any vocabulary because servers disagree on what switches it off (0 or -1).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """Everything a real model is asked with; times in seconds. ValueError for values that cannot work.

    None means the model's own temperature (T = 1), an API version by model, no limit of ours, Anthropic's own service.
    ``adaptive`` finds the concurrency that the server stands. ``accepted_names`` are names beside ``model`` under which
    an administrator accepts its answers. ``most_unknown`` may be unknown where log probabilities decide.
    ``breaks_off``: the server bills nothing, so calls under way whose answers no longer matter are broken off.
    """

    model: str = "claude-sonnet-4-6"
    temperature: float | None = 0.7
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    api_version: str | None = None
    max_output_tokens: int = 10
    requests_per_minute: int | None = 1000
    concurrency: int = 32
    max_retries: int = 4
    call_timeout_s: float = 30.0
    node_deadline_s: float = 300.0
    pause_cap_s: float = 60.0
    cache_minimum_tokens: int = 1024
    adaptive: bool = False
    protocol: Spoken = "messages"
    most_unknown: float = 0.05
    accepted_names: tuple[str, ...] = ()
    breaks_off: bool = False

    def __post_init__(self) -> None:
        if not self.model.strip():
            raise ValueError("a model name is needed")
        if self.temperature is not None and not 0 <= self.temperature <= 2:
            raise ValueError("the temperature must lie between 0 and 2")
        counts = (self.max_output_tokens, self.concurrency, self.requests_per_minute or 1)
        if min(counts) < 1 or self.max_retries < 0:
            raise ValueError("output tokens, concurrency and requests per minute must be at least 1")
        if min(self.call_timeout_s, self.node_deadline_s) <= 0 or self.pause_cap_s < 0:
            raise ValueError("the time limits must be positive")
        if self.base_url is not None and urlsplit(self.base_url).scheme not in {"http", "https"}:
            raise ValueError("the base URL must begin with http:// or https://")

    @property
    def elsewhere(self) -> bool:
        """To a server that is not Anthropic's."""
        host = self.host
        return not (host == "anthropic.com" or host.endswith(".anthropic.com"))

    def with_adaptive_calls(self) -> "ModelSettings":
        """For a server that is not Anthropic's, how many calls at once it takes is found out."""
        return replace(self, adaptive=self.elsewhere)

    @property
    def _heated(self) -> bool:
        """Models from `FIRST_WITHOUT_TEMPERATURE` on accept no temperature at the service."""
        newest = None if self.elsewhere else generation(self.model)
        return self.temperature is not None and (newest is None or newest < FIRST_WITHOUT_TEMPERATURE)

    @property
    def version_header(self) -> str:
        return self.api_version or (VERSION_WITH_TEMPERATURE if self._heated or self.elsewhere else VERSION)

    @property
    def sampling(self) -> Mapping[str, float]:
        """What is sent, by name."""
        heated = {"temperature": self.temperature} if self._heated and self.temperature is not None else {}
        return {"temperature": 1.0, **heated, **NEUTRAL} if self.elsewhere else heated

    @property
    def notes(self) -> tuple[str, ...]:
        """What the settings page says of them."""
        if self.elsewhere:
            return ("Not Anthropic's service: neutral sampling values are sent; prompt caching is not asked for.",)
        if self._heated or self.temperature is None:
            return ()
        return (f"{self.model} accepts no temperature: it samples at its own (T = 1).",)

    @property
    def answering_models(self) -> frozenset[str]:
        return frozenset((self.model, *self.accepted_names))

    @property
    def host(self) -> str:
        """Host and port the calls go to, without user name or key."""
        return _host(self.base_url or ANTHROPIC_URL)

    @property
    def path_mark(self) -> str | None:
        """Tells models behind one host apart: a hash of the address's path, which may hold a key; None without one."""
        path = urlsplit(self.base_url or ANTHROPIC_URL).path.rstrip("/").removesuffix("/v1")
        return hashlib.sha256(path.encode()).hexdigest()[:12] if path else None


@lru_cache  # asked several times a call
def _host(url: str) -> str:
    parts = urlsplit(url)
    host = parts.hostname or ""
    return host if parts.port is None else f"{host}:{parts.port}"


def is_local(url: str) -> bool:
    """Whether the address names this machine or a private network by number; a name says nothing of who bills.

    >>> [is_local(url) for url in ("http://localhost:11434", "http://10.0.0.5:8080", "http://[::1]:80")]
    [True, True, True]
    >>> [is_local(url) for url in ("https://api.example.org", "http://8.8.8.8", "http://ollama:11434")]
    [False, False, False]
    """
    host = urlsplit(url).hostname or ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return address.is_loopback or address.is_private


def generation(model: str) -> tuple[int, int] | None:
    """The generation in a Claude model's name; None for other names.

    >>> generation("claude-sonnet-4-6"), generation("claude-3-5-haiku-20241022"), generation("claude-opus-5")
    ((4, 6), (3, 5), (5, 0))
    >>> generation("claude-sonnet-4-20250514"), generation("llama3.1:8b")
    ((4, 0), None)
    """
    match = _GENERATION.match(model.rpartition("/")[2])
    return None if match is None else (int(match[1]), int(match[2] or 0))
