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
from rota.api.operations import ApiRequest, Operation, decode, json_response
from rota.api.paging import (
    DEFAULT_RANGE,
    LIST_PARAMETERS,
    PAGE_PARAMETERS,
    job_filter,
    next_cursor,
    read_cursor,
    read_limit,
)
from rota.api.representations import show_one_shot, show_recurring, show_runs, show_status
from rota.api.routes.submit import JOB_LIMIT_BYTES
from rota.contract.jobs import JobCancelled, JobList, JobOut, JobPatch, JobStatusOut, RunStarted
from rota.contract.runs import RunList
from rota.domain.ids import new_id, show_job, show_run
from rota.domain.job import Definition
from rota.domain.rights import Right
from rota.errors import BadInputError, ConflictError, NotFoundError, VersionMismatchError
from rota.store.change import JobChange
from rota.store.read.jobs import definition_of, timetable_of

_CHANGE_TRIES = 10
_ETAG = re.compile(r'(?:W/)?"?(\d{1,9})"?')


@Operation("GET", "/v1/jobs", Right.READ, query=LIST_PARAMETERS)
async def list_jobs(services: Backend, call: ApiRequest) -> JobList:
    """List jobs, recurring and one-shot, latest first."""
    limit, now = read_limit(call.query), services.now
    recurring = await services.jobs.find(call.namespace, job_filter(call.query, since=None, only=call.only), limit)
    wanted = job_filter(call.query, since=now - DEFAULT_RANGE, only=call.only)
    one_shots = await services.jobs.find_one_shots(call.namespace, wanted, limit)
    shown = [(row["id"], show_recurring(row, now, whole=False)) for row in recurring]
    shown += [(row["id"], show_one_shot(row, row, whole=False)) for row in one_shots]
    page = sorted(shown, key=lambda pair: pair[0], reverse=True)[:limit]
    return JobList(items=[job for _, job in page], next_cursor=next_cursor([job_id for job_id, _ in page], limit))


@Operation("GET", "/v1/jobs/{jobId}", Right.READ, answer=JobOut, errors=(404,))
async def get_job(services: Backend, call: ApiRequest) -> Any:
    """Read a job, with its next fire times."""
    return _tagged(await _shown(services, call))


@Operation("GET", "/v1/jobs/{jobId}/status", Right.READ, errors=(404,))
async def get_status(services: Backend, call: ApiRequest) -> JobStatusOut:
    """Read the status of a job's latest run."""
    run = await services.jobs.latest_run(call.namespace, call.job_id, services.now)
    job = None
    if run is None or run["job_id"] != run["id"]:
        job = await services.jobs.get(call.namespace, call.job_id)
    if run is None and job is None:
        raise _no_such_job()
    return show_status(call.job_id, run, job["state"] if job else None)


@Operation("GET", "/v1/jobs/{jobId}/runs", Right.READ, query=PAGE_PARAMETERS, errors=(404,))
async def list_runs_of_job(services: Backend, call: ApiRequest) -> RunList:
    """List a job's runs, latest first."""
    job_id, limit = call.job_id, read_limit(call.query)
    rows = await services.runs.list_of_job(call.namespace, job_id, read_cursor(call.query), limit)
    if not rows and await services.jobs.get(call.namespace, job_id) is None:
        raise _no_such_job()
    return show_runs(rows, limit)


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
    services.gateway.limits.check_payload(call.caller, services.gateway.job_builder.payload(patch.payload))
    expected = _read_if_match(call)
    row = await services.jobs.get(call.namespace, job_id)
    before = await _shown(services, call)
    if row is None:
        await _change_one_shot(services, call, job_id, patch, expected)
    else:
        await _change_recurring(services, row, patch, expected)
    after = await _shown(services, call)
    call.change = difference(before, after)
    return _tagged(after)


@Operation("DELETE", "/v1/jobs/{jobId}", Right.CHANGE, errors=(404, 409))
async def cancel_job(services: Backend, call: ApiRequest) -> JobCancelled:
    """Cancel a job and all its runs that wait or run."""
    namespace, job_id = call.namespace, call.job_id
    if await services.jobs.get(namespace, job_id) is None:
        run = await services.jobs.latest_run(namespace, job_id, services.now)
        if run is None:
            raise _no_such_job()
        if run["place"] == "finished" and run["status"] != "cancelled":
            raise ConflictError(f"the job has already ended: {run['status']}")
    await services.cancellations.cancel_job(namespace, job_id, lambda row: _as_it_is(row, state="cancelled"))
    return JobCancelled(job_id=show_job(job_id), status="cancelled")


@Operation("POST", "/v1/jobs/{jobId}/run", Right.CHANGE, status=202, errors=(404, 409))
async def run_job(services: Backend, call: ApiRequest) -> RunStarted:
    """Run a job now, in addition to its schedule."""
    namespace, job_id, now = call.namespace, call.job_id, services.now
    run_id = new_id(now.timestamp())
    if not await services.changes.run_now(namespace, job_id, run_id):
        if await services.jobs.get(namespace, job_id) is not None:
            raise ConflictError("the job is cancelled")
        latest = await services.jobs.latest_run(namespace, job_id, now)
        if latest is None:
            raise _no_such_job()
        made = await services.redrives.rerun(namespace, [latest["id"]], "manual", now)
        if not made:
            raise ConflictError("the job changed at the same time; try again")
        run_id = made[0]
    return RunStarted(job_id=show_job(job_id), run_id=show_run(run_id), status="queued")


