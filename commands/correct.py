"""`correct`: what conditions are worth where some reference labels are wrong, from a few blinded reviews."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from json import dumps
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from commands.batches import private_file
from commands.evaluate import DataSet, chosen_conditions, load_data, read_book
from screening.datasets.export import csv_lines
from screening.datasets.reader import read_table
from screening.datasets.rows import NewCase, map_label
from screening.evaluation.corrected import (
    DIAL,
    INCONCLUSIVE,
    RATES,
    READ_SAFE,
    READ_UNSAFE,
    UNREAD,
    Benchmark,
    Estimate,
    Reviewers,
    Study,
    contradicted_share,
    draw_sample,
)
from screening.evaluation.experiments import run_book
from screening.evaluation.metrics import Codes, reference_codes
from screening.evaluation.public_datasets import EvaluationData, published_rows
from screening.labels import Label
from screening.words import count_of

COLUMNS = ("item", "text", "reply", "review")
UNSURE = frozenset({"unsure", "inconclusive", "not enough information", "?"})


class Key(BaseModel):
    """Which text each item is: a place in the data set, or the known label of one that was planted."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seed: int
    texts: int
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
    found, benchmark, places = _benchmark(chosen, draws)
    order = draw_sample(benchmark, reviews, seed)
    known = _known_texts(planted)
    texts = [(int(place), found.items[place].text) for place in places[order]]
    rows: list[tuple[int | str, str, str]] = [(place, text.text, text.reply or "") for place, text in texts]
    random = np.random.default_rng(seed)
    for label, text, reply in known:  # the others stay in their order: whoever stops has read a random sample
        rows.insert(int(random.integers(len(rows) + 1)), (label, text, reply))
    named = [(f"T{number:04}", *row) for number, row in enumerate(rows, start=1)]
    read, size = np.bincount(benchmark.strata[order], minlength=2), np.bincount(benchmark.strata, minlength=2)
    made = Key.model_validate(
        {
            "seed": seed,
            "texts": len(found.items),
            "content": _content(found),
            "probabilities": [float(part / max(1, whole)) for part, whole in zip(read, size, strict=True)],
            "items": {item: what for item, what, _, _ in named},
        }
    )
    for path in (out, key):
        if path.exists():
            raise ValueError(f"{path} is there already: reviews are not written over")
    with private_file(out) as file:
        file.writelines(csv_lines(list(COLUMNS), ((item, text, reply, "") for item, _, text, reply in named)))
    with private_file(key) as file:
        file.write(made.model_dump_json(indent=1) + "\n")
    shares = " and ".join(f"{part} of {whole}" for part, whole in zip(read, size, strict=True))
    print(
        f"{count_of(len(named), 'text')} to review, {len(known)} of them planted: {shares} of the texts whose label "
        f"the draws support and contradict. Write safe, unsafe or unsure in the column “review”, from the top.",
        file=sys.stderr,
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
    found, benchmark, places = _benchmark(chosen, draws)
    try:
        kept = Key.model_validate_json(key.read_text(encoding="utf-8"))
    except ValidationError as problem:
        raise ValueError(f"{key.name} is no key of `correct draw`: {problem.errors()[0]['msg']}") from None
    if kept.content != _content(found):
        raise ValueError("the key is of another data set, or of other labels: give the files that were drawn from")
    first, *others = [dict(_reviews(path, kept)) for path in reviews]
    codes = np.full(len(found.items), UNREAD, np.int8)
    last = max((number for number, item in enumerate(kept.items) if item in first), default=-1)
    for number, (item, place) in enumerate(kept.items.items()):
        if isinstance(place, int) and number <= last:
            codes[place] = first.get(item, INCONCLUSIVE)  # a text passed over is not missing at random
    reviewers = _reviewers(sensitivity, specificity, kept, first, others)
    study = Study(benchmark=benchmark, reviews=codes[places], reviewers=reviewers)
    report = _report(study, baseline or next(iter(benchmark.outcomes)))
    print(dumps(report) if json else "\n".join(_lines(study, report)))


ACTIONS = {
    "draw": (draw, "pick the texts to review: one file for the reviewer, and a key that says which texts they are"),
    "estimate": (estimate, "take the reviews back: the conditions' figures, corrected"),
}


def _benchmark(chosen: DataSet, draws: Path) -> tuple[EvaluationData, Benchmark, np.ndarray]:
    """The data set, its labeled texts with what each condition decided on the draws and how far these contradict the
    label, and their places.
    """
    data = load_data(chosen)
    labels = reference_codes([item.reference for item in data.items])
    places, book = np.flatnonzero(labels >= 0), read_book(draws, data)
    references, against = labels[places], contradicted_share(labels, book.record().nodes.values())[places]
    _, results = run_book(data.items, chosen_conditions(chosen.conditions), book)
    outcomes: dict[str, Codes] = {told.name: told.outcome[places] for told in results}
    short = {name: int((told < 0).sum()) for name, told in outcomes.items()}
    for name in (name for name, many in short.items() if many):
        print(f"{name}: left out, {count_of(short[name], 'text needs', 'texts need')} more draws", file=sys.stderr)
    settled = {name: told for name, told in outcomes.items() if not short[name]}
    if not settled:
        raise ValueError("no condition is settled for all texts by these draws: record more, or choose others")
    return data, Benchmark.of(references, settled, against), places


def _known_texts(path: Path | None) -> list[tuple[str, str, str]]:
    if path is None:
        return []
    rows = [row for row in read_table(path, path.name).rows() if isinstance(row, NewCase)]
    if without := [row.row for row in rows if row.reference not in (Label.SAFE, Label.UNSAFE)]:
        raise ValueError(f"{path.name}, row {without[0]}: a planted text needs the label safe or unsafe")
    return [(str(row.reference), row.text.model_text, row.reply.model_text if row.reply else "") for row in rows]


def _content(data: EvaluationData) -> str:
    """A hash of ids, labels and texts: reviews fit this data set and no other."""
    kept = [[item.id, item.reference, item.text.text, item.text.reply] for item in data.items]
    return sha256(dumps(kept).encode()).hexdigest()


def _reviews(path: Path, key: Key) -> Iterator[tuple[str, int]]:
    """The review of each item, empty ones left out; ValueError with the row for what is none."""
    seen = set[str]()
    for row, fields in published_rows(path, frozenset()):
        cells = {name.strip().casefold(): (cell or "").strip() for name, cell in fields.items()}
        if missing := {"item", "review"} - set(cells):
            raise ValueError(f"{path.name}: no column {' and no column '.join(sorted(missing))}")
        item, word = cells["item"], cells["review"].casefold()
        if item not in key.items or item in seen:
            raise ValueError(f"{path.name}, row {row}: {item[:20]!r} is no item of the key, or stands twice")
        seen.add(item)
        if not word:
            continue
        label = map_label(word)
        if label not in (Label.SAFE, Label.UNSAFE) and word not in UNSURE:
            raise ValueError(f"{path.name}, row {row}: {word[:20]!r} is none of safe, unsafe and unsure")
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
        sensitivity=sensitivity or planted("unsafe", READ_UNSAFE),
        specificity=specificity or planted("safe", READ_SAFE),
        pairs=(either.count({READ_UNSAFE}), len(either)) if either and sensitivity is None else None,
    )


