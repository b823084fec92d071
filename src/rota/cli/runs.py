"""Commands about runs and the fleet: runs, run, cancel, dead-letters, workers."""

from __future__ import annotations

from typing import Any

import typer

from rota.cli.output import (
    JsonFlag,
    LimitOption,
    console,
    print_fields,
    print_json,
    print_table,
    server,
    status,
    text,
    when,
)
from rota.cli.waiting import wait_for_run
from rota.errors import BadInputError

dead_letters = typer.Typer(
    help="Runs that failed for good and wait for a decision.",
    rich_markup_mode=None,
    invoke_without_command=True,
)


def add_to(app: typer.Typer) -> None:
    """Registers the commands of this file."""
    for command in (runs, run, cancel, workers):
        app.command()(command)
    app.add_typer(dead_letters, name="dead-letters")


def runs(
    job_id: str | None = typer.Option(None, "--job", help="Only of this job."),
    status_filter: str | None = typer.Option(None, "--status", help="Only in this status."),
    name: str | None = typer.Option(None, "--name", help="Only with this name."),
    task: str | None = typer.Option(None, "--task", help="Only of this task."),
    tag: str | None = typer.Option(None, "--tag", help="Only with this tag."),
    owner: str | None = typer.Option(None, "--owner", help="Only of this owner."),
    start: str | None = typer.Option(None, "--start", help="Planned at or after this time."),
    end: str | None = typer.Option(None, "--end", help="Planned before this time."),
    cursor: str | None = typer.Option(None, "--cursor", help="nextCursor of the page before."),
    limit: int = LimitOption,
    as_json: bool = JsonFlag,
) -> None:
    """List runs, latest first: the last 24 hours, unless a time or status is given."""
    filters = {
        "status": status_filter,
        "name": name,
        "task": task,
        "tag": tag,
        "owner": owner,
        "startTime": start,
        "endTime": end,
    }
    with server() as client:
        if job_id and any(filters.values()):
            raise BadInputError("goes with no other filter", field="--job")
        path = f"/v1/jobs/{job_id}/runs" if job_id else "/v1/runs"
        page = client.call("GET", path, query={**filters, "cursor": cursor, "limit": limit})
        if as_json:
            print_json(page)
            return
        columns = {
            "RUN": text("runId"),
            "NAME": text("name"),
            "STATUS": status,
            "ATTEMPT": text("attempt"),
            "PLANNED": when("scheduledTime"),
            "STARTED": when("startTime"),
            "ENDED": when("endTime"),
        }
        print_table(page["items"], columns, none="No runs in this range.")


def run(
    run_id: str = typer.Argument(help="The run's id, run_…"),
    retry: bool = typer.Option(False, "--retry", help="Run it again; it must have ended."),
    wait: bool = typer.Option(False, "--wait", "-w", help="Wait until it has ended."),
    as_json: bool = JsonFlag,
) -> None:
    """Show a run with its attempts, and why it is not running if it waits."""
    with server() as client:
        if retry:
            answer = client.call("POST", f"/v1/runs/{run_id}/retry")
            run_id = answer["runId"]
            if not wait:
                print_json(answer) if as_json else print_fields(answer)
                return
        if wait:
            wait_for_run(client, run_id, as_json=as_json)
            return
        answer = client.call("GET", f"/v1/runs/{run_id}")
        if as_json:
            print_json(answer)
        else:
            _print_run(answer)


def cancel(
    identifier: str = typer.Argument(metavar="ID", help="A job (job_…) or a run (run_…)."),
    as_json: bool = JsonFlag,
) -> None:
    """Cancel a run; or a job with everything of it that waits or runs."""
    with server() as client:
        if identifier.startswith("job_"):
            answer = client.call("DELETE", f"/v1/jobs/{identifier}")
        elif identifier.startswith("run_"):
            answer = client.call("POST", f"/v1/runs/{identifier}/cancel")
        else:
            raise BadInputError(f"is neither job_… nor run_…: {identifier!r}", field="ID")
        print_json(answer) if as_json else print_fields(answer)


