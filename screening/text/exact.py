"""A text as ASCII JSON, for those that a database cannot hold as they are: there and back."""

import json
import re

_PAIR = re.compile("[\ud800-\udbff](?=[\udc00-\udfff])")


def escape(raw: str) -> str:
    """ASCII JSON of the text; a list of strings to be joined where JSON would merge two surrogates into one."""
    parts = _PAIR.sub(lambda high: high.group() + "\x00\x00split", raw).split("\x00\x00split")
    return json.dumps(raw if len(parts) == 1 else parts)


def unescape(original_json: str) -> str:
    """The text of which `escape` made this.

    >>> unescape(escape("tired \\ud83d")) == "tired \\ud83d"
    True
    """
    return "".join(json.loads(original_json))
