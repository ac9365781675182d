"""The options of `evaluate`, and what they stand for."""

import argparse
from pathlib import Path

from commands.mapping_options import add_mapping_options
from screening.research.aegis import LabelOf, Screened
from screening.research.conditions import Condition, our_conditions, paper_conditions
from screening.research.swmh import PER_SUBREDDIT
from screening.settings import Settings


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add these options to a parser."""
    add_data_options(parser)
    parser.add_argument("--out", type=Path, default=None, metavar="TABLE.csv", help="the table as CSV")
    parser.add_argument("--latex", type=Path, default=None, metavar="TABLE.tex", help="the table as LaTeX")
    parser.add_argument("--json", action="store_true", help="print the table as one JSON object")
    parser.add_argument("--draws", type=Path, default=None, metavar="FILE", help="recorded draws to begin with")
    parser.add_argument("--record", type=Path, default=None, metavar="FILE", help="write all recorded draws here")
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
    parser.add_argument("--conditions", default="all", help="paper, ours, all, or names separated by commas")
    parser.add_argument("--label-of", type=LabelOf, choices=list(LabelOf), default=LabelOf.RESPONSE, help="AEGIS")
    parser.add_argument("--screened", type=Screened, choices=list(Screened), default=Screened.BOTH, help="AEGIS")
    parser.add_argument("--per-subreddit", type=int, default=PER_SUBREDDIT, help="SWMH: posts drawn of each")
    parser.add_argument("--subset", default=None, metavar="GROUP", help="CSV: a group whose FNR is shown apart")
    add_mapping_options(parser)


def chosen_conditions(words: str) -> tuple[Condition, ...]:
    """The conditions meant; ValueError for an unknown name.

    >>> [condition.name for condition in chosen_conditions("B=75,MV n=3")]
    ['MV n=3', 'B=75']
    """
    paper, ours = paper_conditions(), our_conditions()
    groups = {"paper": paper, "ours": ours, "all": (*paper, *ours)}
    if words in groups:
        return groups[words]
    wanted = {word.strip() for word in words.split(",") if word.strip()}
    if unknown := wanted - {condition.name for condition in groups["all"]}:
        known = ", ".join(condition.name for condition in groups["all"])
        raise ValueError(f"no condition {', '.join(sorted(unknown))}; there are {known}")
    return tuple(condition for condition in groups["all"] if condition.name in wanted)


def settings_of(arguments: argparse.Namespace) -> Settings:
    """The site's settings with what the command line says instead."""
    given = {"sampler": arguments.sampler, "seed": arguments.seed}
    return Settings(**{name: value for name, value in given.items() if value is not None})
