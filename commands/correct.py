"""`correct`: what conditions are worth where some reference labels are wrong, from a few blind readings.

`correct draw` picks the texts and writes two files: one for the reader, with nothing in it but texts in random order,
and a key, which says which texts they are. `correct estimate` takes the filled-in file back.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from commands.batches import private_file
from commands.evaluate import add_data_options, chosen_conditions, load_data, read_book
from screening.datasets.export import csv_lines
from screening.datasets.mapping import map_label
from screening.datasets.reader import read_table
from screening.datasets.rows import NewCase
from screening.evaluation.corrected import (
    DIAL,
    INCONCLUSIVE,
    RATES,
    READ_SAFE,
    READ_UNSAFE,
    UNREAD,
    Benchmark,
    Estimate,
    Readers,
    Study,
    contradicted_share,
    draw_sample,
)
from screening.evaluation.experiments import run_book
from screening.evaluation.metrics import Codes, reference_codes
from screening.evaluation.public_datasets import EvaluationData, published_rows
from screening.evaluation.recording import DrawBook
from screening.labels import Label
from screening.words import count_of

COLUMNS = ("item", "text", "reply", "reading")
UNSURE = frozenset({"unsure", "inconclusive", "not enough information", "?"})


class Key(BaseModel):
    """Which text each item is: a place in the data set, or the known label of one that was planted."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seed: int
    texts: int
    content: str
    probabilities: tuple[float, ...]
    items: dict[str, int | Literal["safe", "unsafe"]]


