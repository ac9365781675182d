"""The garbage collector of a process that has loaded large libraries and lives long."""

import gc

SCAN_EVERY = 10_000
"""New objects between two scans of the youngest; Python's own 700 is for small programs."""


def spare_loaded_objects() -> None:
    """Exclude what exists now from garbage collection: it lasts as long as the process, and the collector would scan it
    many times a second while there is work. New objects are scanned less often than usual.
    """
    gc.freeze()
    gc.set_threshold(SCAN_EVERY)
