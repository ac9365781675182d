"""compose.yaml, Dockerfile and docs/operations.md speak of this program as it is."""

import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from screening.settings import Settings
from tests.free_port import free_port
from tests.jobs.processes import Workers, app_program, environment, serves, wait_for, workers

__all__ = ["workers"]

ROOT = Path(__file__).parent.parent
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
SERVICES = COMPOSE["services"]


def test_app_and_workers_share_one_postgresql_and_their_settings() -> None:
    assert set(SERVICES) == {"app", "worker", "api", "proxy", "database"}
    app = SERVICES["app"]
    for other in (SERVICES["worker"], SERVICES["api"]):
        assert app["environment"] == other["environment"] and app["volumes"] == other["volumes"]
    assert app["environment"]["DATABASE_URL"] == "postgresql://second_look@database/second_look"
    assert app["depends_on"] == {"database": {"condition": "service_healthy"}}
    kept = [volume.split(":")[0] for service in SERVICES.values() for volume in service.get("volumes", [])]
    assert set(COMPOSE["volumes"]) == {volume for volume in kept if not volume.startswith("$")}


def test_every_setting_is_passed_through() -> None:
    ours = {name for name in SERVICES["app"]["environment"] if name.startswith("SECOND_LOOK_")}
    fields = Settings.model_fields.items()
    assert ours == {f"SECOND_LOOK_{name.upper()}" for name, field in fields if not field.validation_alias}
    given = {name for name, value in SERVICES["app"]["environment"].items() if value is not None}
    assert given == {"DATABASE_URL", "PGPASSWORD", "STREAMLIT_SECRETS_FILES", "SECOND_LOOK_DATA_DIRECTORY"}


def test_every_container_is_confined_watched_and_its_log_limited() -> None:
    for name, service in SERVICES.items():
        assert service["read_only"] and service["cap_drop"] == ["ALL"] and "privileged" not in service, name
        assert service["security_opt"] == ["no-new-privileges:true"] and service["healthcheck"]["test"], name
        assert service["logging"]["options"] == {"max-size": "10m", "max-file": "5"}, name
    docker = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert "\nUSER second-look\n" in docker and SERVICES["database"]["user"] == "postgres"
    images = [*re.findall(r"^FROM (.+)$", docker, re.MULTILINE), SERVICES["database"]["image"]]
    assert all(re.search(r"@sha256:[0-9a-f]{64}$", image) for image in images)


def test_nothing_is_reachable_from_other_machines_and_no_password_is_written_down() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports and all(port.startswith("127.0.0.1:") for port in ports) and "ports" not in SERVICES["database"]
    assert SERVICES["database"]["environment"]["POSTGRES_PASSWORD"].startswith("${POSTGRES_PASSWORD:?")


def test_the_file_mounted_without_sign_in_has_none() -> None:
    (mounted,) = (volume for volume in SERVICES["app"]["volumes"] if "sign_in.toml" in volume)
    default, inside = re.fullmatch(r"\$\{SIGN_IN_SECRETS:-\./(.+)\}:(.+):ro", mounted).groups()  # type: ignore[union-attr]
    assert tomllib.loads((ROOT / default).read_text(encoding="utf-8")) == {}
    assert SERVICES["app"]["environment"]["STREAMLIT_SECRETS_FILES"] == inside


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
@pytest.mark.parametrize("empty", [False, True], ids=["unset", "empty"])
def test_app_and_worker_start_with_exactly_that_environment(
    postgresql_url: str, workers: Workers, tmp_path: Path, empty: bool
) -> None:
    """With nothing but a key and a password, as an installation begins; the address and the folder are this test's."""
    given = {"POSTGRES_PASSWORD": "p@ss:w/rd", "ANTHROPIC_API_KEY": "k"}
    if empty:
        given = {name: "" for name, value in SERVICES["app"]["environment"].items() if value is None} | given
    outside = {"DATABASE_URL", "SECOND_LOOK_DATA_DIRECTORY", "STREAMLIT_SECRETS_FILES"}
    inside = {name: value for name, value in _resolved(given).items() if name not in outside}
    secrets = {"STREAMLIT_SECRETS_FILES": str(ROOT / "docs" / "no_sign_in.toml")}
    options = inside | secrets | {"SECOND_LOOK_DATA_DIRECTORY": str(tmp_path)}
    port = free_port()
    workers.start(postgresql_url, options)
    workers.start(postgresql_url, options, app_program(port))
    workers.up(0)
    wait_for(lambda: workers.dead(1) or serves(port), 90)
    assert serves(port), workers.log_of(1)
    alive = [sys.executable, *SERVICES["worker"]["healthcheck"]["test"][2:]]
    environment_inside = environment(postgresql_url, options)
    wait_for(lambda: subprocess.run(alive, cwd=ROOT, env=environment_inside, check=False).returncode == 0, 60)
    workers.kill(0, signal.SIGTERM)
    assert subprocess.run(alive, cwd=ROOT, env=environment_inside, check=False).returncode == 1


