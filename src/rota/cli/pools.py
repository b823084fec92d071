"""Commands about pools and what happened to them: pools, pool, events."""

from __future__ import annotations

import typer

from rota.cli.terminal.completion import complete_pool
from rota.cli.terminal.output import (
    CursorOption,
    JsonFlag,
    LimitOption,
    print_json,
    say,
    server,
    show_page,
)
from rota.cli.terminal.tables import Column, console, status, text, time
from rota.client import Client
from rota.domain.text import nearest
from rota.errors import BadInputError


def pools(as_json: bool = JsonFlag) -> None:
    """List pools: who serves them, and whether they are paused."""
    with server() as client:
        page = client.call("GET", "/v1/pools")
        columns = (
            text("POOL", "pool", least=10),
            status(),
            Column(heading="WORKERS", show=lambda item: str(item["workers"])),
            Column(heading="SLOTS", show=lambda item: str(item["slots"])),
            Column(
                heading="MAY WAIT",
                show=lambda item: "any number" if item["mostWaiting"] is None else str(item["mostWaiting"]),
                drop=1,
            ),
            time("PAUSED", "pausedTime", drop=2),
        )
        show_page(page, columns, none="No pools: no worker is running.", as_json=as_json)


def pool(
    name: str = typer.Argument(metavar="POOL", autocompletion=complete_pool, help="The pool's name."),
    pause: bool = typer.Option(False, "--pause", help="Start nothing more from it; what runs goes on."),
    resume: bool = typer.Option(False, "--resume", help="Let it go on."),
    most_waiting: int | None = typer.Option(None, "--most-waiting", min=0, help="Refuse more when so many wait."),
    any_number: bool = typer.Option(False, "--any-number", help="Let any number wait."),
    as_json: bool = JsonFlag,
) -> None:
    """Pause or resume a pool, or limit what may wait in it."""
    with server() as client:
        if sum((pause, resume, most_waiting is not None, any_number)) != 1:
            raise BadInputError("give one of --pause, --resume, --most-waiting and --any-number")
        path = f"/v1/pools/{name}"
        if pause or resume:
            answer = client.call("POST", f"{path}/{'pause' if pause else 'resume'}")
        else:
            answer = client.call("PUT", path, body={"mostWaiting": most_waiting})
        if not answer["workers"]:
            _warn_of_unserved(client, name)
        if as_json:
            print_json(answer)
            return
        waits = "any number of runs" if answer["mostWaiting"] is None else f"at most {answer['mostWaiting']} runs"
        console().print(f"pool {answer['pool']} is {answer['status']}; {waits} may wait in it", soft_wrap=True)


def _warn_of_unserved(client: Client, name: str) -> None:
    """A name that was mistyped makes a pool of its own, and leaves the one that was meant as it is."""
    others = {pool["pool"] for pool in client.call("GET", "/v1/pools")["items"] if pool["workers"]}
    near = nearest(name, others)
    say(f"No live worker serves pool {name}." + (f" Did you mean {near}?" if near else ""), "yellow")


def events(
    cursor: str | None = CursorOption,
    limit: int = LimitOption,
    as_json: bool = JsonFlag,
) -> None:
    """List what happened to breakers, pools and schedules."""
    with server(events) as client:
        page = client.call("GET", "/v1/events", query={"cursor": cursor, "limit": limit})
        columns = (
            time("TIME", "time"),
            text("EVENT", "event"),
            text("SUBJECT", "subject", least=10),
            text("DETAIL", "detail", least=10, drop=1),
        )
        show_page(page, columns, none="Nothing has happened to a breaker or a pool.", as_json=as_json)
