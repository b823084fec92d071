"""Archives: the days of history that go to object storage, and which of them answer for their runs.

Each step is recorded under the revision that it was read at, so that of two schedulers at the same one goes on; what
the other has written is unused, and is collected. Detaching, attaching and dropping are functions with their owner's
rights.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from rota.domain.ids import FIRST_ID
from rota.domain.retention import EVERYTHING, RetentionPolicy
from rota.errors import ConflictError, NotFoundError
from rota.store.postgres.database import Database

_PAGE = 1000
_COUNT_SECONDS = 600.0
_LEAST_CLAIM = -(1 << 63)


class ArchiveTask(msgspec.Struct, frozen=True):
    """An archive on its way."""

    period: str
    number: int
    state: str
    revision: int
    first_id: UUID
    before_id: UUID
    kept: dict[str, list[str]]  # by namespace: outcomes that are archived
    index_key: str | None = None
    index_hash: str | None = None
    objects: str | None = None
    error: str | None = None
    restored_until: datetime | None = None
    runs: int | None = None
    attempts: int | None = None
    left_out: int | None = None


Page = Callable[[ArchiveTask, Any], Awaitable[list[Any]]]


class RetentionPolicies:
    """The retention policies of namespaces."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, namespace: str) -> Any | None:
        """The row of a namespace's policy, or None."""
        return await self._database.fetch_row("get_retention", namespace=namespace)

    async def policy(self, namespace: str) -> RetentionPolicy:
        """What holds in a namespace; without a policy, everything stays."""
        row = await self.get(namespace)
        return decode_policy(row["policy"]) if row else EVERYTHING

    async def all(self) -> dict[str, RetentionPolicy]:
        return {row["namespace"]: decode_policy(row["policy"]) for row in await self._database.fetch("list_retention")}

    async def put(self, namespace: str, policy: RetentionPolicy, changed_by: str) -> Any:
        return await self._database.fetch_row(
            "put_retention",
            namespace=namespace,
            policy=msgspec.json.encode(policy).decode(),
            changed_by=changed_by,
        )


