"""The options of `evaluate`, and what they stand for."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from commands.mapping_options import add_mapping_options
from screening.engine.pipeline_file import read_pipeline
from screening.research.aegis import LabelOf, Screened
from screening.research.conditions import Condition, named_condition, our_conditions, paper_conditions
from screening.research.swmh import PER_SUBREDDIT
from screening.settings import Settings


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add these options to a parser."""
    add_data_options(parser)
    parser.add_argument("--out", type=Path, default=None, metavar="TABLE.csv", help="the table as CSV")
    parser.add_argument("--latex", type=Path, default=None, metavar="TABLE.tex", help="the table as LaTeX")
    parser.add_argument(
        "--capsule",
        type=Path,
        default=None,
        metavar="FOLDER",
        help="table, figures (SVG, PDF) with their data, draws, data card, hashes and the paper's numbers beside ours",
    )
    parser.add_argument("--json", action="store_true", help="print the table as one JSON object")
    parser.add_argument("--draws", type=Path, default=None, metavar="FILE", help="recorded draws to begin with")
    parser.add_argument(
        "--record",
        type=Path,
        default=None,
        metavar="FILE",
        help="append each answer here as it comes; continued where it is there",
    )
    parser.add_argument(
        "--max-usd", type=float, default=None, metavar="USD", help="ask no more once it could cost this"
    )
    parser.add_argument(
        "--sampler",
        choices=["simulated", "anthropic", "none"],
        default=None,
        help="who gives the draws that are missing; none: nobody, such cases are reported",
    )
    parser.add_argument(
        "--database",
        default=None,
        metavar="URL",
        help="keep the draws here, as a batch that the pages show; what it leaves to a person enters that inbox",
    )
    parser.add_argument("--seed", type=int, default=None, help="seed of the simulated agents")


def add_data_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which data set, and which conditions on it."""
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="the data set's files, in their order")
    parser.add_argument("--format", choices=["aegis", "swmh", "csv"], required=True)
    parser.add_argument(
        "--conditions",
        default="all",
        help="paper, ours, all, or names separated by commas; also B=60, MV n=7, and 'B=100 early', where what one "
        "agent leaves undecided goes to a person at once",
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
    budget, the paper's proposal that an abstention goes to a person at once.

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
