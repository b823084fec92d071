"""Rows of the database as the API shows them."""

from __future__ import annotations

from datetime import UTC, datetime
from operator import itemgetter
from typing import Any
from uuid import UUID

import msgspec

from rota.archive.history import RunPage
from rota.contract.fleet import ShardOut, WorkerOut
from rota.contract.jobs import JobOut, JobStatusOut, Misfire, Retry, ScheduleOut
from rota.contract.runs import AttemptOut, DeadLetterOut, RunList, RunOut, TimelineEntry
from rota.domain.alerts import OVERDUE_AFTER
from rota.domain.ids import show_job, show_run, show_workflow_run
from rota.domain.job import NODE_CAUSES, Priority, RunOptions, Timetable, decode_options, show_job_of
from rota.domain.schedule import fire_times
from rota.domain.schedule_description import describe
from rota.domain.workflows.references import item_of
from rota.gateway.job_builder import CALENDAR
from rota.gateway.policy_fields import show_policies
from rota.store.read.timetables import timetable_of

_NEXT_FIRE_TIMES = 5
_FOREVER = datetime(9999, 1, 1, tzinfo=UTC)


def show_recurring(row: Any, now: datetime, *, whole: bool) -> JobOut:
    """A recurring job; `whole` adds payload and next fire times."""
    out = _show_job(row, status=row["state"], schedule_type=row["schedule_type"], whole=whole)
    out.version = row["version"]
    out.updated_time = row["updated_at"]
    if row["app"] is not None:
        out.declared_by = f"{row['app']} {row['app_version']}"
    out.note = row["note"]
    if row["cron_expression"] is not None:
        out.cron_expression = row["cron_expression"]
    else:
        out.every_seconds = row["every_seconds"]
    out.overdue = row["state"] == "scheduled" and row["next_fire_at"] < now - OVERDUE_AFTER
    timetable = timetable_of(row)
    try:
        _show_calendar(out, timetable)
        if whole:
            schedule = timetable.schedule(row["id"])
            out.description = describe(schedule)
            is_active = row["state"] == "scheduled"
            out.next_fire_times = fire_times(schedule, now, _FOREVER, _NEXT_FIRE_TIMES) if is_active else []
    except Exception as error:  # noqa: BLE001 - one schedule that can't be read must not hide the others
        out.note = _unreadable(error)
    return out


def show_schedule(row: Any, now: datetime, latest: Any) -> ScheduleOut:
    """A recurring job in short; `latest` is the row of its latest run, without an id if there is none."""
    job = show_recurring(row, now, whole=False)
    coming = None
    try:
        if row["state"] == "scheduled":
            coming = timetable_of(row).schedule(row["id"]).next_after(now)
    except Exception as error:  # noqa: BLE001 - as in show_recurring
        job.note = _unreadable(error)
    return ScheduleOut(
        job_id=job.job_id,
        name=job.name,
        owner=job.owner,
        status=row["state"],
        task=job.task,
        cron_expression=job.cron_expression,
        every_seconds=job.every_seconds,
        timezone=job.timezone,
        next_fire_time=coming,
        last_run_id=None if latest["id"] is None else show_run(latest["id"]),
        last_status=latest["status"],
        last_start_time=latest["started_at"],
        last_end_time=latest["finished_at"],
        exclude_calendars=job.exclude_calendars,
        exclude_weekends=job.exclude_weekends,
        on_excluded_day=job.on_excluded_day,
        declared_by=job.declared_by,
        note=job.note,
    )


def _unreadable(error: Exception) -> str:
    return f"does not fire: its schedule can't be read ({error}); change it, or cancel the job"


def _show_calendar(out: JobOut, timetable: Timetable) -> None:
    for field, column in CALENDAR.items():
        if value := getattr(timetable, column):
            setattr(out, field, value)
    _show_exclusion(out, timetable)
    out.misfire = Misfire(**msgspec.structs.asdict(timetable.misfire_rule))


def _show_exclusion(out: JobOut | ScheduleOut, timetable: Timetable) -> None:
    if timetable.excluded is not None:
        exclusion = timetable.exclusion
        out.exclude_calendars = exclusion.calendars or None
        out.exclude_weekends = exclusion.weekends or None
        out.on_excluded_day = exclusion.rule


