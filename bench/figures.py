"""Figures: what it costs to keep a month of them for 50 pools, and to look at it.

A month per hour and two days per minute are put into the tables directly, for a namespace with 50 pools and 50 tasks.
Each range is asked for over HTTP, of the namespace and of a pool. Then a minute of tallies of 100 workers is rolled up,
some times over; and a worker's own counting is measured without a database.
"""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from uuid import UUID

import msgspec

from bench.lab import Lab
from bench.progress import Progress
from rota.broker.pool_tally import PoolTally
from rota.domain.lag_histogram import exact_quantile
from rota.domain.run import Claim, Disposition, Outcome, Report
from rota.ops.bench_load import Spread
from rota.store.postgres.statements import load

POOLS = 50
WORKERS = 100
PLANT_SECONDS = 300.0
FRESH_SECONDS = 5.5  # after which the server looks again
RANGES = ("10m", "1h", "24h", "7d", "30d")
ATTEMPTS = 20_000
PLANT = """
INSERT INTO rota.figures
SELECT s.namespace, s.kind, s.name, $1, at, 1200, 1180, 5, 15, 600,
       '{"0": 400, "1": 300, "2": 200, "3": 150, "4": 100, "5": 30, "6": 15, "8": 4, "10": 1}',
       '{"6": 200, "7": 400, "8": 300, "9": 200, "10": 80, "11": 20}',
       12, 60, 20, 48, 600, 300, 24, '{"limit": 30, "order": 12}'
  FROM generate_series(date_bin(make_interval(secs => $1), now(), '2000-01-01Z') - $2 * interval '1 day',
                       date_bin(make_interval(secs => $1), now() - make_interval(secs => $1 + 600), '2000-01-01Z'),
                       make_interval(secs => $1)) AS at
 CROSS JOIN (SELECT '' AS namespace, 'namespace' AS kind, '' AS name
             UNION ALL SELECT 'default', 'namespace', ''
             UNION ALL SELECT 'default', kind, kind || '-' || n
                         FROM generate_series(1, $3) AS n, unnest(ARRAY['pool', 'task']) AS kind) AS s
ON CONFLICT DO NOTHING
"""
TELL = """
INSERT INTO rota.tallies
SELECT date_trunc('minute', now()) - interval '2 minutes' + portion * interval '5 seconds', 'default', 'pool-' || pool,
       md5('worker-' || worker)::uuid, 20, 18, 1, 1, array_fill(1, ARRAY[32]), array_fill(1, ARRAY[32]), 10
  FROM generate_series(0, 11) AS portion, generate_series(1, $1) AS pool, generate_series(1, $2) AS worker
 WHERE pool % 10 = worker % 10
"""

UNWRITE = "DELETE FROM rota.figures WHERE step = 60 AND at = date_trunc('minute', now()) - interval '2 minutes'"


class HistoryLook(msgspec.Struct):
    """One range: how long an answer took, and how many points it had."""

    path: str
    points: int
    took: Spread


class FigureCosts(msgspec.Struct):
    """The scenario's figures."""

    pools: int
    rows: int
    table_bytes: int
    looks: list[HistoryLook]
    tallies: int
    roll_up_ms: float
    sample_ms: float
    counting_us: float


async def measure_figures(progress: Progress, *, days: int, turns: int) -> FigureCosts:
    """Looks at history of so many days, and what a minute costs."""
    async with Lab() as lab:
        progress.say(f"planting {days} days of figures of {POOLS} pools")
        for step, kept in ((60, min(days, 2)), (3600, days)):
            await lab.database.execute(PLANT, step, kept, POOLS, timeout=PLANT_SECONDS)
        await lab.database.execute("ANALYZE rota.figures")
        rows = await lab.database.fetchval("SELECT count(*) FROM rota.figures")
        size = await lab.database.fetchval("SELECT pg_total_relation_size('rota.figures')")
        progress.say("asking for history")
        looks = [
            await _ask(lab, f"/v1/stats/history?range={back}{pool}", turns)
            for back in RANGES
            for pool in ("", "&pool=pool-7")
        ]
        worst = max(looks, key=lambda look: look.took.p50)
        progress.figure(f"the slowest history took {worst.took.p50:.1f} ms ({worst.path})")
        progress.say(f"rolling up a minute of {WORKERS} workers")
        await lab.database.execute(TELL, POOLS, WORKERS)
        tallies = await lab.database.fetchval("SELECT count(*) FROM rota.tallies")
        wanted = {"kept": timedelta(minutes=14), "grace": timedelta(seconds=10), "most_tasks": 100}
        roll_up = await _timed(lab, "roll_up_minutes", turns, **wanted)
        sample = await _timed(lab, "take_sample", turns, most=100_000)
    counting = _count()
    progress.figure(f"{roll_up:.1f} ms a minute to roll up {tallies:,} tallies; a worker counts in {counting:.2f} µs")
    return FigureCosts(POOLS, rows, size, looks, tallies, roll_up, sample, counting)


async def _ask(lab: Lab, path: str, turns: int) -> HistoryLook:
    """Each turn after the server's answer is no longer fresh."""
    times, points = [], 0
    async with lab.connect(1) as connections:
        for turn in range(turns):
            if turn:
                await asyncio.sleep(FRESH_SECONDS)
            began = time.perf_counter()
            answer = await connections.get(path)
            times.append(time.perf_counter() - began)
            points = len(answer["points"])
    return HistoryLook(path, points, Spread.of(times))


async def _timed(lab: Lab, name: str, turns: int, **values: object) -> float:
    """The median of milliseconds that a statement takes; nothing of it stays."""
    statement, times = load(name), []
    for _ in range(turns + 1):
        transaction = lab.database.transaction()
        await transaction.start()
        await lab.database.execute(UNWRITE)  # the scheduler may have written it
        began = time.perf_counter()
        await lab.database.fetch(statement.text, *statement.bind(values))
        times.append(time.perf_counter() - began)
        await transaction.rollback()
    return 1000 * (exact_quantile(sorted(times[1:]), 0.5) or 0.0)


def _count() -> float:
    """Microseconds of processor time in which a worker counts an attempt, from its start to its beat."""
    some = UUID(int=1)
    reports = [
        Report(
            Claim("default", some, some, number, f"task-{number % 5}", 0, None, None, "{}", None, 0.0, 100.0, 0, 0),
            Outcome.success,
            100.002,
            100.01,
        )
        for number in range(ATTEMPTS)
    ]
    taken = []
    for _ in range(9):
        tally = PoolTally()
        began = time.process_time()
        for report in reports:
            tally.ended(report, Disposition.succeed)
        tally.take(whole=True)
        taken.append((time.process_time() - began) / ATTEMPTS * 1e6)
    return sorted(taken)[len(taken) // 2]
