"""`make audit` tells a vulnerability, a network failure and its own failure apart."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

FILE = Path(__file__).parent.parent / ".ci" / "audit.py"
GOOD = {"name": "aiohttp", "version": "3.14.5", "vulns": []}
UNKNOWN = {"name": "numpy", "skip_reason": "Dependency not found and could not be audited: numpy (2.3.0)"}


def _found(*fixes: str) -> dict[str, object]:
    vulnerability = {"id": "PYSEC-2026-1", "fix_versions": list(fixes), "aliases": [], "description": "…"}
    return {"name": "pandas", "version": "3.1.0", "vulns": [vulnerability]}


@pytest.fixture(scope="module")
def audit() -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("ci_audit", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("packages", "code", "told"),
    [
        ([GOOD, GOOD], 0, "2 locked packages checked"),
        ([GOOD, _found("3.1.1")], 1, "update: pandas 3.1.0: PYSEC-2026-1 -> 3.1.1"),
        ([GOOD, _found()], 0, "no fix yet: pandas 3.1.0: PYSEC-2026-1"),
        ([UNKNOWN, UNKNOWN], 0, "could not be checked"),
        ([GOOD, UNKNOWN], 1, "unknown to the feed: numpy"),
        ([UNKNOWN, _found("3.1.1")], 1, "update: pandas"),
        ([], 1, "names no package"),
    ],
)
def test_a_report_is_judged(audit: ModuleType, packages: list[object], code: int, told: str) -> None:
    found = audit.verdict(json.dumps({"dependencies": packages, "fixes": []}), "")
    assert found[0] == code and told in found[1]
    assert UNKNOWN not in packages or "no known" not in found[1], "what was not checked never reads as nothing found"


@pytest.mark.parametrize(
    ("err", "code"),
    [
        ("requests.exceptions.ProxyError: HTTPSConnectionPool(host='x', port=443): Max retries exceeded", 0),
        ("ERROR:pip_audit._cli:Could not connect to the vulnerability feed", 0),
        ("requests.exceptions.HTTPError: 503 Server Error\npip_audit._service.interface.ServiceError", 0),
        ("requests.exceptions.HTTPError: 400 Client Error\npip_audit._service.interface.ServiceError", 1),
        ("No module named pip_audit", 1),
        ("ERROR:pip_audit._cli:requirement aiohttp does not contain a hash", 1),
        ("", 1),
    ],
)
def test_without_a_report_only_the_network_is_forgiven(audit: ModuleType, err: str, code: int) -> None:
    assert audit.verdict("", err)[0] == code
