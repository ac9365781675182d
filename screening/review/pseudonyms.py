"""Readers in exports: the same person is the same name, and the name does not say who."""

import hmac


def pseudonym(key: str, account_id: str) -> str:
    """A reader's name under a site's key (HMAC-SHA256); another key gives other names.

    >>> pseudonym("a", "ann") == pseudonym("a", "ann"), pseudonym("a", "ann") == pseudonym("b", "ann")
    (True, False)
    """
    return "reader-" + hmac.new(key.encode(), account_id.encode(), "sha256").hexdigest()[:12]
