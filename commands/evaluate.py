"""`evaluate`: the paper's conditions and ours on a labeled data set.

One path: a labeled file (`load_data`), its draws (`_first_draws`, and `_record` for those that are
missing), every condition replayed on them (`run_book`), and one table, printed and written.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing, nullcontext
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from hashlib import sha256
from json import dumps
from pathlib import Path
from statistics import mean
from typing import Annotated, Literal

from commands.batches import ALL_SETTLED, SOME_PENDING
from commands.file_options import FileReading, mapped_table, mapping_lines
from commands.options import opened, say
from commands.screen import every_few_seconds, screen_batch, settings_with
from jobs.agents import Agents
from jobs.intake import configuration, open_batch
from jobs.process import system_clock
from screening import __version__
from screening.evaluation import experiments, public_datasets, recording, tables
from screening.evaluation.metrics import REFERENCES, Codes, reference_codes
from screening.evaluation.public_datasets import PER_SUBREDDIT, EvaluationData, LabelOf, Screened
from screening.evaluation.recording import DrawBook, Keep, NodeDraws, Price, Purse
from screening.models.simulated import KnownSampler, SimulatedSampler
from screening.pipeline.config import PipelineConfig, chain
from screening.pipeline.draws import DrawSource
from screening.pipeline.files import load_prompts, read_pipeline, usage_per_call
from screening.review.policy import LOCAL_USER
from screening.review.triage import Reach
from screening.settings import SIMULATED_NOTICE, Settings
from screening.stopping.rules import SuccessiveElimination
from screening.words import count_of
from storage.batches.batch_state import standing
from storage.batches.batches import NewBatch
from storage.batches.intake import add_rows, close_intake
from storage.research.recordings import recorded_batch

ESTIMATED_FROM = 40
"""Texts that an estimate of calls is made from."""
RECORDING = chain(
    "recording",
    SuccessiveElimination(budget=max(experiments.BUDGETS), delta=experiments.PAPER_DELTA, stop_for_futility=False),
    "next",
)
"""The paper's most demanding condition: its draws settle nearly every case of all the others."""


@dataclass(frozen=True)
class DataSet:
    files: Annotated[list[Path], "the data set's files, in their order", "FILE"]
    _: KW_ONLY
    format: Literal["aegis", "swmh", "csv"]
    conditions: Annotated[
        str,
        "paper, ours, all, or names separated by commas; also B=60, MV n=7, and 'B=100 early', where what one agent "
        "leaves undecided is escalated at once",
    ] = "all"
    pipeline: Annotated[list[Path] | None, "a pipeline as one more condition", "FILE.toml"] = None
    label_of: Annotated[LabelOf, "AEGIS"] = LabelOf.RESPONSE
    screened: Annotated[Screened, "AEGIS"] = Screened.BOTH
    per_subreddit: Annotated[int, "SWMH: posts drawn of each"] = PER_SUBREDDIT
    reading: FileReading


def evaluate(
    chosen: DataSet,
    *,
    out: Annotated[Path | None, "the table as CSV", "TABLE.csv"] = None,
    latex: Annotated[Path | None, "the table as LaTeX", "TABLE.tex"] = None,
    capsule: Annotated[
        Path | None,
        "table, figures (SVG, PDF) with their data, draws, data card, hashes and the paper's numbers beside ours",
        "FOLDER",
    ] = None,
    draws: Annotated[Path | None, "recorded draws to begin with", "FILE"] = None,
    record: Annotated[Path | None, "append each answer here as it comes; continued where it is there", "FILE"] = None,
    json: Annotated[bool, "print the table as one JSON object"] = False,
    max_usd: Annotated[float | None, "ask no more once it could cost this", "USD"] = None,
    sampler: Annotated[
        Literal["simulated", "anthropic", "none"] | None,
        "who gives the draws that are missing; none: nobody, such cases are reported",
    ] = None,
    database: Annotated[
        str | None,
        "keep the draws here, as a batch that the pages show; what it escalates enters that review queue",
        "URL",
    ] = None,
    seed: Annotated[int | None, "seed of the simulated agents"] = None,
) -> int:
    """Record what draws are missing, replay every condition, print the table and write it."""
    data, asks = load_data(chosen), sampler != "none"
    settings = settings_with(sampler=sampler if asks else None, seed=seed)
    conditions = chosen_conditions(chosen.conditions, chosen.pipeline or ())
    if database is None:
        book = _first_draws(data, draws, record)
    elif draws is not None or not asks or data.distributions:
        raise ValueError("--database records with this site's agents: leave out --draws, --sampler none and p_ columns")
    else:
        book, max_usd = asyncio.run(record_as_batch(database, data, settings, max_usd, conditions))
    with recording.growing_file(record, book) if record else nullcontext() as keep:
        short = asks and asyncio.run(_record(data, conditions, book, settings, max_usd, keep))
    results, outcomes = recording.run_book(conditions, book)
    table = tables.ResultsTable(title=data.title, provenance=data.provenance, rows=results)
    if out is not None:
        out.write_text("".join(tables.csv_table(table)), encoding="utf-8", newline="")
    if latex is not None:
        latex.write_text(tables.latex_table(table), encoding="utf-8")
    if capsule is not None:
        about = _about(chosen, data, conditions, settings, asks=asks)
        _write_capsule(capsule, chosen.format, data, table, book, about)
    _print(data, table, [told.outcome for told in outcomes], as_json=json)
    return SOME_PENDING if short else ALL_SETTLED


