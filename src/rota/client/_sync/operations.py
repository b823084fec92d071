# Made from src/rota/client/async_operations.py by tools/make_sync.py (`make sync`): change that file, not this one.
"""Backfills, replays and bulk acts; the second part of `Client`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Literal, Unpack
from urllib.parse import quote

from rota.client._sync.submissions import JobSubmissions
from rota.client.bodies import BackfillFields, OperationChoice, ReplayChoice, fields_of
from rota.contract.operations import OperationKind, OperationList, OperationOut, OperationPreview, OperationStatus

_PAGE_SIZE = 100


class OperationCalls(JobSubmissions):
    """Creates operations on many runs, and looks after them."""

    def backfill(
        self,
        job: str | None = None,
        *,
        start: datetime,
        end: datetime | None = None,
        workflow: str | None = None,
        **fields: Unpack[BackfillFields],
    ) -> OperationOut:
        """Makes runs of a job's or workflow's times from `start` to `end` (now). Not retried once sent."""
        body = _backfill_body(job, workflow, start, end, fields)
        return self._ask(OperationOut, "POST", "/v1/backfills", body=body)

    def preview_backfill(
        self,
        job: str | None = None,
        *,
        start: datetime,
        end: datetime | None = None,
        workflow: str | None = None,
        **fields: Unpack[BackfillFields],
    ) -> OperationPreview:
        """What a backfill would do: how many runs, which times, what exists already, how long it would take."""
        body = _backfill_body(job, workflow, start, end, fields) | {"preview": True}
        return self._ask(OperationPreview, "POST", "/v1/backfills", body=body, repeatable=True)

    def replay(self, **choice: Unpack[ReplayChoice]) -> OperationOut:
        """Runs all finished runs that match again, as new runs. Not retried once sent."""
        return self._ask(OperationOut, "POST", "/v1/replays", body=fields_of(choice))

    def preview_replay(self, **choice: Unpack[ReplayChoice]) -> OperationPreview:
        """What a replay would do."""
        body = fields_of(choice) | {"preview": True}
        return self._ask(OperationPreview, "POST", "/v1/replays", body=body, repeatable=True)

    def operate(
        self, kind: Literal["redrive", "cancel"], *, everything: bool = False, **choice: Unpack[OperationChoice]
    ) -> OperationOut:
        """Redrives all dead letters, or cancels all runs, that match, in the background. Not retried once sent."""
        body = fields_of({"kind": kind, "all": everything or None, **choice})
        return self._ask(OperationOut, "POST", "/v1/operations", body=body)

    def preview_operation(
        self, kind: Literal["redrive", "cancel"], *, everything: bool = False, **choice: Unpack[OperationChoice]
    ) -> OperationPreview:
        """What `operate` would do."""
        body = fields_of({"kind": kind, "all": everything or None, **choice}) | {"preview": True}
        return self._ask(OperationPreview, "POST", "/v1/operations", body=body, repeatable=True)

    def backfills(
        self, *, status: OperationStatus | None = None, page_size: int = _PAGE_SIZE
    ) -> Iterator[OperationOut]:
        """Backfills, latest first."""
        return self._items(OperationList, "/v1/backfills", {"status": status}, page_size)

    def replays(self, *, status: OperationStatus | None = None, page_size: int = _PAGE_SIZE) -> Iterator[OperationOut]:
        """Replays, latest first."""
        return self._items(OperationList, "/v1/replays", {"status": status}, page_size)

    def operations(
        self,
        *,
        kind: OperationKind | None = None,
        status: OperationStatus | None = None,
        page_size: int = _PAGE_SIZE,
    ) -> Iterator[OperationOut]:
        """Backfills, replays, redrives and cancels, latest first."""
        return self._items(OperationList, "/v1/operations", {"kind": kind, "status": status}, page_size)

    def find_backfill(self, operation_id: str) -> OperationOut:
        """A backfill with some of its runs that did not succeed."""
        return self._ask(OperationOut, "GET", _path("backfills", operation_id), repeatable=True)

    def pause_backfill(self, operation_id: str) -> OperationOut:
        """Pauses a backfill: runs that it made go on."""
        return self._ask(OperationOut, "POST", _path("backfills", operation_id, "pause"), repeatable=True)

    def resume_backfill(self, operation_id: str) -> OperationOut:
        """Resumes a backfill that was paused, or stopped because too much failed."""
        return self._ask(OperationOut, "POST", _path("backfills", operation_id, "resume"), repeatable=True)

    def abort_backfill(self, operation_id: str) -> OperationOut:
        """Aborts a backfill: what waits of it is cancelled, what runs goes on to its end."""
        return self._ask(OperationOut, "POST", _path("backfills", operation_id, "abort"), repeatable=True)

    def find_replay(self, operation_id: str) -> OperationOut:
        """A replay with some of its runs that did not succeed."""
        return self._ask(OperationOut, "GET", _path("replays", operation_id), repeatable=True)

    def pause_replay(self, operation_id: str) -> OperationOut:
        """Pauses a replay: runs that it made go on."""
        return self._ask(OperationOut, "POST", _path("replays", operation_id, "pause"), repeatable=True)

    def resume_replay(self, operation_id: str) -> OperationOut:
        """Resumes a replay that was paused, or stopped because too much failed."""
        return self._ask(OperationOut, "POST", _path("replays", operation_id, "resume"), repeatable=True)

    def abort_replay(self, operation_id: str) -> OperationOut:
        """Aborts a replay: what waits of it is cancelled, what runs goes on to its end."""
        return self._ask(OperationOut, "POST", _path("replays", operation_id, "abort"), repeatable=True)

    def operation(self, operation_id: str) -> OperationOut:
        """An operation of any kind, with some of its runs that did not succeed."""
        return self._ask(OperationOut, "GET", _path("operations", operation_id), repeatable=True)

    def pause_operation(self, operation_id: str) -> OperationOut:
        """Pauses an operation: runs that it made go on."""
        return self._ask(OperationOut, "POST", _path("operations", operation_id, "pause"), repeatable=True)

    def resume_operation(self, operation_id: str) -> OperationOut:
        """Resumes an operation that was paused, or stopped because too much failed."""
        return self._ask(OperationOut, "POST", _path("operations", operation_id, "resume"), repeatable=True)

    def abort_operation(self, operation_id: str) -> OperationOut:
        """Aborts an operation: what waits of it is cancelled, what runs goes on to its end."""
        return self._ask(OperationOut, "POST", _path("operations", operation_id, "abort"), repeatable=True)


def _backfill_body(
    job: str | None, workflow: str | None, start: datetime, end: datetime | None, fields: BackfillFields
) -> dict[str, Any]:
    return fields_of({"job": job, "workflow": workflow, "from": start, "to": end, **fields})


def _path(kind: str, operation_id: str, act: str | None = None) -> str:
    path = f"/v1/{kind}/{quote(operation_id, safe='')}"
    return path if act is None else f"{path}/{act}"
