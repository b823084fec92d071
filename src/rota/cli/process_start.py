"""What the commands in processes.py do once their options are read.

Imported only by those commands, so that `rota jobs` loads neither a server nor a worker. The server is imported where
it is started: schedulers and workers don't need it.
"""

from __future__ import annotations

import asyncio
import gc
import shlex
import shutil
import sys
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from rota.api.http.tls import Certificate
from rota.cli.entry import INTERRUPTED, begin_work
from rota.cli.terminal.tables import clean, console, print_line
from rota.compose import open_database, run_scheduler, run_workers
from rota.errors import SetupError
from rota.ops.autoscaler import Autoscaler, ScaleLimits
from rota.ops.code_watcher import Watcher, code_directories
from rota.ops.reloader import Reloader
from rota.ops.supervised_process import SupervisedProcess, environment_of
from rota.ops.supervisor import Supervisor, check_port
from rota.sdk.app import App
from rota.sdk.app_loader import check_form, load_apps
from rota.settings import DEFAULT_PORT, Settings
from rota.store.postgres.embedded import EmbeddedPostgres
from rota.store.schema.database_roles import DatabaseRole, DatabaseRoles
from rota.store.schema.list_indexes import ListIndexes
from rota.store.schema.migrate import migrate as apply_migrations
from rota.telemetry import configure_logging

_GARBAGE_THRESHOLD = 50_000
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with, never bound to


def start_everything(settings: Settings, *, workers: int, apps: Sequence[str], reload: bool) -> None:
    """Runs the supervisor until it is stopped; with `reload`, workers restart when the code changes."""
    _configure_logging(settings, role="dev" if reload else "up")
    if not reload:
        _load_apps(apps)
    supervisor = Supervisor(
        settings,
        workers=workers,
        apps=apps,
        announce=partial(_announce, settings, workers=workers),
        reloader=_reloader(settings, apps[0], workers) if reload else None,
    )
    Certificate.of(settings)  # report a bad certificate now
    first = not settings.database_url and not EmbeddedPostgres(settings.home).is_initialised
    console().print("Starting Rota" + (" (the first start makes a database)" if first else "") + " …", style="dim")
    try:
        _run(supervisor.run())
    except KeyboardInterrupt:
        print_line("Stopped before everything was up. The next start continues from here.")
        raise SystemExit(INTERRUPTED) from None
    with suppress(OSError):  # the terminal may be closed
        print_line(f"Stopped. All data is in {settings.home}")


def _reloader(settings: Settings, app: str, workers: int) -> Reloader:
    try:
        check_form(app)
    except SetupError as error:
        raise SetupError(f"rota dev {error}") from error
    watcher = Watcher(code_directories(app), skip=[settings.home])
    return Reloader(app, watcher=watcher, workers=workers, say=lambda line: print_line(clean(line)))


def start_api(settings: Settings, *, with_scheduler: bool) -> None:
    """Runs the API until stopped; a scheduler beside it is a process of its own, which no request can hold up."""
    from rota.api.server import run_api  # noqa: PLC0415 - see the top

    _configure_logging(settings, role="api")
    check_port(settings)
    beside = [SupervisedProcess("scheduler", ["scheduler"], environment_of(settings))] if with_scheduler else []
    _run(run_api(settings, beside))


def start_scheduler(settings: Settings) -> None:
    """Runs a scheduler until stopped."""
    _configure_logging(settings, role="scheduler")
    _run(run_scheduler(settings))


def start_worker(settings: Settings, apps: Sequence[str]) -> None:
    """Runs a worker, for each application one, until stopped."""
    _configure_logging(settings, role="worker")
    _run(run_workers(settings, _load_apps(apps)))


def start_autoscaler(settings: Settings, apps: Sequence[str], limits: ScaleLimits) -> None:
    """Runs as many workers as their pools need until stopped."""
    _configure_logging(settings, role="autoscale")
    _load_apps(apps)

    async def run() -> None:
        await Autoscaler(settings, apps, limits).run_all()

    _run(run())


