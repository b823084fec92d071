"""Runs: read, cancel, retry."""

from __future__ import annotations

import asyncio
import re
from datetime import datetime
from uuid import UUID

from starlette.requests import ClientDisconnect

from rota.api.backend import Backend
from rota.api.operations import ApiRequest, Operation, decode
from rota.api.paging import (
    DEFAULT_RANGE,
    FILTER_PARAMETERS,
    PAGE_PARAMETERS,
    next_cursor,
    owner_within,
    read_limit,
    run_filter,
)
from rota.api.representations import show_attempt_row, show_run_row, show_timeline
from rota.contract.jobs import RunStarted
from rota.contract.runs import CountOut, RunCancelled, RunList, RunOut, RunSelection
from rota.domain.ids import FIRST_ID, LAST_ID, floor_id, parse_run, show_job, show_run
from rota.domain.rights import Right
from rota.errors import BadInputError, ConflictError
from rota.store.read.runs import RunFilter

_OPEN_STATUSES = ("scheduled", "blocked", "queued", "running", "retrying")
_PAGE = 500
LONGEST_WAIT_SECONDS = 60
_SECONDS = re.compile(r"[0-9]{1,2}(\.[0-9]{1,6})?")


@Operation(
    "GET",
    "/v1/runs",
    Right.READ,
    "List runs: the last 24 hours up to now, unless a time or status is given",
    answer=RunList,
    query={**FILTER_PARAMETERS, **PAGE_PARAMETERS},
)
async def list_runs(services: Backend, call: ApiRequest) -> RunList:
    """Runs, latest planned first."""
    limit = read_limit(call.query)
    wanted = run_filter(call.query, services.now, call.only)
    rows = await services.runs.find(call.caller.namespace, wanted, limit)
    return RunList(
        items=[show_run_row(row, whole=False) for row in rows],
        next_cursor=next_cursor([row["id"] for row in rows], limit),
    )


@Operation(
    "GET",
    "/v1/runs/{runId}",
    Right.READ,
    "Read a run; with waitSeconds, answered once it has ended or the time is over",
    answer=RunOut,
    query={"waitSeconds": f"wait so long for its end, 0 to {LONGEST_WAIT_SECONDS} (0 if not given)"},
    errors=(404,),
)
async def get_run(services: Backend, call: ApiRequest) -> RunOut:
    """A run with its attempts, and why it is not running if it waits."""
    run_id = parse_run(call.path["runId"])
    seconds = _read_wait(call)
    row = await services.runs.get(call.caller.namespace, run_id)
    if seconds and row["place"] != "finished":
        await _until_ended(services, call, run_id, seconds)
        await call.check_still_known()
        row = await services.runs.get(call.caller.namespace, run_id)
    out = show_run_row(row, whole=True)
    if row["payload_blob"]:
        out.payload, out.storage_error = await services.fetch_stored(row["payload_blob"])
    if row["result_blob"]:
        out.result, out.storage_error = await services.fetch_stored(row["result_blob"])
    attempts = await services.runs.attempts(call.caller.namespace, run_id)
    out.attempts = [show_attempt_row(attempt) for attempt in attempts]
    out.timeline = show_timeline(row, attempts)
    if waiting_for := await services.waiting_reasons.explain(row, naming=call.only is None):
        out.waiting_for = waiting_for
    return out


async def _until_ended(services: Backend, call: ApiRequest, run_id: UUID, seconds: float) -> None:
    """Waits for the end of a run, unless the client hangs up."""
    waiting = asyncio.create_task(services.run_ends.wait(call.caller.namespace, run_id, seconds))
    gone = asyncio.create_task(call.until_gone())
    try:
        await asyncio.wait({waiting, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            raise ClientDisconnect
        await waiting
    finally:
        waiting.cancel()
        gone.cancel()


def _read_wait(call: ApiRequest) -> float:
    text = call.query.get("waitSeconds", "0")
    if not _SECONDS.fullmatch(text) or float(text) > LONGEST_WAIT_SECONDS:
        raise BadInputError(f"must be a number from 0 to {LONGEST_WAIT_SECONDS}", field="waitSeconds")
    return float(text)


@Operation(
    "POST", "/v1/runs/{runId}/cancel", Right.CHANGE, "Cancel a run", answer=RunCancelled, status=202, errors=(404, 409)
)
async def cancel_run(services: Backend, call: ApiRequest) -> RunCancelled:
    """Ends a run that waits; asks the worker of one that runs to stop it."""
    run_id = parse_run(call.path["runId"])
    ended = await services.cancellations.cancel_run(call.caller.namespace, run_id)
    status = "cancelled" if ended else "running"
    return RunCancelled(run_id=show_run(run_id), status=status, cancel_requested=True)


@Operation(
    "POST",
    "/v1/runs/cancel",
    Right.CHANGE,
    "Cancel every run that matches and has not ended",
    body=RunSelection,
    answer=CountOut,
    status=202,
    errors=(413,),
)
async def cancel_runs(services: Backend, call: ApiRequest) -> CountOut:
    """Cancels every run that matches and has not ended."""
    wanted = _selection(decode(call.body, RunSelection), services.now, call.only)
    count = 0
    while rows := await services.runs.find(call.caller.namespace, wanted, _PAGE):
        for row in rows:
            try:
                await services.cancellations.cancel_run(call.caller.namespace, row["id"])
            except ConflictError:
                continue  # it ended by itself meanwhile
            count += 1
        wanted = RunFilter(
            wanted.first, rows[-1]["id"], wanted.owner, wanted.statuses, wanted.name, wanted.tag, wanted.task
        )
    return CountOut(count=count)


@Operation(
    "POST",
    "/v1/runs/{runId}/retry",
    Right.CHANGE,
    "Run again what has ended",
    answer=RunStarted,
    status=202,
    errors=(404, 409),
)
async def retry_run(services: Backend, call: ApiRequest) -> RunStarted:
    """A new run of one that has ended, with the same idempotency key."""
    run_id = parse_run(call.path["runId"])
    row = await services.runs.get(call.caller.namespace, run_id)
    if row["place"] != "finished":
        raise ConflictError(f"the run has not ended yet: it is {row['status']}")
    (made,) = await services.redrives.rerun(call.caller.namespace, [run_id], "retry", services.now)
    return RunStarted(job_id=show_job(row["job_id"]), run_id=show_run(made), status="queued")


def _selection(wanted: RunSelection, now: datetime, only: str | None) -> RunFilter:
    given = (
        wanted.status,
        wanted.owner,
        wanted.name,
        wanted.tag,
        wanted.task,
        wanted.start_time,
        wanted.end_time,
    )
    if not any(given):
        raise BadInputError("give at least one field to select runs by")
    if wanted.status is not None and wanted.status not in _OPEN_STATUSES:
        raise BadInputError(f"must be one of {', '.join(_OPEN_STATUSES)}", field="status")
    start = wanted.start_time or now - DEFAULT_RANGE
    return RunFilter(
        first=floor_id(start) if wanted.start_time or wanted.end_time else FIRST_ID,
        before=floor_id(wanted.end_time) if wanted.end_time else LAST_ID,
        owner=owner_within(wanted.owner, only),
        statuses=[wanted.status] if wanted.status else list(_OPEN_STATUSES),
        name=wanted.name,
        tag=wanted.tag,
        task=wanted.task,
    )


OPERATIONS = (list_runs, cancel_runs, get_run, cancel_run, retry_run)
