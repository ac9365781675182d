"""Rows as annotation tools and evaluation logs write them, made flat: Label Studio, Argilla, Inspect."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

DIFFERENT = " | "
"""Stands between labels that annotators did not agree on."""

_OF_A_TWEET = frozenset({"truncated", "extended_tweet", "note_tweet", "retweeted_status"})


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
    if not _OF_A_TWEET.isdisjoint(row):
        return _tweet(row)
    if isinstance(row.get("output"), dict) and {"id", "input", "target"} <= row.keys():
        return _inspect(row)
    return row


def _label_studio(row: Mapping[str, Any]) -> dict[str, Any]:
    given = [one for one in _list(row.get("annotations") or row.get("completions")) if isinstance(one, dict)]
    answers = [_answers(one) for one in given if not one.get("was_cancelled")]
    return {"id": row.get("id"), **row["data"], **_labels(answers)}


def _answers(annotation: Mapping[str, Any]) -> dict[str, str]:
    """What one annotation says to each question: its choices or rating."""
    answers: dict[str, list[str]] = {}
    for one in _list(annotation.get("result")):
        value = one.get("value") if isinstance(one, dict) else None
        if isinstance(value, dict):
            said = [*_list(value.get("choices")), *([value["rating"]] if "rating" in value else [])]
            answers.setdefault(str(one.get("from_name") or "label"), []).extend(map(str, said))
    return {question: ", ".join(said) for question, said in answers.items() if said}


def _labels(answers: Iterable[Mapping[str, str]]) -> dict[str, str | None]:
    """A column for each question that was asked: which of several is the label is for a person to say."""
    given: dict[str, list[str]] = {}
    for one in answers:
        for question, said in one.items():
            given.setdefault("label" if question == "label" else f"label (question {question})", []).append(said)
    return {name: agreed_value(said) for name, said in given.items()} or {"label": None}


def _argilla(row: Mapping[str, Any]) -> dict[str, Any]:
    plain = {"id": row.get("external_id") or row.get("id"), **row["fields"]}
    metadata = row.get("metadata")
    return {**(metadata if isinstance(metadata, dict) else {}), **plain, **_labels(_responses(row))}


def _responses(row: Mapping[str, Any]) -> Iterator[Mapping[str, str]]:
    """What each response that was not put aside says to each question."""
    given = row.get("responses")
    for question, responses in _items(given):
        for one in _list(responses):
            if isinstance(one, dict) and one.get("status", "submitted") == "submitted" and "value" in one:
                yield {str(question): _word(one["value"])}
    for one in _list(given):
        values = one.get("values") if isinstance(one, dict) and one.get("status", "submitted") == "submitted" else None
        answered = {str(name): value for name, value in _items(values) if isinstance(value, dict) and "value" in value}
        yield {name: _word(value["value"]) for name, value in answered.items()}


def _tweet(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A tweet with its whole text in place of the beginning of it."""
    whole = next((full for part in ("extended_tweet", "note_tweet") if (full := _full_text(row.get(part)))), None)
    repeated = row.get("retweeted_status")
    if whole is None and isinstance(repeated, dict) and (full := _full_text(_tweet(repeated))):
        start, colon, _ = str(row.get("text") or "").partition(": ")
        whole = f"{start}{colon}{full}" if start.startswith("RT @") else None
    if whole is None:
        return row
    return {name: value for name, value in row.items() if name not in _OF_A_TWEET} | {"text": whole}


def _full_text(part: object) -> str | None:
    found = (
        next((part[name] for name in ("full_text", "text") if part.get(name)), None) if isinstance(part, dict) else None
    )
    return found if isinstance(found, str) else None


def decided(fields: dict[str, str | None]) -> dict[str, str | None]:
    """A row of Prodigy's, whose ``answer`` is a decision about the label beside it: rejected, it is that label's no,
    and not another one's yes. Other rows as they are.

    >>> decided({"text": "a", "label": "UNSAFE", "answer": "reject"})
    {'text': 'a', 'label': 'rejected: UNSAFE', 'answer': None}
    """
    answer, label = fields.get("answer"), next((name for name in ("accept", "label") if fields.get(name)), None)
    if answer not in ("accept", "reject", "ignore") or label is None:
        return fields
    said = {"accept": fields[label], "reject": f"rejected: {fields[label]}", "ignore": None}[answer]
    return fields | {"label": said, "answer": None}


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
