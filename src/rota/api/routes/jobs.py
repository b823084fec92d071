"""Jobs: read, change, cancel, pause, resume, run now."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import msgspec
from msgspec import UNSET

from rota.access.audit import difference
from rota.api.backend import Backend
from rota.api.figures import LATEST_RUNS, show_run_figures
from rota.api.operations import ApiRequest, Operation, decode, json_response, only_header
from rota.api.paging import (
    DEFAULT_RANGE,
    LIST_PARAMETERS,
    PAGE_PARAMETERS,
    next_cursor,
    one_shot_filter,
    read_cursor,
    read_limit,
    schedule_filter,
)
from rota.api.representations import show_one_shot, show_page, show_recurring, show_status
from rota.api.routes.submit import JOB_LIMIT_BYTES
from rota.api.streams.sse import read_switch
from rota.contract.figures import RunFigures
from rota.contract.jobs import JobCancelled, JobList, JobOut, JobPatch, JobStatusOut, RunStarted
from rota.contract.runs import RunList
from rota.domain.ids import new_id, show_run
from rota.domain.job import Definition, show_job_of
from rota.domain.rights import Right
from rota.errors import BadInputError, ConflictError, NotFoundError, VersionMismatchError
from rota.gateway.policy_fields import with_dependencies
from rota.store.change import JobChange, OneShotRows
from rota.store.depend import ChangedDependencies
from rota.store.read.jobs import definition_of
from rota.store.read.timetables import timetable_of

_CHANGE_TRIES = 10
_FORCE = {"force": "true: also if other jobs depend on it; their runs that wait for it are then skipped"}
_ETAG = re.compile(r'(?:W/)?"?(\d{1,9})"?')


@Operation("GET", "/v1/jobs", Right.READ, query=LIST_PARAMETERS)
async def list_jobs(services: Backend, call: ApiRequest) -> JobList:
    """List jobs, recurring and one-shot, latest first."""
    limit, now = read_limit(call.query), services.now
    schedules = schedule_filter(call.query, only=call.only)
    recurring = await services.jobs.find(call.namespace, schedules, limit)
    # Those that are paused are few, and wait however long ago their time was.
    since = None if schedules.statuses == ["paused"] else now - DEFAULT_RANGE
    wanted = one_shot_filter(call.query, since=since, only=call.only)
    one_shots = await services.jobs.find_one_shots(call.namespace, wanted, limit)
    shown = [(row["listed_as"], show_recurring(row, now, whole=False)) for row in recurring]
    shown += [(row["id"], show_one_shot(row, row, whole=False)) for row in one_shots]
    page = sorted(shown, key=lambda pair: pair[0], reverse=True)[:limit]
    return JobList(items=[job for _, job in page], next_cursor=next_cursor([place for place, _ in page], limit))


@Operation("GET", "/v1/jobs/{jobId}", Right.READ, answer=JobOut, errors=(404,))
async def get_job(services: Backend, call: ApiRequest) -> Any:
    """Read a job, with its next fire times."""
    return _tagged(await _shown(services, call))


@Operation("GET", "/v1/jobs/{jobId}/status", Right.READ, errors=(404,))
async def get_status(services: Backend, call: ApiRequest) -> JobStatusOut:
    """Read the status of a job's latest run."""
    namespace, job_id = call.namespace, call.job_id
    row = await services.statuses.ask((namespace, job_id), tenant=namespace)
    if row is None:
        raise _no_such_job()
    return show_status(job_id, row)


@Operation("GET", "/v1/jobs/{jobId}/runs", Right.READ, query=PAGE_PARAMETERS, errors=(404,))
async def list_runs_of_job(services: Backend, call: ApiRequest) -> RunList:
    """List a job's runs, latest first."""
    job_id, limit = call.job_id, read_limit(call.query)
    page = await services.runs.page_of_job(call.namespace, job_id, read_cursor(call.query), limit)
    if not page.rows and not page.cursor and await services.jobs.get(call.namespace, job_id) is None:
        raise _no_such_job()
    return show_page(page)


@Operation("GET", "/v1/jobs/{jobId}/stats", Right.READ, errors=(404,))
async def job_stats(services: Backend, call: ApiRequest) -> RunFigures:
    """Success rate, durations and retry rate of the job's latest 100 runs, and these runs."""
    rows = await services.runs.last_of_job(call.namespace, call.job_id, LATEST_RUNS)
    if not rows:
        await _shown(services, call)  # that there is such a job
    return show_run_figures(rows)


