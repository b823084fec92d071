"""Backfills, replays and bulk acts: create, list, read, pause, resume, abort."""

from __future__ import annotations

from typing import get_args

from starlette.responses import Response

from rota.api.backend import Backend
from rota.api.operations import ApiRequest, Operation, decode, json_response
from rota.api.paging import PAGE_PARAMETERS, owner_within, read_cursor, read_limit
from rota.contract.operations import (
    BackfillIn,
    OperationIn,
    OperationKind,
    OperationList,
    OperationOut,
    OperationPreview,
    OperationStatus,
    ReplayIn,
)
from rota.domain.rights import Right
from rota.errors import BadInputError
from rota.store.operate import Kind

_PREVIEWED = {200: "a preview: nothing was created"}
_LIST = {"status": "only with this status", **PAGE_PARAMETERS}


@Operation(
    "POST",
    "/v1/backfills",
    Right.CHANGE,
    body=BackfillIn,
    answer=OperationOut | OperationPreview,
    status=201,
    others=_PREVIEWED,
    errors=(404, 409),
)
async def create_backfill(services: Backend, call: ApiRequest) -> Response:
    """Make runs of past times of a job or workflow; with `preview`, only say which."""
    wanted: BackfillIn = decode(call.body, BackfillIn)
    if wanted.preview:
        return json_response(await services.operations.preview_backfill(wanted, call.caller, call.only))
    return _created(call, await services.operations.create_backfill(wanted, call.caller, call.only))


@Operation("GET", "/v1/backfills", Right.READ, query=_LIST)
async def list_backfills(services: Backend, call: ApiRequest) -> OperationList:
    """List backfills, latest first."""
    return await _list(services, call, "backfill")


@Operation("GET", "/v1/backfills/{operationId}", Right.READ, errors=(404,))
async def get_backfill(services: Backend, call: ApiRequest) -> OperationOut:
    """Read a backfill."""
    return await _show(services, call, "backfill")


@Operation("POST", "/v1/backfills/{operationId}/pause", Right.CHANGE, errors=(404, 409))
async def pause_backfill(services: Backend, call: ApiRequest) -> OperationOut:
    """Pause a backfill: it makes no more runs; those that were made go on."""
    return await _act(services, call, "pause", "backfill")


@Operation("POST", "/v1/backfills/{operationId}/resume", Right.CHANGE, errors=(404, 409))
async def resume_backfill(services: Backend, call: ApiRequest) -> OperationOut:
    """Resume a backfill that was paused, or stopped because too much failed."""
    return await _act(services, call, "resume", "backfill")


@Operation("POST", "/v1/backfills/{operationId}/abort", Right.CHANGE, status=202, errors=(404, 409))
async def abort_backfill(services: Backend, call: ApiRequest) -> OperationOut:
    """Abort a backfill: runs of it that wait are cancelled; those that run go on to their end."""
    return await _act(services, call, "abort", "backfill")


@Operation(
    "POST",
    "/v1/replays",
    Right.CHANGE,
    body=ReplayIn,
    answer=OperationOut | OperationPreview,
    status=201,
    others=_PREVIEWED,
    errors=(409,),
)
async def create_replay(services: Backend, call: ApiRequest) -> Response:
    """Run finished runs again, as new runs; with `preview`, only say which."""
    wanted: ReplayIn = decode(call.body, ReplayIn)
    return await _create(services, call, "replay", wanted)


@Operation("GET", "/v1/replays", Right.READ, query=_LIST)
async def list_replays(services: Backend, call: ApiRequest) -> OperationList:
    """List replays, latest first."""
    return await _list(services, call, "replay")


@Operation("GET", "/v1/replays/{operationId}", Right.READ, errors=(404,))
async def get_replay(services: Backend, call: ApiRequest) -> OperationOut:
    """Read a replay."""
    return await _show(services, call, "replay")


@Operation("POST", "/v1/replays/{operationId}/pause", Right.CHANGE, errors=(404, 409))
async def pause_replay(services: Backend, call: ApiRequest) -> OperationOut:
    """Pause a replay: it makes no more runs; those that were made go on."""
    return await _act(services, call, "pause", "replay")