class Archives:
    """Days that are archived."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def past_periods(self) -> list[str]:
        """Partitions of history that are over and on no way to the archive, oldest first."""
        return [row["period"] for row in await self._database.fetch("past_periods")]

    async def namespaces_of(self, first: UUID, before: UUID) -> list[str]:
        """The namespaces with runs in a period."""
        rows = await self._database.fetch("namespaces_of_period", first=first, before=before)
        return [row["namespace"] for row in rows]

    async def held_by(self, first: UUID, before: UUID) -> str | None:
        """What still needs the runs of a period; None: nothing."""
        if await self._database.fetch_value("has_fresh_logs", first=first, before=before):
            return "its logs are not all in object storage yet"
        reason: str | None = await self._database.fetch_value("holds_day", first=first, before=before)
        return reason

    async def plan(self, period: str, first: UUID, before: UUID, kept: Mapping[str, Sequence[str]]) -> bool:
        """Plans an archive; false: another has."""
        row = await self._database.fetch_row(
            "plan_archive", period=period, first=first, before=before, kept=msgspec.json.encode(kept).decode()
        )
        return row is not None

    async def plan_again(self, task: ArchiveTask, kept: Mapping[str, Sequence[str]]) -> None:
        """Has it written again, with what came since."""
        await self._database.fetch(
            "plan_again", period=task.period, number=task.number, kept=msgspec.json.encode(kept).decode()
        )

    async def open(self) -> list[ArchiveTask]:
        """Archives with something to do, oldest first."""
        return [_task_of(row) for row in await self._database.fetch("open_archives")]

    async def of_period(self, period: str) -> list[ArchiveTask]:
        return [_task_of(row) for row in await self._database.fetch("get_archive", period=period)]

    async def between(self, first: UUID, before: UUID) -> list[Any]:
        """Archives that answer for these ids, latest first."""
        return await self._database.fetch("archives_between", first=first, before=before)

    async def is_restored(self, run_id: UUID) -> bool:
        """Whether the day of this run was brought back."""
        restored: bool = await self._database.fetch_value("is_restored", run_id=run_id)
        return restored

    async def find_page(self, before: str, number: int, limit: int) -> list[Any]:
        """Archives before this one, latest first."""
        return await self._database.fetch("list_archives", before=before, number=number, limit=limit)

    async def watch(self, task: ArchiveTask) -> bool:
        """Has rows noted that come to the period from now on; false: it has no partition."""
        watched: bool = await self._database.fetch_value("watch_day", period=task.period)
        return watched

    async def jobs_of(self, task: ArchiveTask, after: Any) -> list[Any]:
        """A page of runs of jobs with many, job by job."""
        return await self._database.fetch(
            "page_of_jobs",
            first=task.first_id,
            before=task.before_id,
            after_namespace=after["namespace"] if after else "",
            after_job=after["job_id"] if after else FIRST_ID,
            after_id=after["id"] if after else FIRST_ID,
            limit=_PAGE,
        )

    async def runs_of(self, task: ArchiveTask, after: Any) -> list[Any]:
        """A page of runs in the order of ids."""
        return await self._database.fetch(
            "page_of_runs",
            first=task.first_id,
            before=task.before_id,
            after_namespace=after["namespace"] if after else "",
            after_id=after["id"] if after else FIRST_ID,
            limit=_PAGE,
        )

    async def attempts_of(self, task: ArchiveTask, after: Any) -> list[Any]:
        return await self._database.fetch("page_of_attempts", **_after_attempt(task, after))

    async def logs_of(self, task: ArchiveTask, after: Any) -> list[Any]:
        """A page of where logs are."""
        return await self._database.fetch("page_of_logs", **_after_attempt(task, after))

    async def count(self, task: ArchiveTask) -> tuple[int, int]:
        """How many runs and attempts the period has in the database."""
        rows = await self._database.fetch(
            "count_period", first=task.first_id, before=task.before_id, timeout=_COUNT_SECONDS
        )
        return rows[0]["runs"], rows[0]["attempts"]

    async def note_written(self, task: ArchiveTask, **written: Any) -> bool:
        """Records the objects; false: another process went on with it."""
        row = await self._database.fetch_row(
            "note_written", period=task.period, number=task.number, revision=task.revision, **written
        )
        return row is not None

    async def move(self, task: ArchiveTask, after: str) -> bool:
        """Records the next state; false: another process went on with it."""
        row = await self._database.fetch_row(
            "move_archive",
            period=task.period,
            number=task.number,
            revision=task.revision,
            before=task.state,
            after=after,
        )
        return row is not None

    async def note_error(self, task: ArchiveTask, error: str | None) -> None:
        await self._database.fetch("note_archive_error", period=task.period, number=task.number, error=error)

    async def detach(self, task: ArchiveTask) -> str | None:
        """Takes it out of history; None, or why that can't be done now."""
        reason: str | None = await self._database.fetch_value("detach_day", period=task.period, number=task.number)
        return reason

    async def drop(self, task: ArchiveTask) -> bool:
        dropped: bool = await self._database.fetch_value("drop_day", period=task.period, number=task.number)
        return dropped

    async def is_late(self, task: ArchiveTask) -> bool:
        """Whether rows came to the period since it was written or restored."""
        late: bool = await self._database.fetch_value("has_late_ends", period=task.period)
        return late

    async def payloads_of(self, task: ArchiveTask, after: Any) -> list[Any]:
        """A page of the runs of a detached period, with the payloads that they had."""
        return await self._database.fetch(
            "payloads_of_day",
            period=task.period,
            number=task.number,
            after_namespace=after["namespace"] if after else "",
            after_id=after["id"] if after else FIRST_ID,
            limit=_PAGE,
        )

    async def ask_restore(self, period: str, days: int) -> str:
        """Asks for a period to be restored; returns its state. Raises NotFoundError or ConflictError."""
        rows = await self._database.fetch("ask_restore", period=period, days=days)
        if rows:
            state: str = rows[0]["state"]
            return state
        if not await self.of_period(period):
            raise NotFoundError("there is no such archive")
        raise ConflictError("the day is on its way to the archive; wait until it is there")

    async def restore(self, period: str, parent: str, records: str) -> None:
        """Writes archived rows beside history."""
        await self._database.fetch("restore_rows", period=period, parent=parent, records=records)

    async def attach(self, period: str, until: datetime) -> bool:
        """Makes restored rows a part of history; false: try again."""
        attached: bool = await self._database.fetch_value("attach_day", period=period, until=until)
        return attached


def decode_policy(text: str) -> RetentionPolicy:
    return msgspec.json.decode(text, type=RetentionPolicy)


def _after_attempt(task: ArchiveTask, after: Any) -> dict[str, Any]:
    return {
        "first": task.first_id,
        "before": task.before_id,
        "after_namespace": after["namespace"] if after else "",
        "after_id": after["run_id"] if after else FIRST_ID,
        "after_claim": after["claim"] if after else _LEAST_CLAIM,
        "limit": _PAGE,
    }


def _task_of(row: Any) -> ArchiveTask:
    fields = {**row, "kept": msgspec.json.decode(row["kept"])}
    return ArchiveTask(**fields)
