"""The command `rota import crontab`: cron jobs from a crontab."""

from __future__ import annotations

import getpass
import re
import socket
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import typer

from rota.cli.crontab_plan import (
    GONE_TAG,
    PlannedEntry,
    Wanted,
    can_run,
    carry_out,
    gone_from,
    jobs_of,
    local_zone,
    pause_gone,
    plan,
)
from rota.cli.terminal.completion import complete_pool
from rota.cli.terminal.output import JsonFlag, errors_in_words, print_json, refuse_empty, say, server
from rota.cli.terminal.tables import Column, clean, print_table, text, time
from rota.client import AnswerError, Client, ServerUnreachableError
from rota.contract.jobs import JobOut
from rota.domain.crontab import Crontab, parse_crontab
from rota.domain.text import UNSEEN
from rota.domain.timezones import load_zone
from rota.errors import BadInputError

_STANDARD_INPUT = "-"
_TIMES = 2
_LABEL_LENGTH = 70  # with what is put before it, a tag
_FORBIDDEN = 403
_UNFIT = re.compile(f"[{UNSEEN},]")  # of a tag
_DONE = {"new": "made", "changed": "changed", "unchanged": "unchanged"}
_COLUMNS = (
    text("LINE", "line"),
    text("JOB", "becomes"),
    text("COMMAND", "command", least=12),
    Column(heading="SCHEDULE", show=lambda item: f"{item['cronExpression']} {item['timezone']}", least=9),
    time("NEXT", "next"),
    time("THEN", "then", drop=1),
    text("ID", "jobId", drop=2),
)
importing = typer.Typer(name="import", help="Import schedules.", rich_markup_mode=None, no_args_is_help=True)


