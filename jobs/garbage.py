"""The garbage collector of a process that has loaded large libraries and lives long."""

import gc

LOOKED_THROUGH_AT = 10_000
"""New objects after which the youngest are looked through for garbage; the language's own 700 is for small programs."""


def keep_what_is_loaded() -> None:
    """Spare the collector what lasts as long as the process, the libraries above all: it would pass through all of it
    many times a second while there is work. What is made from now on is looked through less often. A start that had
    switched it off while it imported has it on again.
    """
    gc.freeze()
    gc.enable()
    gc.set_threshold(LOOKED_THROUGH_AT)
