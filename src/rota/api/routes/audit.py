"""The audit trail, for admins."""

from __future__ import annotations

from typing import Any

import msgspec

from rota.api.backend import Backend
from rota.api.operations import ApiRequest, Operation
from rota.api.paging import PAGE_PARAMETERS, next_cursor, read_cursor, read_limit, read_moment, read_text
from rota.contract.access import AuditList, AuditOut
from rota.domain.ids import FIRST_ID, floor_id, show_key_id
from rota.domain.rights import Right
from rota.store.access.audit_trail import AuditFilter


@Operation(
    "GET",
    "/v1/audit",
    Right.ADMINISTER,
    query={
        "actor": "only of this actor",
        "action": "only this action: the operation's id in /openapi.json, such as cancel_job",
        "object": "only about this object: the id or name in the path",
        "startTime": "at or after this time (RFC 3339)",
        "endTime": "before this time (RFC 3339)",
        **PAGE_PARAMETERS,
    },
)
async def list_audit(services: Backend, call: ApiRequest) -> AuditList:
    """List who did what, when, from where and to which object, latest first."""
    query, limit = call.query, read_limit(call.query)
    start, end = read_moment(query, "startTime"), read_moment(query, "endTime")
    before = read_cursor(query)
    wanted = AuditFilter(
        first=floor_id(start) if start else FIRST_ID,
        before=min(before, floor_id(end)) if end else before,
        actor=read_text(query, "actor"),
        action=read_text(query, "action"),
        object=read_text(query, "object"),
    )
    rows = await services.auditor.trail.find(call.namespace, wanted, limit)
    return AuditList(items=[_show(row) for row in rows], next_cursor=next_cursor([row["id"] for row in rows], limit))


def _show(row: Any) -> AuditOut:
    return AuditOut(
        audit_id=f"audit_{row['id'].hex}",
        time=row["at"],
        actor=row["actor"],
        actor_kind=row["kind"],
        key_id=show_key_id(row["key_id"]) if row["key_id"] else None,
        source=row["source"],
        action=row["action"],
        object=row["object"],
        request=msgspec.Raw(row["request"].encode()) if row["request"] else None,
        status=row["status"],
        change=msgspec.Raw(row["change"].encode()) if row["change"] else None,
    )


OPERATIONS = (list_audit,)
