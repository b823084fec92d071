"""Commands that run parts of Rota: up, api, scheduler, worker, migrate."""

from __future__ import annotations

import asyncio
import importlib
import os
import shlex
import shutil
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import typer
import uvloop

from rota.api.server import run_api
from rota.app import App
from rota.cli.output import console, errors_in_words
from rota.compose import open_database, run_scheduler, run_worker
from rota.errors import SetupError
from rota.settings import DEFAULT_PORT, Settings
from rota.store.migrating import migrate as apply_migrations
from rota.supervisor import Supervisor
from rota.telemetry import configure_logging

HomeOption = typer.Option(None, "--home", help="Where Rota keeps everything (ROTA_HOME; else ~/.rota).")
HostOption = typer.Option(None, "--host", help="The address to listen on (ROTA_HOST; else 127.0.0.1).")
PortOption = typer.Option(None, "--port", min=1, max=65535, help="The port to listen on (ROTA_PORT; else 7682).")
AppOption = typer.Option(None, "--app", help="Your tasks, as module:app.", metavar="MODULE:APP")
SlotsOption = typer.Option(None, "--slots", min=1, max=10_000, help="Runs at a time per worker (ROTA_SLOTS; else 100).")
PoolsOption = typer.Option(None, "--pools", help="Pools to serve, separated by commas (ROTA_POOLS; else default).")


def add_to(app: typer.Typer) -> None:
    """Registers the commands of this file."""
    for command in (up, api, scheduler, worker, migrate):
        app.command()(command)


def up(
    home: Path | None = HomeOption,
    host: str | None = HostOption,
    port: int | None = PortOption,
    workers: int = typer.Option(os.cpu_count() or 1, "--workers", min=0, max=256, help="Worker processes."),
    app: str | None = AppOption,
    slots: int | None = SlotsOption,
    pools: str | None = PoolsOption,
    verbose: bool = typer.Option(False, "--verbose", "-v", help="Show what the processes log."),
) -> None:
    """Start everything: database, server, workers. Ctrl-C stops it."""
    with errors_in_words():
        level = "info" if verbose else os.environ.get("ROTA_LOG_LEVEL", "warning")
        settings = _settings(home=home, host=host, port=port, slots=slots, pools=_split(pools), log_level=level)
        configure_logging(level=settings.log_level, json=settings.log_json, role="up")
        if app:
            load_app(app)
        supervisor = Supervisor(
            settings, workers=workers, app=app, announce=lambda: _announce(settings, workers=workers)
        )
        console().print("[dim]Starting Rota; the first start makes a database and takes a few seconds.[/]")
        _run(supervisor.run())
        console().print("Stopped. Everything is kept in", str(settings.home), soft_wrap=True)


def api(
    home: Path | None = HomeOption,
    host: str | None = HostOption,
    port: int | None = PortOption,
    with_scheduler: bool = typer.Option(False, "--with-scheduler", help="Run a scheduler in the same process."),
) -> None:
    """Serve the REST API alone."""
    with errors_in_words():
        settings = _settings(home=home, host=host, port=port)
        configure_logging(level=settings.log_level, json=settings.log_json, role="api")
        _run(run_api(settings, with_scheduler=with_scheduler))


def scheduler(home: Path | None = HomeOption) -> None:
    """Run a scheduler alone; several share the shards among them."""
    with errors_in_words():
        settings = _settings(home=home)
        configure_logging(level=settings.log_level, json=settings.log_json, role="scheduler")
        _run(run_scheduler(settings))


def worker(
    home: Path | None = HomeOption,
    app: str | None = AppOption,
    slots: int | None = SlotsOption,
    pools: str | None = PoolsOption,
) -> None:
    """Run a worker alone. SIGTERM drains it."""
    with errors_in_words():
        settings = _settings(home=home, slots=slots, pools=_split(pools))
        configure_logging(level=settings.log_level, json=settings.log_json, role="worker")
        _run(run_worker(settings, load_app(app) if app else None))


def migrate(home: Path | None = HomeOption) -> None:
    """Bring the database's schema up to date."""

    async def apply() -> list[str]:
        async with open_database(_settings(home=home), size=1, name="rota-migrate", check=False) as database:
            return [f"{step.number:04} {step.name}" for step in await apply_migrations(database)]

    with errors_in_words():
        applied = _run(apply())
        console().print(f"Applied: {', '.join(applied)}" if applied else "The schema is up to date.")


def load_app(where: str) -> App:
    """The App at module:name; raises SetupError with what is wrong."""
    module_name, _, attribute = where.partition(":")
    if not module_name or not attribute:
        raise SetupError(f"--app wants MODULE:APP, such as tasks:app, not {where!r}")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except ModuleNotFoundError as error:
        raise SetupError(f"--app {where}: no module called {error.name!r} (looked in {Path.cwd()} first)") from error
    except AttributeError as error:
        raise SetupError(f"--app {where}: {error}") from error
    if not isinstance(found, App):
        raise SetupError(f"--app {where}: {attribute!r} is a {type(found).__name__}, not a rota.App")
    return found


def _settings(**chosen: Any) -> Settings:
    return Settings.from_environment(**chosen)


def _split(pools: str | None) -> tuple[str, ...] | None:
    return tuple(name.strip() for name in pools.split(",") if name.strip()) if pools else None


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def _announce(settings: Settings, *, workers: int) -> None:
    url = f"http://{settings.host}:{settings.port}"
    prefix = _prefix(settings)
    header = f'-H "Authorization: Bearer $(cat {shlex.quote(str(settings.admin_token_file))})"'
    database = "your PostgreSQL" if settings.database_url else "an embedded PostgreSQL"
    count = "1 worker" if workers == 1 else f"{workers} workers"
    body = '{"name": "hello", "scheduleType": "immediate", "task": "rota.echo", "payload": {"hello": "world"}}'
    lines = [
        "",
        f"[bold green]Rota is up[/] at [bold]{url}[/] with {count} on {database}.",
        f"The admin token is in {settings.admin_token_file}",
        "",
        "A first job, with curl:",
        f"  curl -s {url}/v1/jobs {header} -H 'Content-Type: application/json' -d '{body}'",
        "and with rota:",
        f'  {prefix}{_rota()} submit hello --task rota.echo --payload \'{{"hello": "world"}}\' --wait',
        "",
        "Ctrl-C stops everything; the next start finds it where it was.",
    ]
    for line in lines:
        console().print(line, soft_wrap=True)


def _prefix(settings: Settings) -> str:
    """What another terminal must be told to find this server."""
    words = []
    if settings.home != Path.home() / ".rota":
        words.append(f"ROTA_HOME={shlex.quote(str(settings.home))} ")
    if settings.port != DEFAULT_PORT:
        words.append(f"ROTA_PORT={settings.port} ")
    return "".join(words)


def _rota() -> str:
    """How to call this very command from a shell in this directory."""
    beside = Path(sys.executable).with_name("rota")
    if shutil.which("rota") == str(beside):
        return "rota"
    try:
        return shlex.quote(str(beside.relative_to(Path.cwd())))
    except ValueError:
        return shlex.quote(str(beside))
