"""Third-party notices: every package that runs with the program, its version and its licence, as it says itself."""

import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

HERE = Path(__file__).parent.parent
TO = HERE / "third-party-notices.md"
HEAD = """# Third-party notices

Second Look is under the MIT licence (LICENSE). It runs with these packages, each under its own licence; `make sbom`
writes this list from what each package says of itself, and a software bill of materials (CycloneDX) as
`sbom.cdx.json`. The licence texts come with the packages, in the `*.dist-info` folders of the environment. All are
permissive but psycopg (LGPL: a library of its own, imported unchanged, which can be replaced) and certifi and tqdm
(MPL: their own files alone).

| package | version | licence |
|---|---|---|
"""


def locked(requirements: str) -> list[str]:
    """The names in a lock file, in order."""
    return sorted(set(re.findall(r"^([A-Za-z0-9._-]+)==", requirements, re.MULTILINE)), key=str.casefold)


def licence(found: Distribution) -> str:
    """What a package says its licence is: its expression, its classifiers, or the first line of its field."""
    told = found.metadata
    if told.get("License-Expression"):
        return str(told["License-Expression"])
    classes = [one.rpartition(" :: ")[2] for one in told.get_all("Classifier") or [] if one.startswith("License ::")]
    first = str(told.get("License") or "").strip().split("\n")[0][:60]
    return ", ".join(one for one in classes if one != "OSI Approved") or first or "see the package"


def notices(requirements: str) -> str:
    """The whole file. A package for another platform is named without a version."""
    rows = []
    for name in locked(requirements):
        try:
            found = distribution(name)
            rows.append(f"| {name} | {found.version} | {licence(found).replace('|', '/')} |")
        except PackageNotFoundError:
            rows.append(f"| {name} | not on this platform | see the package |")
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    TO.write_text(notices((HERE / "requirements.txt").read_text(encoding="utf-8")), encoding="utf-8")
    sys.exit(0)
