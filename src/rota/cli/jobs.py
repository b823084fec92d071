"""Commands about jobs: submit, jobs, job."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import typer

from rota.cli.run_figures import show_run_figures
from rota.cli.runs import ask_until_taken, settled_status, wait_for_submitted
from rota.cli.schedules import show_schedule, show_schedule_briefly
from rota.cli.terminal.completion import (
    complete_job,
    complete_job_name,
    complete_job_status,
    complete_pool,
    complete_task,
)
from rota.cli.terminal.output import (
    CursorOption,
    JsonFlag,
    LimitOption,
    errors_in_words,
    print_json,
    read_object,
    read_object_from,
    refuse_empty,
    say,
    server,
    show_object,
    show_page,
)
from rota.cli.terminal.tables import Column, console, status, text, time
from rota.cli.terminal.targets import find_job
from rota.cli.terminal.times import check_time, parse_duration, show_time, show_time_briefly
from rota.client import AnswerError, Client, ServerUnreachableError
from rota.client.bodies import fields_of, new_key
from rota.client.errors import NOT_NOW, is_temporary
from rota.domain.business_days import OnExcludedDay
from rota.domain.fleet import LIVE, explain_misfit, hint_for_task, offer_of
from rota.errors import BadInputError
from rota.settings import DEFAULT_POOL

_Priority = Literal["critical", "high", "normal", "low"]
_Overlap = Literal["allow", "skip", "queue", "replace"]
Misfire = Literal["skip", "latest", "all"]
_OnDuplicate = Literal["reject", "replace", "keep"]
_BUILT_IN = ("rota.", "http", "script", "shell")
_MOST_NAMED = 5


def submit(
    context: typer.Context,
    name: str | None = typer.Argument(None, metavar="NAME", help="The job's name; leave it out with --file."),
    task: str | None = typer.Option(
        None, "--task", "-t", autocompletion=complete_task, help="A registered task, such as rota.echo."
    ),
    job_id: str | None = typer.Option(None, "--id", help="An id of your choice that no other job has."),
    payload: str | None = typer.Option(
        None, "--payload", "-p", help="A JSON object for the task; @FILE reads it from a file, - from stdin."
    ),
    script: str | None = typer.Option(None, "--script", help="A script from the scripts directory instead of a task."),
    params: str | None = typer.Option(
        None, "--params", help="A JSON object for the script; @FILE and - as for --payload."
    ),
    schedule_time: str | None = typer.Option(None, "--at", help="Run at this time, such as 2030-01-31T09:30:00Z."),
    delay: str | None = typer.Option(None, "--in", help="Run after this long: 90, 90s, 15m, 2h30m, 1d."),
    cron_expression: str | None = typer.Option(None, "--cron", help="Run on a cron expression: 5 fields, or 6."),
    every_seconds: str | None = typer.Option(None, "--every", help="Run at this interval: 90s, 15m, 1d."),
    timezone: str | None = typer.Option(None, "--timezone", help="The IANA time zone of --cron (UTC)."),
    max_retries: int | None = typer.Option(
        None, "--retries", min=0, max=1000, help="The most retries (the task's; else 3)."
    ),
    timeout_seconds: str | None = typer.Option(None, "--timeout", help="Stop an attempt after this long: 90s, 15m."),
    expires_seconds: str | None = typer.Option(None, "--expires", help="Skip it if not started after this long."),
    priority: _Priority | None = typer.Option(None, "--priority", help="The priority (normal)."),
    pool: str | None = typer.Option(None, "--pool", autocompletion=complete_pool, help="The pool to run in (default)."),
    tags: list[str] = typer.Option([], "--tag", help="A tag; can be repeated."),
    key: str | None = typer.Option(None, "--key", help="An idempotency key: the same key again makes no second job."),
    ordering_key: str | None = typer.Option(
        None, "--ordering-key", help="Run jobs with the same key one at a time, in order."
    ),
    concurrency_key: str | None = typer.Option(None, "--concurrency-key", help="The key for --concurrency-limit."),
    concurrency_limit: int | None = typer.Option(None, "--concurrency-limit", min=1, help="Runs at the same time."),
    rate_limit: str | None = typer.Option(None, "--rate", help="Starts per time: 10/s, 100/1m, 5/1h."),
    overlap: _Overlap | None = typer.Option(None, "--overlap", help="If the previous run has not ended (allow)."),
    dependencies: list[str] = typer.Option(
        [], "--depends-on", autocompletion=complete_job, help="A job that must succeed first; can be repeated."
    ),
    window_seconds: str | None = typer.Option(
        None, "--depends-window", help="With --depends-on and a schedule: how long before its time a run counts: 1h."
    ),
    misfire: Misfire | None = typer.Option(None, "--misfire", help="Which missed times to run (latest)."),
    jitter_seconds: str | None = typer.Option(None, "--jitter", help="Start each run up to this much later: 30s."),
    exclude_calendars: list[str] = typer.Option(
        [], "--exclude-calendar", help="With a schedule: leave out the days of this calendar; can be repeated."
    ),
    exclude_weekends: bool = typer.Option(False, "--exclude-weekends", help="With a schedule: leave out weekends."),
    on_excluded_day: OnExcludedDay | None = typer.Option(
        None, "--on-excluded-day", help="Times on such days: skip them, or run on the next business day (skip)."
    ),
    unique_key: str | None = typer.Option(None, "--unique", help="A key that only one waiting job can have."),
    on_duplicate: _OnDuplicate | None = typer.Option(None, "--on-duplicate", help="If there already is one (reject)."),
    more: str | None = typer.Option(None, "--set", help="Any other fields: a JSON object."),
    wait: bool = typer.Option(False, "--wait", "-w", help="Wait until it has run, and show the result."),
    file: str | None = typer.Option(None, "--file", "-f", help="A file of jobs, one JSON object per line; - is stdin."),
    errors: Path | None = typer.Option(None, "--errors", help="With --file: write rejected lines here, as JSON lines."),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="With --file: show no progress."),
    as_json: bool = JsonFlag,
) -> None:
    """Submit a job or a file of jobs. For now, for a time, or on a schedule.

    With --file each line is a job as in the API: {"name": "x", "scheduleType": "immediate", "task": "rota.echo"}.
    Rejected lines are reported, and the others are submitted. Running the command again within 24 hours makes no job
    twice: each line has an idempotency key, its own ("idempotencyKey") or one from its number, its content and --key.
    The exit code is 0 if no line was rejected, 2 if some were, 1 if it could not finish.
    """
    if file is not None:
        from rota.cli.bulk_submit import submit_file  # noqa: PLC0415 - a single job needs no progress bars

        submit_file(context, file, errors=errors, salt=key or "", quiet=quiet, as_json=as_json)
        return
    with errors_in_words():
        if name is None:
            raise BadInputError("give the job a name, or --file", field="NAME")
        for option, given in (("--errors", errors), ("--quiet", quiet)):
            if given:
                raise BadInputError("needs --file", field=option)
        body = {"name": name} | _schedule(
            at=schedule_time, delay=delay, cron=cron_expression, every=every_seconds, timezone=timezone
        )
        if wait and body["scheduleType"] not in ("immediate", "future"):
            raise BadInputError("is for jobs that run once, not for --cron and --every", field="--wait")
        body |= fields_of(
            {
                "job_id": job_id,
                "task": task,
                "payload": _payload(task, payload, script, params),
                "max_retries": max_retries,
                "timeout_seconds": _seconds(timeout_seconds, "--timeout"),
                "expires_seconds": _seconds(expires_seconds, "--expires"),
                "priority": priority,
                "pool": pool,
                "tags": tags or None,
                "ordering_key": ordering_key,
                "concurrency_key": concurrency_key,
                "concurrency_limit": concurrency_limit,
                "rate_limit": _rate(rate_limit),
                "overlap": overlap,
                "dependencies": dependencies or None,
                "dependency_window_seconds": _seconds(window_seconds, "--depends-window"),
                "misfire": misfire,
                "jitter_seconds": _seconds(jitter_seconds, "--jitter"),
                "exclude_calendars": exclude_calendars or None,
                "exclude_weekends": exclude_weekends or None,
                "on_excluded_day": on_excluded_day,
                "unique_key": unique_key,
                "on_duplicate": on_duplicate,
            }
        )
        body |= read_object(more, "--set") or {}
        refuse_empty(key, "--key")
    with server(submit) as client:
        key = key or new_key()
        headers = {"Idempotency-Key": key}
        submit_it = partial(client.call, "POST", "/v1/jobs", body=body, headers=headers, repeatable=True)
        if wait:
            answer = ask_until_taken(submit_it, statuses=NOT_NOW)
            wait_for_submitted(client, answer["runId"], as_json=as_json)
            return
        answer = _submit_once(submit_it, key)
        _warn_of_misfit(client, body)
        if as_json:
            print_json(answer)
        else:
            run = f", {answer['runId']}" if "runId" in answer else ""
            kept = " (it already existed)" if answer.get("duplicate") else ""
            now = settled_status(client, answer)
            console().print(f"{answer['jobId']} is {now}{run}{kept}", soft_wrap=True)


def _submit_once(submit_it: Callable[[], Any], key: str) -> Any:
    """The answer; when none comes, says how to try again without making a second job."""
    try:
        return submit_it()
    except (AnswerError, ServerUnreachableError) as error:
        if is_temporary(error):
            say(
                f"It is not known whether the job was accepted. Add --key {key} to try again: that makes no second job."
            )
        raise


def _warn_of_misfit(client: Client, body: Mapping[str, Any]) -> None:
    """Warns if no live worker can run the job; says nothing if the key can't see workers."""
    try:
        workers = client.call("GET", "/v1/workers")["items"]
    except (AnswerError, ServerUnreachableError):
        return
    live = [worker for worker in workers if worker["status"] in LIVE]
    task = body.get("task") or "script"
    pool = body.get("pool") or _announced_pool(client, task)
    offer = offer_of(live, task=task, pool=pool)
    known = sorted({name for worker in live for name in worker["tasks"]})
    hint = "" if offer.knowing_task else hint_for_task(task, known) or _known_words(known)
    words = explain_misfit(offer, task=task, pool=pool, hint=hint)
    if words is None:
        return
    if offer.knowing_task:
        pools = sorted({name for worker in live if task in worker["tasks"] for name in worker["pools"]})
        words += f" ({'those that know it' if offer.serving_pool else 'they'} serve {', '.join(pools[:_MOST_NAMED])})"
    end = "" if words.endswith("?") else "."
    say(f"warning: {words}{end} The job waits until one does.", "yellow")


