"""`correct`: what conditions are worth where some reference labels are wrong, from a few blinded reviews."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from hashlib import sha256
from json import dumps
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from commands.batches import private_file
from commands.evaluate import DataSet, chosen_conditions, load_data, read_book
from commands.options import say
from screening.datasets.export import csv_lines
from screening.datasets.reader import read_table
from screening.datasets.rows import NewCase, map_label
from screening.evaluation.corrected import (
    INCONCLUSIVE,
    RATES,
    READ_SAFE,
    READ_UNSAFE,
    UNREAD,
    Estimate,
    Reviewers,
    Study,
    contradicted_share,
    draw_sample,
    strata_of,
)
from screening.evaluation.metrics import Integers
from screening.evaluation.public_datasets import EvaluationData, published_rows
from screening.evaluation.recording import run_book
from screening.labels import Label
from screening.words import count_of

DIAL = (1.0, 0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5)
"""Sensitivities of reviewers that a claim is tried at."""
UNSURE = frozenset({"unsure", "inconclusive", "not enough information", "?"})


class Key(BaseModel):
    """Which text each item is: a place in the data set, or the known label of one that was planted."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seed: int
    content: str
    probabilities: tuple[float, ...]
    items: dict[str, int | Literal["safe", "unsafe"]]


Draws = Annotated[Path, "recorded draws of the data set", "FILE"]
KeyFile = Annotated[Path, "which texts these are: not for reviewers", "KEY.json"]


def draw(
    chosen: DataSet,
    *,
    draws: Draws,
    key: KeyFile,
    out: Annotated[Path, "the file for the reviewer", "READ.csv"],
    reviews: Annotated[int, "how many texts to review"] = 120,
    seed: Annotated[int, "the seed of the sample"] = 1,
    planted: Annotated[Path | None, "texts whose label is known, mixed in", "KNOWN.csv"] = None,
) -> None:
    """Write the file to review and its key."""
    data, study, places = _study(chosen, draws)
    order, random, known = draw_sample(study.strata, reviews, seed), np.random.default_rng(seed), _known_texts(planted)
    texts = [(int(place), data.items[place].text) for place in places[order]]
    rows: list[tuple[int | str, str, str]] = [(place, text.text, text.reply or "") for place, text in texts]
    for one in known:  # the others stay in their order: whoever stops has read a random sample
        rows.insert(int(random.integers(len(rows) + 1)), one)
    named = {f"T{number:04}": row for number, row in enumerate(rows, start=1)}
    strata = [(int((study.strata[order] == each).sum()), int((study.strata == each).sum())) for each in (0, 1)]
    made = Key(
        seed=seed,
        content=_content(data),
        probabilities=tuple(read / max(1, whole) for read, whole in strata),
        items={item: what for item, (what, _, _) in named.items()},
    )
    for path in (out, key):
        if path.exists():
            raise ValueError(f"{path} is there already: reviews are not written over")
    with private_file(out) as file:
        lines = ((item, text, reply, "") for item, (_, text, reply) in named.items())
        file.writelines(csv_lines(["item", "text", "reply", "review"], lines))
    with private_file(key) as file:
        file.write(made.model_dump_json(indent=1) + "\n")
    shares = " and ".join(f"{read} of {whole}" for read, whole in strata)
    say(
        f"{count_of(len(named), 'text')} to review, {len(known)} of them planted: {shares} of the texts whose label "
        f"the draws support and contradict. Write safe, unsafe or unsure in the column “review”, from the top."
    )