def show_one_shot(row: Any, latest: Any, *, whole: bool) -> JobOut:
    """A one-shot job: defined by its first run, with the status of the latest."""
    immediate = row["nominal_at"] == row["created_at"]
    out = _show_job(row, status=latest["status"], schedule_type="immediate" if immediate else "future", whole=whole)
    out.job_id = show_job_of(row["job_id"], row["options"])
    out.schedule_time = row["run_at"] if row["attempt"] == 0 else row["nominal_at"]
    out.run_id = show_run(latest["id"])
    out.version = row["job_version"]
    return out


def show_status(job_id: UUID, row: Any) -> JobStatusOut:
    """A job's latest run in short; the state of a recurring job that has not run yet."""
    shown = show_job_of(job_id, row["options"])
    if row["id"] is None:
        nothing: dict[str, Any] = dict.fromkeys(JobStatusOut.__struct_fields__)
        return JobStatusOut(**nothing | {"job_id": shown, "status": row["state"] or "scheduled"})
    return JobStatusOut(
        job_id=shown,
        run_id=show_run(row["id"]),
        status=row["status"],
        start_time=row["started_at"],
        end_time=row["finished_at"],
        progress=_show_progress(row),
        executor_id=_text(row["worker_id"]),
        attempt=_show_attempt(row),
        error=row["error"],
    )


def show_page(page: RunPage) -> RunList:
    """A page of runs, some of which may come from the archive."""
    return RunList(
        items=[show_run_row(row, whole=False) for row in page.rows],
        next_cursor=page.cursor.hex if page.cursor else None,
        archive_read=True if page.archive_read else None,
        partial=True if page.is_partial else None,
    )


def show_run_row(row: Any, *, whole: bool) -> RunOut:
    """A run; `whole` adds payload, result and traceback."""
    options = decode_options(row["options"])
    out = RunOut(
        run_id=show_run(row["id"]),
        job_id=options.job_id or show_job(row["id"] if row["cause"] in NODE_CAUSES else row["job_id"]),
        name=row["name"],
        owner=row["owner"],
        status=row["status"],
        task=row["task"],
        cause=row["cause"],
        pool=row["pool"],
        priority=_priority(row),
        tags=row["tags"],
        nominal_time=row["nominal_at"],
        scheduled_time=row["run_at"],
        created_at=row["created_at"],
        start_time=row["started_at"],
        end_time=row["finished_at"],
        attempt=_show_attempt(row),
        max_retries=options.max_retries,
        timeout_seconds=options.timeout_seconds,
        progress=_show_progress(row),
        executor_id=_text(row["worker_id"]),
        cancel_requested=row["cancel_requested"],
        idempotency_key=(row["root_id"] or row["id"]).hex,
        error=row["error"],
    )
    if row["cause"] in NODE_CAUSES:
        out.workflow_run_id = show_workflow_run(row["job_id"])
        out.node = row["name"].rpartition("/")[2]
        out.index = item_of(row["options"])
    if row.get("archived"):
        out.archived = True
    if row["progress_note"]:
        out.progress_message = row["progress_note"]
    if row["retry_of"]:
        out.retry_of = show_run(row["retry_of"])
    if row["reason"]:
        out.reason = row["reason"]
    if row["expires_at"]:
        out.expires_time = row["expires_at"]
    if row["snoozes"]:
        out.snoozes = row["snoozes"]
    if whole:
        out.headers = options.headers
        out.payload = _payload(row)
        out.result = _raw(row["result"])
        out.checkpoint = _raw(row["checkpoint"])
        if row["traceback"]:
            out.traceback = row["traceback"]
    return out