def _announced_pool(client: Client, task: str) -> str:
    """The pool of jobs that name none."""
    try:
        found = client.call("GET", f"/v1/tasks/{quote(task, safe='')}")
    except (AnswerError, ServerUnreachableError):
        return DEFAULT_POOL
    return str(found.get("defaults", {}).get("pool", DEFAULT_POOL))


def _known_words(tasks: Sequence[str]) -> str:
    if not tasks:
        return " (start one: rota worker --app MODULE:APP)"
    own = [name for name in tasks if not name.startswith(_BUILT_IN)]
    more = ", …" if len(own) > _MOST_NAMED else ""
    return f" (they know {', '.join(own[:_MOST_NAMED])}{more})" if own else " (they were started without --app)"


def _seconds(given: str | None, option: str) -> float | None:
    return None if given is None else parse_duration(given, option)


def _rate(text: str | None) -> dict[str, Any] | None:
    """Reads 10/s or 100/1m."""
    if text is None:
        return None
    count, _, per = text.partition("/")
    if not per or not count.isascii() or not count.isdigit():
        raise BadInputError("must be starts per time, such as 10/s or 100/1m", field="--rate")
    return {"limit": int(count), "perSeconds": parse_duration(per if per[:1].isdigit() else f"1{per}", "--rate")}


