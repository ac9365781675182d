"""What the inbox shows comes from storage: the functions behind it run on both kinds of database."""

from tests.databases import *  # noqa: F403
