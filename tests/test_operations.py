"""compose.yaml, Dockerfile and docs/operations.md speak of this program as it is; `make audit` tells a vulnerability, a
network failure and its own failure apart.
"""

import importlib.util
import json
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from screening.settings import Settings
from tests.jobs.processes import Workers, app_program, environment, serves, wait_for, workers
from tests.processes import free_port

__all__ = ["workers"]

ROOT = Path(__file__).parent.parent
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
SERVICES = COMPOSE["services"]
DOCKER = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_app_and_workers_share_one_postgresql_and_every_setting_is_passed_through() -> None:
    assert set(SERVICES) == {"app", "worker", "api", "proxy", "database"}
    app = SERVICES["app"]
    for other in (SERVICES["worker"], SERVICES["api"]):
        assert app["environment"] == other["environment"] and app["volumes"] == other["volumes"]
    assert app["environment"]["DATABASE_URL"] == "postgresql://second_look@database/second_look"
    assert app["depends_on"] == {"database": {"condition": "service_healthy"}}
    kept = [volume.split(":")[0] for service in SERVICES.values() for volume in service.get("volumes", [])]
    assert set(COMPOSE["volumes"]) == {volume for volume in kept if not volume.startswith("$")}
    ours = {name for name in app["environment"] if name.startswith("SECOND_LOOK_")}
    fields = Settings.model_fields.items()
    assert ours == {f"SECOND_LOOK_{name.upper()}" for name, field in fields if not field.validation_alias}
    given = {name for name, value in app["environment"].items() if value is not None}
    assert given == {"DATABASE_URL", "PGPASSWORD", "STREAMLIT_SECRETS_FILES", "SECOND_LOOK_DATA_DIRECTORY"}


def test_every_container_is_confined_watched_and_its_log_limited() -> None:
    for name, service in SERVICES.items():
        assert service["read_only"] and service["cap_drop"] == ["ALL"] and "privileged" not in service, name
        assert service["security_opt"] == ["no-new-privileges:true"] and service["healthcheck"]["test"], name
        assert service["logging"]["options"] == {"max-size": "10m", "max-file": "5"}, name
    assert "\nUSER second-look\n" in DOCKER and SERVICES["database"]["user"] == "postgres"
    images = [*re.findall(r"^FROM (.+)$", DOCKER, re.MULTILINE), SERVICES["database"]["image"]]
    assert all(re.search(r"@sha256:[0-9a-f]{64}$", image) for image in images)
    assert "--require-hashes" in DOCKER


def test_nothing_is_reachable_from_other_machines_and_no_secret_is_written_down() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports and all(port.startswith("127.0.0.1:") for port in ports) and "ports" not in SERVICES["database"]
    assert SERVICES["database"]["environment"]["POSTGRES_PASSWORD"].startswith("${POSTGRES_PASSWORD:?")
    (mounted,) = (volume for volume in SERVICES["app"]["volumes"] if "sign_in.toml" in volume)
    default, inside = re.fullmatch(r"\$\{SIGN_IN_SECRETS:-\./(.+)\}:(.+):ro", mounted).groups()  # type: ignore[union-attr]
    assert tomllib.loads((ROOT / default).read_text(encoding="utf-8")) == {}, "the file mounted without sign-in"
    assert SERVICES["app"]["environment"]["STREAMLIT_SECRETS_FILES"] == inside
    written = ("*.jsonl", "*.rejected.csv", "*.db")  # by commands as the README has them: refused rows hold texts
    for listed, root in ((".gitignore", "/"), (".dockerignore", "")):
        ignored = set((ROOT / listed).read_text(encoding="utf-8").splitlines())
        assert ignored & {"secrets.toml", "**/secrets.toml"} and ".env" in ignored
        assert ignored.issuperset(f"{root}{name}" for name in written)


