"""Runs by id, wherever they are, and lists of them.

A list is read in the order of ids until its page is full, so a filter that matches little reads the whole time range of
the namespace: about a second per half a million runs. Until such filters have indexes, `read_list` bounds that time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any
from uuid import UUID

import asyncpg
import msgspec

from rota.domain.ids import FIRST_ID, LAST_ID
from rota.errors import BadInputError, DatabaseUnavailableError, NotFoundError
from rota.store.postgres.database import Database, Statements

LIST_SECONDS = 5.0
Reader = Statements | Database


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
    def skips(self) -> bool:
        """Whether a list may have to read much more than it shows."""
        return any(one is not None for one in (self.owner, self.statuses, self.name, self.tag, self.task))


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
        return await find_runs(self._database, namespace, wanted, limit=limit, one_shots=False)

    async def find_soon(self, namespace: str, wanted: RunFilter, limit: int) -> list[Any]:
        """The same for a list that a caller asked for; raises BadInputError if it takes too long."""
        read = partial(find_runs, namespace=namespace, wanted=wanted, limit=limit, one_shots=False)
        return await read_list(self._database, wanted, read)

    async def list_of_job(self, namespace: str, job_id: UUID, before: UUID, limit: int) -> list[Any]:
        """A job's runs, latest first."""
        return await self._database.fetch(
            "list_runs_of_job", namespace=namespace, job_id=job_id, before=before, limit=limit
        )


async def find_runs(statements: Reader, namespace: str, wanted: RunFilter, *, limit: int, one_shots: bool) -> list[Any]:
    """Runs that match, latest planned first; `one_shots`: only runs that are their own job."""
    return await statements.fetch(
        "list_runs", namespace=namespace, **msgspec.structs.asdict(wanted), limit=limit, one_shots=one_shots
    )


async def read_list(database: Database, wanted: RunFilter, read: Callable[[Reader], Awaitable[list[Any]]]) -> list[Any]:
    """The rows of a list; raises BadInputError when its filter has made it read for too long."""
    if not wanted.skips:
        return await read(database)

    async def read_within(statements: Statements) -> list[Any]:
        await statements.fetch("limit_statement", milliseconds=str(round(LIST_SECONDS * 1000)))
        return await read(statements)

    try:
        return await database.transact(read_within)
    except DatabaseUnavailableError as error:
        if not isinstance(error.__cause__, asyncpg.QueryCanceledError):
            raise
        # Not 503, after which clients would have the same range read again.
        raise BadInputError(
            f"the list took longer than {LIST_SECONDS:g} s: choose a narrower range with startTime and endTime",
            field="startTime",
        ) from error


async def find_run(statements: Statements | Database, namespace: str, run_id: UUID) -> Any | None:
    """The run's row in the view, or None. History is asked last: a run that ends meanwhile is found there."""
    row = await statements.fetch_row("get_open_run", namespace=namespace, run_id=run_id)
    return row or await statements.fetch_row("get_finished_run", namespace=namespace, run_id=run_id)
