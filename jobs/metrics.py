"""The site's numbers as Prometheus reads them: made when asked for, from one snapshot of the database."""

from collections.abc import Iterator, Mapping
from typing import Any
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from jobs.process import Clock
from screening.review.triage import Priority
from storage.database import Database
from storage.review.reports import figures
from storage.site.health import Fault

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class SiteCollector(Collector):
    """Collects the site's numbers from the database each time they are asked for."""

    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock

    def describe(self) -> list[Metric]:
        """No metrics in advance: registering must not wait for the database."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Every metric of the site."""
        now = self._clock()
        found = figures(self._db, now)
        yield from _inbox(found, now.timestamp())
        yield from _work(found)
        yield from _processes(found, now.timestamp())


def registry(db: Database, clock: Clock) -> CollectorRegistry:
    """A registry of the site's numbers alone."""
    made = CollectorRegistry(auto_describe=False)
    made.register(SiteCollector(db, clock))
    return made


def text(db: Database, clock: Clock) -> bytes:
    """The answer to a request for /metrics."""
    return generate_latest(registry(db, clock))


def serve(db: Database, clock: Clock, port: int) -> WSGIServer:
    """Answer on this machine's loopback alone, in a thread; the server, to shut down."""
    server, _thread = start_http_server(port, addr="127.0.0.1", registry=registry(db, clock))
    return server


def _inbox(found: Mapping[str, Any], now: float) -> Iterator[Metric]:
    for name, said, values in (
        ("inbox_open", "Open cases of the inbox", found["open"]),
        ("inbox_overdue", "Open cases whose target has passed", found["overdue"]),
    ):
        yield _by_priority(name, said, {priority: values.get(priority, 0) for priority in Priority})
    late = {priority: now - due.timestamp() for priority, due in found["oldest_due"].items()}
    yield _by_priority("inbox_oldest_due_seconds", "Seconds since the earliest deadline of an open case", late)
    looks = {one.priority: one for one in found["first_looks"]}
    medians = {priority: one.median.total_seconds() for priority, one in looks.items() if one.median is not None}
    slow = {priority: one.p90.total_seconds() for priority, one in looks.items() if one.p90 is not None}
    yield _by_priority("first_look_median_seconds", "Median wait for the first look, cases of the last day", medians)
    yield _by_priority("first_look_p90_seconds", "90 % of them waited at most so long", slow)
    yield _by_priority(
        "first_looks", "How many those are", {priority: one.looked_at for priority, one in looks.items()}
    )


def _by_priority(name: str, said: str, values: dict[Priority, float] | dict[Priority, int]) -> Metric:
    made = GaugeMetricFamily(f"second_look_{name}", said, labels=["priority"])
    for priority, value in sorted(values.items()):
        made.add_metric([priority.name], value)
    return made


def _work(found: Mapping[str, Any]) -> Iterator[Metric]:
    for name, said, value in (
        ("cases_waiting", "Cases that wait for a worker", found["waiting"]),
        ("cases_parked", "Cases that failed and wait for a retry", found["parked"]),
    ):
        yield GaugeMetricFamily(f"second_look_{name}", said, value=value)
    for name, said, total in (
        ("calls", "Calls whose draws count", found["calls"]),
        ("lost_calls", "Calls whose draws do not count", found["lost_calls"]),
        ("unpriced_calls", "Calls without a known price", found["unpriced_calls"]),
        ("cost_usd", "Cost of the calls with a known price", found["cost_usd"]),
    ):
        yield CounterMetricFamily(f"second_look_{name}", said, value=total)
    errors = CounterMetricFamily("second_look_case_errors", "Errors of cases", labels=["kind"])
    for kind, count in sorted(found["errors"].items()):
        errors.add_metric([kind], count)
    yield errors


def _processes(found: Mapping[str, Any], now: float) -> Iterator[Metric]:
    alive = GaugeMetricFamily("second_look_processes_alive", "Processes that live", labels=["kind"])
    for kind in ("worker", "app"):
        alive.add_metric([kind], sum(one.alive and one.kind == kind for one in found["processes"]))
    yield alive
    beat = GaugeMetricFamily(
        "second_look_heartbeat_age_seconds", "Since a process last said that it lives", labels=["kind", "process"]
    )
    for one in found["processes"]:
        beat.add_metric([one.kind, one.name], now - one.seen_at.timestamp())
    yield beat
    lasting = GaugeMetricFamily("second_look_fault", "1 while the fault lasts", labels=["fault"])
    for fault in Fault:
        lasting.add_metric([fault.value], fault in found["faults"])
    yield lasting
