"""Backfills on the real database, served by real schedulers."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from backfilling import create, daily, look, moments, times_of, until

SPRING = moments(
    *("2026-03-27T02:30+01:00", "2026-03-28T02:30+01:00"),
    "2026-03-29T03:00+02:00",  # there is no 02:30: the time moves to the end of the gap
    *("2026-03-30T02:30+02:00", "2026-03-31T02:30+02:00"),
)
AUTUMN = moments("2026-10-24T02:30+02:00", "2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00")


@pytest.mark.parametrize("order", ["oldest", "newest"])
@pytest.mark.parametrize(
    ("begin", "end", "wanted"),
    [("2026-03-27", "2026-03-31T12:00", SPRING), ("2026-10-24", "2026-10-26T12:00", AUTUMN)],
    ids=["spring", "autumn"],
)
async def test_the_times_across_a_clock_change_are_those_of_the_calendar(api, engine, sql, begin, end, wanted, order):
    seen = []
    job_id = await daily(api, sql, task="note", payload={})
    made = await create(
        api, job=job_id, **{"from": f"{begin}T00:00:00Z", "to": f"{end}:00Z"}, order=order, concurrency=1
    )
    async with engine.running(engine.scheduler(), engine.worker({"note": lambda: seen.append(1)})):
        done = await until(api, made)
    assert done["status"] == "completed"
    assert await times_of(sql) == wanted
    assert done["counts"] == {
        **{"total": len(wanted), "made": len(wanted), "leftOut": 0, "running": 0},
        **{"success": len(wanted), "failed": 0, "cancelled": 0},
    }
    rows = await sql.fetch("SELECT nominal_at FROM rota.runs ORDER BY created_at, id")
    assert [row["nominal_at"] for row in rows] == (wanted if order == "oldest" else wanted[::-1])
    assert len(seen) == len(wanted)
    assert await sql.fetchval("SELECT count(*) FROM rota.operation_runs") == 0


async def test_times_that_the_schedule_has_not_fired_are_left_to_it(api, engine, sql):
    job_id = await daily(api, sql, through="2026-03-28T12:00:00+00:00")
    made = await create(api, job=job_id, **{"from": "2026-03-27T00:00:00Z"}, unknown="run")
    assert datetime.fromisoformat(made["to"]) == datetime(2026, 3, 28, 12, tzinfo=UTC)
    async with engine.running(engine.scheduler(), engine.worker()):
        await until(api, made)
    assert await times_of(sql) == SPRING[:2]
    assert (await look(api, made))["counts"]["total"] == 2
