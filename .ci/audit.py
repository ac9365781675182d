"""`make audit`: known vulnerabilities in the locked run-time dependencies.

Exit 1 for a vulnerability that an update would fix, and for an audit that broke. Exit 0 with a printed line for one
without a fix (nobody could act on a red build; who deploys can still read it), and where the feed cannot be reached or
does not know any of the packages: that is "could not be checked", never "nothing found".
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

LOCKED = Path(__file__).parent.parent / "requirements.txt"
OPTIONS = ("--disable-pip", "--require-hashes", "--progress-spinner", "off", "--format", "json")
LIMIT_S = 300
_NETWORK = re.compile(
    r"requests\.exceptions\.(?:Connection|Proxy|SSL)Error|requests\.exceptions\.\w*Timeout|Could not connect"
    r"|not redirecting properly|HTTPError: (?:403|407|429|5\d\d)"
)
NOT_CHECKED = "Known vulnerabilities could not be checked:"


def verdict(out: str, err: str) -> tuple[int, str]:
    """Exit code and what to print, from what pip-audit wrote.

    >>> verdict('{"dependencies": [{"name": "a", "version": "1", "vulns": []}]}', "")
    (0, '1 locked packages checked, no known vulnerability with a fix.')
    >>> verdict("", "requests.exceptions.ProxyError: no way out")[0]
    0
    >>> verdict("", "TypeError")[0]
    1
    """
    try:
        packages: list[Mapping[str, Any]] = json.loads(out)["dependencies"]
    except (ValueError, KeyError, TypeError):
        last = err.strip().splitlines()[-1:] or ["no output"]
        if _NETWORK.search(err):
            return 0, f"{NOT_CHECKED} the feed cannot be reached."
        return 1, f"The audit itself failed: {last[0][:300]}"
    unknown = [package["name"] for package in packages if "skip_reason" in package]
    if packages and len(unknown) == len(packages):
        return 0, f"{NOT_CHECKED} the index in use has no feed of them."
    fixable, others = list(_found(packages, fixed=True)), list(_found(packages, fixed=False))
    lines = [f"update: {line}" for line in fixable] + [f"no fix yet: {line}" for line in others]
    lines += [f"unknown to the feed: {name}" for name in unknown]
    if not packages:
        lines.append("the lock file names no package")
    if not (fixable or unknown or not packages):
        lines.append(f"{len(packages)} locked packages checked, no known vulnerability with a fix.")
    return int(bool(fixable or unknown or not packages)), "\n".join(lines)


def _found(packages: list[Mapping[str, Any]], *, fixed: bool) -> Iterator[str]:
    for package in packages:
        for found in package.get("vulns", ()):
            versions = ", ".join(found["fix_versions"])
            if bool(versions) is fixed:
                yield f"{package['name']} {package['version']}: {found['id']}" + (f" -> {versions}" if fixed else "")


def main() -> int:
    """Run pip-audit on the lock file and judge what it says."""
    command = [sys.executable, "-m", "pip_audit", *OPTIONS, "-r", str(LOCKED)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        code, told = 0, f"{NOT_CHECKED} no answer within {LIMIT_S} s."
    else:
        code, told = verdict(done.stdout, done.stderr)
    sys.stdout.write(told + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
