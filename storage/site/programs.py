"""Programs and their tokens: made and revoked by administrators, known by a hash, limited in what they may ask.

A token is shown once. What a program does is recorded under its own name; it never signs in, holds no role of its own
at the pages, and what it may ask for is bounded by its scopes.
"""

import hashlib
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Connection, insert, select, update

from screening.review.actors import Acting, Actor, Role
from screening.review.policy import Action, require
from storage.audit_log import append
from storage.database import Database, record
from storage.identifiers import new_id
from storage.schema import programs

PREFIX: Final = "sl_"
MOST_PER_MINUTE: Final = 10_000
_one = programs.c


class Scope(StrEnum):
    """What a token may be used for."""

    SUBMIT = "submit"  # hand in texts and conversations, and see how far one's own are
    OUTCOMES = "outcomes"  # fetch what became of one's own once they are settled
    BATCHES = "batches"  # hand in files


class UnknownToken(Exception):
    """No such token, or it was revoked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One program. ``webhook`` is told that a case is settled; ``revoked_at`` None is in force."""

    id: str
    name: str
    scopes: frozenset[Scope]
    per_minute: int
    webhook: str | None
    created_by: str
    created_at: datetime
    revoked_at: datetime | None

    @property
    def actor(self) -> Actor:
        """As the services know it: it may begin batches and see results of files, and reads no case."""
        return Actor(id=f"program-{self.id}", name=self.name, roles=frozenset({Role.RESEARCHER}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A new program with what is shown once: its token, and the secret that signs what its webhook is told."""

    program: Program
    token: str
    webhook_secret: str | None


def make_program(
    db: Database, by: Acting, name: str, scopes: Collection[Scope], per_minute: int, webhook: str | None = None
) -> Made:
    """A program with a new token. Raises Forbidden, and ValueError for a name, scopes or a limit that are none."""
    require(by.actor, Action.MANAGE_ACCOUNTS)
    if not name.strip() or not scopes or not 1 <= per_minute <= MOST_PER_MINUTE:
        raise ValueError(f"a program has a name, at least one scope, and 1 to {MOST_PER_MINUTE:,} requests a minute")
    token, secret = PREFIX + secrets.token_urlsafe(32), secrets.token_hex(32) if webhook else None
    row: dict[str, Any] = {
        "id": new_id(by.now),
        "name": name.strip()[:100],
        "token_sha256": _hash(token),
        "scopes": sorted(scopes),
        "per_minute": per_minute,
        "webhook": webhook,
        "webhook_secret": secret,
        "created_by": by.id,
        "created_at": by.now,
    }
    with db.write() as conn:
        conn.execute(insert(programs).values(row))
        append(conn, by, "program_made", row["id"], {"scopes": row["scopes"], "per_minute": per_minute}, programs)
        made = conn.execute(select(programs).where(_one.id == row["id"])).one()
    return Made(program=_program(made), token=token, webhook_secret=secret)


def revoke_program(db: Database, by: Acting, program_id: str) -> None:
    """Refuse its token from now on, also for a request that is under way. Twice is once. Raises Forbidden."""
    require(by.actor, Action.MANAGE_ACCOUNTS)
    with db.write() as conn:
        in_force = update(programs).where(_one.id == program_id, _one.revoked_at.is_(None))
        if conn.execute(in_force.values(revoked_at=by.now)).rowcount:
            append(conn, by, "program_revoked", program_id, {}, programs)


def list_programs(db: Database, actor: Actor) -> tuple[Program, ...]:
    """All of them, the newest first. Raises Forbidden."""
    require(actor, Action.MANAGE_ACCOUNTS)
    return tuple(map(_program, db.rows(select(programs).order_by(_one.created_at.desc(), _one.id))))


def program_of(db: Database, token: str) -> Program:
    """Whose token it is. Raises UnknownToken."""
    with db.read() as conn:
        row = conn.execute(select(programs).where(_one.token_sha256 == _hash(token), _one.revoked_at.is_(None))).first()
    if row is None:
        raise UnknownToken
    return _program(row)


def require_in_force(conn: Connection, program: Program) -> None:
    """In the transaction that writes for it: its token was not revoked meanwhile. Raises UnknownToken."""
    held = select(_one.id).where(_one.id == program.id, _one.revoked_at.is_(None)).with_for_update(key_share=True)
    if conn.execute(held).first() is None:
        raise UnknownToken


def in_force(db: Database, program: Program) -> bool:
    """Whether its token still is."""
    with db.read() as conn:
        return conn.execute(select(_one.id).where(_one.id == program.id, _one.revoked_at.is_(None))).first() is not None


def _hash(token: str) -> str:
    """The token is 256 random bits: its hash needs no salt, and looking it up tells nothing of another."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def _program(row: Any) -> Program:
    return record(Program, row, scopes=frozenset(Scope(one) for one in row.scopes if one in set(Scope)))
