"""Nights around the clock changes, in a time that the test moves."""

from __future__ import annotations

from datetime import UTC, datetime

import asyncpg
import pytest
from etl import TABLES

from rota.testing import Kit

# One sale every hour, of one cent, for ten days from this moment.
SALES = """
INSERT INTO etl_source
SELECT n, $1::timestamptz + n * interval '1 hour', 'north', 1 FROM generate_series(0, 240) n
"""


@pytest.fixture(autouse=True)
async def _database(rota_database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables are there before the application's lifespan begins."""
    monkeypatch.setenv("DATABASE_URL", rota_database_url)
    connection = await asyncpg.connect(rota_database_url)
    await connection.execute(TABLES)
    await connection.close()


async def sums(kit: Kit) -> list[int]:
    """The sums of the days, which are the hours they had."""
    connection = await asyncpg.connect(kit.database_url)
    found = await connection.fetch("SELECT cents FROM etl_sums ORDER BY day")
    await connection.close()
    return [row["cents"] for row in found]


@pytest.mark.parametrize(
    ("friday", "starts", "hours"),
    [
        (datetime(2027, 3, 26, 12, tzinfo=UTC), ["27 01:30", "28 01:00", "29 00:30"], [24, 24, 23]),
        (datetime(2027, 10, 29, 12, tzinfo=UTC), ["30 00:30", "31 00:30", "01 01:30"], [24, 24, 25]),
    ],
    ids=["forward", "back"],
)
async def test_each_night_runs_once_when_the_clocks_change(
    rota_kit: Kit, friday: datetime, starts: list[str], hours: list[int]
) -> None:
    """In March there is no half past two on Sunday: that night runs at three. The Sunday has 23 hours, or 25."""
    await rota_kit.travel_to(friday)
    connection = await asyncpg.connect(rota_kit.database_url)
    await connection.execute(SALES, datetime(friday.year, friday.month, friday.day - 3, tzinfo=UTC))
    await connection.close()
    runs = await rota_kit.advance(days=3)
    nights = [run for run in runs if run.task == "etl.nightly" and run.started]
    assert [run.started.strftime("%d %H:%M") for run in nights if run.started] == starts
    assert await sums(rota_kit) == hours
    await rota_kit.assert_no_failures()