@Operation("POST", "/v1/jobs/{jobId}/pause", Right.CHANGE, answer=JobOut, errors=(404, 409))
async def pause_job(services: Backend, call: ApiRequest) -> Any:
    """Pause a job: its schedule makes no runs, and waiting runs are held."""
    return await _set_state(services, call, "paused", services.changes.pause_one_shot)


@Operation("POST", "/v1/jobs/{jobId}/resume", Right.CHANGE, answer=JobOut, errors=(404, 409))
async def resume_job(services: Backend, call: ApiRequest) -> Any:
    """Resume a paused job; fire times missed during the pause are skipped."""
    return await _set_state(services, call, "scheduled", services.changes.resume_one_shot)


async def _set_state(
    services: Backend, call: ApiRequest, state: str, change_one_shot: Callable[[str, UUID], Awaitable[Any]]
) -> Any:
    job = await services.jobs.get(call.namespace, call.job_id)
    if job is None:
        await change_one_shot(call.namespace, call.job_id)
    elif job["state"] != state:
        await services.changes.change(call.namespace, call.job_id, lambda row: _as_it_is(row, state=state))
    return _tagged(await _shown(services, call))


def _no_such_job() -> NotFoundError:
    return NotFoundError("there is no such job")


def _tagged(job: JobOut) -> Any:
    return json_response(job, 200, {"ETag": f'"{job.version}"'})


async def _shown(services: Backend, call: ApiRequest) -> JobOut:
    namespace, job_id = call.namespace, call.job_id
    row = await services.jobs.get(namespace, job_id)
    latest = None
    if row is not None:
        shown = show_recurring(row, services.now, whole=True)
        stored = row["payload_blob"]
    else:
        first = await services.jobs.first_run(namespace, job_id)
        latest = await services.jobs.latest_run(namespace, job_id, services.now)
        if latest is None:
            raise _no_such_job()
        shown = show_one_shot(first or latest, latest, whole=True)
        stored = (first or latest)["payload_blob"]
    if stored:
        shown.payload, shown.storage_error = await services.fetch_stored(stored)
    shown.breaker_state = await services.waiting_reasons.breaker_state(row if row is not None else latest)
    return shown


def _as_it_is(row: Any, *, state: str) -> JobChange:
    """The job in another state; raises ConflictError if it is cancelled or completed."""
    if row["state"] in ("cancelled", "completed") and state != row["state"]:
        raise ConflictError(f"the job is {row['state']}")
    return JobChange(definition_of(row), row["payload_id"], timetable_of(row), state, reschedule=False)


async def _change_recurring(services: Backend, job: Any, patch: JobPatch, expected: int | None) -> None:
    large_payload, blob = job["large_payload"], job["payload_blob"]
    new_blob = await _offload_patch(services, patch, job["id"])

    def decide(row: Any) -> JobChange:
        if row["state"] in ("cancelled", "completed"):
            raise ConflictError(f"the job is {row['state']}")
        before = definition_of({**row, "large_payload": large_payload, "payload_blob": blob})
        after, payload_id = _patched(services, before, row["payload_id"], patch, new_blob, row["id"])
        old = timetable_of(row)
        new = services.gateway.job_builder.patched_timetable(old, patch, row["id"])
        return JobChange(after, payload_id, new, row["state"], reschedule=new != old)

    await services.changes.change(job["namespace"], job["id"], decide, expected)


async def _change_one_shot(
    services: Backend, call: ApiRequest, job_id: UUID, patch: JobPatch, expected: int | None
) -> None:
    if await services.jobs.first_run(call.namespace, job_id) is None:
        raise _no_such_job()  # before its payload is put into object storage
    new_blob = await _offload_patch(services, patch, job_id)
    for left in reversed(range(_CHANGE_TRIES)):
        run = await services.jobs.first_run(call.namespace, job_id)
        if run is None:
            raise _no_such_job()
        if expected is not None and run["job_version"] != expected:
            raise VersionMismatchError(f"the job's version is {run['job_version']}, not {expected}")
        definition, payload_id = _patched(services, definition_of(run), run["payload_id"], patch, new_blob)
        run_at = services.gateway.job_builder.patched_time(patch)
        try:
            await services.changes.change_one_shot(
                call.namespace, job_id, definition, run_at, payload_id, run["job_version"]
            )
        except VersionMismatchError:
            if expected is not None or not left:
                raise
            continue  # another change came first and no version was named: apply ours on top of it
        return


def _patched(
    services: Backend,
    before: Definition,
    payload_id: UUID | None,
    patch: JobPatch,
    new_blob: str | None,
    job_id: UUID | None = None,
) -> tuple[Definition, UUID | None]:
    """The changed definition, and the id of its payload if that is stored separately."""
    after = services.gateway.job_builder.patched(before, patch, job_id)
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
    text = call.request.headers.get("if-match")
    if text is None or text == "*":
        return None
    match = _ETAG.fullmatch(text)
    if match is None:
        raise BadInputError('must be the job\'s version, such as "3"', field="If-Match")
    return int(match[1])


OPERATIONS = (list_jobs, get_job, change_job, cancel_job, get_status, list_runs_of_job, run_job, pause_job, resume_job)
