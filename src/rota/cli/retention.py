"""Commands about retention and the archive."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import typer

from rota.cli.terminal.output import (
    CursorOption,
    JsonFlag,
    LimitOption,
    print_json,
    refuse_options_before,
    server,
    show_page,
)
from rota.cli.terminal.tables import print_line, text
from rota.cli.terminal.tables import time as moment
from rota.errors import BadInputError

_OUTCOMES = ("success", "failed", "cancelled", "skipped")
_OTHERS = ("deadLetters", "logs", "results", "payloads", "audit", "events")
_FOREVER = "ever"
_POLL_SECONDS = 1.0
_IDLE_STATES = ("dropped", "restored")
_DaysOption = typer.Option(None, metavar="DAYS", help="So many days, or `ever`.")
retention = typer.Typer(name="retention", rich_markup_mode=None)
archive = typer.Typer(name="archive", rich_markup_mode=None)


@retention.callback(invoke_without_command=True)
def show_retention(context: typer.Context, as_json: bool = JsonFlag) -> None:
    """How long runs, logs and other things stay."""
    if context.invoked_subcommand:
        refuse_options_before(context.invoked_subcommand, None, as_json)
        return
    with server(show_retention) as client:
        _print_policy(client.call("GET", "/v1/retention"), as_json=as_json)


@retention.command("set")
def set_retention(
    success: str | None = _DaysOption,
    failed: str | None = _DaysOption,
    cancelled: str | None = _DaysOption,
    skipped: str | None = _DaysOption,
    dead_letters: str | None = _DaysOption,
    logs: str | None = _DaysOption,
    results: str | None = _DaysOption,
    payloads: str | None = _DaysOption,
    audit: str | None = _DaysOption,
    events: str | None = _DaysOption,
    archives: bool | None = typer.Option(None, "--archive/--drop", help="What happens to runs then."),
    as_json: bool = JsonFlag,
) -> None:
    """Set how long things stay in this namespace; the rest stays as it is.

    When the longest time of runs is over, they go to the archive.
    """
    history = {"success": success, "failed": failed, "cancelled": cancelled, "skipped": skipped}
    others = {
        "deadLetters": dead_letters,
        "logs": logs,
        "results": results,
        "payloads": payloads,
        "audit": audit,
        "events": events,
    }
    with server(set_retention) as client:
        policy = client.call("GET", "/v1/retention")
        body = {name: policy.get(name) for name in _OTHERS} | _days(others)
        body["history"] = policy["history"] | _days(history)
        body["archive"] = policy["archive"] if archives is None else archives
        _print_policy(client.call("PUT", "/v1/retention", body=body, repeatable=True), as_json=as_json)


@archive.callback(invoke_without_command=True)
def archive_status(context: typer.Context, as_json: bool = JsonFlag) -> None:
    """Days of history in object storage."""
    if context.invoked_subcommand:
        refuse_options_before(context.invoked_subcommand, None, as_json)
        return
    list_archives(None, 50, as_json)


@archive.command("list")
def list_archives(cursor: str | None = CursorOption, limit: int = LimitOption, as_json: bool = JsonFlag) -> None:
    """List archived days, and those on their way."""
    with server(list_archives) as client:
        page = client.call("GET", "/v1/archive", query={"cursor": cursor, "limit": limit})
        columns = (
            text("DAY", "day", least=8),
            text("STATE", "state", least=8),
            text("RUNS", "runs"),
            text("LEFT OUT", "leftOut", drop=3),
            text("BYTES", "bytes", drop=2),
            moment("CHANGED", "changedTime", drop=1),
            text("ERROR", "error"),
        )
        show_page(page, columns, none="Nothing is archived. See: rota retention", as_json=as_json)


@archive.command("status")
def show_status(as_json: bool = JsonFlag) -> None:
    """Show what is on its way to the archive, and what stops it."""
    with server(show_status) as client:
        open_ones = _open_ones(client)
        if as_json:
            print_json(open_ones)
            return
        for one in open_ones:
            print_line(f"{one['day']} {one['state']}{': ' + one['error'] if one.get('error') else ''}")
        if not open_ones:
            print_line("nothing is on its way")


@archive.command("now")
def archive_now(
    wait: float = typer.Option(0.0, "--wait", help="Wait so many seconds for it."), as_json: bool = JsonFlag
) -> None:
    """Have days archived whose time is over, without waiting for the next look."""
    with server(archive_now) as client:
        answer = client.call("POST", "/v1/archive/now")
        deadline = time.monotonic() + wait
        while time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
            if not _open_ones(client):
                break
        if as_json:
            print_json(answer)
            return
        print_line(f"{len(_open_ones(client))} days are on their way" if wait else "a scheduler looks now")


@archive.command("restore")
def restore_archive(
    day: str = typer.Argument(..., metavar="DAY", help="The day, such as 2026-11-18."),
    days: int = typer.Option(7, "--days", help="For so many days."),
    as_json: bool = JsonFlag,
) -> None:
    """Bring an archived day back into the database, for a while."""
    with server(restore_archive) as client:
        period = day.replace("-", "")
        if not period.isdecimal():
            raise BadInputError("must be a day such as 2026-11-18", field="DAY")
        answer = client.call("POST", f"/v1/archive/{period}/restore", body={"days": days})
        if as_json:
            print_json(answer)
            return
        print_line(f"{answer['day']} {answer['state']}")


def _open_ones(client: Any) -> list[Any]:
    items = client.call("GET", "/v1/archive", query={"limit": 500})["items"]
    return [item for item in items if item["state"] not in _IDLE_STATES]


def _days(given: Mapping[str, str | None]) -> dict[str, int | None]:
    return {name: _number(name, value) for name, value in given.items() if value is not None}


def _number(name: str, value: str) -> int | None:
    if value == _FOREVER:
        return None
    if not value.isdecimal():
        raise BadInputError("must be a number of days, or `ever`", field=f"--{name.lower()}")
    return int(value)


def _print_policy(policy: Any, *, as_json: bool) -> None:
    if as_json:
        print_json(policy)
        return
    for outcome in _OUTCOMES:
        print_line(f"runs: {outcome:<11}{_shown(policy['history'].get(outcome))}")
    print_line(f"then             {'archived' if policy['archive'] else 'dropped'}")
    for name in _OTHERS:
        default = "90 days" if name == "events" else _FOREVER
        print_line(f"{name:<17}{_shown(policy.get(name), default)}")


def _shown(days: int | None, default: str = _FOREVER) -> str:
    return default if days is None else f"{days} days"
