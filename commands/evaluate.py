"""`evaluate`: the paper's conditions and ours on a data set of the user's own, all on the same recorded draws."""

import argparse
import asyncio
import json
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from statistics import mean
from time import monotonic

from commands.evaluation_batch import record_as_batch
from commands.experiment_options import add_options, chosen_conditions, settings_of
from commands.mapping_options import mapped_table, mapping_lines, save_mapping
from commands.results_file import ALL_SETTLED, SOME_PENDING
from jobs.agents import Agents
from jobs.intake import configuration
from screening import __version__
from screening.datasets.reader import Table
from screening.engine.cost import usage_per_call
from screening.engine.draws import DrawSource
from screening.engine.prompting import load_prompts
from screening.research.capsule import PRINTED, beside_paper, figures, hashes, marked, marked_latex
from screening.research.conditions import Condition
from screening.research.draw_file import GrowingFile, draw_lines, read_draws, read_growing
from screening.research.evaluation import EvaluationData, announcement, load_evaluation
from screening.research.experiments import ConditionResult, consistent_misses, deciding, run_book
from screening.research.recording import DrawBook, Keep, NodeDraws, Price, Purse, record_draws
from screening.research.results_table import ResultsTable, csv_table, latex_table, plain_rows, row_of, text_table
from screening.samplers.known import KnownSampler
from screening.samplers.simulated import SimulatedSampler
from screening.settings import SIMULATED_NOTICE
from screening.statistics.metrics import REFERENCES, reference_codes
from screening.words import count_of

EVERY_S = 5.0
ESTIMATED_FROM = 40
"""Texts that an estimate of calls is made from."""


def add_to(subcommands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this subcommand's arguments."""
    parser = subcommands.add_parser("evaluate", help="the paper's conditions and ours on a labelled data set")
    add_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Record what draws are missing, replay every condition, print the table and write it."""
    data = load_data(arguments)
    conditions, book = chosen_conditions(arguments.conditions, arguments.pipeline), _first_draws(arguments, data)
    short = False
    with GrowingFile(arguments.record, data.items, book) if arguments.record else nullcontext() as file:
        if arguments.sampler != "none":
            short = asyncio.run(_record(data, conditions, book, arguments, file.keep if file else None))
    results = run_book(data.items, conditions, book)
    table = _table(data, results)
    _write(arguments, table)
    if arguments.capsule is not None:
        _write_capsule(arguments, data, table, book, conditions)
    _print(arguments, data, table, results)
    return SOME_PENDING if short else ALL_SETTLED


def load_data(arguments: argparse.Namespace) -> EvaluationData:
    """The data set of the options, with what a person should know of it on stderr. ValueError where there is nothing to
    compare with.
    """
    data = load_evaluation(
        arguments.files,
        arguments.format,
        label_of=arguments.label_of,
        screened=arguments.screened,
        per_subreddit=arguments.per_subreddit,
        subset=arguments.subset,
        read=partial(_read_own_table, arguments=arguments),
    )
    for line in announcement(data):
        print(line, file=sys.stderr)
    if not data.items:
        raise ValueError("no row was read: nothing can be evaluated")
    if not any(item.reference in REFERENCES for item in data.items):
        raise ValueError("no row has a reference label of safe or unsafe: name its column with --label-column")
    return data


def _read_own_table(path: Path, arguments: argparse.Namespace) -> Table:
    """The user's own table, with the columns of the options, which are printed before the first call."""
    table = mapped_table(path, path.name, arguments)
    save_mapping(table.report, arguments)
    for line in (*mapping_lines(table.report), *table.report.warnings):
        print(line, file=sys.stderr)
    return table


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
            after_case=_Progress(book, purse).tell,
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


@dataclass(slots=True)
class _Progress:
    """A line every few seconds: how many texts are done, how many draws there are, and what they cost."""

    book: DrawBook
    purse: Purse | None
    last: float = field(default_factory=monotonic)

    def tell(self, done: int, of: int) -> None:
        if monotonic() - self.last < EVERY_S and done < of:
            return
        self.last = monotonic()
        spent = f", ${self.purse.spent_usd:,.2f}" if self.purse else ""
        print(f"{done:,} of {count_of(of, 'text')}, {self.book.draws:,} draws{spent}", file=sys.stderr, flush=True)


def _table(data: EvaluationData, results: Sequence[ConditionResult]) -> ResultsTable:
    rows = tuple(row_of(each.name, each.metrics, each.unsettled, data.subset, each.cost_usd) for each in results)
    return ResultsTable(title=data.title, provenance=data.provenance, rows=rows, subset_name=data.subset)


def _write(arguments: argparse.Namespace, table: ResultsTable) -> None:
    if arguments.out is not None:
        arguments.out.write_text("".join(csv_table(table)), encoding="utf-8", newline="")
    if arguments.latex is not None:
        arguments.latex.write_text(latex_table(table), encoding="utf-8")


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
        "title": data.title,
        "version": __version__,
        "files": {path.name: sha256(path.read_bytes()).hexdigest() for path in arguments.files},
        "steps": [{"name": name, "rows": rows} for name, rows in data.steps],
        "references": dict(labels),
        "references_from": data.provenance,
        "groups": dict(Counter(item.group for item in data.items if item.group)),
        "sample": dict(data.sample),
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
    report = {
        "title": data.title,
        "steps": [{"name": name, "rows": rows} for name, rows in data.steps],
        "references_from": data.provenance,
        "sample": dict(data.sample),
        "conditions": plain_rows(table),
        "consistently_missed": missed,
    }
    print(json.dumps(report))
