"""Which pages there are, in the order of the navigation, and what each asks of the person who opens it."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from screening.review.actors import Actor
from screening.review.policy import Action, is_allowed

FOLDER = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One page: its file in `pages/`, what it is called, and the actions any of which makes it worth showing."""

    file: str
    title: str
    icon: str
    help: str
    actions: tuple[Action, ...]
    group: str
    address: str = ""  # in the browser, where it is not the file's name


ENTRIES = (
    Entry(
        file="home",
        group="",
        title="Home",
        icon=":material/home:",
        help="What waits, and the ways in.",
        actions=(Action.STOP,),  # what everybody may who signs in
    ),
    Entry(
        file="screen",
        group="Screen",
        title="Screen",
        icon=":material/vital_signs:",
        help="Screen one text and watch the agents' labels being eliminated.",
        actions=(Action.SCREEN_TEXT,),
    ),
    Entry(
        file="batch_list",
        group="Screen",
        address="batches",
        title="Batches",
        icon=":material/upload_file:",
        help="Upload a file, check its rows and costs, follow the run, download the results.",
        actions=(Action.VIEW_BATCHES,),
    ),
    Entry(
        file="inbox",
        group="Read",
        title="Inbox",
        icon=":material/inbox:",
        help="Everything the agents did not decide, waiting for a clinician.",
        actions=(Action.CLAIM_NEXT, Action.BROWSE_QUEUE),
    ),
    Entry(
        file="shift",
        group="Read",
        title="Shift",
        icon=":material/schedule:",
        help="What arrived, was read, waited and was handed over, for a period; to print.",
        actions=(Action.CLAIM_NEXT, Action.BROWSE_QUEUE),
    ),
    Entry(
        file="case",
        group="Read",
        title="Case",
        icon=":material/article:",
        help="One case with its text, ratings and whole trail.",
        actions=(Action.VIEW_EVIDENCE,),
    ),
    Entry(
        file="results",
        group="Screen",
        title="Results",
        icon=":material/table_rows:",
        help="All cases of a batch: searched, filtered, sorted, opened one after the other.",
        actions=(Action.VIEW_RESULTS,),
    ),
    Entry(
        file="errors",
        group="Research",
        title="Errors",
        icon=":material/rule:",
        help="Confusion matrix against the reference labels; a cell opens its cases.",
        actions=(Action.VIEW_RESULTS,),
    ),
    Entry(
        file="evaluation",
        group="Research",
        title="Evaluation",
        icon=":material/table_chart:",
        help="The paper's conditions and ours on recorded draws.",
        actions=(Action.VIEW_RESULTS,),
    ),
    Entry(
        file="label_noise",
        group="Research",
        title="Labels",
        icon=":material/label_important:",
        help="Reference labels worth a second look, and the relabelled data set.",
        actions=(Action.VIEW_RESULTS,),
    ),
    Entry(
        file="theory",
        group="Research",
        title="Theory",
        icon=":material/functions:",
        help="Radii, sample sizes and regret: what the paper claims and what the code shows.",
        actions=(Action.VIEW_BATCHES,),
    ),
    Entry(
        file="reliability",
        group="Research",
        title="Reliability",
        icon=":material/monitoring:",
        help="What may be claimed about missed cases, and what cannot be claimed yet.",
        actions=(Action.VIEW_RESULTS,),
    ),
    Entry(
        file="agreement",
        group="Research",
        title="Agreement",
        icon=":material/group:",
        help="How far reviewers agree with one another.",
        actions=(Action.VIEW_AGREEMENT,),
    ),
    Entry(
        file="audit",
        group="Site",
        title="Audit",
        icon=":material/history:",
        help="Who saw, rated, exported and changed what.",
        actions=(Action.VIEW_AUDIT,),
    ),
    Entry(
        file="pipelines",
        group="Site",
        title="Pipelines",
        icon=":material/account_tree:",
        help="The agents and their ways: drawn, edited, versioned, put in force.",
        actions=(Action.VIEW_SETTINGS,),
    ),
    Entry(
        file="settings",
        group="Site",
        title="Settings",
        icon=":material/settings:",
        help="Agents, prompts, limits and what was measured about them.",
        actions=(Action.VIEW_SETTINGS,),
    ),
)


GROUPS = ("", "Read", "Screen", "Research", "Site")
"""The groups of the navigation; pages without one stand before them."""


def pages_for(actor: Actor | None) -> Mapping[str, Sequence[st.Page]]:
    """The pages that exist, by group, hidden where this person could do nothing on them.

    The first one is the home of everybody, so that every other page has one address for all. A hidden page stands in
    no group: a group is shown for what can be done in it.
    """
    made = _page if get_script_run_ctx() else _make  # outside of a run Streamlit makes no whole page
    grouped: dict[str, list[st.Page]] = {group: [] for group in GROUPS}
    for entry in ENTRIES:
        shown = actor is not None and any(_may(actor, action) for action in entry.actions)
        grouped[entry.group if shown else ""].append(made(entry, hidden=not shown))
    return {group: pages for group, pages in grouped.items() if pages}


def _page(entry: Entry, *, hidden: bool) -> st.Page:
    """A page of its own for each run, which marks the one it shows; a copy, since making one looks at its file."""
    return copy(_cached_page(entry, hidden=hidden))


@lru_cache(maxsize=2 * len(ENTRIES))
def _cached_page(entry: Entry, *, hidden: bool) -> st.Page:
    return _make(entry, hidden=hidden)


def _make(entry: Entry, *, hidden: bool) -> st.Page:
    home = entry is ENTRIES[0]
    return st.Page(
        FOLDER / f"{entry.file}.py",
        title=entry.title,
        icon=entry.icon,
        help=entry.help,
        url_path=None if home else entry.address or entry.file,
        default=home,
        visibility="hidden" if hidden else "visible",
    )


def _may(actor: Actor, action: Action) -> bool:
    """Whether this person may do it on anything at all, their own things included."""
    return is_allowed(actor, action) or is_allowed(actor, action, owner=actor.id)