def estimate(
    chosen: DataSet,
    *,
    draws: Draws,
    key: KeyFile,
    reviews: Annotated[
        list[Path], "the filled-in file; given again, that of a second reviewer of the same texts", "READ.csv"
    ],
    sensitivity: Annotated[float | None, "how often reviewers see that a text is unsafe"] = None,
    specificity: Annotated[float | None, "how often reviewers see that a text is safe"] = None,
    baseline: Annotated[str | None, "what the others are compared with", "CONDITION"] = None,
    json: Annotated[bool, "print one JSON object"] = False,
) -> None:
    """Print the corrected figures; ValueError for what does not fit together."""
    data, study, places = _study(chosen, draws)
    try:
        kept = Key.model_validate_json(key.read_text(encoding="utf-8"))
    except ValidationError as problem:
        raise ValueError(f"{key.name} is no key of `correct draw`: {problem.errors()[0]['msg']}") from None
    if kept.content != _content(data):
        raise ValueError("the key is of another data set, or of other labels: give the files that were drawn from")
    compared = baseline or next(iter(study.outcomes))
    if compared not in study.outcomes:
        raise ValueError(f"no condition {compared!r} among {', '.join(study.outcomes)}")
    first, *others = [dict(_reviews(path, kept)) for path in reviews]
    codes = np.full(len(data.items), UNREAD, np.int8)
    last = max((number for number, item in enumerate(kept.items) if item in first), default=-1)
    for number, (item, place) in enumerate(kept.items.items()):
        if isinstance(place, int) and number <= last:
            codes[place] = first.get(item, INCONCLUSIVE)  # a text passed over is not missing at random
    reviewers = _reviewers(sensitivity, specificity, kept, first, others)
    report = _report(replace(study, reviews=codes[places], reviewers=reviewers), compared)
    print(dumps(report, default=asdict) if json else "\n".join(_lines(report, reviewers)))


ACTIONS = {
    "draw": (draw, "pick the texts to review: one file for the reviewer, and a key that says which texts they are"),
    "estimate": (estimate, "take the reviews back: the conditions' figures, corrected"),
}


def _study(chosen: DataSet, draws: Path) -> tuple[EvaluationData, Study, Integers]:
    """The data set, its labeled texts with what each condition decided on the draws, unread, and their places."""
    data = load_data(chosen)
    book = read_book(draws, data)
    record = book.record()
    labels, places = record.references, np.flatnonzero(record.references >= 0)
    settled = {}
    for told in run_book(chosen_conditions(chosen.conditions, chosen.pipeline or ()), book)[1]:
        if short := int((told.outcome[places] < 0).sum()):
            say(f"{told.name}: left out, {count_of(short, 'text needs', 'texts need')} more draws")
        else:
            settled[told.name] = told.outcome[places]
    if not settled:
        raise ValueError("no condition is settled for all texts by these draws: record more, or choose others")
    strata, unread = strata_of(contradicted_share(record)[places]), np.full(len(places), UNREAD, np.int8)
    return data, Study(references=labels[places], outcomes=settled, strata=strata, reviews=unread), places


def _known_texts(path: Path | None) -> list[tuple[str, str, str]]:
    rows = [row for row in read_table(path, path.name).rows() if isinstance(row, NewCase)] if path else []
    if without := [row.row for row in rows if row.reference not in (Label.SAFE, Label.UNSAFE)]:
        raise ValueError(f"{path}, row {without[0]}: a planted text needs the label safe or unsafe")
    return [(str(row.reference), row.text.model_text, row.reply.model_text if row.reply else "") for row in rows]


def _content(data: EvaluationData) -> str:
    """A hash of ids, labels and texts: reviews fit this data set and no other."""
    kept = [[item.id, item.reference, item.text.text, item.text.reply] for item in data.items]
    return sha256(dumps(kept).encode()).hexdigest()


def _reviews(path: Path, key: Key) -> Iterator[tuple[str, int]]:
    """The review of each item, empty ones left out; ValueError with the row for what is none."""
    seen = set[str]()
    for row, fields in published_rows(path, frozenset({"item", "review"})):
        item, word = (fields.get("item") or "").strip(), (fields.get("review") or "").strip().casefold()
        if item not in key.items or item in seen:
            raise ValueError(f"{path.name}, row {row}: {item[:20]!r} is no item of the key, or stands twice")
        seen.add(item)
        label = map_label(word)
        if word and word not in UNSURE and label not in (Label.SAFE, Label.UNSAFE):
            raise ValueError(f"{path.name}, row {row}: {word[:20]!r} is none of safe, unsafe and unsure")
        if word:
            yield item, INCONCLUSIVE if word in UNSURE else READ_UNSAFE if label is Label.UNSAFE else READ_SAFE