def load_data(chosen: DataSet) -> EvaluationData:
    """The data set, with what a person should know of it on stderr: of the user's own table first the columns of the
    options. ValueError without anything to compare, FileRefused for a file of another shape.
    """
    files = ((path.name, path) for path in chosen.files)
    if chosen.format == "aegis":
        data = public_datasets.load_aegis(files, label_of=chosen.label_of, screened=chosen.screened)
    elif chosen.format == "swmh":
        data = public_datasets.load_swmh(files, per_subreddit=chosen.per_subreddit)
    elif len(chosen.files) != 1:
        raise ValueError("one CSV file at a time")
    else:
        table = mapped_table(chosen.files[0], chosen.reading)
        say(*mapping_lines(table), *table.warnings)
        data = public_datasets.load_table(table)
    say(*public_datasets.announcement(data))
    if not data.items:
        raise ValueError("no row was read: nothing can be evaluated")
    if not any(item.reference in REFERENCES for item in data.items):
        raise ValueError("no row has a reference label of safe or unsafe: name its column with --label-column")
    return data


def _first_draws(data: EvaluationData, draws: Path | None, record: Path | None) -> DrawBook:
    """The draws to begin with: those of the file that goes on, of the one given, or none."""
    if record is None or not record.exists():
        return read_book(draws, data) if draws else DrawBook(data.items)
    if draws is not None and not draws.samefile(record):
        raise ValueError(f"{record} is there already: leave out --draws to go on with it, or record elsewhere")
    book = recording.read_growing(record, data.items)
    say(f"{record}: goes on after {count_of(book.draws, 'draw')}")
    return book


async def record_as_batch(
    url: str,
    data: EvaluationData,
    settings: Settings,
    max_usd: float | None = None,
    conditions: Sequence[PipelineConfig] = (),
) -> tuple[DrawBook, float | None]:
    """Screen the data set as a batch of this database; its draws, and what it leaves of ``max_usd``. A case that fails
    stays pending; rows that no model may be shown follow the others in the batch: they are escalated. What it and the
    ``conditions`` to be recorded after it may cost is told first.
    """
    if not settings.simulated:
        price = partial(Agents(settings).cost_usd, configuration(settings, RECORDING))
        await _tell_estimate(data, [RECORDING, *conditions], DrawBook(data.items), price, settings, max_usd)
    with opened(url) as db:
        intake = {"provenance": data.provenance, "steps": [list(step) for step in data.steps], **data.sample}
        new = NewBatch(name=data.title, reach=Reach.COUNT, intake=intake, max_cost_usd=max_usd)
        batch_id = open_batch(db, LOCAL_USER, RECORDING, new, settings, system_clock)
        rows = (  # numbered anew, their original label in our words
            replace(row, row=number, reference_value=row.reference.value if row.reference else None)
            for number, row in enumerate((*data.rows, *data.left_out), start=1)
        )
        add_rows(db, batch_id, rows, system_clock())
        close_intake(db, LOCAL_USER.at(system_clock()), batch_id)
        await screen_batch(db, settings, batch_id)
        book, totals = recorded_batch(db, LOCAL_USER, batch_id), standing(db, batch_id).totals
    kept, pending = count_of(book.draws, "draw"), count_of(totals.pending, "text")
    say(f"batch {batch_id}: {kept} kept, {pending} pending")
    spent = totals.cost_for_cap_usd
    left = max_usd if max_usd is None else 0.0 if spent is None else max(0.0, max_usd - spent)
    return DrawBook(data.items, book.nodes), left


