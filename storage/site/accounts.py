"""Who may use the site: people by accounts from the institution's sign-in and sessions kept on the server, programs
by tokens.

The browser's cookie outlives every limit, so it only says which sign-in this is. The session that belongs to that
sign-in is a row here: once it is idle too long, too old, ended or revoked it stays refused, however often the page is
loaded, until the person signs in anew with their institution.

A program's token is shown once and known by a hash. What a program does is recorded under its own name; it never signs
in, holds no role of its own at the pages, and what it may ask for is bounded by its scopes.

The cases of whoever is gone return to the queue: no page of theirs need be open for that.
"""

import hashlib
import secrets
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, Literal

from sqlalchemy import ColumnElement, Connection, Text, and_, cast, false, insert, or_, select, true, update

from screening.review.policy import REVIEWERS, Acting, Action, Actor, Role, require
from storage.audit_log import append, serialise
from storage.database import Database, Source, insert_once, record, writing
from storage.schema import UNASSIGNED, accounts, case_notes, inbox_entries, new_id, programs, sessions
from storage.settings_store import SiteSettings, current

TOUCH = timedelta(seconds=30)
"""Activity is written down at most this often: a page that polls does not write at every tick."""
PREFIX: Final = "sl_"
MOST_PER_MINUTE: Final = 10_000
_REVIEWS: Final = ("first", "second", "third")
"""What a case may wait for."""
_one, _entry = programs.c, inbox_entries.c


class Ended(StrEnum):
    """Why a session is refused."""

    IDLE = "idle"
    TOO_OLD = "too_old"
    SIGNED_OUT = "signed_out"  # or revoked
    INACTIVE = "inactive"  # the account was switched off


class SessionEnded(Exception):
    """No longer valid; what was filled in is kept."""

    def __init__(self, why: Ended) -> None:
        super().__init__(f"please sign in again ({why.value.replace('_', ' ')})")
        self.why = why


