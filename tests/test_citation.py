"""The citation file names the version that the project has."""

import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent


def test_the_version_to_cite_is_the_projects_own() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert cited["version"] == project["version"] and cited["cff-version"] == "1.2.0" and cited["authors"]