@Operation("POST", "/v1/replays/{operationId}/resume", Right.CHANGE, errors=(404, 409))
async def resume_replay(services: Backend, call: ApiRequest) -> OperationOut:
    """Resume a replay that was paused, or stopped because too much failed."""
    return await _act(services, call, "resume", "replay")


@Operation("POST", "/v1/replays/{operationId}/abort", Right.CHANGE, status=202, errors=(404, 409))
async def abort_replay(services: Backend, call: ApiRequest) -> OperationOut:
    """Abort a replay: runs of it that wait are cancelled; those that run go on to their end."""
    return await _act(services, call, "abort", "replay")


@Operation(
    "POST",
    "/v1/operations",
    Right.CHANGE,
    body=OperationIn,
    answer=OperationOut | OperationPreview,
    status=201,
    others=_PREVIEWED,
    errors=(409,),
)
async def create_operation(services: Backend, call: ApiRequest) -> Response:
    """Redrive many dead letters, or cancel many runs, in the background; with `preview`, only say which."""
    wanted: OperationIn = decode(call.body, OperationIn)
    return await _create(services, call, wanted.kind, wanted)


@Operation("GET", "/v1/operations", Right.READ, query={"kind": "only of this kind", **_LIST})
async def list_operations(services: Backend, call: ApiRequest) -> OperationList:
    """List backfills, replays, redrives and cancels, latest first."""
    return await _list(services, call, _one_of(call, "kind", get_args(OperationKind)))


@Operation("GET", "/v1/operations/{operationId}", Right.READ, errors=(404,))
async def get_operation(services: Backend, call: ApiRequest) -> OperationOut:
    """Read an operation of any kind."""
    return await _show(services, call, None)


@Operation("POST", "/v1/operations/{operationId}/pause", Right.CHANGE, errors=(404, 409))
async def pause_operation(services: Backend, call: ApiRequest) -> OperationOut:
    """Pause an operation of any kind."""
    return await _act(services, call, "pause", None)


@Operation("POST", "/v1/operations/{operationId}/resume", Right.CHANGE, errors=(404, 409))
async def resume_operation(services: Backend, call: ApiRequest) -> OperationOut:
    """Resume an operation of any kind."""
    return await _act(services, call, "resume", None)


@Operation("POST", "/v1/operations/{operationId}/abort", Right.CHANGE, status=202, errors=(404, 409))
async def abort_operation(services: Backend, call: ApiRequest) -> OperationOut:
    """Abort an operation of any kind."""
    return await _act(services, call, "abort", None)


async def _create(services: Backend, call: ApiRequest, kind: Kind, wanted: ReplayIn | OperationIn) -> Response:
    owner = owner_within(wanted.owner, call.only)
    if wanted.preview:
        preview: OperationPreview = await services.operations.preview(kind, wanted, call.caller, owner)
        return json_response(preview)
    return _created(call, await services.operations.create(kind, wanted, call.caller, owner))


def _created(call: ApiRequest, made: OperationOut) -> Response:
    call.made = made.operation_id
    return json_response(made, 201, {"Location": f"/v1/operations/{made.operation_id}"})


async def _list(services: Backend, call: ApiRequest, kind: str | None) -> OperationList:
    return await services.operations.show_all(
        call.caller,
        call.only,
        kind=kind,
        status=_one_of(call, "status", get_args(OperationStatus)),
        before=read_cursor(call.query),
        limit=read_limit(call.query),
    )


async def _show(services: Backend, call: ApiRequest, kind: Kind | None) -> OperationOut:
    return await services.operations.show(call.path["operationId"], call.caller, call.only, kind)


async def _act(services: Backend, call: ApiRequest, act: str, kind: Kind | None) -> OperationOut:
    return await services.operations.act(act, call.path["operationId"], call.caller, call.only, kind)


def _one_of(call: ApiRequest, name: str, known: tuple[str, ...]) -> str | None:
    given = call.query.get(name)
    if given is not None and given not in known:
        raise BadInputError(f"must be one of {', '.join(known)}", field=name)
    return given


OPERATIONS = (
    create_backfill,
    list_backfills,
    get_backfill,
    pause_backfill,
    resume_backfill,
    abort_backfill,
    create_replay,
    list_replays,
    get_replay,
    pause_replay,
    resume_replay,
    abort_replay,
    create_operation,
    list_operations,
    get_operation,
    pause_operation,
    resume_operation,
    abort_operation,
)