@Operation(
    "PUT",
    "/v1/jobs/{jobId}",
    Right.CHANGE,
    body=JobPatch,
    answer=JobOut,
    body_limit=JOB_LIMIT_BYTES,
    headers={"If-Match": "the version that must still be the job's"},
    errors=(404, 409, 412, 413),
)
async def change_job(services: Backend, call: ApiRequest) -> Any:
    """Change a job and all its runs that have not started."""
    job_id = call.job_id
    patch: JobPatch = decode(call.body, JobPatch)
    if patch.job_id is not UNSET and await services.jobs.find_id(call.namespace, patch.job_id) != job_id:
        raise BadInputError("is not that of the path, and a job keeps its id", field="jobId")
    await services.gateway.load(call.caller)
    services.gateway.limits.check_payload(call.caller, services.gateway.job_builder.payload(patch.payload))
    expected = _read_if_match(call)
    if await services.jobs.get(call.namespace, job_id) is None:
        before, after = await _change_one_shot(services, call, job_id, patch, expected)
    else:
        before, after = await _change_recurring(services, call, job_id, patch, expected)
    call.change = difference(before, after)
    return _tagged(after)


@Operation("DELETE", "/v1/jobs/{jobId}", Right.CHANGE, query=_FORCE, errors=(404, 409))
async def cancel_job(services: Backend, call: ApiRequest) -> JobCancelled:
    """Cancel a job and all its runs that wait or run."""
    done = await services.cancellations.cancel_job(
        call.namespace,
        call.job_id,
        lambda row: _in_state(row, state="cancelled"),
        force=read_switch(call, "force"),
    )
    return JobCancelled(job_id=show_job_of(call.job_id, done.options), status=done.status, stopping=done.stopping)


@Operation("POST", "/v1/jobs/{jobId}/run", Right.CHANGE, status=202, errors=(404, 409))
async def run_job(services: Backend, call: ApiRequest) -> RunStarted:
    """Run a job now, in addition to its schedule."""
    namespace, job_id, now = call.namespace, call.job_id, services.now
    run_id = new_id(now.timestamp())
    made = await services.changes.run_now(namespace, job_id, run_id)
    if made is None:
        if await services.jobs.get(namespace, job_id) is not None:
            raise ConflictError("the job is cancelled")
        latest = await services.jobs.latest_run(namespace, job_id, now)
        if latest is None:
            raise _no_such_job()
        rows = await services.redrives.rerun(namespace, [latest["id"]], "manual", now)
        if not rows:
            raise ConflictError("the job changed at the same time; try again")
        made = rows[0]
    return RunStarted(job_id=show_job_of(job_id, made["options"]), run_id=show_run(made["id"]), status=made["status"])


@Operation("POST", "/v1/jobs/{jobId}/pause", Right.CHANGE, answer=JobOut, errors=(404, 409))
async def pause_job(services: Backend, call: ApiRequest) -> Any:
    """Pause a job: its schedule makes no runs, and waiting runs are held."""
    return await _set_state(services, call, "paused", services.changes.pause_one_shot)


@Operation("POST", "/v1/jobs/{jobId}/resume", Right.CHANGE, answer=JobOut, errors=(404, 409))
async def resume_job(services: Backend, call: ApiRequest) -> Any:
    """Resume a paused job; fire times missed during the pause are skipped."""
    return await _set_state(services, call, "scheduled", services.changes.resume_one_shot)


async def _set_state(
    services: Backend, call: ApiRequest, state: str, change_one_shot: Callable[[str, UUID], Awaitable[OneShotRows]]
) -> Any:
    if await services.jobs.get(call.namespace, call.job_id) is None:
        return _tagged(await _show_one_shot(services, await change_one_shot(call.namespace, call.job_id)))
    rows = await services.changes.change(call.namespace, call.job_id, lambda row: _in_state(row, state=state))
    return _tagged(await _show_recurring(services, rows.after))


def _no_such_job() -> NotFoundError:
    return NotFoundError("there is no such job")


def _tagged(job: JobOut) -> Any:
    return json_response(job, 200, {"ETag": f'"{job.version}"'})


async def _shown(services: Backend, call: ApiRequest) -> JobOut:
    """The job in the path as it is now."""
    namespace, job_id = call.namespace, call.job_id
    row = await services.jobs.get(namespace, job_id)
    if row is not None:
        return await _show_recurring(services, row)
    first = await services.jobs.first_run(namespace, job_id)
    latest = await services.jobs.latest_run(namespace, job_id, services.now)
    if latest is None:
        raise _no_such_job()
    return await _show_one_shot(services, OneShotRows(first or latest, latest))


async def _show_recurring(services: Backend, row: Any) -> JobOut:
    return await _completed(services, show_recurring(row, services.now, whole=True), row, row)


async def _show_one_shot(services: Backend, rows: OneShotRows) -> JobOut:
    return await _completed(services, show_one_shot(*rows, whole=True), *rows)


async def _completed(services: Backend, shown: JobOut, defined: Any, latest: Any) -> JobOut:
    """Adds what is not in the rows: a payload in object storage, the state of its breaker."""
    if defined["payload_blob"]:
        shown.payload, shown.storage_error = await services.fetch_stored(defined["payload_blob"])
    shown.breaker_state = await services.waiting_reasons.breaker_state(latest)
    return shown


def _in_state(row: Any, *, state: str) -> JobChange | None:
    """The job in another state; None if it is in that already. Raises ConflictError if it is cancelled or completed."""
    if row["state"] == state:
        return None
    if row["state"] in ("cancelled", "completed"):
        raise ConflictError(f"the job is {row['state']}")
    # A payload that is stored separately is kept by its id.
    definition = msgspec.structs.replace(definition_of(row), payload=row["payload"], blob=None)
    return JobChange(definition, row["payload_id"], timetable_of(row), state, reschedule=False)