def apply_all_migrations(settings: Settings) -> list[str]:
    """Updates the schema; returns the applied migrations.

    Indexes that schedulers make where they may are made here as well: under narrow roles only the owner may.
    """

    async def apply() -> list[str]:
        async with open_database(settings, size=1, name="rota-migrate", check=False) as database:
            applied = await apply_migrations(database)
            indexes = ListIndexes(database)
            while await indexes.make_next():
                pass
            return [f"{step.number:04} {step.name}" for step in applied]

    applied: list[str] = _run(apply())
    return applied


def change_database_roles(
    settings: Settings,
    wanted: Sequence[tuple[str, str, tuple[str, ...] | None, tuple[str, ...] | None]],
    forgotten: Sequence[str],
) -> list[dict[str, Any]]:
    """Sets these roles (name, kind, namespaces, pools), forgets others; returns all roles."""

    async def change() -> list[dict[str, Any]]:
        async with open_database(settings, size=1, name="rota-database-roles") as database:
            roles = DatabaseRoles(database)
            if wanted:
                await roles.set([DatabaseRole(*one) for one in wanted])
            if forgotten:
                await roles.forget(forgotten)
            return [msgspec.structs.asdict(role) for role in await roles.all()]

    changed: list[dict[str, Any]] = _run(change())
    return changed


def _load_apps(options: Sequence[str]) -> list[App]:
    if options:
        begin_work()  # an application may have something to clean up
    try:
        return load_apps(options)
    except SetupError as error:
        raise SetupError(f"--app {error}") from error


def _configure_logging(settings: Settings, *, role: str) -> None:
    configure_logging(level=settings.log_level, json=settings.log_json, role=role)


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    begin_work()
    # Loaded modules stay: exclude them from garbage collection. Thousands of short-lived objects at a time are normal:
    # collect less often.
    gc.freeze()
    gc.set_threshold(_GARBAGE_THRESHOLD)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def _announce(settings: Settings, *, workers: int) -> None:
    url = _url(settings)
    trusted = shlex.quote(str(settings.ca_file or settings.tls_certificate))
    trust = f"--cacert {trusted} " if settings.tls_certificate else ""
    file = settings.admin_token_file
    token = "$ROTA_TOKEN" if settings.given_token else f"$(cat {shlex.quote(str(file))})"
    header = f'-H "Authorization: Bearer {token}"'
    database = "your PostgreSQL" if settings.database_url else "an embedded PostgreSQL"
    count = "1 worker" if workers == 1 else f"{workers} workers"
    body = '{"name": "hello", "scheduleType": "immediate", "task": "rota.echo", "payload": {"hello": "world"}}'
    lines = [
        "",
        f"Rota is up at {url} with {count} on {database}.",
        f"The admin token is in {'ROTA_TOKEN' if settings.given_token else file}",
        "",
        "A first job, with curl:",
        f"  curl -s {trust}{url}/v1/jobs {header} -H 'Content-Type: application/json' -d '{body}'",
        "and with rota:",
        f'  {_prefix(settings)}{_rota()} submit hello --task rota.echo --payload \'{{"hello": "world"}}\' --wait',
        "",
        "Ctrl-C stops everything; the next start continues from there.",
    ]
    for line in lines:
        print_line(line)


def _url(settings: Settings) -> str:
    """The server's address for a client on this machine."""
    host = _EVERYWHERE.get(settings.host, settings.host)
    return replace(settings, host=host, server_url=None).url


def _prefix(settings: Settings) -> str:
    """The variables another terminal needs to find this server."""
    words = []
    if settings.home != Path.home() / ".rota":
        words.append(f"ROTA_HOME={shlex.quote(str(settings.home))} ")
    if settings.tls_certificate:
        words.append(f"ROTA_CA_FILE={shlex.quote(str(settings.ca_file or settings.tls_certificate))} ")
    if _url(settings) != f"http://127.0.0.1:{settings.port}":
        words.append(f"ROTA_URL={_url(settings)} ")
    elif settings.port != DEFAULT_PORT:
        words.append(f"ROTA_PORT={settings.port} ")
    return "".join(words)


def _rota() -> str:
    """How to call this command from a shell in this directory."""
    beside = Path(sys.executable).with_name("rota")
    if shutil.which("rota") == str(beside):
        return "rota"
    try:
        return shlex.quote(str(beside.relative_to(Path.cwd())))
    except ValueError:
        return shlex.quote(str(beside))
