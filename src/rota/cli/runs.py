"""`rota runs`, `run`, `why`, `cancel` (also of jobs) and `workers`."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import typer

from rota.cli.terminal.completion import (
    complete_job,
    complete_job_name,
    complete_job_or_run,
    complete_run,
    complete_run_status,
    complete_task,
)
from rota.cli.terminal.output import (
    FAILED,
    PATIENCE_SECONDS,
    CursorOption,
    JsonFlag,
    LimitOption,
    print_json,
    say,
    server,
    show_object,
    show_page,
)
from rota.cli.terminal.tables import (
    Column,
    console,
    hanging,
    one_line,
    print_fields,
    print_line,
    print_table,
    status,
    text,
    time,
)
from rota.cli.terminal.targets import find_job, find_run, is_run
from rota.cli.terminal.times import check_time, show_age, show_length, show_seconds, show_time
from rota.client import AnswerError, Client, ServerUnreachableError
from rota.client.retries import Patience
from rota.domain.run import ENDED_STATUSES
from rota.errors import BadInputError

_INTERVAL_SECONDS = 1.0
_FORBIDDEN = 403
_RATE_LIMITED = 429
_MOST_SCHEDULES = 5
_ADMISSION_SECONDS = 0.5  # a run that no gate holds is through its gates by then
_LOOK_SECONDS = 0.05


def runs(
    job_id: str | None = typer.Option(None, "--job", autocompletion=complete_job, help="Only of this job."),
    status_filter: str | None = typer.Option(None, "--status", autocompletion=complete_run_status, help="The status."),
    name: str | None = typer.Option(None, "--name", autocompletion=complete_job_name, help="Only with this name."),
    task: str | None = typer.Option(None, "--task", autocompletion=complete_task, help="Only of this task."),
    tag: str | None = typer.Option(None, "--tag", help="Only with this tag."),
    owner: str | None = typer.Option(None, "--owner", help="Only of this owner."),
    start_time: str | None = typer.Option(None, "--start", help="Planned at or after this time."),
    end_time: str | None = typer.Option(None, "--end", help="Planned before this time."),
    cursor: str | None = CursorOption,
    limit: int = LimitOption,
    as_json: bool = JsonFlag,
) -> None:
    """List runs, latest first.

    Runs planned within the last 24 hours; with --status or --end also future ones.
    """
    with server(runs) as client:
        filters = {
            "status": status_filter,
            "name": name,
            "task": task,
            "tag": tag,
            "owner": owner,
            "startTime": check_time(start_time, "--start"),
            "endTime": check_time(end_time, "--end"),
        }
        if job_id and any(filters.values()):
            raise BadInputError("can't be used with other filters", field="--job")
        path = f"/v1/jobs/{find_job(client, job_id, '--job')}/runs" if job_id else "/v1/runs"
        page = client.call("GET", path, query={**filters, "cursor": cursor, "limit": limit})
        columns = (
            text("RUN", "runId"),
            text("NAME", "name", least=9),
            status(),
            text("ATTEMPT", "attempt", drop=1),
            time("PLANNED", "scheduledTime"),
            time("STARTED", "startTime", drop=3),
            time("ENDED", "endTime", drop=2),
            Column(heading="TOOK", show=lambda item: show_length(item.get("startTime"), item.get("endTime"))),
        )
        show_page(page, columns, none="No runs. See `rota runs --help` for what is listed.", as_json=as_json)


def run(
    run_id: str = typer.Argument(
        metavar="RUN", autocompletion=complete_run, help="The run's id, run_…; or a job, for its latest run."
    ),
    retry: bool = typer.Option(False, "--retry", help="Run it again after it has ended."),
    wait: bool = typer.Option(False, "--wait", "-w", help="Wait until it has ended."),
    as_json: bool = JsonFlag,
) -> None:
    """Show a run, its attempts and what it waits for."""
    with server() as client:
        run_id = find_run(client, run_id, "RUN")
        if retry:
            run_again = partial(client.call, "POST", f"/v1/runs/{run_id}/retry")
            # A request over the rate limit had no effect; repeating after another error could start two runs.
            answer = ask_until_taken(run_again, statuses=(_RATE_LIMITED,)) if wait else run_again()
            run_id = answer["runId"]
            if not wait:
                show_object(answer, as_json=as_json)
                return
        if wait:
            _wait_for_run(client, run_id, as_json=as_json)
            return
        answer = client.call("GET", f"/v1/runs/{run_id}")
        if as_json:
            print_json(answer)
        else:
            _print_run(answer)


def why(
    run_id: str = typer.Argument(
        metavar="RUN", autocompletion=complete_run, help="The run's id, run_…; or a job, for its latest run."
    ),
    as_json: bool = JsonFlag,
) -> None:
    """Say why a run is not running."""
    with server() as client:
        found = client.call("GET", f"/v1/runs/{find_run(client, run_id, 'RUN')}")
        if as_json:
            print_json({name: found.get(name) for name in ("runId", "status", "waitingFor", "reason", "error")})
            return
        reason = found.get("waitingFor") or found.get("reason") or found.get("error")
        print_line(f"{found['runId']} is {found['status']}" + (f": {hanging(reason)}" if reason else ""))


def cancel(
    identifier: str | None = typer.Argument(
        None, metavar="JOB", autocompletion=complete_job_or_run, help="A job (its id or name) or a run (run_…)."
    ),
    task: str | None = typer.Option(None, "--task", help="Instead: all unfinished runs of this task."),
    name: str | None = typer.Option(None, "--name", help="All with this name."),
    tag: str | None = typer.Option(None, "--tag", help="All with this tag."),
    owner: str | None = typer.Option(None, "--owner", help="All of this owner."),
    status: str | None = typer.Option(None, "--status", autocompletion=complete_run_status, help="All in this status."),
    force: bool = typer.Option(False, "--force", help="Cancel a job that others depend on: their runs are skipped."),
    as_json: bool = JsonFlag,
) -> None:
    """Cancel a run, a job, or all runs that match.

    Cancelling a job cancels all its waiting and running runs; a schedule makes no more. A filter cancels runs, and
    schedules go on.
    """
    with server(cancel) as client:
        given = {"task": task, "name": name, "tag": tag, "owner": owner, "status": status}
        filters = {field: value for field, value in given.items() if value is not None}
        if (identifier is None) == (not filters):
            raise BadInputError("give a job or run, or a filter: --task, --name, --tag, --owner, --status")
        if force and (identifier is None or is_run(identifier)):
            raise BadInputError("is for jobs", field="--force")
        if identifier is None:
            answer = client.call("POST", "/v1/runs/cancel", body=filters)
        elif is_run(identifier):
            answer = client.call("POST", f"/v1/runs/{identifier.strip()}/cancel")
        else:
            query = {"force": "true"} if force else None
            answer = client.call("DELETE", f"/v1/jobs/{find_job(client, identifier, 'JOB')}", query=query)
        if identifier is None and not as_json:
            console().print(f"{answer['count']} cancelled or asked to stop")
            tell_of_rest(answer)
        else:
            show_object(answer, as_json=as_json)
        if identifier is None:
            _tell_of_schedules(client, filters)


def tell_of_rest(answer: Mapping[str, Any]) -> None:
    """Says what goes on with the rest of very many runs."""
    if answer.get("operationId"):
        say(f"There are more. They follow in the background: rota operation {answer['operationId']}")


def _tell_of_schedules(client: Client, filters: Mapping[str, Any]) -> None:
    """Says which schedules go on after runs were cancelled by filter, and how to stop them."""
    query = {**filters, "status": "scheduled", "limit": _MOST_SCHEDULES + 1}
    try:
        found = client.call("GET", "/v1/schedules", query=query)["items"]
    except (AnswerError, ServerUnreachableError):
        return  # the runs are cancelled; this was only to help
    if not found:
        return
    shown = "".join(f"\n  rota cancel {job['jobId']}" for job in found[:_MOST_SCHEDULES])
    more = "\n  …" if len(found) > _MOST_SCHEDULES else ""
    words = "A schedule that matches goes on" if len(found) == 1 else "Schedules that match go on"
    say(f"{words} and will make new runs. To stop {'it' if len(found) == 1 else 'them'}:{shown}{more}", "yellow")


def workers(as_json: bool = JsonFlag) -> None:
    """List the workers of the fleet."""
    with server() as client:
        page = client.call("GET", "/v1/workers")
        columns = (
            text("WORKER", "workerId"),
            text("HOST", "host", drop=1),
            text("PID", "pid"),
            status(),
            Column(heading="BUSY", show=lambda item: f"{item['busy']}/{item['slots']}"),
            Column(heading="NAMESPACES", show=lambda item: ",".join(item["namespaces"]), least=7, drop=4),
            Column(heading="POOLS", show=lambda item: ",".join(item["pools"]), least=7, drop=2),
            text("FENCED", "fencedReports", drop=3),
            Column(heading="DETAIL", show=lambda item: one_line(item.get("detail") or item.get("goneReason")), drop=2),
            Column(heading="VERSION", show=lambda item: one_line(item.get("appVersion")), drop=5),
            time("STARTED", "startTime", drop=6),
            Column(
                heading="BEAT",
                show=lambda item: show_time(item["lastBeat"]),
                brief=lambda item: show_age(item["lastBeat"]),
            ),
        )
        show_page(page, columns, none="No workers. Start one: rota worker", as_json=as_json)


def _wait_for_run(client: Client, run_id: str, *, as_json: bool) -> None:
    """Prints the run once it has ended; exit code 1 if it did not succeed."""
    try:
        run = wait_for_end(client, run_id)
    except KeyboardInterrupt:
        say(f"Stopped waiting; the run continues. See it with: rota run {run_id}")
        raise typer.Exit(FAILED) from None
    shown = ("runId", "status", "attempt", "startTime", "endTime", "result", "error", "reason")
    show_object(run if as_json else {name: run.get(name) for name in shown}, as_json=as_json)
    if run["status"] != "success":
        raise typer.Exit(FAILED)


def wait_for_submitted(client: Client, run_id: str, *, as_json: bool) -> None:
    """As `_wait_for_run`, for a key that can submit but perhaps not read."""
    try:
        _wait_for_run(client, run_id, as_json=as_json)
    except AnswerError as error:
        if error.status != _FORBIDDEN:
            raise
        say(f"{run_id} was submitted, but this key can't wait for it: {error}")
        raise typer.Exit(FAILED) from None


def wait_for_end(client: Client, run_id: str) -> dict[str, Any]:
    """Waits for the end of a run and prints its changes on standard error."""
    told, patience = None, Patience(PATIENCE_SECONDS)
    while True:
        # Don't wait in the first request, nor after a rejection: the server may have too many waiting clients.
        seconds = 0 if told is None or patience.lost else _INTERVAL_SECONDS
        try:
            run: dict[str, Any] = client.call("GET", f"/v1/runs/{run_id}", query={"waitSeconds": seconds})
        except (ServerUnreachableError, AnswerError) as error:
            clock.sleep(patience.pause_after(error))
            continue
        if run["status"] in ENDED_STATUSES:
            return run
        patience.begin_anew()
        now = (run["status"], run["progress"], run.get("waitingFor"), _last_error(run))
        if now != told:
            say(": ".join(str(part) for part in now if part), "dim")
        told = now


def settled_status(client: Client, answer: Mapping[str, Any]) -> str:
    """The status of a job that was just submitted, in words.

    One with an ordering key or another gate is answered as blocked before a scheduler has looked at it. So look again,
    for a moment, and say what it waits for if it still does.
    """
    status: str = answer["status"]
    deadline = clock.monotonic() + _ADMISSION_SECONDS
    while status == "blocked" and "runId" in answer:
        try:
            run = client.call("GET", f"/v1/runs/{answer['runId']}")
        except (AnswerError, ServerUnreachableError):
            return status  # a key that can submit but not read, for example
        status = run["status"]
        if status == "blocked" and clock.monotonic() >= deadline:
            return f"{status} ({run['waitingFor']})" if run.get("waitingFor") else status
        clock.sleep(_LOOK_SECONDS)
    return status


def ask_until_taken(ask: Callable[[], Any], *, statuses: Collection[int]) -> Any:
    """Repeats a request, which must be safe, while the server answers with one of these statuses."""
    while True:
        try:
            return ask()
        except AnswerError as error:
            if error.status not in statuses:
                raise
            pause = error.retry_after_seconds or _INTERVAL_SECONDS
            say(f"{error}: trying again in {show_seconds(pause)}", "dim")
            clock.sleep(pause)


def _last_error(run: Mapping[str, Any]) -> str | None:
    """Why the last attempt failed, while the run waits for its retry."""
    attempts = run.get("attempts") or []
    error = attempts[-1].get("error") if attempts and run["status"] != "running" else None
    return f"the last attempt failed: {error}" if error else None


def _ended_attempts(run: dict[str, Any]) -> list[dict[str, Any]]:
    """Takes out the attempts, and adds the one that succeeded: the server lists those that did not."""
    attempts: list[dict[str, Any]] = run.pop("attempts", None) or []
    if run["status"] != "success":
        return attempts
    succeeded = {name: run.get(name) for name in ("attempt", "startTime", "endTime", "executorId")}
    return [*attempts, {**succeeded, "outcome": "success"}]


def _print_run(answer: dict[str, Any]) -> None:
    attempts = _ended_attempts(answer)
    timeline = answer.pop("timeline", [])
    trace = answer.pop("traceback", None)
    print_fields(answer)
    if timeline:
        console().print()
        print_table(timeline, (time("TIME", "time"), text("EVENT", "event"), text("DETAIL", "detail")), none="")
    if attempts:
        columns = (
            text("ATTEMPT", "attempt"),
            text("OUTCOME", "outcome"),
            time("STARTED", "startTime"),
            time("ENDED", "endTime"),
            text("ERROR", "error", least=20),
        )
        console().print()
        print_table(attempts, columns, none="")
    if trace:
        console().print()
        print_line(f"    {hanging(trace)}")