def jobs(
    status_filter: str | None = typer.Option(None, "--status", autocompletion=complete_job_status, help="The status."),
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
    """List jobs, latest first.

    Jobs that run once are listed for the last 24 hours, unless you give --start.
    """
    with server(jobs) as client:
        query = {
            "status": status_filter,
            "name": name,
            "task": task,
            "tag": tag,
            "owner": owner,
            "startTime": check_time(start_time, "--start"),
            "endTime": check_time(end_time, "--end"),
            "cursor": cursor,
            "limit": limit,
        }
        page = client.call("GET", "/v1/jobs", query=query)
        columns = (
            text("JOB", "jobId"),
            text("NAME", "name", least=10),
            status(),
            Column(heading="SCHEDULE", show=_show_schedule, brief=_show_schedule_briefly, least=10, drop=1),
            text("TASK", "task", drop=2),
            time("CREATED", "createdAt", drop=3),
        )
        show_page(page, columns, none="No jobs. Submit one: rota submit hello --task rota.echo", as_json=as_json)


def job(
    job_id: str = typer.Argument(metavar="JOB", autocompletion=complete_job, help="The job's id, or its name."),
    pause: bool = typer.Option(False, "--pause", help="Pause it."),
    resume: bool = typer.Option(False, "--resume", help="Resume it."),
    run_now: bool = typer.Option(False, "--run-now", help="Run it now, outside its schedule."),
    change: str | None = typer.Option(None, "--set", help='Change fields: a JSON object, such as {"maxRetries": 5}.'),
    stats: bool = typer.Option(False, "--stats", help="Its latest 100 runs in numbers."),
    as_json: bool = JsonFlag,
) -> None:
    """Show, pause, resume, run or change a job."""
    with server() as client:
        if sum((pause, resume, run_now, change is not None, stats)) > 1:
            raise BadInputError("give one of --pause, --resume, --run-now, --set and --stats")
        path = f"/v1/jobs/{find_job(client, job_id, 'JOB')}"
        if stats:
            show_run_figures(client.call("GET", f"{path}/stats"), as_json=as_json)
            return
        if pause or resume:
            answer = client.call("POST", f"{path}/{'pause' if pause else 'resume'}")
        elif run_now:
            answer = client.call("POST", f"{path}/run")
        elif change is not None:
            changes = read_object(change, "--set")
            if not changes:
                raise BadInputError("has nothing to change", field="--set")
            answer = client.call("PUT", path, body=changes)
        else:
            answer = client.call("GET", path)
        show_object(answer, as_json=as_json)


def _schedule(
    *, at: str | None, delay: str | None, cron: str | None, every: str | None, timezone: str | None
) -> dict[str, Any]:
    if sum(given is not None for given in (at, delay, cron, every)) > 1:
        raise BadInputError("give one of --at, --in, --cron and --every")
    if timezone is not None and cron is None:
        raise BadInputError("needs --cron; --at has its own offset", field="--timezone")
    if at is not None:
        return {"scheduleType": "future", "scheduleTime": check_time(at, "--at")}
    if delay is not None:
        moment = datetime.now(UTC) + timedelta(seconds=parse_duration(delay, "--in"))
        return {"scheduleType": "future", "scheduleTime": moment.isoformat()}
    if cron is not None:
        zone = {} if timezone is None else {"timezone": timezone}
        return {"scheduleType": "cron", "cronExpression": cron, **zone}
    if every is not None:
        return {"scheduleType": "interval", "everySeconds": parse_duration(every, "--every")}
    return {"scheduleType": "immediate"}


def _payload(task: str | None, payload: str | None, script: str | None, params: str | None) -> dict[str, Any] | None:
    if task is None and script is None:
        raise BadInputError("say what to run: --task rota.echo, or --script NAME")
    if task is not None and script is not None:
        raise BadInputError("give --task or --script, not both")
    if script is None:
        if params is not None:
            raise BadInputError("needs --script; for a task use --payload", field="--params")
        return read_object_from(payload, "--payload")
    if payload is not None:
        raise BadInputError("needs --task; for a script use --params", field="--payload")
    given = read_object_from(params, "--params")
    return {"script": script} if given is None else {"script": script, "params": given}


def _show_schedule(item: Mapping[str, Any]) -> str:
    if item["scheduleType"] in ("cron", "interval"):
        return show_schedule(item)
    return f"at {show_time(item['scheduleTime'])}" if item["scheduleType"] == "future" else _show_schedule_briefly(item)


def _show_schedule_briefly(item: Mapping[str, Any]) -> str:
    match item["scheduleType"]:
        case "cron" | "interval":
            return show_schedule_briefly(item)
        case "future":
            return f"at {show_time_briefly(item['scheduleTime'])}"
        case _:
            return "now"
