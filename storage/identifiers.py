"""Identifiers that sort by time and cannot be guessed."""

import secrets
from collections.abc import Callable
from datetime import datetime

Entropy = Callable[[int], bytes]
_TIME_BYTES, _RANDOM_BYTES = 6, 10


def new_id(now: datetime, entropy: Entropy = secrets.token_bytes) -> str:
    """32 hexadecimal characters: 48 bits of milliseconds since 1970, then 80 random bits.

    >>> from datetime import UTC
    >>> new_id(datetime(2026, 1, 1, tzinfo=UTC), entropy=bytes)
    '019b76da800000000000000000000000'
    """
    milliseconds = round(now.timestamp() * 1_000)
    return (milliseconds.to_bytes(_TIME_BYTES, "big") + entropy(_RANDOM_BYTES)).hex()
