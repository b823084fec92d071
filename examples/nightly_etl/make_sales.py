"""Makes the tables, and a sale a minute for the last three days."""

from __future__ import annotations

import asyncio
import os

import asyncpg
from etl import TABLES

SALES = """
INSERT INTO etl_source
SELECT n, now() - n * interval '1 minute', (ARRAY['north', 'south', 'east'])[1 + n % 3], 100
  FROM generate_series(1, 3 * 1440) n
    ON CONFLICT DO NOTHING
"""


async def main() -> None:
    """What is there already stays."""
    connection = await asyncpg.connect(os.environ["DATABASE_URL"])
    await connection.execute(TABLES)
    await connection.execute(SALES)
    await connection.close()


if __name__ == "__main__":
    asyncio.run(main())
