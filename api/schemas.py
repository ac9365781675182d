"""What programs send and are answered: parsed at the edge, with errors that name the field and never quote a text."""

import hashlib
import json
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from api.door import Refused
from screening.datasets.conversations import TurnsRefused, read_case
from screening.datasets.mapping import ConversationReading, Shape
from screening.datasets.reader import is_usable_id, where_of
from screening.datasets.rows import NewCase
from screening.text.conversation import Judged
from screening.text.flags import Flag
from screening.text.received import Receive
from storage.batches.batch_state import BatchState
from storage.review.program_texts import State

Short = Annotated[str, Field(max_length=200)]


class NewText(BaseModel):
    """A text, or a conversation in `messages`: one of them. `id` is the program's own name for it."""

    model_config = ConfigDict(extra="forbid")

    text: str | None = None
    reply: str | None = None
    messages: list[dict[str, Any]] | None = None
    judged: Literal["last_user", "whole"] = "last_user"
    id: Short | None = None
    group: Short | None = None
    where_to_act: Annotated[str, Field(max_length=500)] | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.text is None) == (self.messages is None):
            raise ValueError("send text, or messages")
        if self.messages is not None and self.reply is not None:
            raise ValueError("a conversation holds its replies: leave out reply")
        return self

    def sha256(self) -> str:
        """SHA-256 of all that was sent: shows when the same key comes with another body."""
        body = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(body.encode()).hexdigest()

    def case(self, receive: Receive, key: str) -> NewCase:
        """The new case. Refused (422) for an id that cannot be kept, a text without words, or unreadable turns."""
        if self.id and not (self.id.strip() and is_usable_id(self.id)):
            raise Refused(422, "the id is blank or holds control characters")
        if self.messages is None:
            if not (self.text or "").strip():
                raise Refused(422, "the text is empty")
            reply = receive(self.reply) if self.reply and self.reply.strip() else None
            case = NewCase(row=0, external_id="", text=receive(self.text or ""), reply=reply)
            if Flag.EMPTY in case.text.flags:
                raise Refused(422, "nothing but spaces or invisible characters")
        else:
            reading = ConversationReading(shape=Shape.MESSAGES, judged=Judged(self.judged))
            try:
                case = read_case(json.dumps(self.messages), reading, receive)
            except TurnsRefused as refusal:
                raise Refused(422, str(refusal)) from None
        where = where_of(self.where_to_act)
        return replace(case, row=0, external_id=self.id or key, group=self.group, where=where)


class Submitted(BaseModel):
    """The answer to a text that was taken: its id and state."""

    id: str
    state: str


Decider = Literal["agents", "people"]


class Found(BaseModel):
    """How far a text is. `label` and `decided_by` are given once it is settled, to tokens that may fetch outcomes."""

    id: str
    external_id: str
    submitted_at: datetime
    state: State
    label: str | None = None
    decided_by: Decider | None = None


class Listed(BaseModel):
    """Texts in the order in which they came; `after` asks for the next ones, None where there are none."""

    texts: list[Found]
    after: str | None


class BatchFound(BaseModel):
    """How far a file is: rows in = accepted + rejected. `unsafe` is what becomes of texts that the AI labels unsafe."""

    id: str
    state: BatchState
    unsafe: str
    rows_in: int
    accepted: int
    rejected: int
    pending: int
    not_screened: int
    """Of the accepted rows those that cannot be read as they should and state a risk: people see them, no agent."""
    unread_columns: list[str]


class RowFound(BaseModel):
    """What became of a row. `label` and `decided_by` are given once it is settled."""

    id: str
    row: int
    outcome: str
    reason: str | None
    label: str | None = None
    decided_by: Decider | None = None


class Problem(BaseModel):
    """What is wrong, in a sentence."""

    error: str
