"""What an operator looks at: health, readiness and metrics by HTTP, the notifier, and the system status of Home."""

import hmac
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import cache
from typing import Any
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from jobs.notify import Notifier
from jobs.process import system_clock, worker_name
from pages.ui import context
from pages.ui.context import SharedLook, singleton
from screening.review.triage import Priority
from storage.database import Database, passing_fault
from storage.review.reports import figures, require_ready
from storage.site.health import Fault

LOOK_EVERY = timedelta(seconds=3)
PROBE_BYTES = 8_192
"""What a disk has room for that is not full."""
HEALTH, READY, METRICS = "/healthz", "/readyz", "/metrics"


async def _healthz(_request: Request) -> Response:
    return PlainTextResponse("ok")


def _problem(db: Database, now: datetime) -> str | None:
    """Why this app cannot work: its database is not read or written, or its data directory takes no file."""
    try:
        require_ready(db, now)
    except Exception as error:  # whatever it is, this app cannot work now
        fault = passing_fault(error)
        return "the database does not answer" if fault is None else f"the database is {fault.value}"
    folder = context.settings().data_directory
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(PROBE_BYTES))
    except OSError as error:
        return f"the data directory cannot be written: {error.strerror}"
    return None


@singleton
def readiness() -> SharedLook[str | None]:
    """What was found last, at most once in a while, however many ask."""
    return SharedLook(_problem, LOOK_EVERY)


async def _readyz(_request: Request) -> Response:
    """Whether it can work: told in one sentence, to anybody."""
    problem = await run_in_threadpool(lambda: readiness().at(context.database(), system_clock()))
    return PlainTextResponse("ready") if problem is None else PlainTextResponse(problem, status_code=503)


async def _metrics(request: Request) -> Response:
    """404 where no token is set, as if it were not there; 401 for another token."""
    token = context.settings().metrics_token
    if token is None:
        return PlainTextResponse("There is no such page.", status_code=404)
    given = request.headers.get("authorization", "").removeprefix("Bearer ")
    if not hmac.compare_digest(given.encode(), token.get_secret_value().encode()):
        return PlainTextResponse("Give the token.", status_code=401, headers={"WWW-Authenticate": "Bearer"})
    made = await run_in_threadpool(lambda: generate_latest(registry()))
    return Response(made, media_type="text/plain; version=0.0.4; charset=utf-8")


def serve_metrics() -> WSGIServer | None:
    """Answer on a loopback port of its own, where one is set."""
    port = context.settings().metrics_port
    return None if port is None else start_http_server(port, addr="127.0.0.1", registry=registry())[0]


class _SiteCollector(Collector):
    """Collects the site's numbers, from one snapshot of the database each time they are asked for."""

    def describe(self) -> list[Metric]:
        """No metrics in advance: registering must not wait for the database."""
        return []

    def collect(self) -> Iterator[Metric]:
        now = system_clock()
        found = figures(context.database(), now)
        yield from _metrics_of(found, now.timestamp())


def registry() -> CollectorRegistry:
    made = CollectorRegistry(auto_describe=False)
    made.register(_SiteCollector())
    return made


def _metrics_of(found: Mapping[str, Any], now: float) -> Iterator[Metric]:
    looks, every = found["first_looks"], dict.fromkeys(Priority, 0)
    oldest = {one: now - due.timestamp() for one, due in found["oldest_due"].items()}
    median = {one.priority: one.median.total_seconds() for one in looks if one.median is not None}
    p90 = {one.priority: one.p90.total_seconds() for one in looks if one.p90 is not None}
    for name, said, values in (
        ("inbox_open", "Open cases of the inbox", every | found["open"]),
        ("inbox_overdue", "Open cases whose target has passed", every | found["overdue"]),
        ("inbox_oldest_due_seconds", "Seconds since the earliest deadline of an open case", oldest),
        ("first_look_median_seconds", "Median wait for the first look, cases of the last day", median),
        ("first_look_p90_seconds", "90 % of them waited at most so long", p90),
        ("first_looks", "How many those are", {one.priority: one.looked_at for one in looks}),
    ):
        yield _gauge(name, said, ["priority"], [(one.name, value) for one, value in sorted(values.items())])
    yield _gauge("cases_waiting", "Cases that wait for a worker", [], [(found["waiting"],)])
    yield _gauge("cases_parked", "Cases that failed and wait for a retry", [], [(found["parked"],)])
    for name, said in (
        ("calls", "Calls whose draws count"),
        ("lost_calls", "Calls whose draws do not count"),
        ("unpriced_calls", "Calls without a known price"),
        ("cost_usd", "Cost of the calls with a known price"),
    ):
        yield CounterMetricFamily(f"second_look_{name}", said, value=found[name])
    errors = CounterMetricFamily("second_look_case_errors", "Errors of cases", labels=["kind"])
    for kind, count in sorted(found["errors"].items()):
        errors.add_metric([kind], count)
    yield errors
    all_of_them = found["processes"]
    alive = [(kind, sum(one.alive and one.kind == kind for one in all_of_them)) for kind in ("worker", "app")]
    yield _gauge("processes_alive", "Processes that live", ["kind"], alive)
    ages = [(one.kind, one.name, now - one.seen_at.timestamp()) for one in all_of_them]
    yield _gauge("heartbeat_age_seconds", "Since a process last said that it lives", ["kind", "process"], ages)
    yield _gauge("fault", "1 while the fault lasts", ["fault"], [(one.value, one in found["faults"]) for one in Fault])


def _gauge(name: str, said: str, labels: list[str], rows: Iterable[tuple[Any, ...]]) -> Metric:
    """A row for each: the values of its labels, and the number."""
    made = GaugeMetricFamily(f"second_look_{name}", said, labels=labels)
    for *of, value in rows:
        made.add_metric(of, value)
    return made


ROUTES = [Route(HEALTH, _healthz), Route(READY, _readyz), Route(METRICS, _metrics)]


@cache
def notifier() -> Notifier:
    db, settings, name = context.database(), context.settings(), worker_name("app-")
    return Notifier(db=db, settings=settings, name=name, kind="app", clock=system_clock)