def show_timeline(row: Any, attempts: list[Any]) -> list[TimelineEntry]:
    """The events of a run, in order."""
    events: list[tuple[Any, str, Any]] = [(row["created_at"], "created", None)]
    for attempt in attempts:
        events.append((attempt["started_at"], "started", f"attempt {attempt['number']}"))
        events.append((attempt["finished_at"], attempt["outcome"], attempt["error"]))
    shown = {moment for moment, _, _ in events}
    if row["started_at"] not in shown:
        events.append((row["started_at"], "started", f"attempt {_show_attempt(row)}"))
    if row["finished_at"] not in shown:
        events.append((row["finished_at"], row["status"], row["reason"]))
    known = sorted((event for event in events if event[0] is not None), key=itemgetter(0))
    return [TimelineEntry(time=moment, event=name, detail=detail) for moment, name, detail in known]


def show_attempt_row(row: Any) -> AttemptOut:
    """An attempt that did not succeed."""
    out = AttemptOut(
        attempt=row["number"],
        outcome=row["outcome"],
        start_time=row["started_at"],
        end_time=row["finished_at"],
        executor_id=_text(row["worker_id"]),
        error=row["error"],
    )
    if row["traceback"]:
        out.traceback = row["traceback"]
    return out


def show_dead_letter(row: Any) -> DeadLetterOut:
    return DeadLetterOut(
        run_id=show_run(row["run_id"]),
        job_id=show_job_of(row["job_id"], row["options"]),
        name=row["name"],
        task=row["task"],
        owner=row["owner"],
        attempts=row["attempt"],
        error=row["error"],
        traceback=row["traceback"],
        nominal_time=row["nominal_at"],
        buried_time=row["buried_at"],
        payload=_raw(row["payload"]),
    )


def show_worker(row: Any, namespace: str | None, *, whole: bool) -> WorkerOut:
    """A worker as a namespace sees it (None: all); details may name runs of other owners."""
    out = WorkerOut(
        worker_id=str(row["id"]),
        host=row["host"],
        pid=row["pid"],
        namespaces=row["namespaces"] if namespace is None else [namespace],
        pools=row["pools"],
        tasks=row["tasks"],
        slots=row["slots"],
        busy=row["busy"],
        fenced_reports=row["fenced"],
        status=row["status"],
        start_time=row["started_at"],
        last_beat=row["beat_at"],
        gone_time=row["gone_at"],
        gone_reason=row["gone_why"],
    )
    if namespace in (None, row["app_namespace"]):
        out.app, out.app_version = row["app"], row["app_version"]
    if whole and row["ailing"] and row["status"] in ("ailing", "draining"):
        out.detail = row["ailing"]
    return out


def show_shard(row: Any) -> ShardOut:
    return ShardOut(
        shard=row["shard"],
        epoch=row["epoch"],
        scheduler_id=_text(row["owner"]),
        host=row["host"],
        pid=row["pid"],
        last_beat=row["beat_at"],
    )


def _show_job(row: Any, *, status: Any, schedule_type: Any, whole: bool) -> JobOut:
    options = decode_options(row["options"])
    out = JobOut(
        job_id=options.job_id or show_job(row["id"]),
        name=row["name"],
        owner=row["owner"],
        status=status,
        schedule_type=schedule_type,
        task=row["task"],
        priority=_priority(row),
        pool=row["pool"],
        tags=row["tags"],
        version=1,
        created_at=row["created_at"],
        **_show_options(options),
    )
    show_policies(out, row["policies"])
    if whole:
        out.payload = _payload(row)
    return out


def _show_options(options: RunOptions) -> dict[str, Any]:
    shown = {name: getattr(options, name) for name in RunOptions.__struct_fields__ if name not in ("job_id", "linked")}
    return shown | {"retry": Retry(**msgspec.structs.asdict(options.retry))}


def _show_attempt(row: Any) -> int:
    """The number of the running attempt, or of the last one."""
    return int(row["attempt"]) + (1 if row["status"] == "running" else 0)


def _show_progress(row: Any) -> str | None:
    if row["status"] == "success":
        return "100%"
    return None if row["progress"] is None else f"{round(row['progress'] * 100)}%"


def _priority(row: Any) -> Any:
    return Priority(row["priority"]).name


def _payload(row: Any) -> Any:
    return _raw(row["payload"] if row["payload"] is not None else row["large_payload"])


def _raw(text: str | None) -> Any:
    return None if text is None else msgspec.Raw(text.encode())


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
