"""Commands about business calendars: list, show, put, delete."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
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
from rota.cli.terminal.tables import print_line, text, time
from rota.errors import BadInputError

_BEGIN = "BEGIN:VCALENDAR"
calendar = typer.Typer(name="calendar", rich_markup_mode=None)
_NameArgument = typer.Argument(..., metavar="NAME", help="The calendar's name.")


@calendar.callback(invoke_without_command=True)
def list_calendars(
    context: typer.Context,
    cursor: str | None = CursorOption,
    limit: int = LimitOption,
    as_json: bool = JsonFlag,
) -> None:
    """Calendars: days that schedules leave out."""
    if context.invoked_subcommand:
        refuse_options_before(context.invoked_subcommand, cursor, as_json)
        return
    with server(list_calendars) as client:
        page = client.call("GET", "/v1/calendars", query={"cursor": cursor, "limit": limit})
        columns = (
            text("NAME", "name", least=10),
            text("DAYS", "numberOfDays"),
            time("CHANGED", "changedTime"),
            text("BY", "changedBy", drop=1),
        )
        none = "No calendars. Make one: rota calendar put holidays holidays.ics"
        show_page(page, columns, none=none, as_json=as_json)


@calendar.command("show")
def show_calendar(name: str = _NameArgument, as_json: bool = JsonFlag) -> None:
    """Show the days of a calendar."""
    with server(show_calendar) as client:
        found = client.calendar(name)
        if as_json:
            print_json(msgspec.to_builtins(found))
            return
        print_line(f"{found.name}: {_count(len(found.days), 'day')}, {_count(found.schedules, 'schedule')}")
        for day in found.days:
            print_line(f"{day.isoformat()} {day:%a}")


@calendar.command("put")
def put_calendar(
    name: str = _NameArgument,
    file: str = typer.Argument(
        ..., metavar="FILE", help="A JSON list of days, or an iCalendar file with all-day events; - is stdin."
    ),
    as_json: bool = JsonFlag,
) -> None:
    """Create a calendar or replace its days.

    Schedules that name it get their next times from the new days.
    """
    with server(put_calendar) as client:
        body = _body(_read(file))
        answer = client.call("PUT", f"/v1/calendars/{quote(name, safe='')}", body=body, repeatable=True)
        if as_json:
            print_json(answer)
            return
        shown = f"{_count(len(answer['days']), 'day')}, {_count(answer['schedules'], 'schedule')}"
        print_line(f"{answer['name']}: {shown}")


@calendar.command("delete")
def delete_calendar(name: str = _NameArgument, as_json: bool = JsonFlag) -> None:
    """Delete a calendar that no schedule names."""
    with server(delete_calendar) as client:
        gone = client.delete_calendar(name)
        if as_json:
            print_json(msgspec.to_builtins(gone))
            return
        print_line(f"{gone.name} is deleted")


def _read(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"can't be read: {error}", field="FILE") from error


def _body(content: str) -> dict[str, Any]:
    if content.lstrip().upper().startswith(_BEGIN):
        return {"icalendar": content.lstrip()}
    try:
        return {"days": msgspec.json.decode(content)}
    except msgspec.MsgspecError as error:
        raise BadInputError(f"is neither iCalendar nor JSON: {error}", field="FILE") from error


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