async def _change_recurring(
    services: Backend, call: ApiRequest, job_id: UUID, patch: JobPatch, expected: int | None
) -> tuple[JobOut, JobOut]:
    """Changes a recurring job; returns it as it was and as it is."""
    new_blob = await _offload_patch(services, patch, job_id)
    dependencies = services.gateway.dependencies
    known = await services.jobs.get(call.namespace, job_id)
    needs = await dependencies.patched(known["policies"] if known else None, patch, call.caller)
    exclusion = None
    if patch.exclude_calendars is not UNSET:
        exclusion = await services.gateway.calendars.named(call.namespace, patch.exclude_calendars)
    changed = ChangedDependencies(call.namespace, job_id, needs.shown) if needs and needs.changed else None

    def decide(row: Any) -> JobChange:
        if row["state"] in ("cancelled", "completed"):
            raise ConflictError(f"the job is {row['state']}")
        after, payload_id = _patched(
            services, call.namespace, definition_of(row), row["payload_id"], patch, new_blob, row["id"]
        )
        old = timetable_of(row)
        new = services.gateway.job_builder.patched_timetable(old, patch, row["id"], exclusion)
        if needs is not None:
            after = msgspec.structs.replace(after, policies=needs.policies(after.policies))
            if needs.changed or new != old or patch.dependency_window_seconds is not UNSET:
                dependencies.check_patched(needs, new, row["id"])
        return JobChange(after, payload_id, new, row["state"], reschedule=new != old)

    rows = await services.changes.change(call.namespace, job_id, decide, expected, changed, exclusion)
    return await _show_recurring(services, rows.before), await _show_recurring(services, rows.after)


async def _change_one_shot(
    services: Backend, call: ApiRequest, job_id: UUID, patch: JobPatch, expected: int | None
) -> tuple[JobOut, JobOut]:
    """Changes a job that runs once; returns it as it was and as it is."""
    if await services.jobs.first_run(call.namespace, job_id) is None:
        raise _no_such_job()  # before its payload is put into object storage
    new_blob = await _offload_patch(services, patch, job_id)
    for _ in range(_CHANGE_TRIES):
        run = await services.jobs.first_run(call.namespace, job_id)
        if run is None:
            raise _no_such_job()
        if expected is not None and run["job_version"] != expected:
            raise VersionMismatchError(f"the job's version is {run['job_version']}, not {expected}")
        before = definition_of(run)
        if patch.dependencies not in (UNSET, None, []) or patch.dependency_window_seconds not in (UNSET, None):
            raise BadInputError("a job that runs once gets them when it is submitted", field="dependencies")
        definition, payload_id = _patched(services, call.namespace, before, run["payload_id"], patch, new_blob)
        if patch.dependencies is not UNSET:
            definition = msgspec.structs.replace(definition, policies=with_dependencies(definition.policies, {}, None))
        run_at = services.gateway.job_builder.patched_time(patch)
        try:
            rows = await services.changes.change_one_shot(
                call.namespace, job_id, definition, run_at, payload_id, run["job_version"]
            )
        except VersionMismatchError:
            if expected is not None:
                raise
            continue  # another change came first and no version was named: apply ours on top of it
        shown = await _show_one_shot(services, OneShotRows(run, run))
        return shown, await _show_one_shot(services, rows)
    raise ConflictError("the job kept changing while it was being changed; try again")


def _patched(
    services: Backend,
    namespace: str,
    before: Definition,
    payload_id: UUID | None,
    patch: JobPatch,
    new_blob: str | None,
    job_id: UUID | None = None,
) -> tuple[Definition, UUID | None]:
    """The changed definition, and the id of its payload if that is stored separately."""
    after = services.gateway.job_builder.patched(before, patch, namespace, job_id)
    if patch.payload is UNSET and payload_id is not None:
        return msgspec.structs.replace(after, payload=None), payload_id
    if new_blob:
        after = msgspec.structs.replace(after, payload=None, blob=new_blob)
    return after, new_id(services.now.timestamp()) if after.payload or new_blob else None


async def _offload_patch(services: Backend, patch: JobPatch, job_id: UUID) -> str | None:
    """Puts a new payload that is too large for the database into object storage; returns its key there."""
    payload = services.gateway.job_builder.payload(patch.payload)
    return await services.gateway.offload_payload(payload, job_id) if payload else None


def _read_if_match(call: ApiRequest) -> int | None:
    text = only_header(call.request, "If-Match")
    if text is None or text == "*":
        return None
    match = _ETAG.fullmatch(text)
    if match is None:
        raise BadInputError('must be the job\'s version, such as "3"', field="If-Match")
    return int(match[1])


OPERATIONS = (
    *(list_jobs, get_job, change_job, cancel_job, get_status, list_runs_of_job, job_stats),
    *(run_job, pause_job, resume_job),
)
