"""Backfills in tests: jobs with a past, and what became of their times."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from engine import plain
from rota.domain.ids import fire_id
from support import eventually, job

ENDED = ("completed", "aborted")


def moments(*texts: str) -> list[datetime]:
    return [datetime.fromisoformat(text).astimezone(UTC) for text in texts]


async def daily(api: Any, sql: Any, *, through: str | None = None, **fields: Any) -> str:
    """A job at 02:30 in Berlin; `through`: up to when its schedule has fired."""
    given = {
        "scheduleType": "cron",
        "cronExpression": "30 2 * * *",
        "timezone": "Europe/Berlin",
        "maxRetries": 0,
        **fields,
    }
    answer = await api.post("/v1/jobs", json=job(**given))
    assert answer.status_code == 201, answer.text
    job_id: str = answer.json()["jobId"]
    if through is not None:
        await sql.execute(
            "UPDATE rota.jobs SET fired_through = $2, next_fire_at = '2100-01-01', created_at = '2000-01-01'"
            " WHERE id = $1",
            plain(job_id),
            datetime.fromisoformat(through),
        )
    return job_id


async def create(api: Any, **fields: Any) -> dict[str, Any]:
    answer = await api.post("/v1/backfills", json=fields)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def look(api: Any, made: Any) -> dict[str, Any]:
    answer = await api.get(f"/v1/operations/{made['operationId']}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def until(api: Any, made: Any, *statuses: str) -> dict[str, Any]:
    async def there() -> Any:
        found = await look(api, made)
        return found if found["status"] in (statuses or ENDED) else None

    found: dict[str, Any] = await eventually(there, within=60)
    return found


async def times_of(sql: Any, cause: str = "backfill") -> list[datetime]:
    """The nominal times of all runs with this cause, wherever they are."""
    rows = await sql.fetch("SELECT nominal_at FROM rota.runs WHERE cause = $1 ORDER BY 1", cause)
    return [row["nominal_at"].astimezone(UTC) for row in rows]


async def record(sql: Any, job_id: str, moment: datetime, status: str, *, started: bool = True) -> UUID:
    """Writes the schedule's own run of a time to the history."""
    run_id = fire_id(plain(job_id), moment)
    await sql.execute("SELECT rota.make_day($1)", moment.date())
    await sql.execute(
        """INSERT INTO rota.finished_runs (namespace, id, job_id, job_version, owner, name, task, pool, priority, tags,
                                           options, cause, shard, nominal_at, run_at, created_at, status, started_at,
                                           finished_at)
           SELECT namespace, $2, id, version, owner, name, task, pool, priority, tags, options, 'schedule', shard,
                  $3, $3, $3, $4, CASE WHEN $5 THEN $3::timestamptz END, $3
             FROM rota.jobs WHERE id = $1""",
        plain(job_id),
        run_id,
        moment,
        status,
        started,
    )
    return run_id


async def make_live(sql: Any, job_id: str, moment: datetime) -> None:
    """The schedule's own run of a time waits for a worker."""
    await sql.execute(
        """INSERT INTO rota.live_runs (namespace, id, job_id, job_version, owner, name, task, pool, priority, tags,
                                       options, cause, shard, nominal_at, run_at, created_at, ready_at, lane)
           SELECT namespace, $2, id, version, owner, name, 'nobody', pool, priority, tags, options, 'schedule', shard,
                  $3, $3, $3, $3, rota.lane_of(namespace, pool, 'nobody', priority)
             FROM rota.jobs WHERE id = $1""",
        plain(job_id),
        fire_id(plain(job_id), moment),
        moment,
    )
