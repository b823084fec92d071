"""The limit: the same row work as raw SQL, in batches of the same size, with nothing around it.

Three statements a round, on Rota's own tables in a database of their own on the same server: insert 1,000 ready runs,
claim 1,000, move 1,000 to history. The data goes over the wire as it must (ids and payloads in, claims out, claim
numbers back in), plans are pinned as Rota pins them. There is no HTTP, no validation, no task, no lease, no fencing
beyond the claim number, no clock, and no waiting: whoever has finished one statement sends the next. Two processes,
one per core; what they do together is the most that could be had.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from uuid import UUID, uuid4

import asyncpg
import uvloop

from rota.domain.ids import new_id
from rota.store.postgres.database import Database
from rota.store.postgres.session import OLDEST_SERVER, own_settings
from rota.store.schema.migrate import migrate

BATCH = 1000
INSERT = """
INSERT INTO rota.live_runs (namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload,
                            options, cause, shard, nominal_at, run_at, created_at, ready_at, lane)
SELECT 'default', i.id, i.id, 1, 'o', 'bench', 'noop', 'default', 0, '{}', i.payload, '{}', 'submit', i.n % 64,
       now(), now(), now(), now(), rota.lane_of('default', 'default', 'noop', 0::smallint)
  FROM unnest($1::uuid[], $2::text[]) WITH ORDINALITY AS i (id, payload, n)
"""
CLAIM = """
UPDATE rota.live_runs SET worker_id = $1, claim = nextval('rota.claim_numbers'), claimed_at = now()
 WHERE ctid = ANY (ARRAY(SELECT ctid FROM rota.live_runs
                          WHERE lane = rota.lane_of('default', 'default', 'noop', 0::smallint) AND worker_id IS NULL
                            AND ready_at >= $3
                          ORDER BY ready_at LIMIT $2 FOR UPDATE SKIP LOCKED))
RETURNING id, claim, payload, ready_at
"""
FINISH = """
WITH taken AS (
    DELETE FROM rota.live_runs WHERE namespace = 'default' AND id = ANY ($1::uuid[]) AND claim = ANY ($2::bigint[])
    RETURNING *
)
INSERT INTO rota.finished_runs (namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload,
                                options, cause, shard, nominal_at, run_at, attempt, created_at, status, started_at,
                                finished_at, worker_id, claim)
SELECT namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload, options, cause, shard,
       nominal_at, run_at, 1, created_at, 'success', now(), now(), worker_id, claim
  FROM taken
"""


async def measure_limit(server_url: str, database_url: str, *, seconds: float, processes: int) -> float:
    """Runs per second through all three statements."""
    administrator = await asyncpg.connect(server_url)
    try:
        await administrator.execute("DROP DATABASE IF EXISTS bench_limit WITH (FORCE)")
        await administrator.execute("CREATE DATABASE bench_limit")
        await _prepare(database_url)
        done = await asyncio.to_thread(_run_processes, database_url, seconds, processes)
    finally:
        await administrator.execute("DROP DATABASE IF EXISTS bench_limit WITH (FORCE)")
        await administrator.close()
    return done


async def _prepare(url: str) -> None:
    database = await Database.connect(url, size=1)
    await migrate(database)
    async with database.raw() as connection:
        await connection.execute("SELECT rota.make_day(current_date)")
    await database.close()


def _run_processes(url: str, seconds: float, processes: int) -> float:
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        return sum(pool.starmap(_worker, [(url, seconds)] * processes))


def _worker(url: str, seconds: float) -> float:
    return uvloop.run(_rounds(url, seconds))


async def _rounds(url: str, seconds: float) -> float:
    connection = await asyncpg.connect(url, server_settings=own_settings(OLDEST_SERVER))
    worker = uuid4()
    payloads = ['{"n": 1}'] * BATCH
    position = await connection.fetchval("SELECT now()")
    done = 0
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        await connection.execute(INSERT, [_id() for _ in range(BATCH)], payloads)
        rows = await connection.fetch(CLAIM, worker, BATCH, position)
        await connection.execute(FINISH, sorted(row[0] for row in rows), [row[1] for row in rows])
        done += len(rows)
    rate = done / (time.perf_counter() - began)
    await connection.close()
    return rate


def _id() -> UUID:
    return new_id(time.time())