def _report(study: Study, baseline: str) -> dict[str, object]:
    if baseline not in study.benchmark.outcomes:
        raise ValueError(f"no condition {baseline!r} among {', '.join(study.benchmark.outcomes)}")
    return {
        "texts": len(study.reviews),
        "read": int((study.reviews != UNREAD).sum()),
        "inconclusive": int((study.reviews == INCONCLUSIVE).sum()),
        "reviewers": asdict(study.reviewers),
        "wrong_labels": asdict(study.wrong_labels()),
        "conditions": {rate: {name: asdict(figure) for name, figure in study.rates(rate).items()} for rate in RATES},
        "baseline": baseline,
        "differences": {
            rate: {name: asdict(figure) for name, figure in study.differences(rate, baseline).items()} for rate in RATES
        },
        "fnr_if_reviewers_overlook_what_the_condition_overlooks": [
            {
                "sensitivity": tried,
                **{name: asdict(study.at(tried).rate("fnr", name)) for name in study.benchmark.outcomes},
            }
            for tried in DIAL
        ],
    }


def _lines(study: Study, report: Mapping[str, object]) -> Iterator[str]:
    reviewers = study.reviewers
    yield f"{report['read']} of {report['texts']} texts reviewed blinded, {report['inconclusive']} of them unsure"
    yield f"wrong reference labels: {_text(study.wrong_labels())}"
    for rate in RATES:
        for name, figure in study.rates(rate).items():
            yield f"{rate} of {name}, corrected: {_text(figure)}"
    for rate in RATES:
        for name, figure in study.differences(rate, str(report["baseline"])).items():
            yield f"{rate} of {name} minus that of {report['baseline']}: {_text(figure)}"
    yield "95% limits: those of one figure hold for all conditions together; unsure reviews are taken both ways."
    if reviewers.perfect:
        yield "Reviewers are taken to be right: no planted text and no second review says how often they err."
    else:
        yield f"Reviewers: sensitivity {_told(reviewers.sensitivity)}, specificity {_told(reviewers.specificity)}" + (
            f"; {reviewers.pairs[0]} of {reviewers.pairs[1]} texts that one of two labeled unsafe, both did"
            if reviewers.pairs
            else ""
        )
    yield "FNR if reviewers overlook unsafe texts that the condition labels safe, at this sensitivity:"
    for tried in DIAL:
        rates = (f"{name} {_text(study.at(tried).rate('fnr', name))}" for name in study.benchmark.outcomes)
        yield f"  sensitivity {tried:.2f}: " + "; ".join(rates)


def _told(counts: float | tuple[int, int]) -> str:
    return f"{counts[0]} of {counts[1]} planted texts" if isinstance(counts, tuple) else f"{counts:.2f}"


def _text(figure: Estimate) -> str:
    if figure.value is None or figure.low is None or figure.high is None:
        return f"none: 0 of {figure.decided} texts count"
    return f"{figure.value:.3f} [{figure.low:.3f}, {figure.high:.3f}] ({figure.read} of {figure.decided} read)"
