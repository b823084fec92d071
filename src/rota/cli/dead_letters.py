"""Commands about dead letters: list, redrive, discard."""

from __future__ import annotations

from typing import Any

import typer

from rota.cli.inputs import check_id
from rota.cli.output import (
    FAILED,
    FILTERS,
    JsonFlag,
    LimitOption,
    errors_in_words,
    print_json,
    say,
    server,
    tell_next_page,
)
from rota.cli.tables import console, print_table, text, time
from rota.errors import BadInputError

dead_letters = typer.Typer(
    help="List runs that failed for good, and decide on them.",
    rich_markup_mode=None,
    invoke_without_command=True,
)
RunIds = typer.Argument(None, metavar="RUN_ID", help="Runs, run_…")
TaskOption = typer.Option(None, "--task", help="All of this task.")
JobOption = typer.Option(None, "--job", help="All of this job.")
NameOption = typer.Option(None, "--name", help="All with this name.")
AllFlag = typer.Option(False, "--all", help="All there are.")


def add_to(app: typer.Typer) -> None:
    """Registers the commands of this file."""
    app.add_typer(dead_letters, name="dead-letters")


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
    """List runs that failed for good, and decide on them."""
    if context.invoked_subcommand:
        _refuse_before(context.invoked_subcommand, task, job_id, name, cursor, as_json or None)
        return
    with server(FILTERS) as client:
        wanted = None if job_id is None else check_id(job_id, "job", "--job")
        query = {"task": task, "jobId": wanted, "name": name, "cursor": cursor, "limit": limit}
        page = client.call("GET", "/v1/dead-letters", query=query)
        if as_json:
            print_json(page)
            return
        columns = (
            text("RUN", "runId"),
            text("NAME", "name", least=9),
            text("TASK", "task", drop=1),
            text("ATTEMPTS", "attempts", drop=2),
            time("BURIED", "buriedTime"),
            text("ERROR", "error", least=12),
        )
        print_table(page["items"], columns, none="No dead letters.")
        tell_next_page(page)


@dead_letters.command()
def redrive(
    run_ids: list[str] = RunIds,
    task: str | None = TaskOption,
    job_id: str | None = JobOption,
    name: str | None = NameOption,
    everything: bool = AllFlag,
    as_json: bool = JsonFlag,
) -> None:
    """Run dead letters again, under the same idempotency keys."""
    _decide("redrive", "redriven", run_ids, task, job_id, name, everything, as_json=as_json)


@dead_letters.command()
def discard(
    run_ids: list[str] = RunIds,
    task: str | None = TaskOption,
    job_id: str | None = JobOption,
    name: str | None = NameOption,
    everything: bool = AllFlag,
    as_json: bool = JsonFlag,
) -> None:
    """Forget dead letters; the failed runs stay in history."""
    _decide("discard", "discarded", run_ids, task, job_id, name, everything, as_json=as_json)


def _refuse_before(command: str, *given: Any) -> None:
    """A filter in front of `redrive` or `discard` would not bind it, and more would be touched than was meant."""
    with errors_in_words():
        if any(value is not None for value in given):
            raise BadInputError(f"options of {command} go behind it: rota dead-letters {command} --task …")


def _decide(
    action: str,
    done: str,
    run_ids: list[str] | None,
    task: str | None,
    job_id: str | None,
    name: str | None,
    everything: bool,
    *,
    as_json: bool,
) -> None:
    with server(FILTERS) as client:
        selection = _selection(run_ids or [], task, job_id, name, everything)
        answer = client.call("POST", f"/v1/dead-letters/{action}", body=selection)
        if as_json:
            print_json(answer)
        else:
            console().print(f"{answer['count']} {done}")
        missing = len(set(selection["runIds"])) - answer["count"] if run_ids else 0
        if missing > 0:
            say(f"{missing} of the runs given {'is no dead letter' if missing == 1 else 'are no dead letters'}")
            raise typer.Exit(FAILED)


def _selection(
    run_ids: list[str], task: str | None, job_id: str | None, name: str | None, everything: bool
) -> dict[str, Any]:
    wanted = {
        "runIds": [check_id(run_id, "run", "RUN_ID") for run_id in run_ids] or None,
        "task": task,
        "jobId": None if job_id is None else check_id(job_id, "job", "--job"),
        "name": name,
        "all": everything or None,
    }
    selection = {field: value for field, value in wanted.items() if value is not None}
    if not selection:
        raise BadInputError("say which: run ids, --task, --job, --name or --all")
    if run_ids and len(selection) > 1:
        raise BadInputError("give run ids or a filter, not both")
    if everything and len(selection) > 1:
        raise BadInputError("goes with no filter", field="--all")
    return selection
