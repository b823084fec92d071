"""Runs of days that are over, for tests of retention and of the archive."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from rota.domain.ids import new_id

TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


class PastDays:
    """Writes history as it would be had its runs ended long ago."""

    def __init__(self, sql) -> None:
        self._sql = sql

    async def add(
        self,
        days_ago,
        count=1,
        *,
        status="success",
        owner="ada",
        namespace="default",
        job_id=None,
        payload_id=None,
        attempts=0,
        **others,
    ) -> list[UUID]:
        """Adds runs of one day; `job_id`: of that job, else each is its own."""
        noon = TODAY - timedelta(days=days_ago) + timedelta(hours=12)
        await self._sql.execute("SELECT rota.make_day($1)", noon.date())
        ids = [new_id(noon.timestamp() + at) for at in range(count)]
        for run_id in ids:
            columns = {
                "namespace": namespace,
                "id": run_id,
                "job_id": job_id or run_id,
                "job_version": 1,
                "owner": owner,
                "name": "old",
                "task": "rota.echo",
                "pool": "default",
                "priority": 0,
                "tags": ["t"],
                "payload": None if payload_id else '{"a": 1}',
                "payload_id": payload_id,
                "options": "{}",
                "cause": "schedule" if job_id else "submit",
                "shard": 1,
                "nominal_at": noon,
                "run_at": noon,
                "created_at": noon,
                "status": status,
                "started_at": noon,
                "finished_at": noon + timedelta(seconds=1),
                "result": '"done"',
                "attempt": attempts,
                **others,
            }
            await self._sql.execute(
                f"INSERT INTO rota.finished_runs ({', '.join(columns)})"
                f" VALUES ({', '.join(f'${n}' for n in range(1, len(columns) + 1))})",
                *columns.values(),
            )
            for number in range(attempts):
                await self._sql.execute(
                    "INSERT INTO rota.attempts (namespace, run_id, claim, number, started_at, finished_at, outcome,"
                    " error) VALUES ($1, $2, $3::int, $3::int, $4, $4, 'failed', 'no')",
                    namespace,
                    run_id,
                    number + 1,
                    noon,
                )
        return ids

    async def states(self) -> dict[str, str]:
        """The state of each archive by its period."""
        return {row["period"]: row["state"] for row in await self._sql.fetch("SELECT * FROM rota.archives")}

    async def partitions(self) -> set[str]:
        """The tables of past days."""
        rows = await self._sql.fetch(
            "SELECT relname FROM pg_class WHERE relnamespace = 'rota'::regnamespace AND relkind = 'r'"
            " AND relname ~ 'finished_runs_|attempts_|kept_logs_'"
        )
        return {row["relname"] for row in rows}


def period(days_ago) -> str:
    return f"{TODAY - timedelta(days=days_ago):%Y%m%d}"


async def keep(api: Any, days: int = 30, *, namespace: str = "default", history: Any = None, **policy: Any) -> None:
    """All outcomes stay so many days, unless `history` says something else of one."""
    outcomes = dict.fromkeys(("success", "failed", "cancelled", "skipped"), days) | (history or {})
    headers = {"Rota-Namespace": namespace}
    answer = await api.put("/v1/retention", json={"history": outcomes, **policy}, headers=headers)
    assert answer.status_code == 200, answer.text
