"""The command `rota logs`."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import typer

from rota.cli.runs import wait_for_end
from rota.cli.terminal.completion import complete_job_or_run
from rota.cli.terminal.output import FAILED, JsonFlag, LimitOption, print_json, say, server, tell_next_page
from rota.cli.terminal.tables import clean, console
from rota.cli.terminal.targets import find_job, find_run, is_run
from rota.cli.terminal.times import check_time
from rota.client import Client
from rota.errors import BadInputError

_SHOWN_DIGITS = 8
_STYLES = {"stderr": "red", "rota": "yellow"}


def logs(
    identifier: str | None = typer.Argument(
        None,
        metavar="RUN",
        autocompletion=complete_job_or_run,
        help="A run (run_…), or a job (its id or name): its latest run.",
    ),
    follow: bool = typer.Option(
        False,
        "--follow",
        "-f",
        help="Show lines as they arrive, until the run has ended; without a run, of all.",
    ),
    search: str | None = typer.Option(None, "--search", "-s", help="Search the logs of recent runs for a text."),
    start_time: str | None = typer.Option(None, "--start", help="With --search: runs planned at or after this time."),
    end_time: str | None = typer.Option(None, "--end", help="With --search: runs planned before this time."),
    cursor: str | None = typer.Option(None, "--cursor", help="With --search: nextCursor of the page before."),
    limit: int = LimitOption,
    as_json: bool = JsonFlag,
) -> None:
    """Show, follow or search the logs of runs.

    With --follow the exit code is 0 if the run succeeded, else 1. Without a run, --follow shows what all runs that you
    may see write from now on, each with the last digits of its run's id, until Ctrl-C.
    """
    with server(logs) as client:
        if search is not None:
            if identifier or follow:
                raise BadInputError("can't be used with a run or --follow", field="--search")
            query = {
                "search": search,
                "startTime": check_time(start_time, "--start"),
                "endTime": check_time(end_time, "--end"),
                "cursor": cursor,
                "limit": limit,
            }
            _print_found(client.call("GET", "/v1/logs", query=query), as_json=as_json)
            return
        if identifier is None:
            if not follow:
                raise BadInputError("give a run or a job, --follow for all of them, or --search TEXT", field="RUN")
            _follow_all(client, as_json=as_json)
        elif follow:
            _follow(client, find_run(client, identifier, "RUN"), as_json=as_json)
        elif as_json:
            raise BadInputError("needs --follow or --search", field="--json")
        else:
            is_id = is_run(identifier)
            path = f"/v1/runs/{identifier.strip()}" if is_id else f"/v1/jobs/{find_job(client, identifier, 'RUN')}"
            for line in client.read_text(f"{path}/logs").split("\n")[:-1]:
                moment, _, rest = line.partition(" ")
                stream, _, text = rest.partition(" ")
                _print_line(moment, stream, text)


def _follow(client: Client, run_id: str, *, as_json: bool) -> None:
    try:
        for line in client.follow_log(run_id):
            if as_json:
                print(json.dumps(msgspec.to_builtins(line)), flush=True)
            else:
                _print_line(line.time, line.stream, line.text)
        status = wait_for_end(client, run_id)["status"]
    except KeyboardInterrupt:
        say("Stopped following; the run continues.")
        raise typer.Exit(FAILED) from None
    if status != "success":
        say(f"The run ended: {status}")
        raise typer.Exit(FAILED)


def _follow_all(client: Client, *, as_json: bool) -> None:
    say("Following all runs that you may see. Ctrl-C stops.", "dim")
    try:
        for line in client.follow_logs():
            if as_json:
                print(json.dumps(msgspec.to_builtins(line)), flush=True)
            else:
                # Ids begin with their time; the end tells runs of the same moment apart.
                _print_line(f"{line.run_id[-_SHOWN_DIGITS:]} {line.time}", line.stream, line.text)
    except KeyboardInterrupt:
        say("Stopped following.")


def _print_found(page: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(page)
        return
    for item in page["items"]:
        console().print(item["runId"], style="dim", markup=False, soft_wrap=True)
        _print_line(item["time"], item["stream"], item["text"])
    if not page["items"] and not page["nextCursor"]:
        say("Nothing found in the logs of recent runs.")
    tell_next_page(page)


def _print_line(moment: str, stream: str, text: str) -> None:
    line = f"{moment} {stream:6} {clean(text)}"
    console().print(line, style=_STYLES.get(stream, ""), markup=False, soft_wrap=True)
