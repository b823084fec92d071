"""Backfills in tests: jobs with a past, and what became of their times."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from engine import plain
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