@importing.command()
def crontab(
    file: str = typer.Argument(metavar="FILE", help="A crontab, or - for standard input: crontab -l | rota import …"),
    system: bool = typer.Option(False, "--system", help="The file has a column for accounts, like /etc/crontab."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Show the plan and change nothing."),
    prune: bool = typer.Option(False, "--prune", help="Pause jobs whose line is gone from the file."),
    skip_bad: bool = typer.Option(False, "--skip-bad", help="Skip lines that can't be read."),
    label: str | None = typer.Option(None, "--label", help="A name for this crontab (host and file, or account)."),
    timezone: str | None = typer.Option(None, "--timezone", help="The zone without CRON_TZ (this machine's)."),
    pool: str | None = typer.Option(None, "--pool", autocompletion=complete_pool, help="The pool to run in (default)."),
    tags: list[str] = typer.Option([], "--tag", help="A further tag; can be repeated."),
    as_json: bool = JsonFlag,
) -> None:
    """Make cron jobs from a crontab. Run it again after a change.

    Each entry becomes a job for the shell runner, with the crontab's variables, in the home directory of the worker's
    account. As with cron, failed and missed runs are not repeated, and runs can overlap; what you set on a job later
    stays. A job belongs to its command: a new time changes the job, a new command makes a new one. Jobs whose line is
    gone are listed, and paused with --prune. If a line can't be read nothing is imported, unless you give --skip-bad.
    """
    with errors_in_words():
        refuse_empty(label, "--label")
        wanted = Wanted(label=label or _label(file), timezone=_zone(timezone), pool=pool, tags=tags)
        found = parse_crontab(_read(file), system=system)
        _report(found, wanted, system=system)
        if found.problems and not skip_bad:
            raise BadInputError("nothing was imported; fix these lines, or skip them with --skip-bad")
    with server(crontab) as client:
        jobs = _jobs(client, wanted, dry_run=dry_run)
        planned = plan(found.entries, wanted, jobs)
        gone = gone_from(planned, jobs)
        dispositions = [one.disposition for one in planned]
        if not dry_run:
            for one in planned:
                carry_out(client, one)
            for job in gone if prune else ():
                pause_gone(client, job)
        words = dispositions if dry_run else [_DONE[disposition] for disposition in dispositions]
        _show(planned, words, gone, as_json=as_json)
        _report_gone(gone, prune=prune, dry_run=dry_run)
        _check_workers(client, wanted, planned)


def _zone(given: str | None) -> str:
    zone = given or local_zone() or "UTC"
    try:
        load_zone(zone)
    except BadInputError as error:
        raise BadInputError(str(error), field="--timezone") from None
    return zone


def _label(file: str) -> str:
    """A name that tells this crontab from those of other accounts and hosts."""
    host = socket.gethostname()
    label = f"{getpass.getuser()}@{host}" if file == _STANDARD_INPUT else f"{host}:{Path(file).resolve()}"
    label = _UNFIT.sub("_", label)
    if len(label) <= _LABEL_LENGTH:
        return label
    return f"{label[-_LABEL_LENGTH:]}#{sha256(label.encode()).hexdigest()[:8]}"


def _read(file: str) -> str:
    """The text of the file; raises BadInputError if it can't be read."""
    try:
        content = sys.stdin.buffer.read() if file == _STANDARD_INPUT else Path(file).read_bytes()
        return content.decode()
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise BadInputError(f"{file} is not UTF-8 text (line {line})", field="FILE") from None
    except (OSError, ValueError) as error:
        raise BadInputError(f"{file} can't be read ({getattr(error, 'strerror', error)})", field="FILE") from None


def _report(found: Crontab, wanted: Wanted, *, system: bool) -> None:
    """Prints problems and remarks before anything is changed."""
    for remark in found.problems:
        say(f"line {remark.line}: {remark.words}", "red")
    for remark in found.remarks:
        say(f"line {remark.line}: {remark.words}", "yellow")
    if any(entry.timezone is None for entry in found.entries):
        say(f"Times without CRON_TZ are read in {wanted.timezone} (--timezone).", "dim")
    if found.entries and not system and all(entry.command.split()[0] == "root" for entry in found.entries):
        say("Every command begins with root. If this is a system crontab, give --system.", "yellow")
    users = sorted({entry.user for entry in found.entries if entry.user})
    if users:
        say(f"Accounts are ignored: commands for {', '.join(users)} run under the worker's account.", "yellow")


def _jobs(client: Client, wanted: Wanted, *, dry_run: bool) -> Mapping[str, JobOut]:
    try:
        return jobs_of(client, wanted)
    except ServerUnreachableError as error:
        if not dry_run:
            raise
        say(f"{error}: not compared with existing jobs", "yellow")
        return {}


def _show(planned: Sequence[PlannedEntry], words: Sequence[str], gone: Sequence[JobOut], *, as_json: bool) -> None:
    rows = [_row(one, word) for one, word in zip(planned, words, strict=True)]
    if as_json:
        print_json({"items": rows, "gone": [{"jobId": job.job_id, "name": job.name} for job in gone]})
    else:
        print_table(rows, _COLUMNS, none="No entries.")


def _row(one: PlannedEntry, word: str) -> dict[str, Any]:
    times = [moment.isoformat() for moment in one.next_times(datetime.now(UTC), _TIMES)]
    paused = one.job is not None and one.job.status == "paused" and GONE_TAG not in one.job.tags
    return {
        "line": one.entry.line,
        "becomes": f"{word}, paused" if paused else word,
        "name": one.body["name"],
        "command": clean(one.entry.command),
        "cronExpression": one.body["cronExpression"],
        "timezone": one.body["timezone"],
        "changes": sorted(one.changes),
        "jobId": one.job.job_id if one.job else None,
        "next": times[0] if times else None,
        "then": times[1] if len(times) == _TIMES else None,
    }


def _report_gone(gone: Sequence[JobOut], *, prune: bool, dry_run: bool) -> None:
    for job in gone:
        done = "would be paused" if dry_run else "is paused now"
        say(f"{job.job_id} ({job.name}) is no longer in the file" + (f" and {done}" if prune else ""))
    if gone and not prune:
        say("Pause them with --prune, or cancel them with `rota cancel`.", "dim")


def _check_workers(client: Client, wanted: Wanted, planned: Sequence[PlannedEntry]) -> None:
    """Warns if no worker runs shell commands."""
    pool = wanted.pool or "default"
    try:
        fits = not planned or can_run(client, pool)
    except ServerUnreachableError:
        return  # already reported
    except AnswerError as error:
        if error.status != _FORBIDDEN:
            raise
        say(f"This key can't see whether a worker runs shell commands: {error}", "dim")
        return
    if not fits:
        fix = f"ROTA_ALLOW_SHELL=on rota worker --pools {pool}"
        say(f"No worker of pool {pool!r} runs shell commands: the runs will wait. Start one: {fix}", "yellow")
