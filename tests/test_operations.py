"""compose.yaml, Dockerfile and docs/operations.md speak of this program as it is."""

import re
from pathlib import Path

import yaml

from screening.settings import Settings

ROOT = Path(__file__).parent.parent
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
SERVICES = COMPOSE["services"]


def test_app_and_workers_share_one_postgresql_and_their_settings() -> None:
    assert set(SERVICES) == {"app", "worker", "proxy", "database"}
    app, worker = SERVICES["app"], SERVICES["worker"]
    assert app["environment"] == worker["environment"] and app["volumes"] == worker["volumes"]
    assert app["environment"]["DATABASE_URL"].startswith("postgresql://second_look:")
    assert app["depends_on"] == {"database": {"condition": "service_healthy"}}
    assert set(COMPOSE["volumes"]) == {
        volume.split(":")[0] for service in SERVICES.values() for volume in service.get("volumes", [])
    }


def test_nothing_is_reachable_from_other_machines_and_no_password_is_written_down() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports and all(port.startswith("127.0.0.1:") for port in ports)
    assert "ports" not in SERVICES["database"]
    assert SERVICES["database"]["environment"]["POSTGRES_PASSWORD"].startswith("${POSTGRES_PASSWORD:?")


def test_every_option_named_exists() -> None:
    known = {f"SECOND_LOOK_{name.upper()}" for name in Settings.model_fields}
    known |= {str(field.validation_alias) for field in Settings.model_fields.values() if field.validation_alias}
    assert set(SERVICES["app"]["environment"]) <= known
    named = re.findall(r"SECOND_LOOK_[A-Z_]+[A-Z]", (ROOT / "docs" / "operations.md").read_text(encoding="utf-8"))
    assert named and set(named) <= known


def test_the_programs_started_exist() -> None:
    docker = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    started = {part for service in ("app", "worker") for part in SERVICES[service]["command"]} | {
        *re.findall(r'"(\w+\.py)"', docker)
    }
    assert all((ROOT / name).exists() for name in started if name.endswith(".py"))
    assert "--require-hashes" in docker and (ROOT / "requirements.txt").exists()


def test_the_proxy_leads_from_the_published_port_to_the_app() -> None:
    program, listen, target = SERVICES["proxy"]["command"]
    (published,) = SERVICES["proxy"]["ports"]
    app = SERVICES["app"]["command"]
    assert program == "socat" and f"install -y --no-install-recommends {program}" in (ROOT / "Dockerfile").read_text()
    assert listen.split(",")[0] == f"TCP-LISTEN:{published.rsplit(':')[-1]}"
    assert target == f"TCP:127.0.0.1:{app[app.index('--server.port') + 1]}"
    assert SERVICES["app"]["network_mode"] == "service:proxy"
