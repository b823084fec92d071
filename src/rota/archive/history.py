"""Runs and jobs wherever they are: in the database, or in an archived day. What retention hides is not shown.

The database is asked first. A day leaves it in the transaction that gives it to the archive, so that a run that is not
found there is found here; one that moves between the two looks of a list is shown once.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from rota.archive.lookup import ArchiveLookup, FoundRuns
from rota.domain.ids import FIRST_ID
from rota.domain.retention import EVERYTHING, OUTCOMES, RetentionPolicy, bands
from rota.errors import NotFoundError
from rota.store.archive import Archives, RetentionPolicies
from rota.store.postgres.database import Database
from rota.store.read.jobs import Jobs
from rota.store.read.runs import RunFilter, Runs

_POLICY_SECONDS = 5.0
_TRIES = 3


class RunPage(NamedTuple):
    """A page of runs. `cursor`: below which the next one begins; None: there is none."""

    rows: list[Any]
    cursor: UUID | None
    archive_read: bool
    is_partial: bool


class PolicyCache:
    """The retention policies of namespaces, a few seconds old at most."""

    def __init__(self, policies: RetentionPolicies) -> None:
        self._policies = policies
        self._known: dict[str, RetentionPolicy] = {}
        self._read_at = -_POLICY_SECONDS

    async def of(self, namespace: str) -> RetentionPolicy:
        if time.monotonic() >= self._read_at + _POLICY_SECONDS:
            self._known = await self._policies.all()
            self._read_at = time.monotonic()
        return self._known.get(namespace, EVERYTHING)

    def forget(self) -> None:
        """After a change, in the process that made it."""
        self._read_at = -_POLICY_SECONDS


class History(Runs):
    """Reads runs, archived ones too."""

    def __init__(
        self, database: Database, lookup: ArchiveLookup, policies: PolicyCache, now: Callable[[], datetime]
    ) -> None:
        super().__init__(database)
        self._lookup = lookup
        self._archives = Archives(database)
        self._policies = policies
        self._now = now

    async def get(self, namespace: str, run_id: UUID) -> Any:
        """The run's row; an archived one has `archived`. Raises NotFoundError."""
        for _ in range(_TRIES):
            row = await self._find(namespace, run_id)
            if row is not None:
                if (await self._policies.of(namespace)).hides(row, self._now()):
                    break
                return row
            row = await self._lookup.get(namespace, run_id)
            if row is not None:
                return {**row, "database_time": self._now()}
            if not await self._archives.is_restored(run_id):  # between the two looks, perhaps
                break
        raise NotFoundError("there is no such run")

    async def attempts(self, namespace: str, run_id: UUID) -> list[Any]:
        return await super().attempts(namespace, run_id) or await self._lookup.attempts(namespace, run_id)

    async def owned(self, namespace: str, run_ids: Sequence[UUID], owner: str) -> list[UUID]:
        found = await super().owned(namespace, run_ids, owner)
        if not found and len(run_ids) == 1:
            row = await self._lookup.get(namespace, run_ids[0])
            return [run_ids[0]] if row is not None and row["owner"] == owner else []
        return found

    async def find_page(self, namespace: str, wanted: RunFilter, limit: int) -> RunPage:
        """Runs that match, latest planned first; raises BadInputError if that takes too long."""

        async def in_database() -> tuple[list[Any], UUID | None]:
            rows = await self._find_shown(namespace, wanted, limit)
            return rows, rows[-1]["id"] if len(rows) == limit else None

        async def in_archive(first: UUID) -> FoundRuns:
            return await self._lookup.find(namespace, _narrowed(wanted, first), limit)

        return await self._merge(namespace, wanted.first, wanted.before, limit, in_database, in_archive)

    async def page_of_job(self, namespace: str, job_id: UUID, before: UUID, limit: int) -> RunPage:
        """A job's runs, latest first."""

        async def in_database() -> tuple[list[Any], UUID | None]:
            rows = await self.list_of_job(namespace, job_id, before, limit)
            policy, now = await self._policies.of(namespace), self._now()
            shown = [row for row in rows if not policy.hides(row, now)]
            return shown, rows[-1]["id"] if len(rows) == limit else None

        async def in_archive(first: UUID) -> FoundRuns:
            found = await self._lookup.list_of_job(namespace, job_id, before, limit)
            return found._replace(rows=[row for row in found.rows if row["id"] >= first])

        return await self._merge(namespace, FIRST_ID, before, limit, in_database, in_archive)

    async def _find(self, namespace: str, run_id: UUID) -> Any | None:
        try:
            return await super().get(namespace, run_id)
        except NotFoundError:
            return None

    async def _find_shown(self, namespace: str, wanted: RunFilter, limit: int) -> list[Any]:
        """Runs in the database that match and are not hidden."""
        policy = await self._policies.of(namespace)
        if policy == EVERYTHING:
            return await self.find_soon(namespace, wanted, limit)
        rows: list[Any] = []
        for band in bands(policy, self._now(), wanted.first, wanted.before, wanted.statuses):
            some = msgspec.structs.replace(wanted, first=band.first, before=band.before, statuses=band.statuses)
            rows += await self.find_soon(namespace, some, limit - len(rows))
            if len(rows) >= limit:
                break
        return rows

    async def _merge(
        self,
        namespace: str,
        first: UUID,
        before: UUID,
        limit: int,
        in_database: Callable[[], Awaitable[tuple[list[Any], UUID | None]]],
        in_archive: Callable[[UUID], Awaitable[FoundRuns]],
    ) -> RunPage:
        """One page of both; read again if a day came back to the database between the two looks."""
        for left in reversed(range(_TRIES)):
            asked = {(one["period"], one["number"]) for one in await self._archives.between(first, before)}
            rows, end = await in_database()
            found = await in_archive(end or first)
            now_asked = {(one["period"], one["number"]) for one in await self._archives.between(first, before)}
            if asked <= now_asked or not left:
                break
        policy, now = await self._policies.of(namespace), self._now()
        shown = {row["id"]: row for row in found.rows if not policy.hides(row, now)} | {row["id"]: row for row in rows}
        merged = sorted(shown.values(), key=lambda row: row["id"], reverse=True)
        if found.reached is not None:
            merged = [row for row in merged if row["id"] >= found.reached]
        cut = merged[:limit]
        cursor = cut[-1]["id"] if len(cut) == limit else found.reached or end
        return RunPage(cut, cursor, found.is_read, found.reached is not None)