def read_book(path: Path, data: EvaluationData) -> DrawBook:
    with path.open(encoding="utf-8-sig") as lines:
        return recording.read_draws(lines, data.items)


async def _record(
    data: EvaluationData,
    conditions: Sequence[PipelineConfig],
    book: DrawBook,
    settings: Settings,
    max_usd: float | None,
    keep: Keep | None,
) -> bool:
    """Whether some text stayed short of draws. What these calls may cost is told before the first of
    them.
    """
    sampler: DrawSource
    price: Price | None = None
    purse: Purse | None = None

    def said(done: int, of: int) -> str:
        spent = f", ${purse.spent_usd:,.2f}" if purse else ""
        return f"{done:,} of {count_of(of, 'text')}, {book.draws:,} draws{spent}"

    async with aclosing(Agents(settings)) as agents:
        if data.distributions:
            sampler = KnownSampler(settings.seed, data.distributions)
            say("Simulated agents with the distributions in the file: no model was asked.")
        else:
            described = configuration(settings, conditions[0])
            sampler, price = agents.sampler(described, settings.seed), partial(agents.cost_usd, described)
            if settings.simulated:
                say(SIMULATED_NOTICE)
            else:
                purse = await _tell_estimate(data, conditions, book, price, settings, max_usd)
        fetched, failed = await recording.record_draws(
            conditions,
            book,
            sampler,
            concurrency=settings.cases_in_flight,
            price=price,
            keep=keep,
            purse=purse,
            after_case=every_few_seconds(said),
        )
    say(f"{count_of(fetched, 'draw')} fetched, {book.draws:,} recorded in all")
    for kind, cases in sorted(failed.items()):
        say(f"{count_of(cases, 'case is', 'cases are')} short of draws: {kind}")
    return bool(failed)


