"""Rows as annotation tools and evaluation logs write them, made flat: Label Studio, Argilla, Inspect."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

DIFFERENT = " | "
"""Stands between labels that annotators did not agree on."""


def flatten(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The row with its texts and labels as columns of their own where it has the shape of such a tool, else itself.

    A label that all annotators gave is that label; different ones stand beside each other, which maps to no label.

    >>> task = {"id": "7", "data": {"text": "a"}, "annotations": []}
    >>> flatten(task | {"annotations": [{"result": [{"value": {"choices": ["unsafe"]}}]}]})
    {'id': '7', 'text': 'a', 'label': 'unsafe'}
    """
    if isinstance(row.get("data"), dict) and ("annotations" in row or "predictions" in row or "completions" in row):
        return _label_studio(row)
    if isinstance(row.get("fields"), dict) and ("responses" in row or "suggestions" in row):
        return _argilla(row)
    if isinstance(row.get("output"), dict) and {"id", "input", "target"} <= row.keys():
        return _inspect(row)
    return row


def _label_studio(row: Mapping[str, Any]) -> dict[str, Any]:
    given = [one for one in _list(row.get("annotations") or row.get("completions")) if isinstance(one, dict)]
    words = (_choice(one) for one in given if not one.get("was_cancelled"))
    return {"id": row.get("id"), **row["data"], "label": agreed_value(word for word in words if word)}


def _choice(annotation: Mapping[str, Any]) -> str:
    """What one annotation says: its choices or rating."""
    values = [one["value"] for one in _list(annotation.get("result")) if isinstance(one, dict) and "value" in one]
    found = [word for value in values if isinstance(value, dict) for word in _list(value.get("choices"))]
    ratings = [value["rating"] for value in values if isinstance(value, dict) and "rating" in value]
    return ", ".join(str(word) for word in (*found, *ratings))


def _argilla(row: Mapping[str, Any]) -> dict[str, Any]:
    plain = {"id": row.get("external_id") or row.get("id"), **row["fields"]}
    metadata = row.get("metadata")
    return {**(metadata if isinstance(metadata, dict) else {}), **plain, "label": agreed_value(_responses(row))}


def _responses(row: Mapping[str, Any]) -> Iterator[str]:
    """The values of the first question, of every response that was not put aside."""
    given = row.get("responses")
    if isinstance(given, dict):
        for one in _list(next(iter(given.values()), None)):
            if isinstance(one, dict) and one.get("status", "submitted") == "submitted" and "value" in one:
                yield _word(one["value"])
    for one in _list(given):
        values = one.get("values") if isinstance(one, dict) and one.get("status", "submitted") == "submitted" else None
        first = next(iter(values.values()), None) if isinstance(values, dict) else None
        if isinstance(first, dict) and "value" in first:
            yield _word(first["value"])


def _inspect(row: Mapping[str, Any]) -> dict[str, Any]:
    asked, output = row["input"], row["output"]
    scores = row.get("scores")
    found = {f"score {name}": one.get("value") for name, one in _items(scores) if isinstance(one, dict)}
    epoch = row.get("epoch")
    identity = str(row["id"]) if epoch in (None, 1, "1") else f"{row['id']} epoch {epoch}"
    reply = output.get("completion") or _first_choice(output)
    return {"id": identity, "text": _last_user(asked), "response": reply, "label": _word(row["target"]), **found}


def _first_choice(output: Mapping[str, Any]) -> str | None:
    choices = _list(output.get("choices"))
    message = choices[0].get("message") if choices and isinstance(choices[0], dict) else None
    return content_text(message.get("content")) if isinstance(message, dict) else None


def _last_user(asked: object) -> object:
    """The last message of the user where the input is a list of messages."""
    messages = [one for one in _list(asked) if isinstance(one, dict) and one.get("role") == "user"]
    return content_text(messages[-1].get("content")) if messages else asked


def content_text(content: object) -> str | None:
    """The text of a message, whether a string or a list of parts as model services write it; None without text."""
    if isinstance(content, str):
        return content
    parts = [one.get("text") for one in _list(content) if isinstance(one, dict)]
    found = [part for part in parts if isinstance(part, str)]
    return "\n\n".join(found) if found else None


def agreed_value(words: Iterable[str]) -> str | None:
    """The value that all of them are, else the different ones beside each other; None for none.

    >>> agreed_value(["safe", "safe"]), agreed_value(["b", "a"]), agreed_value([])
    ('safe', 'a | b', None)
    """
    return DIFFERENT.join(sorted(set(words))) or None


def _word(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _items(value: object) -> Iterable[tuple[Any, Any]]:
    return value.items() if isinstance(value, dict) else ()
