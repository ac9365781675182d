"""The key of the audit log, from the site's settings: beside the database, never in it."""

import hashlib
import hmac
import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from screening.settings import Settings

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def canonical(value: Any) -> str:
    """The value as JSON, always written the same way."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def micros(moment: datetime) -> int:
    """Microseconds since 1970."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditKey:
    """A key with a short name that tells it from others and gives nothing of it away."""

    id: str
    secret: bytes

    def mac(self, content: bytes) -> str:
        """HMAC-SHA256 of the content."""
        return hmac.new(self.secret, content, hashlib.sha256).hexdigest()


def key_of(secret: str) -> AuditKey:
    """The key made of this secret.

    >>> key_of("a").id == key_of("a").id != key_of("b").id
    True
    """
    name = hashlib.sha256(b"audit key\\0" + secret.encode()).hexdigest()[:16]
    return AuditKey(id=name, secret=secret.encode())


def site_key() -> AuditKey:
    """The key of this site; made on first use where none is set."""
    return _read(*(os.environ.get(f"SECOND_LOOK_{name}") for name in ("AUDIT_KEY", "DATA_DIRECTORY")), Path.cwd())


@lru_cache(maxsize=8)
def _read(_set: str | None, _directory: str | None, _here: Path) -> AuditKey:
    """Read once for each place that it may come from: events are written far more often than it changes."""
    return key_of(Settings().audit_secret)
