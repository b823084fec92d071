"""Runs by id, wherever they are, and lists of them.

A list without a filter is read in the order of ids until its page is full. With filters a short stretch is read in that
order, and then an index that knows what runs can be found by (decision 0021).

Both cost little, however many runs there are that don't match. Time is bounded all the same, for what has no such
index: ready and held runs, and days from before the index that no scheduler has got to yet.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

import asyncpg
import msgspec

from rota.domain.ids import FIRST_ID, LAST_ID
from rota.errors import BadInputError, DatabaseUnavailableError, NotFoundError
from rota.store.postgres.database import Database, Statements

LIST_SECONDS = 5.0
_WAITING = frozenset({"retrying", "blocked", "queued"})
_USUAL = {"success", "scheduled"}  # statuses without labels: nearly all runs have one of them
_WALK = 3000  # runs that are read in order before the index is asked: a frequent value fills a page sooner than that


class RunFilter(msgspec.Struct, frozen=True):
    """Which runs to list: ids in [first, before), and fields that must match (None: any)."""

    first: UUID = FIRST_ID
    before: UUID = LAST_ID
    owner: str | None = None
    statuses: list[str] | None = None
    name: str | None = None
    tag: str | None = None
    task: str | None = None

    @property
    def searches(self) -> bool:
        """Whether runs can be found by labels; those in a usual status can't by it alone."""
        if any(one is not None for one in (self.owner, self.name, self.tag, self.task)):
            return True
        return self.statuses is not None and not _USUAL & {*self.statuses}


def waits_again(row: Any) -> bool:
    """Whether a run waits for its next attempt, after one that failed."""
    return row["attempt"] > 0 and row["status"] in _WAITING


class Runs:
    """Reads runs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, namespace: str, run_id: UUID) -> Any:
        """The run's row in the view; raises NotFoundError."""
        row = await find_run(self._database, namespace, run_id)
        if row is None:
            raise NotFoundError("there is no such run")
        return row

    async def get_ended(self, namespace: str, run_id: UUID) -> tuple[Any, list[Any]] | None:
        """The row of a run that has ended, and its attempts that did not succeed; None if it has not."""

        async def read_ended(statements: Statements) -> tuple[Any, list[Any]] | None:
            row = await statements.fetch_row("get_finished_run", namespace=namespace, run_id=run_id)
            if row is None:
                return None
            return row, await statements.fetch("attempts_of_run", namespace=namespace, run_id=run_id)

        return await self._database.transact(read_ended, custom=True)

    async def owned(self, namespace: str, run_ids: Sequence[UUID], owner: str) -> list[UUID]:
        """Which of these are this owner's."""
        return [
            row["id"]
            for row in await self._database.fetch("owned_runs", namespace=namespace, run_ids=list(run_ids), owner=owner)
        ]

    async def ended(self, wanted: Sequence[tuple[str, UUID]]) -> set[tuple[str, UUID]]:
        """Which of these runs, each with its namespace, have ended."""
        namespaces, ids = [namespace for namespace, _ in wanted], [run_id for _, run_id in wanted]
        if not ids:
            return set()
        rows = await self._database.fetch(
            "ended_runs", namespaces=namespaces, run_ids=ids, first=min(ids), last=max(ids)
        )
        return {(row["namespace"], row["id"]) for row in rows}

    async def attempts(self, namespace: str, run_id: UUID) -> list[Any]:
        """Its attempts that did not succeed."""
        return await self._database.fetch("attempts_of_run", namespace=namespace, run_id=run_id)

    async def find(self, namespace: str, wanted: RunFilter, limit: int) -> list[Any]:
        """Runs that match, latest planned first, however long that takes."""
        return await find_runs(self._database, namespace, wanted, limit=limit, one_shots=False, seconds=0)

    async def find_soon(self, namespace: str, wanted: RunFilter, limit: int) -> list[Any]:
        """The same for a list that a caller asked for; raises BadInputError if it takes too long."""
        return await find_runs(self._database, namespace, wanted, limit=limit, one_shots=False)

    async def list_of_job(self, namespace: str, job_id: UUID, before: UUID, limit: int) -> list[Any]:
        """A job's runs, latest first."""
        return await self._database.fetch(
            "list_runs_of_job", namespace=namespace, job_id=job_id, before=before, limit=limit
        )

    async def last_of_job(self, namespace: str, job_id: UUID, limit: int) -> list[Any]:
        """The latest of a job's runs that have ended."""
        return await self._database.fetch("last_runs_of_job", namespace=namespace, job_id=job_id, limit=limit)


async def find_runs(
    database: Database,
    namespace: str,
    wanted: RunFilter,
    *,
    limit: int,
    one_shots: bool,
    seconds: float | None = None,
) -> list[Any]:
    """Runs that match, latest planned first; `one_shots`: only runs that are their own job."""

    async def read(statements: Statements) -> list[Any]:
        ends: dict[str, Any] = {"first": wanted.first, "before": wanted.before, "limit": limit, "one_shots": one_shots}
        if not wanted.searches:
            return await statements.fetch("list_runs", namespace=namespace, statuses=wanted.statuses, **ends)
        return await statements.fetch(
            "search_runs",
            namespace=namespace,
            **ends,
            owner=wanted.owner,
            statuses=wanted.statuses,
            name=wanted.name,
            tag=wanted.tag,
            task=wanted.task,
            walk=max(_WALK, limit),
        )

    return await read_list(database, read, seconds)


async def read_list(
    database: Database, read: Callable[[Statements], Awaitable[list[Any]]], seconds: float | None = None
) -> list[Any]:
    """The rows of a list; raises BadInputError when it has read for too long. `seconds`: how long; 0 for any time."""
    seconds = LIST_SECONDS if seconds is None else seconds

    async def read_within(statements: Statements) -> list[Any]:
        await statements.fetch("prepare_list", milliseconds=str(round(seconds * 1000)))
        return await read(statements)

    try:
        return await database.transact(read_within)
    except DatabaseUnavailableError as error:
        if not isinstance(error.__cause__, asyncpg.QueryCanceledError):
            raise
        # Not 503, after which clients would have the same range read again.
        raise BadInputError(
            f"the list took longer than {seconds:g} s: choose a narrower range with startTime and endTime",
            field="startTime",
        ) from error


async def find_run(statements: Statements | Database, namespace: str, run_id: UUID) -> Any | None:
    """The run's row in the view, or None. History is asked last: a run that ends meanwhile is found there."""
    row = await statements.fetch_row("get_open_run", namespace=namespace, run_id=run_id)
    return row or await statements.fetch_row("get_finished_run", namespace=namespace, run_id=run_id)
