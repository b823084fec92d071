"""Dead letters: list, redrive, discard."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import UUID

import msgspec

from rota.api.backend import Backend
from rota.api.operations import ApiRequest, Operation, decode
from rota.api.paging import PAGE_PARAMETERS, next_cursor, read_cursor, read_limit, read_text
from rota.api.representations import show_dead_letter
from rota.contract.runs import CountOut, DeadLetterGroup, DeadLetterGroups, DeadLetterList, DeadLetterSelection
from rota.domain.ids import FIRST_ID, parse_run, show_run
from rota.domain.rights import Right
from rota.errors import BadInputError, ConflictError
from rota.gateway.operations import MOST_AT_ONCE
from rota.store.operate import OperationFilter
from rota.store.redrive import DeadLetterFilter

_PAGE = 500


@Operation(
    "GET",
    "/v1/dead-letters",
    Right.READ,
    query={
        "task": "only of this task",
        "jobId": "only of this job",
        "name": "only with this name",
        "error": "only those whose error contains this",
        **PAGE_PARAMETERS,
    },
)
async def list_dead_letters(services: Backend, call: ApiRequest) -> DeadLetterList:
    """List dead letters, latest first."""
    query, limit = call.query, read_limit(call.query)
    wanted = DeadLetterFilter(
        before=read_cursor(query),
        task=read_text(query, "task"),
        job_id=await _find_job(services, call, query.get("jobId")),
        name=read_text(query, "name"),
        owner=call.only,
        error=read_text(query, "error"),
    )
    rows = await services.redrives.dead_letters(call.namespace, wanted, limit)
    return DeadLetterList(
        items=[show_dead_letter(row) for row in rows],
        next_cursor=next_cursor([row["run_id"] for row in rows], limit),
    )


@Operation("GET", "/v1/dead-letters/groups", Right.READ)
async def group_dead_letters(services: Backend, call: ApiRequest) -> DeadLetterGroups:
    """Count dead letters by task and kind of error."""
    rows = await services.redrives.dead_letter_groups(call.namespace, call.only)
    return DeadLetterGroups(
        items=[
            DeadLetterGroup(
                task=row["task"],
                error=row["kind"],
                count=row["dead_letters"],
                first_time=row["first_at"],
                last_time=row["last_at"],
                run_id=show_run(row["run_id"]),
            )
            for row in rows
        ]
    )


@Operation("POST", "/v1/dead-letters/redrive", Right.CHANGE, body=DeadLetterSelection, errors=(413,))
async def redrive(services: Backend, call: ApiRequest) -> CountOut:
    """Run dead letters again, with the same idempotency keys; very many of them in the background."""
    nodes: list[Any] = []  # they run again by one resume of each workflow run

    async def redrive_page(run_ids: Sequence[UUID]) -> int:
        nodes.extend(await services.workflows.nodes_of(run_ids, call.caller))
        return len(await services.redrives.rerun(call.namespace, run_ids, "redrive", services.now))

    async def hand_over(wanted: DeadLetterFilter, most: int | None) -> str:
        rest = OperationFilter(**msgspec.structs.asdict(wanted), most=most)
        return (await services.operations.create_of("redrive", rest, call.caller)).operation_id

    answer = await _each_page(services, call, redrive_page, hand_over)
    if nodes:
        answer.count += await services.workflows.run_again(nodes, call.caller, call.only, strict=not answer.count)
    return answer


@Operation("POST", "/v1/dead-letters/discard", Right.CHANGE, body=DeadLetterSelection, errors=(413,))
async def discard(services: Backend, call: ApiRequest) -> CountOut:
    """Discard dead letters; the failed runs stay in history."""
    return await _each_page(services, call, partial(services.redrives.discard, call.namespace))


async def _find_job(services: Backend, call: ApiRequest, text: str | None) -> UUID | None:
    """The job to filter by. One that is not there has no dead letters: FIRST_ID is no job's."""
    return None if text is None else await services.jobs.find_id(call.namespace, text) or FIRST_ID


async def _each_page(
    services: Backend,
    call: ApiRequest,
    act: Callable[[Sequence[UUID]], Awaitable[int]],
    hand_over: Callable[[DeadLetterFilter, int | None], Awaitable[str]] | None = None,
) -> CountOut:
    """Acts on the selected dead letters, page by page; hands over the rest when there are very many."""
    chosen: DeadLetterSelection = decode(call.body, DeadLetterSelection)
    filtered = chosen.task or chosen.job_id or chosen.name or chosen.error
    if chosen.run_ids is not None:
        if filtered or chosen.all or chosen.most:
            raise BadInputError("give runIds or a filter, not both", field="runIds")
        run_ids = [parse_run(text) for text in chosen.run_ids]
        if call.only is not None:
            run_ids = await services.runs.owned(call.namespace, run_ids, call.only)
        return CountOut(count=await act(run_ids))
    if not filtered and not chosen.all:
        raise BadInputError("give runIds, a filter (task, jobId, name, error), or all: true")
    wanted = DeadLetterFilter(
        task=chosen.task,
        job_id=await _find_job(services, call, chosen.job_id),
        name=chosen.name,
        owner=call.only,
        error=chosen.error,
    )
    count = 0
    while room := _PAGE if chosen.most is None else min(_PAGE, chosen.most - count):
        rows = await services.redrives.dead_letters(call.namespace, wanted, room)
        if not rows:
            break
        count += await act([row["run_id"] for row in rows])
        wanted = msgspec.structs.replace(wanted, before=rows[-1]["run_id"])
        if hand_over is not None and count >= MOST_AT_ONCE and len(rows) == room:
            with suppress(ConflictError):  # as many operations are open as there may be: we go on
                most = None if chosen.most is None else chosen.most - count
                return CountOut(count=count, operation_id=await hand_over(wanted, most))
    return CountOut(count=count)


OPERATIONS = (list_dead_letters, group_dead_letters, redrive, discard)
