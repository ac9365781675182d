"""Watches the files that are being taken in: one that nobody takes in any more says so, and people are told."""

from dataclasses import dataclass, field, replace
from datetime import datetime

from screening.review.actors import SYSTEM
from storage.batches.intake import resume_intake, stop_intake
from storage.batches.open_intakes import OpenFile, open_files
from storage.database import Database

NOBODY = "nobody_takes_in"
LOOKS = 30
"""So often nothing more may have come of a file before it counts as given up. Looks, not minutes: while the database is
away nobody can take anything in, and nobody looks.
"""


@dataclass(slots=True)
class OpenFiles:
    """What one process has seen of them. A process that is killed says nothing about its file; this does."""

    _seen: dict[str, tuple[OpenFile, int]] = field(default_factory=dict)

    def look(self, db: Database, now: datetime) -> None:
        """Record of each file that nobody takes it in, and that somebody does after all."""
        found = open_files(db)
        moved = any(file.in_line for batch_id, (file, _) in self._seen.items() if batch_id not in found)
        for batch_id, file in found.items():
            before, looks = self._seen.get(batch_id, (file, 0))
            moved |= file.in_line and file != before
            stands = file == before and not (file.in_line and moved)  # else it moves, or the line before it does
            if file.missing is None and stands and looks == LOOKS:
                stop_intake(db, SYSTEM.at(now), batch_id, NOBODY)
                file = replace(file, missing=NOBODY)
            elif file.missing == NOBODY and file.rows > before.rows:
                resume_intake(db, SYSTEM.at(now), batch_id)
                file = replace(file, missing=None)
            self._seen[batch_id] = file, looks + 1 if stands else 1
        self._seen = {batch_id: self._seen[batch_id] for batch_id in found}
