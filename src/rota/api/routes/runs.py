"""Runs: read, cancel, retry."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from starlette.requests import ClientDisconnect

from rota.api.backend import Backend
from rota.api.operations import ApiRequest, Operation, decode
from rota.api.paging import DEFAULT_RANGE, LIST_PARAMETERS, owner_within, read_limit, run_filter
from rota.api.representations import show_attempt_row, show_page, show_run_row, show_timeline
from rota.contract.jobs import RunStarted
from rota.contract.runs import CountOut, RunCancelled, RunList, RunOut, RunSelection
from rota.domain.ids import FIRST_ID, LAST_ID, floor_id, show_run
from rota.domain.job import NODE_CAUSES, show_job_of
from rota.domain.rights import Right
from rota.errors import BadInputError, ConflictError, NotFoundError
from rota.gateway.operations import MOST_AT_ONCE
from rota.store.operate import OperationFilter
from rota.store.operate.pages import is_of_workflow
from rota.store.read.runs import RunFilter, waits_again

_OPEN_STATUSES = ("scheduled", "blocked", "queued", "running", "retrying")
_PAGE = 500
LONGEST_WAIT_SECONDS = 60
_SECONDS = re.compile(r"[0-9]{1,2}(\.[0-9]{1,6})?")


@Operation("GET", "/v1/runs", Right.READ, query=LIST_PARAMETERS)
async def list_runs(services: Backend, call: ApiRequest) -> RunList:
    """List runs: those of the last 24 hours, unless a time or status is given."""
    limit = read_limit(call.query)
    wanted = run_filter(call.query, services.now, call.only)
    return show_page(await services.runs.find_page(call.namespace, wanted, limit))


@Operation(
    "GET",
    "/v1/runs/{runId}",
    Right.READ,
    query={"waitSeconds": f"how long to wait for its end, 0 to {LONGEST_WAIT_SECONDS} (0 if not given)"},
    errors=(404,),
)
async def get_run(services: Backend, call: ApiRequest) -> RunOut:
    """Read a run with its attempts; with waitSeconds, once it has ended or the time is up."""
    run_id, seconds = call.run_id, _read_wait(call)
    if seconds:
        services.run_ends.check_room(call.namespace, call.caller.owner)  # before the database is asked
    row, attempts = await services.runs.get(call.namespace, run_id), None
    if seconds and row["place"] != "finished":
        await _until_ended(services, call, run_id, seconds)
        await call.check_still_known()
        ended = await services.runs.get_ended(call.namespace, run_id)
        row, attempts = ended or (await services.runs.get(call.namespace, run_id), None)
    out = show_run_row(row, whole=True)
    if row["payload_blob"]:
        out.payload, out.storage_error = await services.fetch_stored(row["payload_blob"])
    if row["result_blob"]:
        out.result, out.storage_error = await services.fetch_stored(row["result_blob"])
    if attempts is None:
        attempts = await services.runs.attempts(call.namespace, run_id)
    out.attempts = [show_attempt_row(attempt) for attempt in attempts]
    if attempts and waits_again(row):
        out.error = attempts[-1]["error"]
    out.timeline = show_timeline(row, attempts)
    if row.get("archived"):
        return out
    if waiting_for := await services.waiting_reasons.explain(row, naming=call.only is None):
        out.waiting_for = waiting_for
    return out


async def _until_ended(services: Backend, call: ApiRequest, run_id: UUID, seconds: float) -> None:
    """Waits for a run to end; raises ClientDisconnect when the client hangs up."""
    waiting = asyncio.create_task(services.run_ends.wait(call.namespace, run_id, seconds, call.caller.owner))
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


@Operation("POST", "/v1/runs/{runId}/cancel", Right.CHANGE, status=202, errors=(404, 409))
async def cancel_run(services: Backend, call: ApiRequest) -> RunCancelled:
    """Cancel a run; if it is running, its worker is asked to stop it."""
    try:
        status = await services.cancellations.cancel_run(call.namespace, call.run_id)
    except NotFoundError:
        if await services.archive_lookup.get(call.namespace, call.run_id) is not None:
            raise ConflictError("the run has ended, and is archived") from None
        raise
    return RunCancelled(run_id=show_run(call.run_id), status=status, cancel_requested=True)


@Operation("POST", "/v1/runs/cancel", Right.CHANGE, body=RunSelection, status=202, errors=(413,))
async def cancel_runs(services: Backend, call: ApiRequest) -> CountOut:
    """Cancel every run that matches and has not ended; very many of them in the background."""
    wanted = _selection(decode(call.body, RunSelection), services.now, call.only)
    count = 0
    while rows := await services.runs.find(call.namespace, wanted, _PAGE):
        for row in rows:
            if is_of_workflow(row):
                continue
            try:
                await services.cancellations.cancel_run(call.namespace, row["id"])
            except (ConflictError, NotFoundError):
                continue  # it has just ended, or its schedule has just dropped it
            count += 1
        wanted = msgspec.structs.replace(wanted, before=rows[-1]["id"])
        if count >= MOST_AT_ONCE and len(rows) == _PAGE:
            with suppress(ConflictError):  # as many operations are open as there may be: we go on
                rest = OperationFilter(**msgspec.structs.asdict(wanted))
                made = await services.operations.create_of("cancel", rest, call.caller, concurrency=1)
                return CountOut(count=count, operation_id=made.operation_id)
    return CountOut(count=count)


@Operation("POST", "/v1/runs/{runId}/retry", Right.CHANGE, status=202, errors=(404, 409))
async def retry_run(services: Backend, call: ApiRequest) -> RunStarted:
    """Run an ended run again, with the same idempotency key; the run of a workflow, or of a node, is resumed."""
    row = await services.runs.get(call.namespace, call.run_id)
    if row["place"] != "finished":
        raise ConflictError(f"the run has not ended yet: it is {row['status']}")
    if row.get("archived"):
        raise _archived()
    if again := await _resumed(services, call, row):
        return again
    made = await services.redrives.rerun(call.namespace, [call.run_id], "retry", services.now)
    if not made:
        raise NotFoundError("there is no such run")  # history has just dropped it
    job_id = show_job_of(row["job_id"], row["options"])
    return RunStarted(job_id=job_id, run_id=show_run(made[0]["id"]), status=made[0]["status"])


async def _resumed(services: Backend, call: ApiRequest, row: Any) -> RunStarted | None:
    """The run of a workflow, or of a node of one, runs again by a resume; None: it is neither."""
    if row["cause"] in NODE_CAUSES:
        nodes = await services.workflows.nodes_of([call.run_id], call.caller)
        await services.workflows.run_again(nodes, call.caller, call.only)
    elif not await services.workflows.resume_carrier(call.run_id, call.caller, call.only):
        return None
    shown = show_run_row(row, whole=False)
    return RunStarted(job_id=shown.job_id, run_id=shown.run_id, status="scheduled")


def _archived() -> ConflictError:
    return ConflictError("the run is archived: restore its day first (`rota archive restore`)")


def _selection(wanted: RunSelection, now: datetime, only: str | None) -> RunFilter:
    if not any(msgspec.structs.astuple(wanted)):
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
