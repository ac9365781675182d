"""What is asked of the list of the inbox beside opening a case: filters kept, cases given to a colleague."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode

from pages.components.options import unique_labels
from pages.components.words import sentence
from pages.review.inbox_desk import Here
from screening.review.policy import Action, Forbidden, is_allowed
from screening.text.display import visible
from screening.words import count_of
from storage.audit_log import record_refusal
from storage.review.assigning import Assigned, assign
from storage.review.claims import NotAvailable
from storage.site.accounts import colleagues
from storage.site.saved_views import NAME_LIMIT, Place, forget_view, save_view, saved_views

KEPT = ("tiers", "sort", "find", "texts")
"""Of a filter, what is kept under its name."""


def offer(here: Here) -> dict[str, Any]:
    """What this person may choose from: their filters, and the colleagues whom they may give cases to."""
    giving = is_allowed(here.person, Action.ASSIGN) and is_allowed(here.person, Action.CLAIM_NEXT)
    found = colleagues(here.db, here.person) if giving else ()
    names = unique_labels({person.id: visible(person.name) for person in found})
    return {
        "views": [[name, query] for name, query in saved_views(here.db, here.person, Place.INBOX).items()],
        "colleagues": [[account, name] for account, name in names.items()],
        "name_limit": NAME_LIMIT,
        "may_search_texts": is_allowed(here.person, Action.BROWSE_QUEUE) and is_allowed(here.person, Action.VIEW_TEXT),
    }


def act(here: Here, asked: object) -> str:
    """Do it, and say what came of it. Whatever the browser sent is read as it ought to be, or refused in words."""
    request = asked if isinstance(asked, Mapping) else {}
    name = str(request.get("name", ""))
    try:
        match request.get("kind"):
            case "keep":
                save_view(here.db, here.by, Place.INBOX, name, _plain(request.get("query")))
                return "The filter is kept."
            case "forget":
                forget_view(here.db, here.person, Place.INBOX, name)
                return "The filter is forgotten."
            case "assign":
                cases = request.get("cases")
                chosen = [str(each) for each in cases] if isinstance(cases, list) else []
                return assigned_words(assign(here.db, here.by, chosen, str(request.get("to", ""))))
    except (ValueError, NotAvailable) as refused:
        return sentence(refused)
    except Forbidden as refused:
        record_refusal(here.db, here.by, refused.action)
        return "Your role does not let you do this."
    return "This was not understood: reload the page."


def _plain(query: object) -> str:
    """Of what was sent, what a filter is made of."""
    return urlencode([(key, value) for key, value in parse_qsl(str(query)[:2_000]) if key in KEPT])


def assigned_words(done: Assigned) -> str:
    """How many cases are reserved now, and how many are not, by reason.

    >>> assigned_words(Assigned(given=("a", "b"), refused={"c": "was taken meanwhile"}))
    '2 cases are reserved for them. 1 case is not: it was taken meanwhile.'
    """
    words = f"{_cases(len(done.given))} {'is' if len(done.given) == 1 else 'are'} reserved for them."
    for reason in sorted(set(done.refused.values())):
        number = sum(each == reason for each in done.refused.values())
        words += f" {_cases(number)} {'is' if number == 1 else 'are'} not: {'it' if number == 1 else 'each'} {reason}."
    return words


def _cases(number: int) -> str:
    return count_of(number, "case") if number else "No cases"
