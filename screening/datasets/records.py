"""One row of a file before anything is made of it."""

from dataclasses import dataclass
from enum import StrEnum

CELL_LIMIT = 16_000_000
"""Longest cell or line that is read at all, in characters; beyond it the file is refused."""

COLUMN_LIMIT = 1_000
"""Most columns a file may have."""


class Reason(StrEnum):
    """Why a row was rejected."""

    EXTRA_CELLS = "extra_cells"
    MISSING_CELLS = "missing_cells"
    ROWS_MERGED = "rows_merged"
    HEADER_REPEATED = "header_repeated"
    NOT_JSON = "not_json"
    NOT_AN_OBJECT = "not_an_object"
    REPEATED_KEY = "repeated_key"
    NO_TEXT = "no_text"
    EMPTY_TEXT = "empty_text"
    PLACEHOLDER = "placeholder"
    NO_ID = "no_id"
    UNUSABLE_ID = "unusable_id"
    DUPLICATE = "duplicate"
    CONFLICTING_DUPLICATE = "conflicting_duplicate"


STRUCTURAL: frozenset[Reason] = frozenset(
    {
        Reason.EXTRA_CELLS,
        Reason.MISSING_CELLS,
        Reason.ROWS_MERGED,
        Reason.NOT_JSON,
        Reason.NOT_AN_OBJECT,
        Reason.REPEATED_KEY,
    }
)
"""Reasons that cast doubt on the file when most rows have them."""

Fields = dict[str, str | None]
"""Cells by column name; None is a value the file says is missing (JSON null)."""


@dataclass(frozen=True, slots=True)
class Record:
    """One data row (numbered from 1) at a physical line (from 1), with its cells or what is wrong with it."""

    row: int
    line: int
    fields: Fields | None
    problem: Reason | None = None
    detail: str = ""
    cells: tuple[str, ...] = ()
    """The cells of a row that does not fit, as they stand; their columns are in doubt, the first one's is not."""


@dataclass(frozen=True, slots=True)
class BlankLine:
    """A line without cells: not a row, but counted."""

    line: int
