"""Commands about destinations of events: list, put, show, delete, test, rotate, deliveries."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import typer

from rota.cli.terminal.output import (
    FAILED,
    CursorOption,
    JsonFlag,
    LimitOption,
    print_json,
    refuse_options_before,
    say,
    server,
    show_object,
    show_page,
)
from rota.cli.terminal.tables import Column, print_line, status, text, time
from rota.errors import BadInputError

_STDIN = "-"
destinations = typer.Typer(name="destinations", rich_markup_mode=None)
_NameArgument = typer.Argument(..., metavar="NAME", help="The destination's name.")
_EverywhereFlag = typer.Option(False, "--everywhere", help="Of the whole installation, for admins.")


@destinations.callback(invoke_without_command=True)
def list_destinations(
    context: typer.Context,
    everywhere: bool = _EverywhereFlag,
    cursor: str | None = CursorOption,
    limit: int = LimitOption,
    as_json: bool = JsonFlag,
) -> None:
    """Destinations: where events and alerts are sent."""
    if context.invoked_subcommand:
        refuse_options_before(context.invoked_subcommand, cursor, as_json)
        return
    with server(list_destinations) as client:
        page = client.call("GET", _path(), query=_place(everywhere) | {"cursor": cursor, "limit": limit})
        columns = (
            text("NAME", "name", least=10),
            text("KIND", "kind"),
            Column(heading="STATUS", show=_status),
            text("PENDING", "pending"),
            Column(heading="EVENTS", show=lambda item: " ".join(item["kinds"]), least=10),
            text("ADDRESS", "address", drop=1),
        )
        show_page(page, columns, none="No destinations. Make one: rota destinations put NAME URL", as_json=as_json)


@destinations.command("put")
def put_destination(
    name: str = _NameArgument,
    url: str | None = typer.Argument(None, metavar="[URL]", help="https://…, or an address of Apprise; - is stdin."),
    kind: str | None = typer.Option(None, "--kind", help="webhook or apprise (by the address)."),
    kinds: str | None = typer.Option(None, "--events", help="Kinds, separated by commas; worker. is all of them."),
    severity: str | None = typer.Option(None, "--severity", help="At least: info, warning or critical."),
    enabled: bool | None = typer.Option(None, "--enable/--disable", help="Whether it gets events."),
    everywhere: bool = _EverywhereFlag,
    as_json: bool = JsonFlag,
) -> None:
    """Create or change a destination; what you leave out stays.

    A new webhook gets a secret, which is shown once.
    """
    with server(put_destination) as client:
        address = sys.stdin.readline().strip() if url == _STDIN else url
        body = {
            "kind": kind or _kind_of(address),
            "url": address,
            "kinds": [one.strip() for one in kinds.split(",")] if kinds else None,
            "leastSeverity": severity,
            "enabled": enabled,
        }
        given = {field: value for field, value in body.items() if value is not None}
        answer = client.call("PUT", _path(name), query=_place(everywhere), body=given)
        _show_changed(answer, as_json=as_json)


@destinations.command("show")
def show_destination(name: str = _NameArgument, everywhere: bool = _EverywhereFlag, as_json: bool = JsonFlag) -> None:
    """Show a destination."""
    with server(show_destination) as client:
        show_object(client.call("GET", _path(name), query=_place(everywhere)), as_json=as_json)


@destinations.command("delete")
def delete_destination(name: str = _NameArgument, everywhere: bool = _EverywhereFlag, as_json: bool = JsonFlag) -> None:
    """Delete a destination, with what waits for it."""
    with server(delete_destination) as client:
        answer = client.call("DELETE", _path(name), query=_place(everywhere))
        if as_json:
            print_json(answer)
            return
        print_line(f"{answer['name']} is deleted")


@destinations.command("test")
def try_destination(name: str = _NameArgument, everywhere: bool = _EverywhereFlag, as_json: bool = JsonFlag) -> None:
    """Send a test message; the exit code is 0 if it was taken."""
    with server(try_destination) as client:
        answer = client.call("POST", f"{_path(name)}/test", query=_place(everywhere))
        if as_json:
            print_json(answer)
        else:
            went = "taken" if answer["delivered"] else f"not taken: {answer['error']}"
            print_line(f"{went} ({answer['seconds']} s)")
        if not answer["delivered"]:
            raise typer.Exit(FAILED)


@destinations.command("rotate")
def rotate_destination(name: str = _NameArgument, everywhere: bool = _EverywhereFlag, as_json: bool = JsonFlag) -> None:
    """Give a webhook a new secret; for a day both sign."""
    with server(rotate_destination) as client:
        answer = client.call("POST", f"{_path(name)}/rotate", query=_place(everywhere))
        _show_changed(answer, as_json=as_json)


@destinations.command("deliveries")
def list_deliveries(
    name: str = _NameArgument,
    everywhere: bool = _EverywhereFlag,
    cursor: str | None = CursorOption,
    limit: int = LimitOption,
    as_json: bool = JsonFlag,
) -> None:
    """List what was sent to a destination or waits to be."""
    with server(list_deliveries) as client:
        query = _place(everywhere) | {"cursor": cursor, "limit": limit}
        page = client.call("GET", f"{_path(name)}/deliveries", query=query)
        columns = (
            text("EVENT", "eventId"),
            text("KIND", "event"),
            status(),
            text("TRIES", "attempts"),
            time("LAST", "lastTime"),
            time("NEXT", "nextTime", drop=2),
            text("ERROR", "error", least=10, drop=1),
        )
        show_page(page, columns, none="Nothing was sent yet.", as_json=as_json)


def _show_changed(answer: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(answer)
        return
    print_line(f"{answer['name']}: {answer['kind']} to {answer['address']}, {' '.join(answer['kinds'])}")
    if answer.get("secret"):
        print_line(f"secret: {answer['secret']}")
        say("It is not shown again. Receivers check signatures with it.", "yellow")


def _status(item: Mapping[str, Any]) -> str:
    if not item["enabled"]:
        return "off"
    return f"failing ({item['failures']})" if item["failures"] else "ok"


def _kind_of(url: str | None) -> str | None:
    """By the address: web addresses are webhooks, all others are Apprise's."""
    if url is None:
        return None
    scheme, found, _ = url.partition("://")
    if not found:
        raise BadInputError("is not an address such as https://… or slack://…", field="URL")
    return "webhook" if scheme.lower() in ("http", "https") else "apprise"


def _path(name: str | None = None) -> str:
    return "/v1/destinations" if name is None else f"/v1/destinations/{quote(name, safe='')}"


def _place(everywhere: bool) -> dict[str, Any]:
    return {"everywhere": "true"} if everywhere else {}
