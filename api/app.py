"""`/api/v1` as an application of its own: every request by a token, every answer JSON, nothing kept by a cache."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import Depends, FastAPI, Header, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from fastapi.security import HTTPBearer
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from api.door import ROOT, Door, Limits, Refused, identify, problem, require_scope
from api.intake import TELL_EVERY_S, Intake, UniqueKeysRoute, tell_settled
from api.schemas import BatchFound, Found, Listed, NewText, Problem, RowFound, Submitted
from jobs.intake import receiver
from jobs.process import Clock
from screening.datasets.mapping import FileMapping, mapping_schema, read_mapping
from screening.datasets.rows import FileRefused
from screening.labels import Outcome
from screening.review.triage import Reach
from screening.settings import Settings
from screening.text.display import file_label
from storage.batches.batch_state import UnknownBatch
from storage.batches.batches import progress
from storage.batches.intake import IntakeClosed, count_not_screened, unread_columns
from storage.batches.results import Result, export_results
from storage.database import Database
from storage.review import program_texts
from storage.review.program_texts import KeyUsed, UnknownText
from storage.site.accounts import Program, Scope, UnknownToken

_KEY = re.compile(r"[A-Za-z0-9._:~-]{1,100}")
_TOKEN = HTTPBearer(auto_error=False)
"""For the description; the door has looked at it."""
_ID = Annotated[str, Path(pattern="^[0-9a-f]{32}$")]
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    code: {"model": Problem} for code in (400, 401, 403, 404, 405, 408, 409, 413, 422, 429, 500, 503)
}
_MAPPING = {"contentMediaType": "application/json", "contentSchema": mapping_schema()}
_FILE = {"requestBody": {"required": True, "content": {"application/octet-stream": {}}}}
_ROWS: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/jsonl": {"schema": RowFound.model_json_schema()}}, "description": "One a line"}
}
"""What the description says of a mapping, of a body that is read as it comes, and of an answer that is sent so."""
_REACH: Mapping[str, Reach] = {"review": Reach.READ, "list": Reach.LIST, "count": Reach.COUNT}
_WORDS = {reach: word for word, reach in _REACH.items()}
_ANSWERS: Mapping[type[Exception], tuple[int, str | None]] = {
    UnknownToken: (401, "no such token, or it was revoked"),
    KeyUsed: (409, "this Idempotency-Key came with another text, file or options; nothing was stored"),
    UnknownText: (404, "no text of this id was submitted by this client"),
    UnknownBatch: (404, "no batch of this id was submitted by this client"),
    IntakeClosed: (503, "the batch of this program's day was cancelled; the next begins at midnight UTC"),
    FileRefused: (422, None),
    ClientDisconnect: (400, "the body broke off"),  # nobody reads it; else the log has a traceback
}
"""What is answered to each; None: what it says itself."""
log = logging.getLogger(__name__)


def create_app(db: Database, settings: Settings, clock: Clock, limits: Limits | None = None) -> FastAPI:
    """The application on this database; while it runs it tells programs what is settled, and takes in what was left."""
    intake = Intake(db=db, settings=settings, clock=clock)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        await asyncio.to_thread(intake.runs.resume)
        telling = asyncio.create_task(_keep_telling(intake))
        try:
            yield
        finally:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)

    app = FastAPI(
        title="Second Look",
        version="1",
        openapi_url=f"{ROOT}/openapi.json",
        docs_url=None,
        redoc_url=None,
        responses=_PROBLEMS,
        lifespan=lifespan,
    )
    app.router.route_class = UniqueKeysRoute
    app.add_middleware(Door, identify=partial(identify, db, limits or Limits()))
    _say_what_is_wrong(app)
    _texts(app, intake)
    _files(app, intake)

    @app.get("/healthz", include_in_schema=False)
    def healthy() -> dict[str, str]:
        return {"state": "up"}

    return app


async def _keep_telling(intake: Intake) -> None:
    while True:
        await asyncio.sleep(TELL_EVERY_S)
        try:
            private = intake.settings.notify_private_addresses
            await asyncio.to_thread(tell_settled, intake.db, intake.clock(), private=private)
        except Exception as error:  # what it is may pass: the next round tells whoever was not told
            log.error("programs were not told what is settled: %s", type(error).__name__)


def _say_what_is_wrong(app: FastAPI) -> None:
    for kind, (status, words) in _ANSWERS.items():
        app.add_exception_handler(kind, partial(_answer, status, words))

    @app.exception_handler(HTTPException)
    async def refused(_request: Request, refusal: HTTPException) -> JSONResponse:
        known = f": {ROOT}/openapi.json says what there is" if refusal.status_code in (404, 405) else ""
        return problem(refusal.status_code, f"{refusal.detail}{known}", refusal.headers)

    @app.exception_handler(Exception)
    async def failed(_request: Request, _error: Exception) -> JSONResponse:
        return problem(500, "a fault of the program: it is in its log, and trying again may not help")

    @app.exception_handler(RequestValidationError)
    async def invalid(_request: Request, wrong: RequestValidationError) -> JSONResponse:
        first = wrong.errors()[0]
        if first["type"] == "json_invalid":
            return problem(422, f"the body is no JSON from its character {first['loc'][-1]} on")
        place = ".".join(str(part) for part in first["loc"] if part != "body")
        return problem(422, f"{place}: {first['msg']}" if place else str(first["msg"]))


async def _answer(status: int, words: str | None, _request: Request, error: Exception) -> JSONResponse:
    return problem(status, words or str(error))


def _by(intake: Intake, scope: Scope) -> Any:
    """The program that asks, where its token may be used for this."""

    def program(request: Request, _token: Annotated[Any, Depends(_TOKEN)]) -> Program:
        return require_scope(intake.db, request.state.program, scope, intake.clock())

    return Depends(program)


def _require_key(key: str) -> None:
    if not _KEY.fullmatch(key):
        raise Refused(400, "an Idempotency-Key is 1 to 100 letters, digits, or . _ : ~ -")


def _texts(app: FastAPI, intake: Intake) -> None:
    db, receive = intake.db, receiver(intake.settings)
    Submits = Annotated[Program, _by(intake, Scope.SUBMIT)]

    @app.post(f"{ROOT}/texts", status_code=202, responses={200: {"model": Submitted}})
    def submit(
        body: NewText, program: Submits, response: Response, idempotency_key: Annotated[str, Header()]
    ) -> Submitted:
        """Hand in a text or a conversation. The same Idempotency-Key with the same body is the same text (200)."""
        _require_key(idempotency_key)
        case = body.case(receive, idempotency_key)
        case_id, new = intake.hand_in(program, idempotency_key, body.sha256(), case)
        response.status_code = 202 if new else 200
        return Submitted(id=case_id, state="pending")

    @app.get(f"{ROOT}/texts/{{text_id}}")
    def look(text_id: _ID, program: Submits) -> Found:
        """How far a text is, and its label once it is settled, where the token may fetch outcomes."""
        outcome = Scope.OUTCOMES in program.scopes
        return Found.model_validate(program_texts.hand_out(db, program, text_id, intake.clock(), outcome=outcome))

    @app.get(f"{ROOT}/texts")
    def listed(
        program: Submits,
        after: Annotated[str, Query(pattern="^([0-9a-f]{32})?$")] = "",
        limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    ) -> Listed:
        """The program's texts in the order in which they came, without labels."""
        texts = list(map(Found.model_validate, program_texts.list_texts(db, program, after, limit)))
        return Listed(texts=texts, after=texts[-1].id if len(texts) == limit else None)


