"""Commands about pools: pools, pool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from rota.cli.terminal.completion import complete_pool
from rota.cli.terminal.output import JsonFlag, print_json, say, server, show_page
from rota.cli.terminal.tables import Column, print_line, status, text, time
from rota.client import Client
from rota.domain.text import nearest
from rota.errors import BadInputError


def pools(as_json: bool = JsonFlag) -> None:
    """List pools with their workers and status."""
    with server() as client:
        page = client.call("GET", "/v1/pools")
        columns = (
            text("POOL", "pool", least=10),
            status(),
            text("WORKERS", "workers"),
            text("SLOTS", "slots"),
            Column(heading="MAY WAIT", show=_show_most_waiting, drop=1),
            time("PAUSED", "pausedTime", drop=2),
        )
        show_page(page, columns, none="No pools: no worker is running.", as_json=as_json)


def pool(
    name: str = typer.Argument(metavar="POOL", autocompletion=complete_pool, help="The pool's name."),
    pause: bool = typer.Option(False, "--pause", help="Start no more runs from it; running ones continue."),
    resume: bool = typer.Option(False, "--resume", help="Resume it."),
    most_waiting: int | None = typer.Option(None, "--most-waiting", min=0, help="Reject jobs when this many wait."),
    any_number: bool = typer.Option(False, "--any-number", help="Let any number wait."),
    as_json: bool = JsonFlag,
) -> None:
    """Pause or resume a pool, or limit its backlog."""
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
        waits = "any number of" if answer["mostWaiting"] is None else f"at most {answer['mostWaiting']}"
        print_line(f"pool {answer['pool']} is {answer['status']}; {waits} runs may wait in it")


def _show_most_waiting(item: Mapping[str, Any]) -> str:
    return "any number" if item["mostWaiting"] is None else str(item["mostWaiting"])


def _warn_of_unserved(client: Client, name: str) -> None:
    """Warns about a pool without workers: the name may be mistyped."""
    others = {pool["pool"] for pool in client.call("GET", "/v1/pools")["items"] if pool["workers"]}
    near = nearest(name, others)
    say(f"No live worker serves pool {name}." + (f" Did you mean {near}?" if near else ""), "yellow")
