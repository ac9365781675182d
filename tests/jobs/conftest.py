"""Tests of the jobs run on both kinds of database, with real worker processes and a real stub of the service."""

from tests.databases import *  # noqa: F403
from tests.jobs.processes import apps, stub, workers

__all__ = ["apps", "stub", "workers"]
