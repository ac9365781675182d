"""What the stub has seen: the other side's account of a run, to compare with the sampler's own."""

import time
from collections import Counter, deque
from collections.abc import Mapping
from typing import Any


class Counters:
    """Requests, answers, faults, retries, concurrency and arrival times; the last bodies and headers."""

    def __init__(self, kept: int = 200) -> None:
        self.requests = 0
        self.answers = 0
        self.probes = 0
        self.retries = 0
        self.in_flight = 0
        self.max_in_flight = 0
        self.faults: Counter[str] = Counter()
        self.refused: Counter[int] = Counter()
        self.answer_by_nonce: dict[str, str] = {}
        self.arrivals: list[float] = []
        self.bodies: deque[dict[str, Any]] = deque(maxlen=kept)
        self.headers: deque[dict[str, str]] = deque(maxlen=kept)

    def arrived(self, body: dict[str, Any], headers: Mapping[str, str]) -> int:
        """Counts a request; returns its number, from 0."""
        self.requests += 1
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        self.retries += headers.get("x-stainless-retry-count", "0") != "0"
        self.arrivals.append(time.monotonic())
        self.bodies.append(body)
        self.headers.append({name.lower(): value for name, value in headers.items()})
        return self.requests - 1

    def in_last(self, seconds: float) -> int:
        """Requests that arrived in the last ``seconds``."""
        since = time.monotonic() - seconds
        return sum(arrival > since for arrival in self.arrivals[-10_000:])

    def busiest(self, window_s: float) -> int:
        """Most requests in any window of that length."""
        most, first = 0, 0
        for last, arrival in enumerate(self.arrivals):
            while arrival - self.arrivals[first] >= window_s:
                first += 1
            most = max(most, last - first + 1)
        return most

    def as_json(self) -> dict[str, Any]:
        """Everything, for the counters page; keys are left out of the headers."""
        hidden = {"x-api-key", "authorization"}
        return {
            "requests": self.requests,
            "answers": self.answers,
            "retries": self.retries,
            "in_flight": self.in_flight,
            "max_in_flight": self.max_in_flight,
            "busiest_minute": self.busiest(60.0),
            "faults": dict(self.faults),
            "refused": dict(self.refused),
            "last_bodies": list(self.bodies)[-5:],
            "last_headers": [
                {name: value for name, value in headers.items() if name not in hidden}
                for headers in list(self.headers)[-5:]
            ],
        }
