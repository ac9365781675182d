"""What the machines of the storage have in common: each example has a site of its own, on either database."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, ClassVar

from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from storage.database import Database

Sites = Callable[[], AbstractContextManager[str]]


class Machine(RuleBasedStateMachine):
    """One site and its clock."""

    sites: ClassVar[Sites]
    begins: ClassVar[datetime]

    def __init__(self) -> None:
        super().__init__()
        self.place = self.sites()
        self.db, self.now = Database(self.place.__enter__()), self.begins

    def teardown(self) -> None:
        self.db.close()
        self.place.__exit__(None, None, None)


def run(machine: type[Machine], sites: Sites, examples: int, **how: Any) -> None:
    """So many sites, each on a database of its own."""
    chosen = settings(
        max_examples=examples,
        stateful_step_count=25,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        **how,
    )
    run_state_machine_as_test(type("Site", (machine,), {"sites": staticmethod(sites)}), settings=chosen)
