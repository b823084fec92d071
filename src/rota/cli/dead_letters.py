"""Commands about dead letters: list, group, redrive, discard."""

from __future__ import annotations

import sys
import time as clock
from typing import Any

import typer

from rota.cli.runs import tell_of_rest
from rota.cli.terminal.output import (
    FAILED,
    CursorOption,
    JsonFlag,
    LimitOption,
    check_run_id,
    print_json,
    refuse_options_before,
    say,
    server,
    show_page,
)
from rota.cli.terminal.tables import console, text, time
from rota.cli.terminal.targets import find_job
from rota.client import Client
from rota.errors import BadInputError

dead_letters = typer.Typer(name="dead-letters", rich_markup_mode=None)
_RunIds = typer.Argument(None, metavar="RUN_ID", help="Runs, run_…")
_TaskOption = typer.Option(None, "--task", help="All of this task.")
_JobOption = typer.Option(None, "--job", help="All of this job.")
_NameOption = typer.Option(None, "--name", help="All with this name.")
_ErrorOption = typer.Option(None, "--error", help="All whose error contains this.")
_MostOption = typer.Option(None, "--most", help="At most this many, latest first.", min=1)
_AllFlag = typer.Option(False, "--all", help="All dead letters.")


@dead_letters.callback(invoke_without_command=True)
def list_dead_letters(
    context: typer.Context,
    task: str | None = typer.Option(None, "--task", help="Only of this task."),
    job_id: str | None = typer.Option(None, "--job", help="Only of this job."),
    name: str | None = typer.Option(None, "--name", help="Only with this name."),
    error: str | None = typer.Option(None, "--error", help="Only those whose error contains this."),
    cursor: str | None = CursorOption,
    limit: int = LimitOption,
    as_json: bool = JsonFlag,
) -> None:
    """List, redrive or discard runs that failed for good."""
    if context.invoked_subcommand:
        refuse_options_before(context.invoked_subcommand, task, job_id, name, error, cursor, as_json)
        return
    with server(list_dead_letters) as client:
        query = {
            "task": task,
            "jobId": _job(client, job_id),
            "name": name,
            "error": error,
            "cursor": cursor,
            "limit": limit,
        }
        page = client.call("GET", "/v1/dead-letters", query=query)
        columns = (
            text("RUN", "runId"),
            text("NAME", "name", least=9),
            text("TASK", "task", drop=1),
            text("ATTEMPTS", "attempts", drop=2),
            time("BURIED", "buriedTime"),
            text("ERROR", "error", least=12),
        )
        show_page(page, columns, none="No dead letters.", as_json=as_json)


@dead_letters.command()
def groups(as_json: bool = JsonFlag) -> None:
    """Count dead letters by task and kind of error, highest count first."""
    with server() as client:
        answer = client.call("GET", "/v1/dead-letters/groups")
        columns = (
            text("COUNT", "count"),
            text("TASK", "task", least=9),
            time("FIRST", "firstTime", drop=2),
            time("LAST", "lastTime", drop=1),
            text("ERROR", "error", least=12),
        )
        show_page(answer, columns, none="No dead letters.", as_json=as_json)


@dead_letters.command()
def redrive(
    run_ids: list[str] = _RunIds,
    task: str | None = _TaskOption,
    job_id: str | None = _JobOption,
    name: str | None = _NameOption,
    error: str | None = _ErrorOption,
    everything: bool = _AllFlag,
    most: int | None = _MostOption,
    per_second: int | None = typer.Option(None, "--per-second", help="At most this many a second.", min=1, max=500),
    as_json: bool = JsonFlag,
) -> None:
    """Run dead letters again, under the same idempotency keys."""
    with server(redrive) as client:
        selection = _selection(run_ids or [], task, _job(client, job_id), name, error, everything, most)
        if per_second is None:
            answer = client.call("POST", "/v1/dead-letters/redrive", body=selection)
            count = answer["count"]
            tell_of_rest(answer)
        elif run_ids:
            raise BadInputError("needs a filter; it can't be used with run ids", field="--per-second")
        else:
            count = _slowly(client, selection, per_second)
        _report("redriven", count, selection, as_json=as_json)


@dead_letters.command()
def discard(
    run_ids: list[str] = _RunIds,
    task: str | None = _TaskOption,
    job_id: str | None = _JobOption,
    name: str | None = _NameOption,
    error: str | None = _ErrorOption,
    everything: bool = _AllFlag,
    most: int | None = _MostOption,
    as_json: bool = JsonFlag,
) -> None:
    """Forget dead letters; the failed runs stay in history."""
    with server(discard) as client:
        selection = _selection(run_ids or [], task, _job(client, job_id), name, error, everything, most)
        count = client.call("POST", "/v1/dead-letters/discard", body=selection)["count"]
        _report("discarded", count, selection, as_json=as_json)


def _slowly(client: Any, selection: dict[str, Any], per_second: int) -> int:
    """Redrives a page every second, latest first: runs that fail again are newer, so no page contains them."""
    query = {name: value for name, value in selection.items() if name not in ("all", "most")}
    left, total, cursor = selection.get("most", sys.maxsize), 0, None
    while left > 0:
        began = clock.monotonic()
        query |= {"limit": min(per_second, left), "cursor": cursor}
        page = client.call("GET", "/v1/dead-letters", query=query)
        run_ids = [letter["runId"] for letter in page["items"]]
        if run_ids:
            total += client.call("POST", "/v1/dead-letters/redrive", body={"runIds": run_ids})["count"]
        left, cursor = left - len(run_ids), page["nextCursor"]
        if not cursor:
            break
        say(f"{total} redriven so far")
        clock.sleep(max(0.0, began + 1 - clock.monotonic()))
    return total


def _report(done: str, count: int, selection: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json({"count": count})
    else:
        console().print(f"{count} {done}")
    missing = len(set(selection.get("runIds", ()))) - count
    if missing > 0:
        say(f"{missing} of the given runs {'is not a dead letter' if missing == 1 else 'are not dead letters'}")
        raise typer.Exit(FAILED)


def _selection(
    run_ids: list[str],
    task: str | None,
    job_id: str | None,
    name: str | None,
    error: str | None,
    everything: bool,
    most: int | None,
) -> dict[str, Any]:
    wanted = {
        "runIds": [check_run_id(run_id, "RUN_ID") for run_id in run_ids] or None,
        "task": task,
        "jobId": job_id,
        "name": name,
        "error": error,
        "all": everything or None,
    }
    selection = {field: value for field, value in wanted.items() if value is not None}
    if not selection:
        raise BadInputError("choose dead letters by run ids, --task, --job, --name, --error or --all")
    if run_ids and len(selection) > 1:
        raise BadInputError("give run ids or a filter, not both")
    if everything and len(selection) > 1:
        raise BadInputError("can't be used with a filter", field="--all")
    if run_ids and most:
        raise BadInputError("needs a filter; it can't be used with run ids", field="--most")
    return selection | ({"most": most} if most else {})


def _job(client: Client, job_id: str | None) -> str | None:
    return None if job_id is None else find_job(client, job_id, "--job")
