"""Answers that models gave elsewhere, as draws: outputs of Message Batches and of OpenAI batches, and Inspect logs."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from screening.datasets.conversations import words_of
from screening.datasets.json_rows import is_inspect_log, sample_files
from screening.datasets.rows import FileFormat, damage_refused
from screening.labels import Label
from screening.models.wire import Expected, SeenIds, completion_draw, message_draw
from screening.pipeline.draws import LABEL_WORDS, Answer, Draw, Usage, read_answer, unusable

NAMED = re.compile(r"(?P<id>.+?)(?:[/#:](?P<node>[a-z][a-z0-9_]*))?(?:[/#:](?P<draw>\d+))?")
"""How a request's ``custom_id`` names its row: ``p7``, ``p7/worker``, ``p7/3`` or ``p7/worker/3``."""

_STOPS = {"stop": "end_turn", "max_tokens": "max_tokens", "model_length": "max_tokens", "content_filter": "refusal"}
LARGEST_SAMPLE = 50_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenAnswer:
    """One answer to one row; ``node`` and ``number`` where its name gave them. ``draw`` None: there was no answer."""

    case: str
    node: str | None
    number: int | None
    draw: Draw | None
    place: str


def answers_in(path: Path, labels: Mapping[str, Label] | None = None) -> list[GivenAnswer]:
    """The answers of one file, in its order. ``labels`` are further words that stand for a label.

    An answer that is no label is a draw all the same, marked as what it was. ValueError, naming the line, for a line
    of another shape, a name that `NAMED` does not fit, or a row, node and number that stand twice.
    """
    any_model = Expected(models=frozenset(), words={**LABEL_WORDS, **(labels or {})}, seen=SeenIds())
    found = list(_inspect(path, any_model.words) if _is_log(path) else _lines(path, any_model))
    seen: dict[tuple[str, str | None, int], str] = {}
    for one in (each for each in found if each.number is not None):
        key = (one.case, one.node, one.number or 0)
        if key in seen:
            raise ValueError(f"{path.name}, {one.place}: this row and number stand in {seen[key]} already")
        seen[key] = one.place
    return found


def _is_log(path: Path) -> bool:
    return is_inspect_log(path) or (path.suffix == ".json" and '"samples"' in path.read_text(encoding="utf-8-sig"))


def _lines(path: Path, any_model: Expected) -> Iterator[GivenAnswer]:
    with path.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                value = None
            if not isinstance(value, dict) or not isinstance(value.get("custom_id"), str):
                raise ValueError(f"{path.name}, line {number}: neither an answer of a batch nor an Inspect log")
            named = NAMED.fullmatch(value["custom_id"])
            if named is None:
                raise ValueError(f"{path.name}, line {number}: the custom_id names no row")
            at = named["draw"]
            yield GivenAnswer(
                case=named["id"],
                node=named["node"],
                number=None if at is None else int(at),
                draw=_batch_draw(value, any_model),
                place=f"line {number}",
            )


def _batch_draw(value: Mapping[str, Any], any_model: Expected) -> Draw | None:
    """The draw of one line; None where the request was not answered (an error, cancelled, expired)."""
    result, response = value.get("result"), value.get("response")
    if isinstance(result, dict):
        answered, reply, read = result.get("type") == "succeeded", result.get("message"), message_draw
    elif isinstance(response, dict):
        answered, reply, read = response.get("status_code") == 200, response.get("body"), completion_draw
    else:
        return None
    if not answered:
        return None
    if not isinstance(reply, dict):
        return unusable(Answer.MISSHAPEN)
    return read(_as_completion(reply), replace(any_model, models=frozenset({str(reply.get("model"))})))


def _as_completion(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """A reply of OpenAI's Responses API in the shape of a chat completion; what the model thought before is left out,
    what else stands beside its words is kept beside them. Any other reply as it is.
    """
    if body.get("object") != "response":
        return body
    items = [one for one in body.get("output") or () if isinstance(one, dict) and one.get("type") != "reasoning"]
    parts = [part for one in items if one.get("type") == "message" for part in one.get("content") or ()]
    told = [part for part in parts if isinstance(part, dict)]
    texts = [part.get("text") for part in told if part.get("type") == "output_text"]
    refusals = [part.get("refusal") for part in told if part.get("type") == "refusal"]
    alone = len(items) == len(parts) == len(texts) == 1
    message = {"role": "assistant", "content": next(iter(texts), None), "refusal": next(iter(refusals), None)}
    counted = body.get("usage")
    used = counted if isinstance(counted, dict) else {}
    return {
        "object": "chat.completion",
        "id": body.get("id"),
        "model": body.get("model"),
        "choices": [
            {
                "finish_reason": {"completed": "stop", "incomplete": "length"}.get(str(body.get("status"))),
                "message": message if alone else message | {"beside": items or None},
            }
        ],
        "usage": {"prompt_tokens": used.get("input_tokens"), "completion_tokens": used.get("output_tokens")},
    }


def _inspect(path: Path, words: Mapping[str, Label]) -> Iterator[GivenAnswer]:
    for number, sample in enumerate(_samples(path), start=1):
        named, output = isinstance(sample, dict) and "id" in sample, isinstance(sample, dict) and sample.get("output")
        if not named or not isinstance(output, dict):
            raise ValueError(f"{path.name}, sample {number}: no output of a model")
        epoch = sample.get("epoch")
        yield GivenAnswer(
            case=str(sample["id"]),
            node=None,
            number=epoch if isinstance(epoch, int) else None,
            draw=None if sample.get("error") else _inspect_draw(output, words),
            place=f"sample {number}",
        )


def _samples(path: Path) -> Iterator[Any]:
    """The samples of a log in its packed form or as one JSON object. FileRefused for a damaged one."""
    with damage_refused(FileFormat.INSPECT_LOG):
        if is_inspect_log(path):
            yield from map(json.loads, sample_files(path, LARGEST_SAMPLE))
        else:
            yield from json.loads(path.read_text(encoding="utf-8-sig"))["samples"]


def _inspect_draw(output: Mapping[str, Any], words: Mapping[str, Label]) -> Draw | None:
    """None where no model answered."""
    choices, used = output.get("choices"), output.get("usage")
    if not (isinstance(choices, list) and choices and isinstance(choices[0], dict)):
        return None
    message = choices[0].get("message")
    content = message.get("content") if isinstance(message, dict) else output.get("completion")
    if isinstance(content, list):  # what the model thought before is left out
        content = [one for one in content if not (isinstance(one, dict) and one.get("type") == "reasoning")]
    counts = [used.get(name) if isinstance(used, dict) else 0 for name in ("input_tokens", "output_tokens")]
    given, written = (one if isinstance(one, int) and one > 0 else 0 for one in counts)
    stop = _STOPS.get(str(choices[0].get("stop_reason") or "stop"))
    return read_answer(words_of(content), stop, Usage(input_tokens=given, output_tokens=written), words)
