"""`evaluate`: the paper's conditions and ours on a labeled data set; `import-draws`: answers made elsewhere.

`evaluate` is one path: a labeled file (`load_data`), its draws (`_first_draws`, and `_record` for those that are
missing), every condition replayed on them (`run_book`), and one table, printed and written.
"""

import argparse
import asyncio
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from statistics import mean
from time import monotonic

from commands.batches import ALL_SETTLED, SOME_PENDING
from commands.file_options import add_mapping_options, mapped_table, mapping_lines, save_mapping
from commands.one_batch import screen_batch
from jobs.agents import Agents
from jobs.intake import BatchRequest, configuration, open_batch
from jobs.port import system_clock
from screening import __version__
from screening.datasets.mapping import find_column, map_label, pairs
from screening.datasets.reader import Table
from screening.datasets.rows import NewCase
from screening.evaluation.capsule import PRINTED, beside_paper, figures, hashes, marked, marked_latex
from screening.evaluation.conditions import (
    BUDGETS,
    PAPER_DELTA,
    Condition,
    named_condition,
    our_conditions,
    paper_conditions,
)
from screening.evaluation.draw_file import DrawLine, GrowingFile, draw_lines, read_draws, read_growing
from screening.evaluation.experiments import ConditionResult, consistent_misses, deciding, run_book
from screening.evaluation.imported_answers import answers_in
from screening.evaluation.metrics import REFERENCES, reference_codes
from screening.evaluation.public_datasets import (
    PER_SUBREDDIT,
    EvaluationData,
    LabelOf,
    Screened,
    announcement,
    load_evaluation,
    rows_beside,
)
from screening.evaluation.recording import DrawBook, Keep, NodeDraws, Price, Purse, record_draws
from screening.evaluation.tables import ResultsTable, csv_table, latex_table, plain_rows, row_of, text_table
from screening.labels import Label
from screening.models.simulated import KnownSampler, SimulatedSampler
from screening.pipeline.config import chain
from screening.pipeline.cost import usage_per_call
from screening.pipeline.draws import Draw, DrawSource, encode_draws
from screening.pipeline.files import load_prompts, read_pipeline
from screening.review.actors import LOCAL_USER
from screening.review.reach import Reach
from screening.settings import SIMULATED_NOTICE, Settings
from screening.stopping.rules import SuccessiveElimination
from screening.words import count_of
from storage.batches.intake import add_rows, close_intake
from storage.database import Database
from storage.research.recorded_draws import recorded_batch

EVERY_S = 5.0
ESTIMATED_FROM = 40
"""Texts that an estimate of calls is made from."""
RECORDING = chain("recording", SuccessiveElimination(budget=max(BUDGETS), delta=PAPER_DELTA, curtail=False), "next")
"""The paper's most demanding condition: its draws settle nearly every case of all the others."""


