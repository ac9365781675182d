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


@dataclass(frozen=True, slots=True)
class Entry:
    """One page: its file in `pages/`, what it is called, its group and icon, the actions any of which makes it worth
    showing, and its help; ``address`` in the browser where it is not the file's name.
    """

    file: str
    title: str
    group: str
    icon: str
    actions: tuple[Action, ...]
    help: str
    address: str = ""


ENTRIES = (
    Entry("home", "Home", "", "home", (Action.STOP,),  # what everybody may who signs in
          "What waits, and the ways in."),
    Entry("screen", "Screen", "Screen", "vital_signs", (Action.SCREEN_TEXT,),
          "Screen one text and watch the agents' labels being eliminated."),
    Entry("batch_list", "Batches", "Screen", "upload_file", (Action.VIEW_BATCHES,),
          "Upload a file, check its rows and costs, follow the run, download the results.", address="batches"),
    Entry("inbox", "Inbox", "Read", "inbox", (Action.CLAIM_NEXT, Action.BROWSE_QUEUE),
          "Everything the agents did not decide, waiting for a clinician."),
    Entry("shift", "Shift", "Read", "schedule", (Action.CLAIM_NEXT, Action.BROWSE_QUEUE),
          "What arrived, was read, waited and was handed over, for a period; to print."),
    Entry("case", "Case", "Read", "article", (Action.VIEW_EVIDENCE,),
          "One case with its text, ratings and whole trail."),
    Entry("results", "Results", "Screen", "table_rows", (Action.VIEW_RESULTS,),
          "All cases of a batch: searched, filtered, sorted, opened one after the other."),
    Entry("errors", "Errors", "Research", "rule", (Action.VIEW_RESULTS,),
          "Confusion matrix against the reference labels; a cell opens its cases."),
    Entry("evaluation", "Evaluation", "Research", "table_chart", (Action.VIEW_RESULTS,),
          "The paper's conditions and ours on recorded draws."),
    Entry("label_noise", "Labels", "Research", "label_important", (Action.VIEW_RESULTS,),
          "Reference labels worth a second look, and the relabelled data set."),
    Entry("theory", "Theory", "Research", "functions", (Action.VIEW_BATCHES,),
          "Radii, sample sizes and regret: what the paper claims and what the code shows."),
    Entry("reliability", "Reliability", "Research", "monitoring", (Action.VIEW_RESULTS,),
          "What may be claimed about missed cases, and what cannot be claimed yet."),
    Entry("agreement", "Agreement", "Research", "group", (Action.VIEW_AGREEMENT,),
          "How far reviewers agree with one another."),
    Entry("audit", "Audit", "Site", "history", (Action.VIEW_AUDIT,),
          "Who saw, rated, exported and changed what."),
    Entry("pipelines", "Pipelines", "Site", "account_tree", (Action.VIEW_SETTINGS,),
          "The agents and their ways: drawn, edited, versioned, put in force."),
    Entry("settings", "Settings", "Site", "settings", (Action.VIEW_SETTINGS,),
          "Agents, prompts, limits and what was measured about them."),
)  # fmt: skip

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
        icon=f":material/{entry.icon}:",
        help=entry.help,
        url_path=None if home else entry.address or entry.file,
        default=home,
        visibility="hidden" if hidden else "visible",
    )


def _may(actor: Actor, action: Action) -> bool:
    """Whether this person may do it on anything at all, their own things included."""
    return is_allowed(actor, action) or is_allowed(actor, action, owner=actor.id)