def _files(app: FastAPI, intake: Intake) -> None:
    db, clock = intake.db, intake.clock
    Sends = Annotated[Program, _by(intake, Scope.BATCHES)]

    @app.post(f"{ROOT}/batches", status_code=202, openapi_extra=_FILE)
    async def send(
        request: Request,
        program: Sends,
        idempotency_key: Annotated[str, Header()],
        name: Annotated[str, Query(max_length=120)] = "file",
        mapping: Annotated[str | None, Query(json_schema_extra=_MAPPING)] = None,
        unsafe: Literal["review", "list", "count"] = "review",
    ) -> BatchFound:
        """Hand in a file as the body of the request; `mapping` is a saved mapping (JSON), else columns go by name.
        `unsafe` says what becomes of texts that the AI labels unsafe: each is reviewed, listed for sign-off, or only
        counted. A text that states an imminent risk is reviewed in any case.
        """
        _require_key(idempotency_key)
        kept = FileMapping() if mapping is None else read_mapping(mapping)
        sent = await intake.receive(request.stream(), program, file_label(name))
        batch_id = await run_in_threadpool(intake.begin, program, idempotency_key, sent, kept, _REACH[unsafe])
        return await run_in_threadpool(batch, batch_id, program)

    @app.get(f"{ROOT}/batches/{{batch_id}}")
    def batch(batch_id: _ID, program: Sends) -> BatchFound:
        """How far a file is."""
        reach, found = program_texts.batch_of(db, program, batch_id).reach, progress(db, batch_id, clock())
        return BatchFound(
            id=batch_id,
            unsafe=_WORDS[reach],
            not_screened=count_not_screened(db, batch_id),
            unread_columns=unread_columns(db, batch_id),
            **{name: getattr(found, name) for name in ("state", "rows_in", "accepted", "rejected", "pending")},
        )

    @app.get(f"{ROOT}/batches/{{batch_id}}/results", response_class=StreamingResponse, responses=_ROWS)
    def batch_results(
        batch_id: _ID,
        program: Annotated[Program, _by(intake, Scope.OUTCOMES)],
        hide_in_review: bool = False,
    ) -> Response:
        """What became of each row, as JSON lines: `outcome` and `reason` of the agents, `label` and `decided_by` once
        it is final. Where reviewers see what you make of it, ask with `hide_in_review=true`: of a case in review it
        then says only that it exists.
        """
        program_texts.batch_of(db, program, batch_id)
        rows = export_results(db, program.actor.at(clock()), batch_id, hide=hide_in_review)
        lines = (_row(result).model_dump_json() + "\n" for result in rows)
        return StreamingResponse(lines, media_type="application/jsonl")


def _row(result: Result) -> RowFound:
    """Its label as of a text: what people accepted, else what the agents ended with; none while people review it."""
    told = RowFound(id=result.external_id, row=result.row, outcome=result.outcome, reason=result.reason or result.error)
    if result.accepted is not None and not result.in_review:
        told.label, told.decided_by = result.accepted, "people"
    elif not result.in_review and result.outcome in (Outcome.SAFE, Outcome.UNSAFE):
        told.label, told.decided_by = result.outcome, "agents"
    return told