def _narrowed(wanted: RunFilter, first: UUID) -> RunFilter:
    statuses = None if wanted.statuses is None else [one for one in wanted.statuses if one in OUTCOMES]
    return msgspec.structs.replace(wanted, first=max(first, wanted.first), statuses=statuses)


class JobHistory(Jobs):
    """Reads jobs; one that ran once is found in the archive, too."""

    def __init__(self, database: Database, lookup: ArchiveLookup) -> None:
        super().__init__(database)
        self._lookup = lookup

    async def owner(self, namespace: str, job_id: UUID) -> str | None:
        owner = await super().owner(namespace, job_id)
        if owner is None and (row := await self._archived(namespace, job_id)) is not None:
            return str(row["owner"])
        return owner

    async def first_run(self, namespace: str, job_id: UUID) -> Any | None:
        return await super().first_run(namespace, job_id) or await self._archived(namespace, job_id)

    async def latest_run(self, namespace: str, job_id: UUID, now: datetime) -> Any | None:
        return await super().latest_run(namespace, job_id, now) or await self._archived(namespace, job_id)

    async def _archived(self, namespace: str, job_id: UUID) -> Any | None:
        """An archived run that is its own job."""
        row = await self._lookup.get(namespace, job_id)
        return row if row is not None and row["job_id"] == job_id else None