@pytest.mark.timeout(120)
def test_the_api_is_started_where_it_is_asked_for(postgresql_url: str, workers: Workers, tmp_path: Path) -> None:
    """By its command as it stands there, but for the port, which is this test's; on it its health check succeeds."""
    service, port = SERVICES["api"], str(free_port())
    (published,) = service["ports"]
    inside, command = published.rsplit(":")[-1], service["command"]
    assert service["profiles"] == ["api"] and command[command.index("--port") + 1] == inside
    options = {"SECOND_LOOK_DATA_DIRECTORY": str(tmp_path)}
    workers.start(postgresql_url, options, tuple(port if part == inside else part for part in command[1:]))
    check = [sys.executable, *service["healthcheck"]["test"][2:-1]]
    asked = [*check, service["healthcheck"]["test"][-1].replace(inside, port)]
    wait_for(lambda: workers.dead(0) or subprocess.run(asked, check=False, capture_output=True).returncode == 0, 90)
    assert not workers.dead(0), workers.log_of(0)


def test_the_programs_started_exist() -> None:
    docker = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    started = {part for service in ("app", "worker") for part in SERVICES[service]["command"]} | {
        *re.findall(r'"(\w+\.py)"', docker)
    }
    assert all((ROOT / name).exists() for name in started if name.endswith(".py"))
    assert "--require-hashes" in docker and (ROOT / "requirements.txt").exists()


def test_the_image_installs_the_components_of_the_pages() -> None:
    """Without them the app ends before it serves; `make run` installs them in place, and so does the image."""
    in_place = re.compile(r"--no-deps --no-build-isolation -e (\S+)")
    docker = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    make = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert in_place.findall(docker) == in_place.findall(make) == ["pages/browser"]
    assert docker.index("COPY . .") < docker.index("-e pages/browser") < docker.index("USER second-look")


def test_the_proxy_leads_from_the_published_port_to_the_app() -> None:
    program, listen, target = SERVICES["proxy"]["command"]
    (published,) = SERVICES["proxy"]["ports"]
    app = SERVICES["app"]["command"]
    assert program == "socat" and f"install -y --no-install-recommends {program}" in (ROOT / "Dockerfile").read_text()
    assert listen.split(",")[0] == f"TCP-LISTEN:{published.rsplit(':')[-1]}"
    assert target == f"TCP:127.0.0.1:{app[app.index('--port') + 1]}"
    assert SERVICES["app"]["network_mode"] == "service:proxy"


@pytest.mark.parametrize("listed", [".gitignore", ".dockerignore"])
def test_secrets_get_neither_into_git_nor_into_an_image(listed: str) -> None:
    ignored = set((ROOT / listed).read_text(encoding="utf-8").splitlines())
    assert ignored & {"secrets.toml", "**/secrets.toml"} and ".env" in ignored
    written = ("*.jsonl", "*.rejected.csv", "*.db")  # by commands as the README has them: refused rows hold texts
    root = "/" if listed == ".gitignore" else ""
    assert ignored.issuperset(f"{root}{name}" for name in written)
