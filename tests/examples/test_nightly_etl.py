"""The ETL example: its own tests of the clock change, and missed nights that are caught up while workers are killed."""

from __future__ import annotations

from datetime import datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from stage import EXAMPLES

from support import eventually

HERE = EXAMPLES / "nightly_etl"
BERLIN = ZoneInfo("Europe/Berlin")
MISSED = 3
RUNS = "SELECT nominal_at, started_at, finished_at FROM rota.runs WHERE task = 'etl.nightly' ORDER BY nominal_at"


def missed_nights():
    """Half past two, local time, of the last days."""
    today = datetime.now(BERLIN) - timedelta(hours=2, minutes=31)
    days = [today.date() - timedelta(days=ago) for ago in range(MISSED)]
    return sorted(datetime.combine(day, time(2, 30), BERLIN) for day in days)


async def miss_nights(sql, nights):
    """As if nobody had been there to run them."""
    await eventually(lambda: sql.fetchval("SELECT id FROM rota.jobs WHERE task = 'etl.nightly'"))
    await sql.execute(
        "UPDATE rota.jobs SET fired_through = $1::timestamptz - interval '1 minute', next_fire_at = $1"
        " WHERE task = 'etl.nightly'",
        nights[0],
    )


@pytest.mark.scenario
async def test_missed_nights_are_caught_up_in_order_and_a_killed_one_goes_on_where_it_was(stage, sql):
    stage.run("make_sales.py", directory=HERE)
    nights = missed_nights()
    environment = {"ETL_PAGE_SECONDS": "0.2"}
    with stage.worker("etl:app", directory=HERE, **environment) as worker:
        await miss_nights(sql, nights)
        await eventually(lambda: sql.fetchval("SELECT count(*) > 1 FROM etl_pages"))
        worker.kill()
        worker.wait()
    with stage.worker("etl:app", directory=HERE, **environment):

        async def finished():
            runs = await sql.fetch(RUNS)
            return runs if len(runs) == MISSED and all(run["finished_at"] for run in runs) else None

        runs = await eventually(finished, within=60)
        expected = "SELECT region, sum(cents) cents FROM etl_sums GROUP BY region ORDER BY region"
        loaded = "SELECT region, cents FROM etl_totals ORDER BY region"

        async def all_loaded():
            return await sql.fetch(loaded) == await sql.fetch(expected)

        await eventually(all_loaded)
    assert [run["nominal_at"] for run in runs] == nights
    assert all(one["finished_at"] <= next_one["started_at"] for one, next_one in pairwise(runs))
    assert await sql.fetchval("SELECT count(*) FROM etl_pages WHERE attempt = 2 AND page = 0") == 0
    assert await sql.fetchval("SELECT sum(cents) FROM etl_totals") == 100 * await sold(sql, nights)


async def sold(sql, nights):
    """How many sales there were on the days before those nights."""
    begin = datetime.combine(nights[0].date() - timedelta(days=1), time(), BERLIN)
    end = datetime.combine(nights[-1].date(), time(), BERLIN)
    return await sql.fetchval("SELECT count(*) FROM etl_source WHERE sold_at >= $1 AND sold_at < $2", begin, end)
