"""Workflows and their runs."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
from starlette.responses import Response

from rota.access.audit import difference
from rota.api.backend import Backend
from rota.api.operations import ApiRequest, Operation, decode, json_response, only_header
from rota.api.routes.submit import read_key
from rota.contract.json_rules import hash_request
from rota.contract.workflows import (
    DecisionIn,
    MemberList,
    MemberResult,
    MemberResults,
    ResumeIn,
    RunWorkflowIn,
    SignalIn,
    SignalName,
    SignalSent,
    VersionList,
    WorkflowIn,
    WorkflowList,
    WorkflowOut,
    WorkflowRunList,
    WorkflowRunOut,
    WorkflowRunStarted,
    WorkflowRunStatus,
)
from rota.domain.rights import Right
from rota.errors import BadInputError

_BODY_LIMIT_BYTES = 10 * 1024 * 1024
_MOST_PER_PAGE = 500
_PER_PAGE = 50
_PAGE = {"limit": "items per page, up to 500 (50 if not given)", "cursor": "the `nextCursor` of the page before"}


@Operation(
    "POST",
    "/v1/workflows",
    Right.CHANGE,
    body=WorkflowIn,
    answer=WorkflowOut,
    status=201,
    body_limit=_BODY_LIMIT_BYTES,
    errors=(409, 422),
)
async def create_workflow(services: Backend, call: ApiRequest) -> Response:
    """Create a workflow."""
    made = await services.workflows.create(decode(call.body, WorkflowIn), call.caller)
    call.made = made.workflow_id
    return json_response(made, 201, {"Location": f"/v1/workflows/{made.workflow_id}"})


@Operation("GET", "/v1/workflows", Right.READ, query=_PAGE)
async def list_workflows(services: Backend, call: ApiRequest) -> WorkflowList:
    """List workflows by name."""
    return await services.workflows.show_all(call.caller, call.only, call.query.get("cursor", ""), _limit(call))


@Operation("GET", "/v1/workflows/{workflowId}", Right.READ, errors=(404,))
async def get_workflow(services: Backend, call: ApiRequest) -> WorkflowOut:
    """A workflow, by its id or name."""
    return await services.workflows.show(_workflow(call), call.caller, call.only)


@Operation(
    "PUT",
    "/v1/workflows/{workflowId}",
    Right.CHANGE,
    body=WorkflowIn,
    body_limit=_BODY_LIMIT_BYTES,
    headers={"If-Match": "the revision that was seen; refused (412) if the workflow has another"},
    errors=(404, 412, 422),
)
async def change_workflow(services: Backend, call: ApiRequest) -> WorkflowOut:
    """Change a workflow: runs that are opened from now on follow the new definition."""
    before, after = await services.workflows.change(
        _workflow(call), decode(call.body, WorkflowIn), call.caller, only=call.only, revision=_revision(call)
    )
    call.change = difference(before, after)
    return after


@Operation("DELETE", "/v1/workflows/{workflowId}", Right.CHANGE, errors=(404,))
async def delete_workflow(services: Backend, call: ApiRequest) -> WorkflowOut:
    """Delete a workflow, and cancel its open runs."""
    return await services.workflows.delete(_workflow(call), call.caller, call.only)


@Operation("GET", "/v1/workflows/{workflowId}/versions", Right.READ, errors=(404,))
async def list_versions(services: Backend, call: ApiRequest) -> VersionList:
    """The latest versions of a workflow."""
    return await services.workflows.versions(_workflow(call), call.caller, call.only)


@Operation(
    "POST",
    "/v1/workflows/{workflowId}/run",
    Right.SUBMIT,
    body=RunWorkflowIn,
    status=202,
    headers={"Idempotency-Key": "a repeat with the same key and body gets the first answer, for 24 hours"},
    errors=(404, 409, 422, 429),
)
async def run_workflow(services: Backend, call: ApiRequest) -> WorkflowRunStarted:
    """Start a run of a workflow."""
    wanted: RunWorkflowIn = decode(call.body or b"{}", RunWorkflowIn)
    key = read_key(only_header(call.request, "Idempotency-Key"), "Idempotency-Key")
    return await services.workflows.run(
        _workflow(call),
        wanted.inputs,
        call.caller,
        only=call.only,
        key=key,
        request_hash=hash_request(msgspec.json.encode([_workflow(call), wanted.inputs])) if key else b"",
    )


@Operation(
    "GET",
    "/v1/workflow-runs",
    Right.READ,
    query={"workflow": "of this workflow, by id or name", "status": "with this status", **_PAGE},
)
async def list_workflow_runs(services: Backend, call: ApiRequest) -> WorkflowRunList:
    """List workflow runs, newest first."""
    status = call.query.get("status")
    if status is not None and status not in get_args(WorkflowRunStatus):
        raise BadInputError(f"must be one of {', '.join(get_args(WorkflowRunStatus))}", field="status")
    return await services.workflows.show_runs(
        call.caller,
        call.only,
        workflow=call.query.get("workflow"),
        status=status,
        cursor=call.query.get("cursor", ""),
        limit=_limit(call),
    )


@Operation("GET", "/v1/workflow-runs/{workflowRunId}", Right.READ, errors=(404,))
async def get_workflow_run(services: Backend, call: ApiRequest) -> WorkflowRunOut:
    """A workflow run, with its nodes."""
    return await services.workflows.show_run(_run(call), call.caller, call.only)


@Operation("POST", "/v1/workflow-runs/{workflowRunId}/cancel", Right.CHANGE, status=202, errors=(404, 409))
async def cancel_workflow_run(services: Backend, call: ApiRequest) -> WorkflowRunOut:
    """Cancel a workflow run: nothing of it starts any more, and what runs is asked to stop."""
    return await services.workflows.cancel(_run(call), call.caller, call.only)


@Operation(
    "POST", "/v1/workflow-runs/{workflowRunId}/resume", Right.CHANGE, body=ResumeIn, status=202, errors=(404, 409)
)
async def resume_workflow_run(services: Backend, call: ApiRequest) -> WorkflowRunOut:
    """Run again what failed in a workflow run, or the named nodes, and everything after them."""
    wanted: ResumeIn = decode(call.body or b"{}", ResumeIn)
    return await services.workflows.resume(_run(call), call.caller, only=call.only, asked=wanted)


@Operation("POST", "/v1/workflows/{workflowId}/pause", Right.CHANGE, errors=(404,))
async def pause_workflow(services: Backend, call: ApiRequest) -> WorkflowOut:
    """Pause a workflow: its schedule makes no runs, and in its open runs no node starts."""
    return await services.workflows.pause(_workflow(call), call.caller, only=call.only, paused=True)


@Operation("POST", "/v1/workflows/{workflowId}/resume", Right.CHANGE, errors=(404,))
async def resume_workflow(services: Backend, call: ApiRequest) -> WorkflowOut:
    """Let a paused workflow go on."""
    return await services.workflows.pause(_workflow(call), call.caller, only=call.only, paused=False)


@Operation(
    "POST",
    "/v1/workflow-runs/{workflowRunId}/signals/{signal}",
    Right.SUBMIT,
    body=SignalIn,
    status=202,
    headers={"Idempotency-Key": "a repeat with the same key and body gets the first answer, for 24 hours"},
    errors=(404, 409, 422),
)
async def send_signal(services: Backend, call: ApiRequest) -> SignalSent:
    """Send a signal to a workflow run: the first node that waits for it takes it, now or later."""
    wanted: SignalIn = decode(call.body or b"{}", SignalIn)
    key = read_key(only_header(call.request, "Idempotency-Key"), "Idempotency-Key")
    try:
        name = msgspec.convert(call.path["signal"], SignalName)
    except msgspec.ValidationError:
        raise BadInputError("must be letters, digits and _.-", field="signal") from None
    return await services.workflows.signal(
        _run(call),
        name,
        wanted.payload,
        call.caller,
        only=call.only,
        key=key,
        request_hash=hash_request(msgspec.json.encode([_run(call), name, wanted.payload])) if key else b"",
    )


@Operation(
    "POST",
    "/v1/workflow-runs/{workflowRunId}/nodes/{node}/approve",
    Right.APPROVE,
    body=DecisionIn,
    errors=(404, 409),
)
async def approve_node(services: Backend, call: ApiRequest) -> WorkflowRunOut:
    """Approve what a node waits for."""
    return await _decide(services, call, approve=True)


@Operation(
    "POST",
    "/v1/workflow-runs/{workflowRunId}/nodes/{node}/reject",
    Right.APPROVE,
    body=DecisionIn,
    errors=(404, 409),
)
async def reject_node(services: Backend, call: ApiRequest) -> WorkflowRunOut:
    """Reject what a node waits for: the node fails."""
    return await _decide(services, call, approve=False)


async def _decide(services: Backend, call: ApiRequest, *, approve: bool) -> WorkflowRunOut:
    wanted: DecisionIn = decode(call.body or b"{}", DecisionIn)
    return await services.workflows.decide(
        _run(call), call.path["node"], call.caller, only=call.only, approve=approve, comment=wanted.comment
    )


@Operation(
    "GET",
    "/v1/workflow-runs/{workflowRunId}/nodes/{node}/members",
    Right.READ,
    query={"status": "`failed` (if not given), or `running`: those that have not ended", **_PAGE},
    errors=(404,),
)
async def list_members(services: Backend, call: ApiRequest) -> MemberList:
    """The members of a map that failed, or that have not ended."""
    status = call.query.get("status", "failed")
    if status not in ("failed", "running"):
        raise BadInputError("must be failed or running", field="status")
    return await services.workflows.members(
        _run(call),
        call.path["node"],
        call.caller,
        only=call.only,
        status=status,
        cursor=call.query.get("cursor", ""),
        limit=_limit(call),
    )


@Operation(
    "GET",
    "/v1/workflow-runs/{workflowRunId}/nodes/{node}/results",
    Right.READ,
    query=_PAGE,
    errors=(404,),
)
async def list_results(services: Backend, call: ApiRequest) -> MemberResults:
    """What the members of a map returned."""
    found, cursor = await services.workflows.results(
        _run(call),
        call.path["node"],
        call.caller,
        only=call.only,
        cursor=call.query.get("cursor", ""),
        limit=_limit(call),
    )
    items = []
    for index, result, key in found:
        value = result if key is None else (await services.fetch_stored(key))[0]
        items.append(MemberResult(index=index, result=value))
    return MemberResults(items=items, next_cursor=cursor)


def _workflow(call: ApiRequest) -> str:
    return call.path["workflowId"]


def _run(call: ApiRequest) -> str:
    return call.path["workflowRunId"]


def _limit(call: ApiRequest) -> int:
    given = call.query.get("limit", str(_PER_PAGE))
    if not given.isdecimal() or not given.isascii() or not 1 <= int(given) <= _MOST_PER_PAGE:
        raise BadInputError(f"must be a whole number from 1 to {_MOST_PER_PAGE}", field="limit")
    return int(given)


def _revision(call: ApiRequest) -> int | None:
    given: Any = only_header(call.request, "If-Match")
    if given is None:
        return None
    try:
        return msgspec.convert(given.strip('"'), int, strict=False)
    except msgspec.ValidationError:
        raise BadInputError("must be the revision of the workflow, a whole number", field="If-Match") from None


OPERATIONS = (
    create_workflow,
    list_workflows,
    get_workflow,
    change_workflow,
    delete_workflow,
    list_versions,
    run_workflow,
    list_workflow_runs,
    get_workflow_run,
    cancel_workflow_run,
    resume_workflow_run,
    pause_workflow,
    resume_workflow,
    send_signal,
    approve_node,
    reject_node,
    list_members,
    list_results,
)
