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
          "Your queue and where to start."),
    Entry("inbox", "Inbox", "Review", "inbox", (Action.CLAIM_NEXT, Action.BROWSE_QUEUE),
          "Cases to review: what the AI labels unsafe or cannot decide, and quality checks."),
    Entry("shift", "Shift report", "Review", "schedule", (Action.CLAIM_NEXT, Action.BROWSE_QUEUE),
          "What arrived, was reviewed, transferred and overdue in a period."),
    Entry("screen", "Single text", "Screen", "vital_signs", (Action.SCREEN_TEXT,),
          "Paste a text or a chat and see how the AI decides."),
    Entry("batch_list", "File uploads", "Screen", "upload_file", (Action.VIEW_BATCHES,),
          "Check a file and its cost, screen it, follow the progress, export the results.", address="batches"),
    Entry("results", "Results", "Screen", "table_rows", (Action.VIEW_BATCHES,),
          "All cases of an upload: search, filter, open."),
    Entry("errors", "Misclassified", "Research", "rule", (Action.VIEW_RESULTS,),
          "Confusion matrix against the original labels; a cell lists its cases."),
    Entry("evaluation", "Evaluation", "Research", "table_chart", (Action.VIEW_RESULTS,),
          "The paper's methods and ours on recorded responses."),
    Entry("label_noise", "Label errors", "Research", "label_important", (Action.VIEW_RESULTS,),
          "Possible label errors, and the corrected data set."),
    Entry("reliability", "Reliability", "Research", "monitoring", (Action.VIEW_RESULTS,),
          "Evidence so far on missed cases, and what it takes to say more."),
    Entry("agreement", "Inter-rater agreement", "Research", "group", (Action.VIEW_AGREEMENT,),
          "How far reviewers agree with one another."),
    Entry("theory", "Methods", "Research", "functions", (Action.VIEW_BATCHES,),
          "Guarantees, cost and differences from the paper."),
    Entry("pipelines", "Pipelines", "Admin", "account_tree", (Action.VIEW_SETTINGS,),
          "The agents and their paths: drawn, edited, versioned, activated."),
    Entry("settings", "Settings", "Admin", "settings", (Action.VIEW_SETTINGS,),
          "The AI model, limits, accounts, notifications, retention."),
    Entry("audit", "Audit log", "Admin", "history", (Action.VIEW_AUDIT,),
          "Who saw, reviewed, exported and changed what."),
    Entry("case", "Case", "", "article", (),  # in no menu: it is empty without a case
          "One case with its text, reviews and history."),
)  # fmt: skip

GROUPS = ("", "Review", "Screen", "Research", "Admin")
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
