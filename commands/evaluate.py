"""`evaluate`: the paper's conditions and ours on a data set of the user's own, all on the same recorded draws."""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from commands.evaluation_batch import record_as_batch
from commands.experiment_options import add_options, chosen_conditions, settings_of
from commands.mapping_options import mapped_table, mapping_lines, save_mapping
from jobs.agents import Agents
from jobs.intake import configuration
from screening.datasets.reader import Table
from screening.engine.draws import DrawSource
from screening.research.conditions import Condition
from screening.research.draw_file import draw_lines, read_draws
from screening.research.evaluation import EvaluationData, announcement, load_evaluation
from screening.research.experiments import ConditionResult, consistent_misses, deciding, run_book
from screening.research.recording import DrawBook, Price, record_draws
from screening.research.results_table import ResultsTable, csv_table, latex_table, plain_rows, row_of, text_table
from screening.samplers.known import KnownSampler
from screening.settings import SIMULATED_NOTICE, Settings
from screening.statistics.metrics import reference_codes
from screening.words import count_of


def add_to(subcommands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this subcommand's arguments."""
    parser = subcommands.add_parser("evaluate", help="the paper's conditions and ours on a labelled data set")
    add_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Record what draws are missing, replay every condition, print the table and write it."""
    data = load_data(arguments)
    conditions, book = chosen_conditions(arguments.conditions), _first_draws(arguments, data)
    if arguments.sampler != "none":
        asyncio.run(_record(data, conditions, book, settings_of(arguments)))
    if arguments.record is not None:
        arguments.record.write_text("".join(draw_lines(book, data.items)), encoding="utf-8")
    results = run_book(data.items, conditions, book)
    table = _table(data, results)
    _write(arguments, table)
    _print(arguments, data, table, results)
    return 0


def load_data(arguments: argparse.Namespace) -> EvaluationData:
    """The data set of the options, with what a person should know of it on stderr."""
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
    if arguments.draws is None:
        return DrawBook(len(data.items))
    return read_book(arguments.draws, data)


def read_book(path: Path, data: EvaluationData) -> DrawBook:
    """The draws in a file of `--record` or `import-draws`."""
    with path.open(encoding="utf-8-sig") as lines:
        return read_draws(lines, data.items)


async def _record(data: EvaluationData, conditions: Sequence[Condition], book: DrawBook, settings: Settings) -> None:
    agents = Agents(settings)
    sampler: DrawSource
    price: Price | None = None
    if data.distributions:
        sampler = KnownSampler(settings.seed, data.distributions)
        print("Simulated agents with the distributions in the file: no model was asked.", file=sys.stderr)
    else:
        described = configuration(settings, agents, conditions[0].pipeline)
        sampler, price = agents.sampler(described, settings.seed), partial(agents.cost_usd, described)
        if settings.simulated:
            print(SIMULATED_NOTICE, file=sys.stderr)
    try:
        places = settings.cases_in_flight
        done = await record_draws(data.items, conditions, book, sampler, concurrency=places, price=price)
    finally:
        await agents.aclose()
    print(f"{count_of(done.fetched, 'draw')} fetched, {book.draws:,} recorded in all", file=sys.stderr)
    for kind, cases in sorted(done.failed.items()):
        print(f"{count_of(cases, 'case is', 'cases are')} short of draws: {kind}", file=sys.stderr)


def _table(data: EvaluationData, results: Sequence[ConditionResult]) -> ResultsTable:
    rows = tuple(row_of(each.name, each.metrics, each.unsettled, data.subset, each.cost_usd) for each in results)
    return ResultsTable(title=data.title, provenance=data.provenance, rows=rows, subset_name=data.subset)


def _write(arguments: argparse.Namespace, table: ResultsTable) -> None:
    if arguments.out is not None:
        arguments.out.write_text("".join(csv_table(table)), encoding="utf-8", newline="")
    if arguments.latex is not None:
        arguments.latex.write_text(latex_table(table), encoding="utf-8")


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
