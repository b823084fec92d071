"""Commands that run parts of Rota: up, dev, api, scheduler, worker, autoscale, migrate.

Each imports process_start.py, which does the work, only when it is called: the other commands start faster without it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import typer

from rota.cli.terminal.output import errors_in_words
from rota.cli.terminal.tables import console
from rota.errors import SetupError
from rota.settings import Settings

HomeOption = typer.Option(None, "--home", help="Rota's directory (ROTA_HOME; else ~/.rota).")
_HostOption = typer.Option(None, "--host", help="The address to listen on (ROTA_HOST; else 127.0.0.1).")
_PortOption = typer.Option(None, "--port", min=1, max=65535, help="The port to listen on (ROTA_PORT; else 7682).")
_AppOption = typer.Option([], "--app", help="Your tasks, as module:app; can be repeated.", metavar="MODULE:APP")
_SlotsOption = typer.Option(
    None, "--slots", min=1, max=10_000, help="Runs at a time per worker (ROTA_SLOTS; else 100)."
)
_PoolsOption = typer.Option(None, "--pools", help="Pools and weights: mail=3,reports=1 (ROTA_POOLS; else default).")
_VerboseFlag = typer.Option(False, "--verbose", "-v", help="Show the logs of the processes.")

_POOL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]*(=[0-9]{1,4})?")


def up(
    home: Path | None = HomeOption,
    host: str | None = _HostOption,
    port: int | None = _PortOption,
    workers: int = typer.Option(os.cpu_count() or 1, "--workers", min=0, max=256, help="Worker processes."),
    apps: list[str] = _AppOption,
    slots: int | None = _SlotsOption,
    pools: str | None = _PoolsOption,
    verbose: bool = _VerboseFlag,
) -> None:
    """Start everything: database, server, workers. Ctrl-C stops it."""
    options = {"home": home, "host": host, "port": port, "slots": slots}
    _start_everything(options, pools, workers=workers, apps=apps, verbose=verbose, reload=False)


def dev(
    app: str = typer.Argument(help="Your tasks, as module:app.", metavar="MODULE:APP"),
    home: Path | None = HomeOption,
    host: str | None = _HostOption,
    port: int | None = _PortOption,
    workers: int = typer.Option(1, "--workers", min=1, max=256, help="Worker processes."),
    slots: int | None = _SlotsOption,
    pools: str | None = _PoolsOption,
    verbose: bool = _VerboseFlag,
) -> None:
    """Start everything, and restart workers when code changes."""
    options = {"home": home, "host": host, "port": port, "slots": slots}
    _start_everything(options, pools, workers=workers, apps=[app], verbose=verbose, reload=True)


def _start_everything(
    options: dict[str, Any], pools: str | None, *, workers: int, apps: list[str], verbose: bool, reload: bool
) -> None:
    with errors_in_words():
        from rota.cli import process_start  # noqa: PLC0415 - see the top

        level = "info" if verbose else os.environ.get("ROTA_LOG_LEVEL") or "warning"
        settings = _read_settings(**options, pools=_split(pools), log_level=level)
        process_start.start_everything(settings, workers=workers, apps=apps, reload=reload)


def api(
    home: Path | None = HomeOption,
    host: str | None = _HostOption,
    port: int | None = _PortOption,
    with_scheduler: bool = typer.Option(False, "--with-scheduler", help="Also run a scheduler, as a child."),
) -> None:
    """Run only the REST API."""
    with errors_in_words():
        from rota.cli import process_start  # noqa: PLC0415 - see the top

        settings = _read_settings(home=home, host=host, port=port)
        process_start.start_api(settings, with_scheduler=with_scheduler)


def scheduler(home: Path | None = HomeOption) -> None:
    """Run only a scheduler. Several share the shards."""
    with errors_in_words():
        from rota.cli import process_start  # noqa: PLC0415 - see the top

        process_start.start_scheduler(_read_settings(home=home))


def worker(
    home: Path | None = HomeOption,
    apps: list[str] = _AppOption,
    slots: int | None = _SlotsOption,
    pools: str | None = _PoolsOption,
) -> None:
    """Run only a worker. SIGTERM drains it."""
    with errors_in_words():
        from rota.cli import process_start  # noqa: PLC0415 - see the top

        process_start.start_worker(_read_settings(home=home, slots=slots, pools=_split(pools)), apps)


def autoscale(
    most: int = typer.Option(..., "--max", min=1, max=256, help="The most workers."),
    least: int = typer.Option(0, "--min", min=0, max=256, help="The fewest workers."),
    home: Path | None = HomeOption,
    apps: list[str] = _AppOption,
    slots: int | None = _SlotsOption,
    pools: str | None = _PoolsOption,
    target_lag: float = typer.Option(5.0, "--target-lag", min=0.1, max=3600, help="Seconds in which runs start."),
    cooldown: float = typer.Option(60.0, "--cooldown", min=0, max=86400, help="Seconds before workers are drained."),
    drain: float = typer.Option(3600.0, "--drain", min=1, max=604800, help="Seconds to finish runs when drained."),
    interval: float = typer.Option(5.0, "--interval", min=0.5, max=600, help="Seconds between questions."),
) -> None:
    """Run as many workers on this host as their pools need."""
    with errors_in_words():
        from rota.cli import process_start  # noqa: PLC0415 - see the top
        from rota.ops.autoscaler import ScaleLimits  # noqa: PLC0415 - see the top

        if least > most:
            raise SetupError(f"--min {least} is more than --max {most}")
        limits = ScaleLimits(
            least=least,
            most=most,
            target_lag_seconds=target_lag,
            cooldown_seconds=cooldown,
            drain_seconds=drain,
            interval_seconds=interval,
        )
        process_start.start_autoscaler(_read_settings(home=home, slots=slots, pools=_split(pools)), apps, limits)


def database_url(home: Path | None = HomeOption) -> None:
    """Print the database's address. Yours, or the embedded one."""
    with errors_in_words():
        from rota.compose import database_url as find_address  # noqa: PLC0415 - see the top

        print(find_address(Settings.from_environment(home=home)))


def migrate(home: Path | None = HomeOption) -> None:
    """Update the database's schema."""
    with errors_in_words():
        from rota.cli import process_start  # noqa: PLC0415 - see the top

        applied = process_start.apply_all_migrations(Settings.from_environment(home=home))
        console().print(f"Applied: {', '.join(applied)}" if applied else "The schema is up to date.")


def _read_settings(**options: Any) -> Settings:
    from rota.secret_environment import guard_secrets  # noqa: PLC0415 - see the top

    guard_secrets()
    return Settings.from_environment(**options)


def _split(pools: str | None) -> tuple[str, ...] | None:
    if pools is None:
        return None
    names = tuple(name.strip() for name in pools.split(","))
    if not all(_POOL.fullmatch(name) for name in names):
        raise SetupError(
            f"--pools must be names separated by commas, with optional weights (mail=3,reports=1), not {pools!r}"
        )
    return names
