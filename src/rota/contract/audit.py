"""The audit trail."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from rota.contract.fields import Out


class AuditOut(Out, kw_only=True):
    """Who did what, when, from where, to which object. Without a `status` it is not known how it ended."""

    audit_id: str
    time: datetime
    actor: str
    actor_kind: str
    key_id: str | None = None
    source: str
    action: str
    object: str | None = None
    request: Any = None
    status: int | None = None
    change: Any = None


class AuditList(Out, kw_only=True):
    """A page of the trail."""

    items: list[AuditOut]
    next_cursor: str | None
