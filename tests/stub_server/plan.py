"""What the stub answers and how it fails, as data that can be written in JSON and changed while it runs."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class Fault(StrEnum):
    """Everything that can go wrong with one request. The last five are answers (HTTP 200), no transport errors."""

    RATE_LIMITED = "rate_limited"
    SPEND_CAP = "spend_cap"
    OVERLOADED = "overloaded"
    SERVER_ERROR = "server_error"
    REDIRECT = "redirect"
    HANG = "hang"
    DRIP = "drip"
    DROPPED = "dropped"
    CUT_OFF = "cut_off"
    MALFORMED = "malformed"
    HTML = "html"
    WRONG_SHAPE = "wrong_shape"
    REFUSAL = "refusal"
    WRONG_LABEL = "wrong_label"
    EMPTY = "empty"
    CUT = "cut"
    THINKING = "thinking"


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TextRule(_Data):
    """Relative frequencies of answers to texts that contain a phrase (any case), for one node or all."""

    contains: str
    weights: dict[str, float]
    node: str | None = None


class RawReply(_Data):
    """One reply, sent to every request as it is: ``base64`` are the bytes. ``{id}`` in them becomes a fresh id."""

    base64: str
    status: int = 200
    headers: dict[str, str] = {"content-type": "application/json"}


class StubPlan(_Data):
    """Everything the stub does. Times in seconds; ``faults`` are probabilities per request.

    ``script`` names the faults of the first requests in order of arrival, null for none.
    ``fails_probes`` answers the preflight's probes as any text; else they are answered as a sound model does.
    ``batch_s`` is how long a message batch takes; ``batch_faults`` are probabilities of errored, expired, canceled and
    garbled results; ``batch_lost`` says of each batch handed in whether the reply to that gets lost, and
    ``batch_lost_ends_when_listed`` that such a one ends as soon as the list of batches was read.
    """

    seed: int = 0
    latency_s: float = Field(default=0.0, ge=0)
    jitter_s: float = Field(default=0.0, ge=0)
    weights: dict[str, float] = {"safe": 1.0}
    texts: tuple[TextRule, ...] = ()
    faults: dict[Fault, float] = {}
    script: tuple[Fault | None, ...] = ()
    raw: RawReply | None = None
    fails_probes: bool = False
    retry_after: str | None = "0"
    batch_s: float = 0.0
    batch_faults: dict[str, float] = {}
    batch_lost: tuple[bool, ...] = ()
    batch_lost_ends_when_listed: bool = False
    models: tuple[str, ...] | None = None
    api_key: str | None = None