def workers(as_json: bool = JsonFlag) -> None:
    """List the workers of the fleet."""
    with server() as client:
        page = client.call("GET", "/v1/workers")
        if as_json:
            print_json(page)
            return
        columns = {
            "WORKER": text("workerId"),
            "HOST": text("host"),
            "PID": text("pid"),
            "STATUS": status,
            "BUSY": lambda item: f"{item['busy']}/{item['slots']}",
            "POOLS": lambda item: ",".join(item["pools"]),
            "FENCED": text("fencedReports"),
            "LAST BEAT": when("lastBeat"),
        }
        print_table(page["items"], columns, none="No workers. Start one: rota worker")


@dead_letters.callback()
def list_dead_letters(
    context: typer.Context,
    task: str | None = typer.Option(None, "--task", help="Only of this task."),
    job_id: str | None = typer.Option(None, "--job", help="Only of this job."),
    name: str | None = typer.Option(None, "--name", help="Only with this name."),
    cursor: str | None = typer.Option(None, "--cursor", help="nextCursor of the page before."),
    limit: int = LimitOption,
    as_json: bool = JsonFlag,
) -> None:
    """List dead letters; `redrive` and `discard` decide on them."""
    if context.invoked_subcommand:
        return
    with server() as client:
        query = {"task": task, "jobId": job_id, "name": name, "cursor": cursor, "limit": limit}
        page = client.call("GET", "/v1/dead-letters", query=query)
        if as_json:
            print_json(page)
            return
        columns = {
            "RUN": text("runId"),
            "NAME": text("name"),
            "TASK": text("task"),
            "ATTEMPTS": text("attempts"),
            "BURIED": when("buriedTime"),
            "ERROR": lambda item: text("error")(item)[:80],
        }
        print_table(page["items"], columns, none="No dead letters.")


@dead_letters.command()
def redrive(
    run_ids: list[str] = typer.Argument(None, help="Runs, run_…"),
    task: str | None = typer.Option(None, "--task", help="All of this task."),
    job_id: str | None = typer.Option(None, "--job", help="All of this job."),
    name: str | None = typer.Option(None, "--name", help="All with this name."),
    everything: bool = typer.Option(False, "--all", help="All there are."),
    as_json: bool = JsonFlag,
) -> None:
    """Run dead letters again, with the same idempotency keys."""
    _decide("redrive", "redriven", _selection(run_ids, task, job_id, name, everything), as_json=as_json)


@dead_letters.command()
def discard(
    run_ids: list[str] = typer.Argument(None, help="Runs, run_…"),
    task: str | None = typer.Option(None, "--task", help="All of this task."),
    job_id: str | None = typer.Option(None, "--job", help="All of this job."),
    name: str | None = typer.Option(None, "--name", help="All with this name."),
    everything: bool = typer.Option(False, "--all", help="All there are."),
    as_json: bool = JsonFlag,
) -> None:
    """Forget dead letters; the failed runs stay in history."""
    _decide("discard", "discarded", _selection(run_ids, task, job_id, name, everything), as_json=as_json)


def _decide(action: str, done: str, selection: dict[str, Any], *, as_json: bool) -> None:
    with server() as client:
        answer = client.call("POST", f"/v1/dead-letters/{action}", body=selection)
        if as_json:
            print_json(answer)
        else:
            console().print(f"{answer['count']} {done}")


def _selection(
    run_ids: list[str] | None, task: str | None, job_id: str | None, name: str | None, everything: bool
) -> dict[str, Any]:
    wanted = {
        "runIds": run_ids or None,
        "task": task,
        "jobId": job_id,
        "name": name,
        "all": everything or None,
    }
    return {field: value for field, value in wanted.items() if value is not None}


def _print_run(answer: dict[str, Any]) -> None:
    attempts = answer.pop("attempts", [])
    trace = answer.pop("traceback", None)
    print_fields({name: value for name, value in answer.items() if value is not None})
    if attempts:
        columns = {
            "ATTEMPT": text("attempt"),
            "OUTCOME": text("outcome"),
            "STARTED": when("startTime"),
            "ENDED": when("endTime"),
            "ERROR": text("error"),
        }
        console().print()
        print_table(attempts, columns, none="")
    if trace:
        console().print()
        console().print(trace, markup=False, soft_wrap=True)
