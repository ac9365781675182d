"""The API is tested on both kinds of database."""

from tests.databases import *  # noqa: F403