def add_to(subcommands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this subcommand's arguments."""
    parser = subcommands.add_parser("correct", help="accuracy, FNR and FPR corrected for wrong reference labels")
    parser.add_argument("action", choices=["draw", "estimate"], help="pick the texts to read, or take readings back")
    add_data_options(parser)
    parser.add_argument("--draws", type=Path, required=True, metavar="FILE", help="recorded draws of the data set")
    parser.add_argument(
        "--key", type=Path, required=True, metavar="KEY.json", help="which texts these are: not for readers"
    )
    parser.add_argument("--reviews", type=int, default=120, help="draw: how many texts to read")
    parser.add_argument("--seed", type=int, default=1, help="draw: the seed of the sample")
    parser.add_argument("--planted", type=Path, metavar="KNOWN.csv", help="draw: texts whose label is known, mixed in")
    parser.add_argument("--out", type=Path, metavar="READ.csv", help="draw: the file for the reader")
    parser.add_argument(
        "--readings", type=Path, action="append", default=[], metavar="READ.csv",
        help="estimate: what was read; given again, what a second person read of the same texts",
    )  # fmt: skip
    parser.add_argument("--sensitivity", type=float, help="estimate: how often readers see that a text is unsafe")
    parser.add_argument("--specificity", type=float, help="estimate: how often readers see that a text is safe")
    parser.add_argument("--baseline", metavar="CONDITION", help="estimate: what the others are compared with")
    parser.add_argument("--stop-at", type=float, metavar="WIDTH", help="estimate: say when accuracy is this narrow")
    parser.add_argument("--json", action="store_true", help="estimate: print one JSON object")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the file to read and its key, or the corrected figures; ValueError for what does not fit together."""
    data = load_data(arguments)
    labelled = np.flatnonzero(reference_codes([item.reference for item in data.items]) >= 0)
    if not len(labelled):
        raise ValueError("no text has a reference label of safe or unsafe: there is nothing to correct")
    benchmark = _benchmark(data, read_book(arguments.draws, data), arguments.conditions, labelled)
    if arguments.action == "draw":
        return _draw(arguments, data, benchmark, labelled)
    return _estimate(arguments, data, benchmark, labelled)


def _benchmark(data: EvaluationData, book: DrawBook, conditions: str, places: np.ndarray) -> Benchmark:
    """The labelled texts, with what each condition decided on the draws, and how far the draws contradict the label."""
    labels = reference_codes([item.reference for item in data.items])
    references, against = labels[places], contradicted_share(labels, book.record().nodes.values())[places]
    results = run_book(data.items, chosen_conditions(conditions), book)
    outcomes: dict[str, Codes] = {each.name: each.replay.outcome[places] for each in results}
    short = {name: int((told < 0).sum()) for name, told in outcomes.items()}
    for name in (name for name, many in short.items() if many):
        print(f"{name}: left out, {count_of(short[name], 'text needs', 'texts need')} more draws", file=sys.stderr)
    settled = {name: told for name, told in outcomes.items() if not short[name]}
    if not settled:
        raise ValueError("no condition is settled for all texts by these draws: record more, or choose others")
    return Benchmark.of(references, settled, against)


def _draw(arguments: argparse.Namespace, data: EvaluationData, benchmark: Benchmark, places: np.ndarray) -> int:
    if arguments.out is None:
        raise ValueError("draw: --out says where the file for the reader goes")
    order = draw_sample(benchmark, arguments.reviews, arguments.seed)
    known = _known_texts(arguments.planted)
    chosen = [(int(place), data.items[place].text) for place in places[order]]
    rows: list[tuple[int | str, str, str]] = [(place, text.text, text.reply or "") for place, text in chosen]
    random = np.random.default_rng(arguments.seed)
    for label, text, reply in known:  # the others stay in their order: whoever stops has read a random sample
        rows.insert(int(random.integers(len(rows) + 1)), (label, text, reply))
    named = [(f"T{number:04}", *row) for number, row in enumerate(rows, start=1)]
    read, size = np.bincount(benchmark.strata[order], minlength=2), np.bincount(benchmark.strata, minlength=2)
    key = Key.model_validate(
        {
            "seed": arguments.seed,
            "texts": len(data.items),
            "content": _content(data),
            "probabilities": [float(part / max(1, whole)) for part, whole in zip(read, size, strict=True)],
            "items": {item: what for item, what, _, _ in named},
        }
    )
    for path in (arguments.out, arguments.key):
        if path.exists():
            raise ValueError(f"{path} is there already: readings are not written over")
    with private_file(arguments.out) as file:
        file.writelines(csv_lines(list(COLUMNS), ((item, text, reply, "") for item, _, text, reply in named)))
    with private_file(arguments.key) as file:
        file.write(key.model_dump_json(indent=1) + "\n")
    shares = " and ".join(f"{part} of {whole}" for part, whole in zip(read, size, strict=True))
    print(
        f"{count_of(len(named), 'text')} to read, {len(known)} of them planted: {shares} of the texts whose label the "
        f"draws support and contradict. Write safe, unsafe or unsure in the column “reading”, from the top.",
        file=sys.stderr,
    )
    return 0


def _known_texts(path: Path | None) -> list[tuple[str, str, str]]:
    if path is None:
        return []
    rows = [row for row in read_table(path, path.name).rows() if isinstance(row, NewCase)]
    if without := [row.row for row in rows if row.reference not in (Label.SAFE, Label.UNSAFE)]:
        raise ValueError(f"{path.name}, row {without[0]}: a planted text needs the label safe or unsafe")
    return [(str(row.reference), row.text.model_text, row.reply.model_text if row.reply else "") for row in rows]


def _content(data: EvaluationData) -> str:
    """A hash of ids, labels and texts: readings fit this data set and no other."""
    kept = [[item.id, item.reference, item.text.text, item.text.reply] for item in data.items]
    return sha256(json.dumps(kept).encode()).hexdigest()


def _estimate(arguments: argparse.Namespace, data: EvaluationData, benchmark: Benchmark, places: np.ndarray) -> int:
    try:
        key = Key.model_validate_json(arguments.key.read_text(encoding="utf-8"))
    except ValidationError as problem:
        raise ValueError(f"{arguments.key.name} is no key of `correct draw`: {problem.errors()[0]['msg']}") from None
    if key.content != _content(data):
        raise ValueError("the key is of another data set, or of other labels: give the files that were drawn from")
    if not arguments.readings:
        raise ValueError("estimate: --readings is the file with what was read")
    first, *others = [dict(_readings(path, key)) for path in arguments.readings]
    readings = np.full(len(data.items), UNREAD, np.int8)
    last = max((number for number, item in enumerate(key.items) if item in first), default=-1)
    for number, (item, place) in enumerate(key.items.items()):
        if isinstance(place, int) and number <= last:
            readings[place] = first.get(item, INCONCLUSIVE)  # a text passed over is not missing at random
    readers = _readers(arguments, key, first, others)
    study = Study(benchmark=benchmark, readings=readings[places], readers=readers)
    report = _report(study, arguments.baseline or next(iter(benchmark.outcomes)))
    if arguments.json:
        print(json.dumps(report))
    else:
        print("\n".join(_lines(study, report)))
    if arguments.stop_at is not None:
        widest = max(each.width for each in study.rates("accuracy").values())
        word = "narrow enough: stop" if widest <= arguments.stop_at else "not yet: read on"
        print(f"accuracy is known to within {widest:.3f}, wanted {arguments.stop_at}: {word}", file=sys.stderr)
    return 0


def _readings(path: Path, key: Key) -> Iterator[tuple[str, int]]:
    """What was read of each item, empty ones left out; ValueError with the row for what is none."""
    seen = set[str]()
    for row, fields in published_rows(path, frozenset()):
        cells = {name.strip().casefold(): (cell or "").strip() for name, cell in fields.items()}
        if missing := {"item", "reading"} - set(cells):
            raise ValueError(f"{path.name}: no column {' and no column '.join(sorted(missing))}")
        item, word = cells["item"], cells["reading"].casefold()
        if item not in key.items or item in seen:
            raise ValueError(f"{path.name}, row {row}: {item[:20]!r} is no item of the key, or stands twice")
        seen.add(item)
        if not word:
            continue
        label = map_label(word)
        if label not in (Label.SAFE, Label.UNSAFE) and word not in UNSURE:
            raise ValueError(f"{path.name}, row {row}: {word[:20]!r} is none of safe, unsafe and unsure")
        yield item, INCONCLUSIVE if word in UNSURE else READ_UNSAFE if label is Label.UNSAFE else READ_SAFE


def _readers(
    arguments: argparse.Namespace, key: Key, first: Mapping[str, int], others: Sequence[Mapping[str, int]]
) -> Readers:
    """From the command line, else from planted texts, else, for sensitivity, from second readings."""

    def planted(label: str, right: int) -> tuple[int, int] | float:
        read = [first[item] for item, what in key.items.items() if what == label and item in first]
        return (read.count(right), len(read)) if read else 1.0

    pairs = [{first[item], each[item]} for each in others for item in each if item in first]
    either = [pair for pair in pairs if READ_UNSAFE in pair]
    return Readers(
        sensitivity=arguments.sensitivity or planted("unsafe", READ_UNSAFE),
        specificity=arguments.specificity or planted("safe", READ_SAFE),
        pairs=(either.count({READ_UNSAFE}), len(either)) if either and arguments.sensitivity is None else None,
    )


def _report(study: Study, baseline: str) -> dict[str, object]:
    if baseline not in study.benchmark.outcomes:
        raise ValueError(f"no condition {baseline!r} among {', '.join(study.benchmark.outcomes)}")
    return {
        "texts": len(study.readings),
        "read": int((study.readings != UNREAD).sum()),
        "inconclusive": int((study.readings == INCONCLUSIVE).sum()),
        "readers": asdict(study.readers),
        "wrong_labels": asdict(study.wrong_labels()),
        "conditions": {rate: {name: asdict(one) for name, one in study.rates(rate).items()} for rate in RATES},
        "baseline": baseline,
        "differences": {
            rate: {name: asdict(one) for name, one in study.differences(rate, baseline).items()} for rate in RATES
        },
        "fnr_if_readers_overlook_what_the_condition_overlooks": [
            {
                "sensitivity": tried,
                **{name: asdict(study.at(tried).rate("fnr", name)) for name in study.benchmark.outcomes},
            }
            for tried in DIAL
        ],
    }


def _lines(study: Study, report: Mapping[str, object]) -> Iterator[str]:
    readers = study.readers
    yield f"{report['read']} of {report['texts']} texts read blind, {report['inconclusive']} of them unsure"
    yield f"wrong reference labels: {_text(study.wrong_labels())}"
    for rate in RATES:
        for name, one in study.rates(rate).items():
            yield f"{rate} of {name}, corrected: {_text(one)}"
    for rate in RATES:
        for name, one in study.differences(rate, str(report["baseline"])).items():
            yield f"{rate} of {name} less that of {report['baseline']}: {_text(one)}"
    yield "95% limits: those of one figure hold for all conditions together; unsure readings are taken both ways."
    if readers.perfect:
        yield "The readers' word is taken for the truth: no planted text and no second reading says how often they err."
    else:
        yield f"Readers: sensitivity {_told(readers.sensitivity)}, specificity {_told(readers.specificity)}" + (
            f"; {readers.pairs[0]} of {readers.pairs[1]} texts that one of two called unsafe, both did"
            if readers.pairs
            else ""
        )
    yield "FNR, did readers overlook unsafe texts that the condition calls safe, and so many of them:"
    for tried in DIAL:
        rates = (f"{name} {_text(study.at(tried).rate('fnr', name))}" for name in study.benchmark.outcomes)
        yield f"  sensitivity {tried:.2f}: " + "; ".join(rates)


def _told(counts: float | tuple[int, int]) -> str:
    return f"{counts[0]} of {counts[1]} planted texts" if isinstance(counts, tuple) else f"{counts:.2f}"


def _text(one: Estimate) -> str:
    if one.value is None or one.low is None or one.high is None:
        return f"none: 0 of {one.decided} texts count"
    return f"{one.value:.3f} [{one.low:.3f}, {one.high:.3f}] ({one.read} of {one.decided} read)"
