"""Jobs as people ask for them. A recurring job has a row of its own; a one-shot is its run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from rota.domain.ids import LAST_ID, find_job_id, floor_id
from rota.domain.job import NODE_CAUSES, Definition
from rota.store.postgres.database import Database, Statements
from rota.store.read.runs import RunFilter, find_run, find_runs, read_list, waits_again
from rota.store.submit.chosen_ids import find_chosen

_CHOSEN = re.compile(r"[A-Za-z0-9_.:-]{1,200}")  # the database is asked for nothing else


class Jobs:
    """Reads jobs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, namespace: str, job_id: UUID) -> Any | None:
        """The row of a recurring job, or None."""
        return await find_job(self._database, namespace, job_id)

    async def find_id(self, namespace: str, text: str) -> UUID | None:
        """The generated id of the job that has this id, generated or chosen; None: no job has chosen it."""
        generated = find_job_id(text)
        if generated is not None or not _CHOSEN.fullmatch(text):
            return generated
        return (await find_chosen(self._database, [(namespace, text)])).get((namespace, text))

    async def owner(self, namespace: str, job_id: UUID) -> str | None:
        """Whose job it is; None when there is none."""
        owner: str | None = await self._database.fetch_value("owner_of_job", namespace=namespace, job_id=job_id)
        return owner

    async def first_run(self, namespace: str, job_id: UUID) -> Any | None:
        """The run that a one-shot job is; None when there is none or it is the run of another job."""
        return await find_one_shot(self._database, namespace, job_id)

    async def latest_run(self, namespace: str, job_id: UUID, now: datetime) -> Any | None:
        """The latest run of a job whose time has come (a one-shot's own in any case), or None."""
        return await find_latest_run(self._database, namespace, job_id, _bound(now))

    async def statuses(self, asked: Sequence[tuple[str, UUID]], now: datetime) -> dict[tuple[str, UUID], Any]:
        """Of each of these jobs that exists: its latest run as `latest_run` finds it, in short, and its state. Of a run
        that waits for its retry, the error is that of its last attempt."""
        rows = await self._database.fetch(
            "statuses_of_jobs",
            namespaces=[namespace for namespace, _ in asked],
            job_ids=[job_id for _, job_id in asked],
            before=_bound(now),
        )
        found = {(row["namespace"], row["asked_for"]): row for row in rows}
        # A statement of its own, for these few: the other would lock the days of the attempts, too.
        again = {key: row for key, row in found.items() if row["id"] is not None and waits_again(row)}
        if again:
            errors = await self._last_errors([(key[0], row["id"]) for key, row in again.items()])
            found |= {key: {**row, "error": errors.get((key[0], row["id"]))} for key, row in again.items()}
        return found

    async def _last_errors(self, runs: Sequence[tuple[str, UUID]]) -> dict[tuple[str, UUID], str | None]:
        """The errors of these runs' last attempts."""
        ids = [run_id for _, run_id in runs]
        rows = await self._database.fetch(
            "last_errors",
            namespaces=[namespace for namespace, _ in runs],
            run_ids=ids,
            first=min(ids),
            last=max(ids),
        )
        return {(row["namespace"], row["id"]): row["error"] for row in rows}

    async def find(self, namespace: str, wanted: RunFilter, limit: int) -> list[Any]:
        """Recurring jobs that match, latest made first; `listed_as` is where they stand among others."""

        async def read(statements: Statements) -> list[Any]:
            return await statements.fetch(
                "list_jobs", namespace=namespace, **msgspec.structs.asdict(wanted), limit=limit
            )

        return await read_list(self._database, read)

    async def find_one_shots(self, namespace: str, wanted: RunFilter, limit: int) -> list[Any]:
        """One-shot jobs that match, latest planned first."""
        return await find_runs(self._database, namespace, wanted, limit=limit, one_shots=True)


async def find_job(statements: Statements | Database, namespace: str, job_id: UUID) -> Any | None:
    """The row of a recurring job with its payload, or None."""
    return await statements.fetch_row("get_job", namespace=namespace, job_id=job_id)


async def find_one_shot(statements: Statements | Database, namespace: str, job_id: UUID) -> Any | None:
    """The run that a one-shot job is, as that of a node is; None when there is none or it is the run of another job."""
    row = await find_run(statements, namespace, job_id)
    return row if row is not None and (row["job_id"] == job_id or row["cause"] in NODE_CAUSES) else None


async def find_latest_run(
    statements: Statements | Database, namespace: str, job_id: UUID, before: UUID = LAST_ID
) -> Any | None:
    """The latest run of a job with an id below `before` (a one-shot's own in any case), or None."""
    return await statements.fetch_row("latest_run_of_job", namespace=namespace, job_id=job_id, before=before)


def _bound(now: datetime) -> UUID:
    """Above the ids of all runs whose time has come."""
    return floor_id(now + timedelta(milliseconds=1))


def definition_of(row: Any) -> Definition:
    """The definition in a row of jobs or runs; a large payload must have been fetched along."""
    payload = row["payload"] if row["payload"] is not None else row.get("large_payload")
    return Definition(
        row["owner"],
        row["name"],
        row["task"],
        row["pool"],
        row["priority"],
        tuple(row["tags"]),
        payload,
        row["options"],
        row["policies"],
        row.get("payload_blob"),
    )
