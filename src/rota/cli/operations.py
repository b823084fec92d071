"""Commands about many runs at once: backfill, replay, operations, operation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import typer

from rota.cli.terminal.completion import complete_job, complete_run_status, complete_task
from rota.cli.terminal.output import CursorOption, JsonFlag, LimitOption, print_json, server, show_object, show_page
from rota.cli.terminal.tables import Column, print_line, status, text, time
from rota.cli.terminal.targets import find_job
from rota.cli.terminal.times import check_time, show_seconds, show_time
from rota.client import Client
from rota.errors import BadInputError

_ConcurrencyOption = typer.Option(
    None, "--concurrency", min=1, help="How many of its runs may wait and run at a time (a quarter of the slots)."
)
_RateOption = typer.Option(None, "--rate", help="How many runs a second at most.")
_ShareOption = typer.Option(None, "--stop-at", help="Stop when more than this share failed: 0.1 for a tenth.")
_DryRunFlag = typer.Option(False, "--dry-run", help="Only say what would be done.")


def backfill(
    job: str | None = typer.Argument(
        None, metavar="JOB", autocompletion=complete_job, help="The job's id, or its name."
    ),
    workflow: str | None = typer.Option(None, "--workflow", help="Instead: a workflow with a schedule, by id or name."),
    from_: str = typer.Option(..., "--from", help="Times from here on, such as 2030-01-01T00:00:00Z."),
    to: str | None = typer.Option(None, "--to", help="Up to here (now)."),
    order: Literal["oldest", "newest"] = typer.Option("oldest", "--order", help="Which times come first."),
    existing: Literal["skip", "failed", "rerun"] = typer.Option(
        "skip", "--existing", help="Times that have run: leave them out, or run again those that failed, or all."
    ),
    unknown: Literal["run", "skip"] | None = typer.Option(
        None, "--unknown", help="Times whose history was removed: run or skip them."
    ),
    concurrency: int | None = _ConcurrencyOption,
    rate_per_second: float | None = _RateOption,
    stop_at_failure_share: float | None = _ShareOption,
    dry_run: bool = _DryRunFlag,
    as_json: bool = JsonFlag,
) -> None:
    """Run a job or workflow for past times of its schedule."""
    with server(backfill) as client:
        if (job is None) == (workflow is None):
            raise BadInputError("give a job, or --workflow")
        given = {
            "job": None if job is None else find_job(client, job, "JOB"),
            "workflow": workflow,
            "from": check_time(from_, "--from"),
            "to": check_time(to, "--to"),
            "order": order,
            "existing": existing,
            "unknown": unknown,
            **_pace(concurrency, rate_per_second, stop_at_failure_share),
        }
        _create(client, "/v1/backfills", given, dry_run=dry_run, as_json=as_json)


def replay(
    status_filter: str | None = typer.Option(
        None, "--status", autocompletion=complete_run_status, help="Only that ended so."
    ),
    name: str | None = typer.Option(None, "--name", help="Only with this name."),
    task: str | None = typer.Option(None, "--task", autocompletion=complete_task, help="Only of this task."),
    tag: str | None = typer.Option(None, "--tag", help="Only with this tag."),
    owner: str | None = typer.Option(None, "--owner", help="Only of this owner."),
    start_time: str | None = typer.Option(None, "--start", help="Only planned at or after this time (24 hours ago)."),
    end_time: str | None = typer.Option(None, "--end", help="Only planned before this time."),
    most: int | None = typer.Option(None, "--most", min=1, help="At most this many, latest first (10000)."),
    concurrency: int | None = _ConcurrencyOption,
    rate_per_second: float | None = _RateOption,
    stop_at_failure_share: float | None = _ShareOption,
    dry_run: bool = _DryRunFlag,
    as_json: bool = JsonFlag,
) -> None:
    """Run finished runs that match again, as new runs."""
    with server(replay) as client:
        given = {
            "status": status_filter,
            "name": name,
            "task": task,
            "tag": tag,
            "owner": owner,
            "startTime": check_time(start_time, "--start"),
            "endTime": check_time(end_time, "--end"),
            "most": most,
            **_pace(concurrency, rate_per_second, stop_at_failure_share),
        }
        _create(client, "/v1/replays", given, dry_run=dry_run, as_json=as_json)


def operations(
    kind: str | None = typer.Option(None, "--kind", help="Only backfill, replay, redrive or cancel."),
    status_filter: str | None = typer.Option(
        None, "--status", help="Only running, paused, stopped, aborting, completed or aborted."
    ),
    cursor: str | None = CursorOption,
    limit: int = LimitOption,
    as_json: bool = JsonFlag,
) -> None:
    """List backfills, replays and bulk acts."""
    with server(operations) as client:
        query = {"kind": kind, "status": status_filter, "cursor": cursor, "limit": limit}
        page = client.call("GET", "/v1/operations", query=query)
        columns = (
            text("OPERATION", "operationId"),
            text("KIND", "kind"),
            status(),
            Column(heading="OF", show=_subject, least=10, drop=2),
            Column(heading="DONE", show=_progress),
            Column(heading="FAILED", show=lambda item: str(item["counts"]["failed"]), drop=1),
            time("CREATED", "createdAt", drop=3),
        )
        show_page(page, columns, none="No operations. Make one: rota backfill JOB --from TIME", as_json=as_json)


def operation(
    operation_id: str = typer.Argument(metavar="OPERATION", help="The operation's id, op_…"),
    pause: bool = typer.Option(False, "--pause", help="Pause it: runs that it made go on."),
    resume: bool = typer.Option(False, "--resume", help="Resume it."),
    abort: bool = typer.Option(False, "--abort", help="Abort it: what waits of it is cancelled."),
    as_json: bool = JsonFlag,
) -> None:
    """Show, pause, resume or abort one of them."""
    with server(operation) as client:
        acts = [act for act, wanted in (("pause", pause), ("resume", resume), ("abort", abort)) if wanted]
        if len(acts) > 1:
            raise BadInputError("give one of --pause, --resume and --abort")
        path = f"/v1/operations/{operation_id.strip()}"
        answer = client.call("POST", f"{path}/{acts[0]}") if acts else client.call("GET", path)
        _show(answer, as_json=as_json)


def _pace(concurrency: int | None, rate: float | None, share: float | None) -> dict[str, Any]:
    return {"concurrency": concurrency, "ratePerSecond": rate, "stopAtFailureShare": share}


def _create(client: Client, path: str, given: Mapping[str, Any], *, dry_run: bool, as_json: bool) -> None:
    body = {field: value for field, value in given.items() if value is not None}
    if dry_run:
        _show_preview(client.call("POST", path, body={**body, "preview": True}), as_json=as_json)
    else:
        _show(client.call("POST", path, body=body), as_json=as_json)


def _show(answer: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(answer)
        return
    fields = {name: value for name, value in answer.items() if name not in ("counts", "failures")}
    show_object({**fields, **answer["counts"]}, as_json=False)
    for failure in answer.get("failures", ()):
        print_line(f"{failure['status']}  {failure['runId']}  {show_time(failure['nominalTime'])}")


def _show_preview(answer: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(answer)
        return
    more = " or more" if answer.get("isMore") else ""
    print_line(f"{answer['runs']}{more} runs, {answer.get('concurrency', 'any number')} at a time")
    for name, words in (("existing", "have run"), ("open", "have not ended"), ("unknown", "are unknown")):
        if answer.get(name):
            print_line(f"{answer[name]} times {words}")
    if answer.get("seconds") is not None:
        print_line(f"takes about {show_seconds(answer['seconds'])}")
    for moment in answer.get("times", ()):
        print_line(f"  {show_time(moment)}")
    for run_id in answer.get("runIds", ()):
        print_line(f"  {run_id}")


def _subject(item: Mapping[str, Any]) -> str:
    """What an operation is about, in short."""
    if item.get("name"):
        return str(item["name"])
    chosen = {name: value for name, value in item.get("filter", {}).items() if name in ("task", "name", "tag", "owner")}
    return " ".join(f"{name}={value}" for name, value in chosen.items())


def _progress(item: Mapping[str, Any]) -> str:
    counts = item["counts"]
    done = counts["made"] - counts["running"] + counts["leftOut"]
    return str(done) if counts.get("total") is None else f"{done}/{counts['total']}"
