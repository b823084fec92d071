"""The command `rota logs`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import typer
from rich.text import Text

from rota.cli.runs import wait_for_end
from rota.cli.terminal.completion import complete_job_or_run
from rota.cli.terminal.output import FAILED, JsonFlag, LimitOption, print_json, say, server, tell_next_page
from rota.cli.terminal.tables import clean, console
from rota.cli.terminal.targets import find_job, find_run, is_run
from rota.cli.terminal.times import check_time
from rota.client import Client
from rota.errors import BadInputError

_SHOWN_DIGITS = 8
_LARGEST_PAGE = 500
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
    search: str | None = typer.Option(None, "--search", "-s", help="Search the logs for a text."),
    start_time: str | None = typer.Option(None, "--start", help="With --search: runs planned at or after this time."),
    end_time: str | None = typer.Option(None, "--end", help="With --search: runs planned before this time."),
    context: int = typer.Option(0, "--context", "-C", min=0, max=20, help="With --search: lines around each."),
    task: str | None = typer.Option(None, "--task", help="Only runs of this task."),
    job: str | None = typer.Option(None, "--job", help="Only runs of this job (its id or name)."),
    pool: str | None = typer.Option(None, "--pool", help="Only runs in this pool."),
    name: str | None = typer.Option(None, "--name", help="Only runs with this name."),
    tag: str | None = typer.Option(None, "--tag", help="Only runs with this tag."),
    owner: str | None = typer.Option(None, "--owner", help="Only runs of this owner."),
    stream: str | None = typer.Option(None, "--stream", help="Only stdout, stderr, log or rota."),
    level: str | None = typer.Option(None, "--level", help="Only lines logged at this level."),
    output: Path | None = typer.Option(
        None, "--output", "-o", help="Save to this file: a run's log as text, found lines as JSON lines."
    ),
    cursor: str | None = typer.Option(None, "--cursor", help="With --search: nextCursor of the page before."),
    limit: int = LimitOption,
    as_json: bool = JsonFlag,
) -> None:
    """Show, follow, search or save the logs of runs.

    With --follow the exit code is 0 if the run succeeded, else 1. Without a run, --follow shows what all runs that you
    may see write from now on, each with the last digits of its run's id, until Ctrl-C. --task and the like choose runs
    for --follow without a run, and for --search.
    """
    with server(logs) as client:
        filters: dict[str, Any] = {
            "task": task,
            "jobId": find_job(client, job, "--job") if job else None,
            "pool": pool,
            "name": name,
            "tag": tag,
            "owner": owner,
            "stream": stream,
            "level": level,
        }
        if search is not None:
            if follow:
                raise BadInputError("can't be used with --follow", field="--search")
            query = {
                "search": search,
                "runId": find_run(client, identifier, "RUN") if identifier else None,
                "startTime": check_time(start_time, "--start"),
                "endTime": check_time(end_time, "--end"),
                "context": context,
                **filters,
            }
            if output:
                _save_found(client, query, output)
                return
            page = client.call("GET", "/v1/logs", query=query | {"cursor": cursor, "limit": limit})
            _print_found(page, as_json=as_json)
            return
        chosen = [option for option, value in filters.items() if value is not None]
        if identifier is None:
            if not follow:
                raise BadInputError("give a run or a job, --follow for all of them, or --search TEXT", field="RUN")
            _follow_all(client, filters, as_json=as_json)
        elif chosen:
            raise BadInputError("needs --search, or --follow without a run", field=f"--{chosen[0].removesuffix('Id')}")
        elif follow:
            _follow(client, find_run(client, identifier, "RUN"), as_json=as_json)
        elif as_json:
            raise BadInputError("needs --follow or --search", field="--json")
        else:
            _show_whole(client, identifier, output)


def _show_whole(client: Client, identifier: str, output: Path | None) -> None:
    path = f"/v1/runs/{identifier.strip()}" if is_run(identifier) else f"/v1/jobs/{find_job(client, identifier, 'RUN')}"
    text = client.read_text(f"{path}/logs")
    if output:
        _save(output, text)
        return
    for line in text.split("\n")[:-1]:
        moment, _, rest = line.partition(" ")
        stream, _, said = rest.partition(" ")
        _print_line(moment, stream, said)


def _save_found(client: Client, query: dict[str, Any], output: Path) -> None:
    """All pages, one JSON object per line."""
    lines, cursor = [], None
    while True:
        page = client.call("GET", "/v1/logs", query=query | {"cursor": cursor, "limit": _LARGEST_PAGE})
        lines += [json.dumps(item) + "\n" for item in page["items"]]
        cursor = page["nextCursor"]
        if not cursor:
            break
    _save(output, "".join(lines))


def _save(output: Path, text: str) -> None:
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInputError(f"can't be written: {error.strerror or error}", field="--output") from None
    say(f"Saved to {output}", "dim")


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


def _follow_all(client: Client, filters: dict[str, Any], *, as_json: bool) -> None:
    say("Following all runs that you may see. Ctrl-C stops.", "dim")
    wanted: Any = {("job_id" if name == "jobId" else name): value for name, value in filters.items()}
    try:
        for line in client.follow_logs(**wanted):
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
        for text in item.get("before", ()):
            _print_around(text)
        _print_line(item["time"], item["stream"], item["text"], item.get("highlights", ()))
        for text in item.get("after", ()):
            _print_around(text)
    if not page["items"] and not page["nextCursor"]:
        say("Nothing found in the logs.")
    elif page["nextCursor"] and page.get("searchedTo"):
        say(f"Searched back to {page['searchedTo']}.", "dim")
    if page.get("indexing"):
        say("Logs of an earlier release are still being indexed; some are left out.", "dim")
    tell_next_page(page)


def _print_around(text: str) -> None:
    console().print(f"    {clean(text)}", style="dim", markup=False, soft_wrap=True)


def _print_line(moment: str, stream: str, text: str, highlights: Iterable[Sequence[int]] = ()) -> None:
    line = Text(f"{moment} {stream:6} ")
    ended = 0
    # Cleaned piece by piece: what is made visible takes more room than it had.
    for begin, end in highlights:
        line.append(clean(text[ended:begin])).append(clean(text[begin:end]), style="bold reverse")
        ended = end
    line.append(clean(text[ended:]))
    console().print(line, style=_STYLES.get(stream, ""), markup=False, soft_wrap=True)
