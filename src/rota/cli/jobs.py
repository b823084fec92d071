"""Commands about jobs: submit, jobs, job."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import typer

from rota.cli.output import (
    JsonFlag,
    LimitOption,
    console,
    print_fields,
    print_json,
    print_table,
    read_json,
    server,
    status,
    text,
    when,
)
from rota.cli.waiting import wait_for_run
from rota.errors import BadInputError

_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?")
_MOST_SECONDS = 100 * 366 * 86400


def add_to(app: typer.Typer) -> None:
    """Registers the commands of this file."""
    for command in (submit, jobs, job):
        app.command()(command)


def submit(
    name: str = typer.Argument(help="The job's name."),
    task: str | None = typer.Option(None, "--task", "-t", help="A registered task, such as rota.echo."),
    payload: str | None = typer.Option(None, "--payload", "-p", help="A JSON object for the task."),
    script: str | None = typer.Option(None, "--script", help="A script from the scripts directory instead of a task."),
    params: str | None = typer.Option(None, "--params", help="A JSON object for the script."),
    at: str | None = typer.Option(None, "--at", help="Run at this time (RFC 3339 with offset)."),
    delay: str | None = typer.Option(None, "--in", help="Run after this long: 90, 90s, 15m, 2h30m, 1d."),
    cron: str | None = typer.Option(
        None, "--cron", help="Run on a cron expression (5 fields, or 6 with seconds first)."
    ),
    every: str | None = typer.Option(None, "--every", help="Run at this interval: 90s, 15m, 1d."),
    timezone: str | None = typer.Option(None, "--timezone", help="The IANA time zone of --cron (UTC)."),
    retries: int | None = typer.Option(None, "--retries", min=0, max=1000, help="Retries at most (3)."),
    priority: str | None = typer.Option(None, "--priority", help="critical, high, normal or low."),
    pool: str | None = typer.Option(None, "--pool", help="The pool to run in (default)."),
    tag: list[str] = typer.Option([], "--tag", help="A tag; may be given several times."),
    key: str | None = typer.Option(None, "--key", help="An idempotency key: the same key again makes no second job."),
    wait: bool = typer.Option(False, "--wait", "-w", help="Wait until it has run, and show how it went."),
    as_json: bool = JsonFlag,
) -> None:
    """Submit a job: now, at a time, or on a schedule."""
    with server() as client:
        body: dict[str, Any] = {"name": name, **_schedule(at=at, delay=delay, cron=cron, every=every)}
        optional = {
            "task": task,
            "payload": _payload(payload, script, params),
            "timezone": timezone,
            "maxRetries": retries,
            "priority": priority,
            "pool": pool,
            "tags": tag or None,
        }
        body |= {field: value for field, value in optional.items() if value is not None}
        if wait and "runId" not in _answer_fields(body):
            raise BadInputError("--wait is for jobs that run once", field="--wait")
        answer = client.call("POST", "/v1/jobs", body=body, headers={"Idempotency-Key": key} if key else None)
        if wait:
            wait_for_run(client, answer["runId"], as_json=as_json)
        elif as_json:
            print_json(answer)
        else:
            run = f", {answer['runId']}" if "runId" in answer else ""
            console().print(f"{answer['jobId']} is {answer['status']}{run}", soft_wrap=True)


def jobs(
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
    """List jobs, latest first."""
    query = {
        "status": status_filter,
        "name": name,
        "task": task,
        "tag": tag,
        "owner": owner,
        "startTime": start,
        "endTime": end,
        "cursor": cursor,
        "limit": limit,
    }
    with server() as client:
        page = client.call("GET", "/v1/jobs", query=query)
        if as_json:
            print_json(page)
            return
        columns = {
            "JOB": text("jobId"),
            "NAME": text("name"),
            "STATUS": status,
            "SCHEDULE": _show_schedule,
            "TASK": text("task"),
            "CREATED": when("createdTime"),
        }
        print_table(page["items"], columns, none="No jobs. Submit one: rota submit hello --task rota.echo")


def job(
    job_id: str = typer.Argument(help="The job's id, job_…"),
    pause: bool = typer.Option(False, "--pause", help="Hold it."),
    resume: bool = typer.Option(False, "--resume", help="Let it go on."),
    run_now: bool = typer.Option(False, "--run-now", help="Run it now, besides its schedule."),
    change: str | None = typer.Option(None, "--set", help="Change fields: a JSON object of them."),
    as_json: bool = JsonFlag,
) -> None:
    """Show a job; or pause, resume, run or change it."""
    if sum((pause, resume, run_now, change is not None)) > 1:
        with server():
            raise BadInputError("give one of --pause, --resume, --run-now and --set")
    with server() as client:
        if pause or resume:
            answer = client.call("POST", f"/v1/jobs/{job_id}/{'pause' if pause else 'resume'}")
        elif run_now:
            answer = client.call("POST", f"/v1/jobs/{job_id}/run")
        elif change is not None:
            answer = client.call("PUT", f"/v1/jobs/{job_id}", body=read_json(change, "--set"))
        else:
            answer = client.call("GET", f"/v1/jobs/{job_id}")
        print_json(answer) if as_json else print_fields(answer)


def parse_duration(content: str, field: str) -> float:
    """Seconds of 90, 90s, 15m, 2h30m, 1d."""
    match = _DURATION.fullmatch(content.strip().lower())
    if not match or not any(match.groups()):
        raise BadInputError(f"is not a duration such as 90s, 15m, 2h30m or 1d: {content!r}", field=field)
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    total = days * 86400 + hours * 3600 + minutes * 60 + seconds
    if total > _MOST_SECONDS:
        raise BadInputError("is longer than a hundred years", field=field)
    return total


def _schedule(*, at: str | None, delay: str | None, cron: str | None, every: str | None) -> dict[str, Any]:
    if sum(given is not None for given in (at, delay, cron, every)) > 1:
        raise BadInputError("give one of --at, --in, --cron and --every")
    if at is not None:
        return {"scheduleType": "future", "scheduleTime": at}
    if delay is not None:
        moment = datetime.now(UTC) + timedelta(seconds=parse_duration(delay, "--in"))
        return {"scheduleType": "future", "scheduleTime": moment.isoformat()}
    if cron is not None:
        return {"scheduleType": "cron", "cronExpression": cron}
    if every is not None:
        return {"scheduleType": "interval", "everySeconds": parse_duration(every, "--every")}
    return {"scheduleType": "immediate"}


def _payload(payload: str | None, script: str | None, params: str | None) -> Any:
    if script is None:
        if params is not None:
            raise BadInputError("goes with --script", field="--params")
        return read_json(payload, "--payload")
    if payload is not None:
        raise BadInputError("give --params with --script", field="--payload")
    found = {"script": script}
    return found if params is None else found | {"params": read_json(params, "--params")}


def _answer_fields(body: dict[str, Any]) -> tuple[str, ...]:
    return ("jobId", "runId") if body["scheduleType"] in ("immediate", "future") else ("jobId",)


def _show_schedule(item: dict[str, Any]) -> str:
    match item["scheduleType"]:
        case "cron":
            return f"{item['cronExpression']} {item['timezone']}"
        case "interval":
            return f"every {item['everySeconds']:g}s"
        case "future":
            return "at " + when("scheduleTime")(item)
        case _:
            return "now"
