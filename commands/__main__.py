"""The command line: the same work as the pages, without a browser and for large files."""

import argparse
import sys

from commands import backup, batches, certify, erase, evaluate, metrics, pipelines, rule, screen, verify_audit
from screening.datasets.refused import FileRefused


def main(arguments: list[str] | None = None) -> int:
    """Run one subcommand; its exit code (2 for input that cannot be used, with a sentence on stderr)."""
    parser = argparse.ArgumentParser(prog="python -m screening", description=__doc__)
    subcommands = parser.add_subparsers(dest="command", required=True)
    for command in (screen, batches, pipelines, evaluate, rule, certify, metrics, verify_audit, backup, erase):
        command.add_to(subcommands)
    parsed = parser.parse_args(arguments)
    try:
        code: int = parsed.run(parsed)
    except BrokenPipeError:
        return 0
    except (FileRefused, ValueError, OSError) as problem:
        print(f"{parser.prog}: {problem}", file=sys.stderr)
        return 2
    return code


if __name__ == "__main__":
    sys.exit(main())