class LastAdmin(ValueError):
    """The site would be left without anybody who can manage accounts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignIn:
    """What the institution says: who (its own stable identifier, with the issuer's name) and since when.

    ``mark`` tells this sign-in from the person's others (a session or token id, where the provider gives one).
    """

    subject: str
    display_name: str
    issued_at: datetime
    mark: str = ""

    @property
    def session_id(self) -> str:
        """The key of its session: the same for every page load of one sign-in, unguessable from outside."""
        moment = self.issued_at.isoformat()
        return hashlib.sha256("\0".join((self.subject, moment, self.mark)).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One person at this site."""

    id: str
    subject: str | None
    display_name: str
    roles: frozenset[Role]
    active: bool

    @property
    def actor(self) -> Actor:
        """This person as the services know them."""
        return Actor(id=self.id, name=self.display_name, roles=self.roles)


def enter(
    db: Database, sign_in: SignIn, now: datetime, first_admins: Collection[str] = (), *, active: bool = True
) -> Actor:
    """Who this is, on every action: begins the session or renews it, which a page that only polls (not ``active``) does
    not. Unknown people get an account without roles; one of ``first_admins`` becomes admin while there is none. Raises
    SessionEnded, and what they have open or on hold returns to the queue unless they are signed in elsewhere: an old
    page that is opened or awakes takes nothing from the desk they sit at.
    """
    with db.write() as conn:
        account = _account_of(conn, sign_in)
        account = _first_admin(conn, account or _register(conn, sign_in, now), first_admins, now)
        limits = current(conn).settings
        ended = _refusal(conn, account, sign_in, now, limits)
        if ended is None:
            if active and _touch(conn, account, sign_in, now):
                append(conn, account.actor.at(now), "signed_in", account.id, {})
        elif account.roles & REVIEWERS and not _is_elsewhere(conn, account, sign_in, now, limits):
            release_all(conn, account.actor.at(now), "session ended", holds="own")
    if ended is not None:
        raise SessionEnded(ended)
    return account.actor


def _refusal(conn: Connection, account: Account, sign_in: SignIn, now: datetime, limits: SiteSettings) -> Ended | None:
    row = conn.execute(select(sessions).where(sessions.c.id == sign_in.session_id)).first()
    if not account.active:
        return Ended.INACTIVE
    if row is not None and row.ended_at is not None:
        return Ended.SIGNED_OUT
    if now - sign_in.issued_at > timedelta(minutes=limits.absolute_minutes):
        return Ended.TOO_OLD
    seen = sign_in.issued_at if row is None else row.seen_at
    return Ended.IDLE if now - seen > timedelta(minutes=limits.idle_minutes) else None


def _is_elsewhere(conn: Connection, account: Account, sign_in: SignIn, now: datetime, limits: SiteSettings) -> bool:
    """Whether this person has another session that is valid: on another machine, or by a later sign-in."""
    others = sessions.c.account_id == account.id, sessions.c.id != sign_in.session_id, sessions.c.ended_at.is_(None)
    seen = sessions.c.seen_at >= now - timedelta(minutes=limits.idle_minutes)
    begun = sessions.c.started_at >= now - timedelta(minutes=limits.absolute_minutes)
    return account.active and conn.execute(select(sessions.c.id).where(*others, seen, begun)).first() is not None


def _touch(conn: Connection, account: Account, sign_in: SignIn, now: datetime) -> bool:
    """Whether the session is new; otherwise its last activity is moved forward."""
    row = {"id": sign_in.session_id, "account_id": account.id, "started_at": now, "seen_at": now, "ended_at": None}
    if insert_once(conn, sessions, row):  # of two tabs of one new sign-in, one
        return True
    known = sessions.c.id == sign_in.session_id, sessions.c.seen_at < now - TOUCH
    conn.execute(update(sessions).where(*known).values(seen_at=now))
    return False


def _register(conn: Connection, sign_in: SignIn, now: datetime) -> Account:
    serialise(conn)
    if (known := _account_of(conn, sign_in)) is not None:
        return known
    name, nobody = sign_in.display_name, frozenset[Role]()
    made = Account(id=new_id(now), subject=sign_in.subject, display_name=name, roles=nobody, active=True)
    conn.execute(insert(accounts).values(asdict(made) | {"roles": [], "created_at": now}))
    append(conn, made.actor.at(now), "registered", made.id, {}, accounts)
    return made


def _first_admin(conn: Connection, account: Account, first_admins: Collection[str], now: datetime) -> Account:
    if account.subject not in first_admins or not account.active or _admins(conn):
        return account
    serialise(conn)
    if _admins(conn):  # somebody became it meanwhile
        return account
    roles = sorted({*account.roles, Role.ADMIN})
    conn.execute(update(accounts).where(accounts.c.id == account.id).values(roles=roles))
    append(conn, account.actor.at(now), "roles_set", account.id, {"roles": [role.value for role in roles]}, accounts)
    return replace(account, roles=frozenset(roles))


def sign_out(db: Database, sign_in: SignIn, now: datetime) -> None:
    """End this sign-in's session, also one that was never used, and release what the person has open or on hold."""
    with db.write() as conn:
        account = _account_of(conn, sign_in)
        if account is not None:
            _touch(conn, account, sign_in, now)
        _end_sessions(conn, sessions.c.id == sign_in.session_id, now)
        if account is not None:
            release_all(conn, account.actor.at(now), holds="own")
            append(conn, account.actor.at(now), "signed_out", account.id, {})


def revoke(db: Database, by: Acting, account_id: str) -> None:
    """End all sessions of a person: they are refused at their next action, and what they have open or on hold returns
    to the queue.
    """
    require(by.actor, Action.MANAGE_ACCOUNTS)
    with db.write() as conn:
        ended = _end_sessions(conn, sessions.c.account_id == account_id, by.now)
        release_all(conn, _somebody(account_id).at(by.now), "session ended", holds="own")
        append(conn, by, "sessions_revoked", account_id, {"sessions": ended})


def _somebody(account_id: str) -> Actor:
    return Actor(id=account_id, name=account_id, roles=frozenset())


def _end_sessions(conn: Connection, which: ColumnElement[bool], now: datetime) -> int:
    return conn.execute(update(sessions).where(which, sessions.c.ended_at.is_(None)).values(ended_at=now)).rowcount


def set_roles(db: Database, by: Acting, account_id: str, roles: frozenset[Role]) -> None:
    """What a person may do from now on, sessions that are open included. Who is no reviewer any more releases their
    cases, and who is no senior any more the third reviews, with those that a colleague transferred to them. Raises
    KeyError, LastAdmin.
    """
    back: Collection[str] = () if Role.SENIOR in roles else ("third",)
    note = "is no senior any more"
    if not roles & REVIEWERS:
        back, note = _REVIEWS, "is no reviewer any more"
    _change(db, by, account_id, {"roles": sorted(role.value for role in roles)}, note, back)


def set_active(db: Database, by: Acting, account_id: str, active: bool) -> None:
    """Switch an account off (its sessions end, and it releases the cases that it has or that are kept for it) or on
    again. Raises KeyError, LastAdmin.
    """
    _change(db, by, account_id, {"active": active}, "switched off", () if active else _REVIEWS)


def _change(db: Database, by: Acting, who: str, values: dict[str, Any], note: str, back: Collection[str]) -> None:
    """What they have of the reviews in ``back`` returns to the queue, with this note."""
    require(by.actor, Action.MANAGE_ACCOUNTS)
    with db.write() as conn:
        if values.get("active") is False:
            _end_sessions(conn, sessions.c.account_id == who, by.now)
        if back:
            release_all(conn, _somebody(who).at(by.now), note, back, "all")
        serialise(conn)  # two admins who switch each other off: one of them stays
        if not conn.execute(update(accounts).where(accounts.c.id == who).values(values)).rowcount:
            raise KeyError(who)
        if not _admins(conn):
            raise LastAdmin("this is the last account that can manage accounts")
        append(conn, by, "active_set" if "active" in values else "roles_set", who, values, accounts)


def release_all(
    db: Source,
    by: Acting,
    note: str = "signed out",
    reviews: Collection[str] = _REVIEWS,
    holds: Literal["none", "own", "all"] = "none",
) -> None:
    """Return to the queue what this person has open of these reviews; with ``own`` holds also what they put on hold,
    with ``all`` what a colleague transferred to them too. In a transaction it comes after sessions, and before what
    needs the log.
    """
    kept_too = {"none": false(), "own": _entry.assigned_by == by.id, "all": true()}[holds]
    theirs = select(_entry.case_id, _entry.lease_token).where(
        or_(_entry.lease_token.is_not(None), kept_too),
        _entry.closed_at.is_(None),
        _entry.assigned_until > by.now,
        _entry.assignee == by.id,
        _entry.review_round.in_(reviews),
    )
    with writing(db) as conn:
        rows = conn.execute(theirs.order_by(_entry.case_id).with_for_update()).all()  # in one order, as `inbox.assign`
        ids, left = [row.case_id for row in rows], [row.case_id for row in rows if row.lease_token is not None]
        if left:
            said = {"author": by.id, "kind": "release", "handed_to": None, "note": note, "at": by.now}
            conn.execute(insert(case_notes), [{"case_id": case_id, **said} for case_id in left])
        if ids:
            conn.execute(update(inbox_entries).where(_entry.case_id.in_(ids)).values(UNASSIGNED))
        for action, count in (("released_all", len(left)), ("holds_released", len(ids) - len(left))):
            if count:
                append(conn, by, action, None, {"cases": count})


def list_accounts(db: Database, actor: Actor) -> tuple[Account, ...]:
    require(actor, Action.MANAGE_ACCOUNTS)
    return tuple(map(_account, db.rows(select(accounts).order_by(accounts.c.display_name, accounts.c.id))))


def colleagues(db: Database, actor: Actor) -> tuple[Actor, ...]:
    """Other reviewers, to whom a case may be transferred."""
    require(actor, Action.CLAIM_NEXT)
    others = select(accounts).where(is_reviewer(), accounts.c.id != actor.id).order_by(accounts.c.display_name)
    return tuple(_account(row).actor for row in db.rows(others))


def is_reviewer() -> ColumnElement[bool]:
    """The condition that an account has a role that reviews, and is not switched off."""
    held = (cast(accounts.c.roles, Text).like(f'%"{role}"%') for role in REVIEWERS)
    return and_(accounts.c.active.is_(True), or_(*held))


def _admins(conn: Connection) -> bool:
    found = conn.execute(select(accounts.c.roles).where(accounts.c.active.is_(True))).scalars()
    return any(Role.ADMIN.value in roles for roles in found)


def _account_of(conn: Connection, sign_in: SignIn) -> Account | None:
    row = conn.execute(select(accounts).where(accounts.c.subject == sign_in.subject)).first()
    return None if row is None else _account(row)


def _account(row: Any) -> Account:
    return record(Account, row, roles=frozenset(Role(role) for role in row.roles))


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
        made = conn.execute(insert(programs).values(row).returning(programs)).one()
        append(conn, by, "program_made", made.id, {"scopes": made.scopes, "per_minute": per_minute}, programs)
    return Made(program=_program(made), token=token, webhook_secret=secret)


def revoke_program(db: Database, by: Acting, program_id: str) -> None:
    """Refuse its token from now on, also for a request that is under way. Twice is once. Raises Forbidden."""
    require(by.actor, Action.MANAGE_ACCOUNTS)
    with db.write() as conn:
        in_force = update(programs).where(_one.id == program_id, _one.revoked_at.is_(None))
        if conn.execute(in_force.values(revoked_at=by.now)).rowcount:
            append(conn, by, "program_revoked", program_id, {}, programs)


def list_programs(db: Database, actor: Actor) -> tuple[Program, ...]:
    require(actor, Action.MANAGE_ACCOUNTS)
    return tuple(map(_program, db.rows(select(programs).order_by(_one.created_at.desc(), _one.id))))


def program_of(db: Database, token: str) -> Program:
    """Whose token it is. Raises UnknownToken."""
    rows = db.rows(select(programs).where(_one.token_sha256 == _hash(token), _one.revoked_at.is_(None)))
    if not rows:
        raise UnknownToken
    return _program(rows[0])


def require_in_force(conn: Connection, program: Program) -> None:
    """Its token was not revoked; in the transaction that writes for it, nor will be before that commits. Raises
    UnknownToken.
    """
    held = select(_one.id).where(_one.id == program.id, _one.revoked_at.is_(None)).with_for_update(key_share=True)
    if conn.execute(held).first() is None:
        raise UnknownToken


def _hash(token: str) -> str:
    """The token is 256 random bits: its hash needs no salt, and looking it up tells nothing of another."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def _program(row: Any) -> Program:
    return record(Program, row, scopes=frozenset(Scope(one) for one in row.scopes if one in set(Scope)))
