"""Addresses for machines: whether the app lives, whether it can work, and the site's numbers behind a token."""

import hmac
from wsgiref.simple_server import WSGIServer

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from jobs import metrics
from jobs.port import system_clock
from pages.components import resources
from pages.components.singletons import singleton
from storage.review.figures import ErrorCounts, ready

HEALTH, READY, METRICS = "/healthz", "/readyz", "/metrics"


@singleton
def error_counts() -> ErrorCounts:
    """What /metrics has counted so far."""
    return ErrorCounts()


async def _healthz(_request: Request) -> Response:
    return PlainTextResponse("ok")


async def _readyz(_request: Request) -> Response:
    """Whether the database answers: told in one word, to anybody."""
    try:
        await run_in_threadpool(lambda: ready(resources.database()))
    except Exception:  # whatever it is, this app cannot work now
        return PlainTextResponse("the database does not answer", status_code=503)
    return PlainTextResponse("ready")


async def _metrics(request: Request) -> Response:
    """404 where no token is set, as if it were not there; 401 for another token."""
    token = resources.settings().metrics_token
    if token is None:
        return PlainTextResponse("There is no such page.", status_code=404)
    given = request.headers.get("authorization", "").removeprefix("Bearer ")
    if not hmac.compare_digest(given.encode(), token.get_secret_value().encode()):
        return PlainTextResponse("Give the token.", status_code=401, headers={"WWW-Authenticate": "Bearer"})
    made = await run_in_threadpool(lambda: metrics.text(resources.database(), system_clock, error_counts()))
    return Response(made, media_type=metrics.CONTENT_TYPE)


def serve_metrics() -> WSGIServer | None:
    """Answer on a loopback port of its own, where one is set."""
    port = resources.settings().metrics_port
    return None if port is None else metrics.serve(resources.database(), system_clock, port)


ROUTES = [Route(HEALTH, _healthz), Route(READY, _readyz), Route(METRICS, _metrics)]
