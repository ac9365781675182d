"""The model card: what labels texts here, from the live settings, and what was measured about it, from the database."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape

from pages.research.claims import Verified, beyond_sentence, plan_sentences, too_early_sentence
from pages.research.stard import missed_sentence
from pages.ui.format import local_time
from pages.ui.labels import DELTA_MEANING
from screening.review.reach import WHO_SEES_WHAT
from screening.settings import SIMULATED_NOTICE
from screening.words import count_of
from storage.settings_store import SiteSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """Everything the card says. ``measured`` None: nothing was measured with this configuration."""

    at: datetime
    simulated: bool
    facts: Sequence[tuple[str, str]]
    notes: Sequence[str]
    site: SiteSettings
    settled: int
    measured: Verified | None


def sections(card: Card) -> list[tuple[str, list[str]]]:
    """Title and sentences of each section."""
    use = [
        card.site.intended_use,
        WHO_SEES_WHAT,
        "It labels texts, not people, and gives no score of a person's risk.",
        card.site.help_text,
    ]
    return [
        ("Intended use", ([SIMULATED_NOTICE] if card.simulated else []) + use),
        ("Configuration", [f"{name}: {value}" for name, value in card.facts] + list(card.notes)),
        ("What the error level means", [DELTA_MEANING]),
        ("Measured", _measured_lines(card)),
        (
            "Limits",
            [
                "Figures hold for this configuration, these texts and these reviewers; another model, prompt or site "
                "needs its own.",
                "A text that addresses the model, hides characters or is in an unchecked language goes to a clinician.",
                "What no agent settles, fails or is refused goes to a clinician; nothing is safe by default.",
            ],
        ),
    ]


def _measured_lines(card: Card) -> list[str]:
    if card.measured is None:
        return ["Nothing has been measured with this configuration yet, so nothing can be claimed."]
    return [
        f"{count_of(card.settled, 'text')} settled with this configuration.",
        f"Missed unsafe per 1,000 texts labeled safe: {missed_sentence(card.measured)}.",
        " ".join(
            filter(
                None,
                (
                    f"{card.measured.guarantee.statement.rstrip('.')}.",
                    too_early_sentence(card.measured),
                    beyond_sentence(card.measured),
                ),
            )
        ),
        " ".join(plan_sentences(card.measured.plan)),
    ]


def markdown(card: Card) -> str:
    """The card as Markdown; what could be markup in a value is escaped."""
    parts = [f"# Model card: Second Look\n\nAs of {local_time(card.at)}.\n"]
    parts += [f"## {title}\n\n" + "".join(f"- {_plain(line)}\n" for line in lines) for title, lines in sections(card)]
    return "\n".join(parts)


def html(card: Card) -> str:
    """The card as one HTML document without scripts."""
    body = "".join(
        f"<h2>{title}</h2><ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"
        for title, lines in sections(card)
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Model card: Second Look</title>'
        "<style>body{font:16px/1.5 sans-serif;max-width:45rem;margin:2rem auto;padding:0 1rem}</style></head><body>"
        f"<h1>Model card: Second Look</h1><p>As of {local_time(card.at)}.</p>{body}</body></html>\n"
    )


def _plain(line: str) -> str:
    return "".join(f"\\{letter}" if letter in "\\`*_[]<>!#|" else letter for letter in line)