def _resolved(given: Mapping[str, str]) -> dict[str, str]:
    """The environment of a container, as compose makes it of what is set where it is started."""
    found = {}
    for name, value in SERVICES["app"]["environment"].items():
        if value is None:
            found |= {name: given[name]} if name in given else {}
        else:
            found[name] = re.sub(r"\$\{(\w+)[^}]*\}", lambda match: given[match.group(1)], value)
    return found


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_every_program_starts_with_that_environment(postgresql_url: str, workers: Workers, tmp_path: Path) -> None:
    """With nothing but a key and a password, all else empty; the address, the folder and ports are this test's."""
    empty = {name: "" for name, value in SERVICES["app"]["environment"].items() if value is None}
    found = _resolved(empty | {"POSTGRES_PASSWORD": "p@ss:w/rd", "ANTHROPIC_API_KEY": "k"})
    options = found | {"SECOND_LOOK_DATA_DIRECTORY": str(tmp_path)}
    options["STREAMLIT_SECRETS_FILES"] = str(ROOT / "docs" / "no_sign_in.toml")
    del options["DATABASE_URL"]
    port, of_api, api = free_port(), str(free_port()), SERVICES["api"]
    inside = api["ports"][0].rsplit(":")[-1]
    assert api["profiles"] == ["api"] and api["command"][api["command"].index("--port") + 1] == inside
    workers.start(postgresql_url, options)
    workers.start(postgresql_url, options, app_program(port))
    workers.start(postgresql_url, options, tuple(part.replace(inside, of_api) for part in api["command"][1:]))

    def is_healthy(service: str) -> bool:
        check = [part.replace(inside, of_api) for part in SERVICES[service]["healthcheck"]["test"][2:]]
        env = environment(postgresql_url, options)
        return subprocess.run([sys.executable, *check], cwd=ROOT, env=env, check=False).returncode == 0

    workers.up(0)
    wait_for(lambda: workers.dead(1) or serves(port), 90)
    assert serves(port), workers.log_of(1)
    wait_for(lambda: workers.dead(2) or is_healthy("api"), 90)
    assert not workers.dead(2), workers.log_of(2)
    wait_for(lambda: is_healthy("worker"), 60)
    workers.kill(0, signal.SIGTERM)
    assert not is_healthy("worker")


def test_what_is_started_is_there_with_the_components_of_the_pages() -> None:
    """Without them the app ends before it serves; `make run` installs them in place, and so does the image."""
    started = {part for service in ("app", "worker", "api") for part in SERVICES[service]["command"]}
    programs = {name for name in started | set(re.findall(r'"(\w+\.py)"', DOCKER)) if name.endswith(".py")}
    assert programs and all((ROOT / name).exists() for name in programs)
    in_place = re.compile(r"--no-deps --no-build-isolation -e (\S+)")
    make = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert in_place.findall(DOCKER) == in_place.findall(make) == ["pages/browser"]
    assert DOCKER.index("COPY . .") < DOCKER.index("-e pages/browser") < DOCKER.index("USER second-look")


def test_the_proxy_leads_from_the_published_port_to_the_app() -> None:
    program, listen, target = SERVICES["proxy"]["command"]
    (published,) = SERVICES["proxy"]["ports"]
    app = SERVICES["app"]["command"]
    assert program == "socat" and f"install -y --no-install-recommends {program}" in DOCKER
    assert listen.split(",")[0] == f"TCP-LISTEN:{published.rsplit(':')[-1]}"
    assert target == f"TCP:127.0.0.1:{app[app.index('--port') + 1]}"
    assert SERVICES["app"]["network_mode"] == "service:proxy"


FEED = tomllib.loads(Path(__file__).with_name("audit_reports.toml").read_text("utf-8"))


@pytest.mark.parametrize("report", FEED["report"])
def test_a_report_is_judged(report: dict[str, Any]) -> None:
    spec = importlib.util.spec_from_file_location("ci_audit", Path(__file__).parent.parent / ".ci" / "audit.py")
    assert spec is not None and spec.loader is not None
    audit = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(audit)
    packages = report.get("packages")
    written = "" if packages is None else {"dependencies": [FEED["package"][one] for one in packages], "fixes": []}
    found = audit.verdict(written and json.dumps(written), report.get("error", ""))
    assert found[0] == report["code"] and report.get("told", "") in found[1]
    assert "unknown" not in (packages or ()) or "no known" not in found[1], "what was not checked is never no finding"
