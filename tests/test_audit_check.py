"""`make audit` tells a vulnerability, a network failure and its own failure apart."""

import importlib.util
import json
from pathlib import Path

import pytest

GOOD = {"name": "aiohttp", "version": "3.14.5", "vulns": []}
UNKNOWN = {"name": "numpy", "skip_reason": "Dependency not found and could not be audited: numpy (2.3.0)"}
FIXED, UNFIXED = (
    {"name": "pandas", "version": "3.1.0", "vulns": [{"id": "PYSEC-2026-1", "fix_versions": fixes, "aliases": []}]}
    for fixes in (["3.1.1"], [])
)


@pytest.mark.parametrize(
    ("packages", "err", "code", "told"),
    [
        ([GOOD, GOOD], "", 0, "2 locked packages checked"),
        ([GOOD, FIXED], "", 1, "update: pandas 3.1.0: PYSEC-2026-1 -> 3.1.1"),
        ([GOOD, UNFIXED], "", 0, "no fix yet: pandas 3.1.0: PYSEC-2026-1"),
        ([UNKNOWN, UNKNOWN], "", 0, "could not be checked"),
        ([GOOD, UNKNOWN], "", 1, "unknown to the feed: numpy"),
        ([], "", 1, "names no package"),
        # Without a report only the network is forgiven.
        (None, "requests.exceptions.ProxyError: HTTPSConnectionPool(host='x', port=443): Max retries exceeded", 0, ""),
        (None, "requests.exceptions.HTTPError: 503 Server Error\npip_audit._service.interface.ServiceError", 0, ""),
        (None, "requests.exceptions.HTTPError: 400 Client Error\npip_audit._service.interface.ServiceError", 1, ""),
        (None, "ERROR:pip_audit._cli:requirement aiohttp does not contain a hash", 1, ""),
        (None, "", 1, ""),
    ],
)
def test_a_report_is_judged(packages: list[object] | None, err: str, code: int, told: str) -> None:
    spec = importlib.util.spec_from_file_location("ci_audit", Path(__file__).parent.parent / ".ci" / "audit.py")
    assert spec is not None and spec.loader is not None
    audit = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(audit)
    report = "" if packages is None else json.dumps({"dependencies": packages, "fixes": []})
    found = audit.verdict(report, err)
    assert found[0] == code and told in found[1]
    assert UNKNOWN not in (packages or ()) or "no known" not in found[1], "what was not checked is never no finding"