def add_to(subcommands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the subcommands of this file."""
    parser = subcommands.add_parser("evaluate", help="the paper's conditions and ours on a labelled data set")
    _add_options(parser)
    parser.set_defaults(run=run)
    parser = subcommands.add_parser("import-draws", help="labels that models gave elsewhere as draws to replay")
    _add_import_options(parser)
    parser.set_defaults(run=run_import_draws)


def run(arguments: argparse.Namespace) -> int:
    """Record what draws are missing, replay every condition, print the table and write it."""
    data = load_data(arguments)
    conditions, book = chosen_conditions(arguments.conditions, arguments.pipeline), _first_draws(arguments, data)
    short = False
    with GrowingFile(arguments.record, data.items, book) if arguments.record else nullcontext() as file:
        if arguments.sampler != "none":
            short = asyncio.run(_record(data, conditions, book, arguments, file.keep if file else None))
    results = run_book(data.items, conditions, book)
    rows = tuple(row_of(each.name, each.metrics, each.unsettled, data.subset, each.cost_usd) for each in results)
    table = ResultsTable(title=data.title, provenance=data.provenance, rows=rows, subset_name=data.subset)
    if arguments.out is not None:
        arguments.out.write_text("".join(csv_table(table)), encoding="utf-8", newline="")
    if arguments.latex is not None:
        arguments.latex.write_text(latex_table(table), encoding="utf-8")
    if arguments.capsule is not None:
        _write_capsule(arguments, data, table, book, conditions)
    _print(arguments, data, table, results)
    return SOME_PENDING if short else ALL_SETTLED


def load_data(arguments: argparse.Namespace) -> EvaluationData:
    """The data set of the options, with what a person should know of it on stderr. ValueError where there is nothing to
    compare with.
    """

    def read(path: Path) -> Table:
        """The user's own table, with the columns of the options, which are printed before the first call."""
        table = mapped_table(path, path.name, arguments)
        save_mapping(table.report, arguments)
        for line in (*mapping_lines(table.report), *table.report.warnings):
            print(line, file=sys.stderr)
        return table

    data = load_evaluation(
        arguments.files,
        arguments.format,
        label_of=arguments.label_of,
        screened=arguments.screened,
        per_subreddit=arguments.per_subreddit,
        subset=arguments.subset,
        read=read,
    )
    for line in announcement(data):
        print(line, file=sys.stderr)
    if not data.items:
        raise ValueError("no row was read: nothing can be evaluated")
    if not any(item.reference in REFERENCES for item in data.items):
        raise ValueError("no row has a reference label of safe or unsafe: name its column with --label-column")
    return data


def _first_draws(arguments: argparse.Namespace, data: EvaluationData) -> DrawBook:
    """The draws to begin with: a file's, a batch's made for it in the database, or none."""
    if arguments.database is not None:
        if arguments.draws is not None or arguments.sampler == "none" or data.distributions:
            raise ValueError(
                "--database records with this site's agents: leave out --draws, --sampler none and p_ columns"
            )
        return asyncio.run(record_as_batch(arguments.database, data, settings_of(arguments)))
    begun = arguments.record if arguments.record is not None and arguments.record.exists() else None
    if begun is None:
        return read_book(arguments.draws, data) if arguments.draws else DrawBook(len(data.items))
    if arguments.draws is not None and not arguments.draws.samefile(begun):
        raise ValueError(f"{begun} is there already: leave out --draws to go on with it, or record elsewhere")
    book = read_growing(begun, data.items)
    print(f"{begun}: goes on after {count_of(book.draws, 'draw')}", file=sys.stderr)
    return book


async def record_as_batch(url: str, data: EvaluationData, settings: Settings) -> DrawBook:
    """Screen the data set as a batch of this database, and give back its draws. A case that fails stays pending; rows
    that no model may be shown follow the others in the batch, so that a person sees them.
    """
    db = Database(url)
    try:
        db.prepare()
        batch_id = await screen_batch(db, settings, partial(_take_in, db, data, settings))
        recorded = recorded_batch(db, LOCAL_USER, batch_id)
    finally:
        db.close()
    print(
        f"batch {batch_id}: {count_of(recorded.book.draws, 'draw')} kept, {count_of(recorded.pending, 'text')} pending",
        file=sys.stderr,
    )
    return replace(recorded.book, cases=len(data.items))


def _take_in(db: Database, data: EvaluationData, settings: Settings, agents: Agents) -> str:
    intake = {"provenance": data.provenance, "steps": [list(step) for step in data.steps], **data.sample}
    request = BatchRequest(name=data.title, pipeline=RECORDING, reach=Reach.COUNT, intake=intake)
    batch_id = open_batch(db, LOCAL_USER, request, settings, agents, system_clock)
    rows = (  # numbered anew, their original label in our words
        replace(row, row=number, reference_value=row.reference.value if row.reference else None)
        for number, row in enumerate((*data.rows, *data.left_out), start=1)
    )
    add_rows(db, batch_id, rows, system_clock())
    close_intake(db, LOCAL_USER.at(system_clock()), batch_id)
    return batch_id


def read_book(path: Path, data: EvaluationData) -> DrawBook:
    """The draws in a file of `--record` or `import-draws`."""
    with path.open(encoding="utf-8-sig") as lines:
        return read_draws(lines, data.items)


async def _record(
    data: EvaluationData,
    conditions: Sequence[Condition],
    book: DrawBook,
    arguments: argparse.Namespace,
    keep: Keep | None,
) -> bool:
    """Whether some text stayed short of draws. What it may cost is told before the first call."""
    settings = settings_of(arguments)
    agents = Agents(settings)
    sampler: DrawSource
    price: Price | None = None
    purse: Purse | None = None
    if data.distributions:
        sampler = KnownSampler(settings.seed, data.distributions)
        print("Simulated agents with the distributions in the file: no model was asked.", file=sys.stderr)
    else:
        described = configuration(settings, agents, conditions[0].pipeline)
        sampler, price = agents.sampler(described, settings.seed), partial(agents.cost_usd, described)
        if settings.simulated:
            print(SIMULATED_NOTICE, file=sys.stderr)
        else:
            purse = _tell_estimate(data, conditions, book, price, await _calls_ahead(data, conditions, book), arguments)
    try:
        done = await record_draws(
            data.items,
            conditions,
            book,
            sampler,
            concurrency=settings.cases_in_flight,
            price=price,
            keep=keep,
            purse=purse,
            after_case=_teller(book, purse),
        )
    finally:
        await agents.aclose()
    print(f"{count_of(done.fetched, 'draw')} fetched, {book.draws:,} recorded in all", file=sys.stderr)
    for kind, cases in sorted(done.failed.items()):
        print(f"{count_of(cases, 'case is', 'cases are')} short of draws: {kind}", file=sys.stderr)
    return bool(done.failed)


async def _calls_ahead(data: EvaluationData, conditions: Sequence[Condition], book: DrawBook) -> float:
    """About how many calls there are to make: what simulated agents take for some of the texts, scaled up."""
    places = range(0, len(data.items), -(-len(data.items) // ESTIMATED_FROM))
    some = DrawBook(len(places))
    for number, place in enumerate(places):
        for node in book.names:
            some.of(number, node).append(NodeDraws(codes=book.of(place, node).codes))
    tried = await record_draws([data.items[place] for place in places], conditions, some, SimulatedSampler(0))
    return tried.fetched * len(data.items) / len(places)


def _tell_estimate(
    data: EvaluationData,
    conditions: Sequence[Condition],
    book: DrawBook,
    price: Price,
    calls: float,
    arguments: argparse.Namespace,
) -> Purse | None:
    nodes = {node.name: node for condition in conditions for node in condition.pipeline.nodes}
    characters = mean(len(item.text.text) + len(item.text.reply or "") for item in data.items)
    prompts = load_prompts(settings_of(arguments).prompts_directory)
    each = price(usage_per_call(prompts, list(nodes.values()), characters))
    costs = "at a price that is not known" if each is None else f"for about ${each * calls:,.2f} without caching"
    print(f"about {calls:,.0f} calls to make, {costs}; {book.draws:,} draws are there", file=sys.stderr)
    if arguments.max_usd is None:
        return None
    if each is None:
        raise ValueError("--max-usd: the price of this model is not known")
    return Purse(most_usd=arguments.max_usd, per_call=each)


def _teller(book: DrawBook, purse: Purse | None) -> Callable[[int, int], None]:
    """Prints a line every few seconds: how many texts are done, how many draws there are, and what they cost."""
    last = monotonic()

    def tell(done: int, of: int) -> None:
        nonlocal last
        if monotonic() - last < EVERY_S and done < of:
            return
        last = monotonic()
        spent = f", ${purse.spent_usd:,.2f}" if purse else ""
        print(f"{done:,} of {count_of(of, 'text')}, {book.draws:,} draws{spent}", file=sys.stderr, flush=True)

    return tell


def _write_capsule(
    arguments: argparse.Namespace,
    data: EvaluationData,
    table: ResultsTable,
    book: DrawBook,
    conditions: Sequence[Condition],
) -> None:
    """All that stands for this experiment, in a folder that is not there yet or is written anew."""
    folder: Path = arguments.capsule
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, str | bytes] = {
        "table.csv": "".join(csv_table(table)),
        "table.tex": marked_latex(table),
        "best_and_overlap.csv": "".join(marked(table)),
        "draws.jsonl": "".join(draw_lines(book, data.items)),
        "about.json": json.dumps(_about(arguments, data, conditions), indent=1) + "\n",
    }
    for name, figure in figures(table).items():
        files |= {f"{name}.svg": figure.svg(), f"{name}.pdf": figure.pdf(), f"{name}.csv": "".join(figure.data())}
    if arguments.format in PRINTED:
        files["beside_paper.csv"] = "".join(beside_paper(table, arguments.format))
    for name, content in files.items():
        written = content if isinstance(content, bytes) else content.encode("utf-8")
        (folder / name).write_bytes(written)
    (folder / "SHA256SUMS").write_text(hashes(folder), encoding="utf-8")
    print(f"{count_of(len(files) + 1, 'file')} in {folder}; no text of the data set is among them", file=sys.stderr)


def _about(arguments: argparse.Namespace, data: EvaluationData, conditions: Sequence[Condition]) -> dict[str, object]:
    """The data card: files and their hashes, steps, labels, how the sample was drawn, agents and conditions."""
    settings = settings_of(arguments)
    labels = Counter(str(item.reference) if item.reference else "none" for item in data.items)
    texts = [sha256(item.text.text.encode("utf-8", "surrogatepass")).hexdigest() for item in data.items]
    return {
        **_described(data),
        "version": __version__,
        "files": {path.name: sha256(path.read_bytes()).hexdigest() for path in arguments.files},
        "references": dict(labels),
        "groups": dict(Counter(item.group for item in data.items if item.group)),
        "texts": dict(zip((item.id for item in data.items), texts, strict=True)),
        "agents": "recorded" if arguments.sampler == "none" else settings.sampler,
        "model": None if arguments.sampler == "none" or settings.simulated else settings.model,
        "seed": settings.seed,
        "conditions": {each.name: each.pipeline.model_dump(mode="json") for each in conditions},
        "loop": "a round of Algorithm 1 begins only where it can be paid for all labels that are left",
    }


def _print(
    arguments: argparse.Namespace, data: EvaluationData, table: ResultsTable, results: Sequence[ConditionResult]
) -> None:
    outcomes = [each.replay.outcome for each in results]
    by = consistent_misses(reference_codes([item.reference for item in data.items]), outcomes)
    missed = [{"id": item.id, "conditions": int(number)} for item, number in zip(data.items, by, strict=True) if number]
    if not arguments.json:
        print("\n".join(text_table(table)))
        by_all = sum(each["conditions"] == deciding(outcomes) for each in missed)
        print(
            f"unsafe by their original label and labeled safe by every condition that decided them: {len(missed)}, "
            f"of them decided by all {deciding(outcomes)} that decide any text: {by_all}"
        )
        return
    print(json.dumps({**_described(data), "conditions": plain_rows(table), "consistently_missed": missed}))


def _described(data: EvaluationData) -> dict[str, object]:
    return {
        "title": data.title,
        "steps": [{"name": name, "rows": rows} for name, rows in data.steps],
        "references_from": data.provenance,
        "sample": dict(data.sample),
    }


def _add_options(parser: argparse.ArgumentParser) -> None:
    add_data_options(parser)
    for name, metavar, words in (
        ("--out", "TABLE.csv", "the table as CSV"),
        ("--latex", "TABLE.tex", "the table as LaTeX"),
        (
            "--capsule",
            "FOLDER",
            "table, figures (SVG, PDF) with their data, draws, data card, hashes and the paper's numbers beside ours",
        ),
        ("--draws", "FILE", "recorded draws to begin with"),
        ("--record", "FILE", "append each answer here as it comes; continued where it is there"),
    ):
        parser.add_argument(name, type=Path, metavar=metavar, help=words)
    parser.add_argument("--json", action="store_true", help="print the table as one JSON object")
    parser.add_argument("--max-usd", type=float, metavar="USD", help="ask no more once it could cost this")
    parser.add_argument(
        "--sampler",
        choices=["simulated", "anthropic", "none"],
        help="who gives the draws that are missing; none: nobody, such cases are reported",
    )
    parser.add_argument(
        "--database",
        metavar="URL",
        help="keep the draws here, as a batch that the pages show; what it escalates enters that review queue",
    )
    parser.add_argument("--seed", type=int, help="seed of the simulated agents")


def add_data_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which data set, and which conditions on it."""
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="the data set's files, in their order")
    parser.add_argument("--format", choices=["aegis", "swmh", "csv"], required=True)
    parser.add_argument(
        "--conditions",
        default="all",
        help="paper, ours, all, or names separated by commas; also B=60, MV n=7, and 'B=100 early', where what one "
        "agent leaves undecided is escalated at once",
    )
    parser.add_argument(
        "--pipeline",
        type=Path,
        action="append",
        default=[],
        metavar="FILE.toml",
        help="a pipeline as one more condition",
    )
    parser.add_argument("--label-of", type=LabelOf, choices=list(LabelOf), default=LabelOf.RESPONSE, help="AEGIS")
    parser.add_argument("--screened", type=Screened, choices=list(Screened), default=Screened.BOTH, help="AEGIS")
    parser.add_argument("--per-subreddit", type=int, default=PER_SUBREDDIT, help="SWMH: posts drawn of each")
    parser.add_argument("--subset", default=None, metavar="GROUP", help="CSV: a group whose FNR is shown apart")
    add_mapping_options(parser)


def chosen_conditions(words: str, pipelines: Sequence[Path] = ()) -> tuple[Condition, ...]:
    """The conditions meant, in the table's order, then those of pipeline files; ValueError for an unknown name.

    Beside the table's names any budget of Algorithm 1 (``B=60``), any vote (``MV n=7``), and, with `` early`` after a
    budget, the paper's proposal that an abstention is escalated at once.

    >>> [condition.name for condition in chosen_conditions("B=75,MV n=3,B=60 early")]
    ['MV n=3', 'B=75', 'B=60 early']
    """
    paper, ours = paper_conditions(), our_conditions()
    groups = {"paper": paper, "ours": ours, "all": (*paper, *ours)}
    chosen: list[Condition] = []
    for word in (word.strip() for word in words.split(",") if word.strip()):
        known = [each for each in groups["all"] if each.name == word]
        chosen += groups.get(word) or known or [named_condition(word)]
    order = [condition.name for condition in groups["all"]]
    chosen = list({each.name: each for each in chosen}.values())
    chosen.sort(key=lambda each: order.index(each.name) if each.name in order else len(order))
    for path in pipelines:
        pipeline = read_pipeline(path.read_text(encoding="utf-8-sig"))
        chosen.append(Condition(name=pipeline.name, pipeline=pipeline))
    agents = {(node.name, node.agent) for each in chosen for node in each.pipeline.nodes}
    if len({name for name, _ in agents}) < len(agents):
        raise ValueError("one node has another model or prompt in another condition: record them apart")
    if len({each.name for each in chosen}) < len(chosen):
        raise ValueError("two conditions have one name: rename the pipeline in its file")
    if not chosen:
        raise ValueError("no condition is named")
    return tuple(chosen)


def settings_of(arguments: argparse.Namespace) -> Settings:
    """The site's settings with what the command line says instead."""
    given = {"sampler": arguments.sampler, "seed": arguments.seed}
    return Settings(**{name: value for name, value in given.items() if value is not None})


def _add_import_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="the data set")
    parser.add_argument("--node", action="append", required=True, metavar="NAME", help="whose draws; several are fine")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--draw-columns", metavar="A,B,C", help="one model's labels each, in this order")
    source.add_argument(
        "--outputs",
        action="append",
        type=Path,
        metavar="ANSWERS",
        help="output of a Message Batch or an OpenAI batch, or an Inspect log; several are several models",
    )
    parser.add_argument(
        "--draw-labels", default="", metavar="Yes=unsafe,No=safe,Maybe=escalate", help="what their values stand for"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DRAWS.jsonl")
    add_mapping_options(parser)


def run_import_draws(arguments: argparse.Namespace) -> int:
    """Write one line a row and node; ValueError, naming the place, for what cannot be a draw, and nothing written."""
    if arguments.draw_columns:  # read as draws, so nobody is asked whether one is the label
        names = [name.strip() for name in arguments.draw_columns.split(",")]
        arguments.unread_column = [*(arguments.unread_column or ()), *names]
    table = mapped_table(arguments.file, arguments.file.name, arguments)
    said = pairs(arguments.draw_labels.strip(), list(Label), "--draw-labels")
    given = {value.strip().casefold(): Label(label) for value, label in said}
    lines = list((_of_columns if arguments.draw_columns else _of_outputs)(arguments, table, given))
    arguments.out.write_text("".join(line.model_dump_json() + "\n" for line in lines), encoding="utf-8")
    most = max((len(line.draws) for line in lines), default=0)
    print(
        f"{count_of(len(lines), 'line')} of at most {count_of(most, 'draw')}; evaluate takes them with --draws",
        file=sys.stderr,
    )
    return 0


def _of_columns(arguments: argparse.Namespace, table: Table, given: Mapping[str, Label]) -> Iterator[DrawLine]:
    """What stands in columns of the data set; ValueError, naming row and column, for what is no label."""
    names = [find_column(name.strip(), table.report.columns) for name in arguments.draw_columns.split(",")]
    words = {Label.ESCALATE.value: Label.ESCALATE, **table.report.labels, **given}
    labels = {value.strip().casefold(): label for value, label in words.items()}
    accepted = {row.row: row.external_id for row in table.rows() if isinstance(row, NewCase)}
    for row, fields in rows_beside(arguments.file, table, "the labels in --draw-columns", frozenset(names)):
        draws = list[Draw]()
        for name in names if row in accepted else ():
            if cell := (fields.get(name) or "").strip():
                label = labels.get(cell.casefold()) or map_label(cell)
                if label is None:
                    raise ValueError(
                        f"row {row}, column {name!r}: {cell[:40]!r} stands for no label; see --draw-labels"
                    )
                draws.append(Draw(label=label))
        for node in arguments.node if draws else ():
            yield _line(accepted[row], node, draws)


def _of_outputs(arguments: argparse.Namespace, table: Table, given: Mapping[str, Label]) -> Iterator[DrawLine]:
    """The answers of all files: of one row in the order of their numbers, then of the files."""
    known = {row.external_id for row in table.rows() if isinstance(row, NewCase)}
    drawn: dict[tuple[str, str], list[Draw]] = {}
    strange = unanswered = 0
    for path in arguments.outputs:
        for one in sorted(answers_in(path, given), key=lambda each: each.number or 0):
            if one.case not in known or (one.node is not None and one.node not in arguments.node):
                strange += 1
            elif one.draw is None:
                unanswered += 1
            else:
                for node in [one.node] if one.node else arguments.node:
                    drawn.setdefault((one.case, node), []).append(one.draw)
    print(
        f"{count_of(strange, 'answer')} of other rows or nodes, {count_of(unanswered, 'request')} without an answer",
        file=sys.stderr,
    )
    return (_line(case, node, draws) for (case, node), draws in drawn.items())


def _line(case: str, node: str, draws: list[Draw]) -> DrawLine:
    tokens = sum(one.usage.input_tokens + one.usage.output_tokens for one in draws)
    return DrawLine(id=case, node=node, draws=encode_draws(draws), tokens=tokens or None)