async def _tell_estimate(
    data: EvaluationData,
    conditions: Sequence[PipelineConfig],
    book: DrawBook,
    price: Price,
    settings: Settings,
    max_usd: float | None,
) -> Purse | None:
    """Tell about how many calls there are to make, by what simulated agents take for some of the texts, and what they
    cost. What pays for them where ``max_usd`` bounds that; ValueError where it does and their price is not known.
    """
    places = range(0, len(data.items), -(-len(data.items) // ESTIMATED_FROM))
    some = DrawBook([data.items[place] for place in places])
    for number, place in enumerate(places):
        for name in book.names:
            some.of(number, name).append(NodeDraws(codes=book.of(place, name).codes))
    fetched, _ = await recording.record_draws(conditions, some, SimulatedSampler(0))
    calls = fetched * len(data.items) / len(places)
    nodes = {node.name: node for condition in conditions for node in condition.nodes}
    characters = mean(len(item.text.text) + len(item.text.reply or "") for item in data.items)
    each = price(usage_per_call(load_prompts(settings.prompts_directory), list(nodes.values()), characters))
    costs = "at a price that is not known" if each is None else f"for about ${each * calls:,.2f} without caching"
    say(f"about {calls:,.0f} calls to make, {costs}; {book.draws:,} draws are there")
    if max_usd is None:
        return None
    if each is None:
        raise ValueError("--max-usd: the price of this model is not known")
    return Purse(most_usd=max_usd, per_call=each)


def _write_capsule(
    folder: Path,
    form: str,
    data: EvaluationData,
    table: tables.ResultsTable,
    book: DrawBook,
    about: dict[str, object],
) -> None:
    """All that stands for this experiment, in a folder that is not there yet or is written anew."""
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, str | bytes] = {
        "table.csv": "".join(tables.csv_table(table)),
        "table.tex": tables.latex_table(table, marked=True),
        "best_and_overlap.csv": "".join(tables.marked(table)),
        "draws.jsonl": "".join(recording.draw_lines(book)),
        "about.json": dumps(about, indent=1) + "\n",
        **tables.figures(table),
    }
    if form != "csv":
        files["beside_paper.csv"] = "".join(tables.beside_paper(table, form))
    for name, content in files.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    others = sorted(path for path in folder.iterdir() if path.name != "SHA256SUMS")
    sums = "".join(f"{sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in others)
    (folder / "SHA256SUMS").write_text(sums, encoding="utf-8")
    say(f"{count_of(len(files) + 1, 'file')} in {folder}; no text of the data set is among them")


def _about(
    chosen: DataSet, data: EvaluationData, conditions: Sequence[PipelineConfig], settings: Settings, *, asks: bool
) -> dict[str, object]:
    """The data card: files, steps, labels, sample, agents (of these settings, or recorded) and conditions."""
    texts = {item.id: item.text.text.encode("utf-8", "surrogatepass") for item in data.items}
    asked = asks and not data.distributions
    return {
        **_described(data),
        "version": __version__,
        "files": {path.name: sha256(path.read_bytes()).hexdigest() for path in chosen.files},
        "references": dict(Counter(str(item.reference or "none") for item in data.items)),
        "groups": dict(Counter(item.group for item in data.items if item.group)),
        "texts": {name: sha256(text).hexdigest() for name, text in texts.items()},
        "agents": settings.agents if asked else "the file's distributions" if asks else "recorded",
        "model": settings.model if asked and not settings.simulated else None,
        "seed": settings.seed,
        "conditions": {each.name: each.model_dump(mode="json") for each in conditions},
        "loop": "a round of Algorithm 1 begins only where it can be paid for all labels that are left",
    }


def _described(data: EvaluationData) -> dict[str, object]:
    return {
        "title": data.title,
        "steps": [{"name": name, "rows": rows} for name, rows in data.steps],
        "references_from": data.provenance,
        "sample": dict(data.sample),
    }


def _print(data: EvaluationData, table: tables.ResultsTable, outcomes: Sequence[Codes], *, as_json: bool) -> None:
    references = reference_codes([item.reference for item in data.items])
    by, deciding = experiments.consistent_misses(references, outcomes)
    missed = [{"id": item.id, "conditions": int(number)} for item, number in zip(data.items, by, strict=True) if number]
    if as_json:
        print(dumps({**_described(data), "conditions": tables.plain_rows(table), "consistently_missed": missed}))
        return
    print("\n".join(tables.text_table(table)))
    print(
        f"unsafe by their original label and labeled safe by every condition that decided them: {len(missed)}, of them "
        f"decided by all {deciding} that decide any text: {sum(each['conditions'] == deciding for each in missed)}"
    )


def chosen_conditions(words: str, pipelines: Sequence[Path] = ()) -> tuple[PipelineConfig, ...]:
    """The conditions meant, in the table's order, then those of pipeline files; ValueError for an unknown name.

    Beside the table's names any budget of Algorithm 1 (``B=60``), any vote (``MV n=7``), and, with `` early`` after a
    budget, the paper's proposal that an abstention is escalated at once.

    >>> [condition.name for condition in chosen_conditions("B=75,MV n=3,B=60 early")]
    ['MV n=3', 'B=75', 'B=60 early']
    """
    groups = {"paper": experiments.paper_conditions(), "ours": experiments.our_conditions()}
    meant = dict.fromkeys(word.strip() for word in words.split(",") if word.strip())
    chosen = [each for group, of_it in groups.items() for each in of_it if meant.keys() & {"all", group, each.name}]
    known = {"all", *groups, *(each.name for each in chosen)}
    chosen += [experiments.named_condition(word) for word in meant if word not in known]
    chosen += [read_pipeline(path.read_text(encoding="utf-8-sig")) for path in pipelines]
    agents = {(node.name, node.agent) for each in chosen for node in each.nodes}
    if len({name for name, _ in agents}) < len(agents):
        raise ValueError("one node has another model or prompt in another condition: record them apart")
    if len({each.name for each in chosen}) < len(chosen):
        raise ValueError("two conditions have one name: rename the pipeline in its file")
    if not chosen:
        raise ValueError("no condition is named")
    return tuple(chosen)
