"""`api`: the door for programs, in a process of its own beside app and worker."""

import argparse
import ipaddress

from jobs import logs
from jobs.port import system_clock
from screening.settings import Settings
from storage.database import Database

PORT = 8601


def add_to(subcommands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this subcommand's arguments."""
    parser = subcommands.add_parser("api", help="serve /api/v1 to programs")
    parser.add_argument("--host", default="127.0.0.1", help="where it listens; tokens need TLS in front of it")
    parser.add_argument("--port", type=int, help=f"default: the one set (SECOND_LOOK_API_PORT), else {PORT}")
    parser.add_argument(
        "--behind-tls", action="store_true", help="listen to other machines: something in front of it speaks TLS"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal comes. ValueError for an address that others reach without TLS in front."""
    import uvicorn

    from api.connections import LARGEST_HEAD, ImpatientProtocol
    from api.service import create_app

    if not arguments.behind_tls and not _loopback(arguments.host):
        raise ValueError("tokens must not go over a line in the clear: listen on 127.0.0.1, or say --behind-tls")
    settings = Settings()
    logs.set_up(settings.log_format)
    port = arguments.port or settings.api_port or PORT
    db = Database(settings.database_url, repeatable=True)
    try:
        db.prepare()
        app = create_app(db, settings, system_clock)
        uvicorn.run(
            app,
            host=arguments.host,
            port=port,
            http=ImpatientProtocol,
            h11_max_incomplete_event_size=LARGEST_HEAD,
            log_level="warning",
            access_log=False,
        )
    finally:
        db.close()
    return 0


def _loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
