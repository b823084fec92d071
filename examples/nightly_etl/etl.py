"""Every night the sales of the day before are extracted, transformed and loaded: rota worker --app etl:app."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from datetime import date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import asyncpg

import rota

ZONE = ZoneInfo("Europe/Berlin")
PAGE_ROWS = 200
# How long the source takes for a page: something to be killed in.
PAGE_SECONDS = float(os.environ.get("ETL_PAGE_SECONDS", "0"))

app = rota.App("etl")


@app.lifespan
async def lifespan() -> AsyncIterator[None]:
    """One pool for each worker."""
    async with asyncpg.create_pool(os.environ["DATABASE_URL"], min_size=1, max_size=5) as pool:
        app.state.pool = pool
        yield


@app.cron("30 2 * * *", timezone=ZONE.key, misfire=rota.Misfire(policy="all", window_seconds=7 * 86400, cap=7))
@app.task(retries=5, timeout="4h", ordering_key="nightly")
async def nightly(context: rota.Context) -> dict[str, Any]:
    """The sales of the local day before this run's time, which may have 23 or 25 hours.

    Nights that were missed are caught up, and the ordering key lets one night run after the other. (`overlap` is for
    jobs of which one that waits is enough: it would skip all missed nights but one.)
    """
    day = context.nominal_time.astimezone(ZONE).date() - timedelta(days=1)
    done = context.last_checkpoint or {"page": 0, "transformed": False}
    while not done["transformed"] and await extract(day, done["page"], context.attempt):
        done["page"] += 1
        context.checkpoint(done)
    if not done["transformed"]:
        await transform(day)
        done["transformed"] = True
        context.checkpoint(done)
    return {"day": day, "pages": done["page"], "regions": await load(day)}


async def extract(day: date, page: int, attempt: int) -> bool:
    """Copies a page of the day's sales; False: it was the last. A page that comes twice, since the checkpoint behind
    it was lost, changes nothing."""
    await asyncio.sleep(PAGE_SECONDS)
    begin, end = (datetime.combine(moment, time(), ZONE) for moment in (day, day + timedelta(days=1)))
    async with app.state.pool.acquire() as connection, connection.transaction():
        rows: int = await connection.fetchval(EXTRACT, day, begin, end, PAGE_ROWS, page * PAGE_ROWS)
        await connection.execute(NOTE_PAGE, day, page, attempt)
    return rows == PAGE_ROWS


async def transform(day: date) -> None:
    """Sums by region; done again, it makes the same sums."""
    await app.state.pool.execute(TRANSFORM, day)


async def load(day: date) -> int:
    """Has each region loaded by a run of its own. A night that is tried again submits them under the same keys, so that
    there is one run for each, however often."""
    rows = await app.state.pool.fetch("SELECT region FROM etl_sums WHERE day = $1", day)
    calls = [
        load_region.with_options(idempotency_key=f"load {row['region']} {day}").call(day, row["region"]) for row in rows
    ]
    return len(await load_region.submit_many(calls))


@app.task(transactional=True, retries=5, concurrency_limit=4)
async def load_region(context: rota.Context, day: date, region: str) -> None:
    """Adds a region's sum to its total, exactly once."""
    await context.connection.execute(LOAD, day, region)


TABLES = """
CREATE TABLE IF NOT EXISTS etl_source (id bigint PRIMARY KEY, sold_at timestamptz, region text, cents bigint);
CREATE TABLE IF NOT EXISTS etl_staging (day date, id bigint, region text, cents bigint, PRIMARY KEY (day, id));
CREATE TABLE IF NOT EXISTS etl_pages (day date, page integer, attempt integer, PRIMARY KEY (day, page));
CREATE TABLE IF NOT EXISTS etl_sums (day date, region text, cents bigint, PRIMARY KEY (day, region));
CREATE TABLE IF NOT EXISTS etl_totals (region text PRIMARY KEY, cents bigint);
"""
EXTRACT = """
  WITH page AS (
       SELECT id, region, cents FROM etl_source
        WHERE sold_at >= $2 AND sold_at < $3 ORDER BY id LIMIT $4 OFFSET $5),
       copied AS (INSERT INTO etl_staging SELECT $1, id, region, cents FROM page ON CONFLICT DO NOTHING)
SELECT count(*) FROM page
"""
NOTE_PAGE = "INSERT INTO etl_pages VALUES ($1, $2, $3) ON CONFLICT DO NOTHING"
TRANSFORM = """
INSERT INTO etl_sums SELECT day, region, sum(cents) FROM etl_staging WHERE day = $1 GROUP BY day, region
    ON CONFLICT (day, region) DO UPDATE SET cents = excluded.cents
"""
LOAD = """
INSERT INTO etl_totals SELECT region, cents FROM etl_sums WHERE day = $1 AND region = $2
    ON CONFLICT (region) DO UPDATE SET cents = etl_totals.cents + excluded.cents
"""
