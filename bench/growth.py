"""Growth: what waits for its time must not cost those that run now.

Runs due in a year are put into the table directly, spread over all shards, and never analysed. At each size the same
is measured: throughput, lag, and the time that one promotion and one claim take.
"""

from __future__ import annotations

import time
from datetime import timedelta
from uuid import uuid4

import asyncpg
import msgspec

from bench.lab import Lab
from bench.progress import Progress
from bench.punctuality import lags_of_stream
from bench.throughput import sustain
from rota.ops.bench_load import Spread, percentile
from rota.store.postgres.database import Statements
from rota.store.postgres.session import OLDEST_SERVER, own_settings

AT_A_TIME = 250_000
LOOKS = 50
PLANT = """
INSERT INTO rota.upcoming_runs (namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload,
                                options, cause, shard, nominal_at, run_at, created_at)
SELECT 'default', id, id, 1, 'admin', 'later', 'noop', 'default', 0, '{}', '{"n": 1}', '{}', 'submit', n % 64,
       due, due, now()
  FROM (SELECT n, now() + interval '1 year' + n * interval '10 milliseconds' AS due,
               (substr(rota.id_floor(now() + interval '1 year' + n * interval '10 milliseconds')::text, 1, 14) || '7'
                || substr(gen_random_uuid()::text, 16))::uuid AS id
          FROM generate_series($1::bigint, $2::bigint) AS n) AS s
"""


class Size(msgspec.Struct):
    """The figures with so many upcoming runs."""

    upcoming: int
    end_to_end_per_second: float
    beside_none_per_second: float
    share: float
    lag: Spread
    lag_beside_none: Spread
    claim_ms: float
    promote_ms: float


async def measure_growth(progress: Progress, *, sizes: list[int], seconds: float) -> list[Size]:
    """At each size beside an empty one, in turns, so that a machine that is slower for a while is so for both."""
    found: list[Size] = []
    planted = 0
    async with Lab(workers=2) as empty, Lab(workers=2) as lab:
        for other in (empty, lab):
            progress.say("warming up")
            await sustain(other, seconds / 2, progress, window=seconds)
        for size in sizes:
            while planted < size:
                last = min(size, planted + AT_A_TIME)
                await lab.database.execute(PLANT, planted + 1, last)
                planted = last
                if planted % (4 * AT_A_TIME) == 0:
                    progress.figure(f"{planted:,} upcoming runs are there")
            # What planting leaves to do is not what is to be measured.
            await lab.database.execute("VACUUM rota.upcoming_runs")
            await lab.database.execute("CHECKPOINT")
            progress.say(f"with {size:,} upcoming runs, beside none")
            found.append(await _measure(empty, lab, progress, size, seconds))
    return found


async def _measure(empty: Lab, lab: Lab, progress: Progress, size: int, seconds: float) -> Size:
    rates: dict[Lab, list[float]] = {empty: [], lab: []}
    for turn in (empty, lab, lab, empty, empty, lab):
        rates[turn].append((await sustain(turn, seconds / 2, progress, window=seconds)).per_second)
    rate, beside = (percentile(sorted(rates[place]), 0.5) for place in (lab, empty))
    lag, lag_beside = await lags_of_stream(lab, seconds / 2), await lags_of_stream(empty, seconds / 2)
    for place in (empty, lab):
        await place.database.execute("DELETE FROM rota.finished_runs WHERE name = 'steady'")
    connection = await asyncpg.connect(lab.database_url("rota"), server_settings=own_settings(OLDEST_SERVER))
    try:
        claim, promote = await _claim_time(connection), await _promote_time(connection)
    finally:
        await connection.close()
    progress.figure(
        f"{rate:,.0f} jobs/s beside {beside:,.0f} with none, lag p99 {lag.p99:.1f} ms beside {lag_beside.p99:.1f}, "
        f"claim {claim:.2f} ms, promote {promote:.2f} ms"
    )
    return Size(size, rate, beside, rate / beside, lag, lag_beside, claim, promote)


async def _claim_time(connection: asyncpg.Connection) -> float:
    """The median of a claim that finds nothing, in milliseconds."""
    worker = uuid4()
    statements = Statements(connection)
    registered = await statements.fetch(
        "register_worker",
        worker_id=worker,
        host="bench",
        pid=1,
        namespaces=["default"],
        pools=["default"],
        tasks=["nothing"],
        slots=1,
        lease=timedelta(seconds=60),
        **dict.fromkeys(("app_namespace", "app", "version", "schedules", "workflows", "release", "announced")),
    )
    lanes = [row["lane"] for row in registered]
    begin = [float("-inf")] * len(lanes)
    times = []
    for _ in range(LOOKS):
        began = time.perf_counter()
        await statements.fetch(
            "claim",
            worker_id=worker,
            lanes=lanes,
            begin_at=begin,
            room=100,
            lookahead=timedelta(seconds=1),
            portion=100,
        )
        times.append(time.perf_counter() - began)
    await connection.execute("DELETE FROM rota.workers WHERE id = $1", worker)
    return percentile(sorted(times), 0.5) * 1000


async def _promote_time(connection: asyncpg.Connection) -> float:
    """The median of a promotion over all shards that finds nothing, in milliseconds."""
    leases = await connection.fetch("SELECT shard, epoch, owner FROM rota.shard_leases WHERE owner IS NOT NULL")
    shards, epochs = [row["shard"] for row in leases], [row["epoch"] for row in leases]
    times = []
    for _ in range(LOOKS):
        began = time.perf_counter()
        await Statements(connection).fetch(
            "promote",
            scheduler_id=leases[0]["owner"],
            shards=shards,
            epochs=epochs,
            lookahead=timedelta(seconds=1),
            limit=200,
            missed_after=timedelta(seconds=60),
            begin_at=[float("-inf")] * len(shards),
        )
        times.append(time.perf_counter() - began)
    return percentile(sorted(times), 0.5) * 1000
