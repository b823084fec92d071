"""All commands, and the entry point `python -m rota.cli.main`."""

from __future__ import annotations

import io
import os
import sys

import typer

import rota
from rota.cli import (
    alerts,
    api_keys,
    bench,
    calendars,
    crontab_import,
    database_roles,
    dead_letters,
    destinations,
    doctor,
    events,
    init,
    jobs,
    limits,
    logs,
    operations,
    pools,
    processes,
    retention,
    runs,
    schedules,
    tasks,
    top,
    watch,
    workflows,
)
from rota.cli.entry import begin_work
from rota.cli.terminal.tables import wants_no_colour

app = typer.Typer(
    name="rota",
    help="A distributed job scheduler: cron, delayed and immediate jobs, started on the dot.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


# They have much to load, and begin their work when they have (process_start.py).
_LONG_STARTS = frozenset({"up", "dev", "api", "scheduler", "worker", "autoscale", "migrate"})


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"rota {rota.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    version: bool = typer.Option(  # noqa: ARG001 - its callback does what it asks for
        False, "--version", callback=_show_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Options that go before any command."""
    if context.invoked_subcommand not in _LONG_STARTS:
        begin_work()


# In the order of the help, which lists groups last.
_COMMANDS = (
    *(processes.up, processes.dev, processes.api, processes.scheduler, processes.worker),
    processes.autoscale,
    *(processes.migrate, processes.database_url),
    *(init.init, doctor.doctor, database_roles.database_roles),
    *(jobs.submit, jobs.jobs, jobs.job, schedules.schedules),
    *(runs.runs, runs.run, runs.why, runs.cancel, runs.workers, tasks.tasks),
    *(operations.backfill, operations.replay, operations.operations, operations.operation),
    *(top.top, watch.watch),
    *(pools.pools, pools.pool, events.events),
    *(logs.logs, api_keys.whoami, api_keys.audit, bench.bench),
)
_GROUPS = (
    *(crontab_import.importing, schedules.schedule, calendars.calendar, workflows.workflow),
    *(alerts.alerts, limits.limits, dead_letters.dead_letters, destinations.destinations, api_keys.token),
    *(retention.retention, retention.archive),
)
for command in _COMMANDS:
    app.command()(command)
for group in _GROUPS:
    app.add_typer(group)


def main() -> None:
    """Runs the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Characters the terminal can't show become question marks.
            stream.reconfigure(errors="replace")
    try:
        app(color=False if wants_no_colour() else None)
    finally:
        _drop_unwritten()


def _drop_unwritten() -> None:
    """Drops output for a closed terminal or pipe, so that it does not change the exit code."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())
            os.close(null)


if __name__ == "__main__":
    main()