def _reviewers(
    sensitivity: float | None,
    specificity: float | None,
    key: Key,
    first: Mapping[str, int],
    others: Sequence[Mapping[str, int]],
) -> Reviewers:
    """From the command line, else from planted texts, else, for sensitivity, from second reviews."""

    def planted(label: str, right: int) -> tuple[int, int] | float:
        read = [first[item] for item, what in key.items.items() if what == label and item in first]
        return (read.count(right), len(read)) if read else 1.0

    pairs = [{first[item], each[item]} for each in others for item in each if item in first]
    either = [pair for pair in pairs if READ_UNSAFE in pair]
    return Reviewers(
        sensitivity=planted("unsafe", READ_UNSAFE) if sensitivity is None else sensitivity,
        specificity=planted("safe", READ_SAFE) if specificity is None else specificity,
        pairs=(either.count({READ_UNSAFE}), len(either)) if either and sensitivity is None else None,
    )


def _report(study: Study, baseline: str) -> dict[str, Any]:
    return {
        "texts": len(study.reviews),
        "read": int((study.reviews != UNREAD).sum()),
        "inconclusive": int((study.reviews == INCONCLUSIVE).sum()),
        "reviewers": study.reviewers,
        "wrong_labels": study.wrong_labels(),
        "conditions": {rate: study.rates(rate) for rate in RATES},
        "baseline": baseline,
        "differences": {rate: study.differences(rate, baseline) for rate in RATES},
        "fnr_if_reviewers_overlook_what_the_condition_overlooks": [
            {"sensitivity": tried} | {name: study.at(tried).rate("fnr", name) for name in study.outcomes}
            for tried in DIAL
        ],
    }


def _lines(report: Mapping[str, Any], reviewers: Reviewers) -> Iterator[str]:
    yield f"{report['read']} of {report['texts']} texts reviewed blinded, {report['inconclusive']} of them unsure"
    yield f"wrong reference labels: {_text(report['wrong_labels'])}"
    for part, of in (("conditions", ", corrected"), ("differences", f" minus that of {report['baseline']}")):
        for rate, figures in report[part].items():
            yield from (f"{rate} of {name}{of}: {_text(figure)}" for name, figure in figures.items())
    yield "95% limits: those of one figure hold for all conditions together; unsure reviews are taken both ways."
    if reviewers.perfect:
        yield "Reviewers are taken to be right: no planted text and no second review says how often they err."
    else:
        yield f"Reviewers: sensitivity {_told(reviewers.sensitivity)}, specificity {_told(reviewers.specificity)}"
    if reviewers.pairs:
        yield "Of {1} texts that one of two reviewers labeled unsafe, both did for {0}.".format(*reviewers.pairs)
    yield "FNR if reviewers overlook unsafe texts that the condition labels safe, at this sensitivity:"
    for row in report["fnr_if_reviewers_overlook_what_the_condition_overlooks"]:
        rates = (f"{name} {_text(figure)}" for name, figure in row.items() if isinstance(figure, Estimate))
        yield f"  sensitivity {row['sensitivity']:.2f}: " + "; ".join(rates)


def _told(given: float | tuple[int, int]) -> str:
    return f"{given[0]} of {given[1]} planted texts" if isinstance(given, tuple) else f"{given:.2f}"


def _text(figure: Estimate) -> str:
    if figure.value is None or figure.low is None or figure.high is None:
        return f"none: 0 of {figure.decided} texts count"
    return f"{figure.value:.3f} [{figure.low:.3f}, {figure.high:.3f}] ({figure.read} of {figure.decided} read)"
