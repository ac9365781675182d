"""Every test of storage runs on both kinds of database."""

from tests.databases import *  # noqa: F403
