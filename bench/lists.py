"""Lists: a page of one's own runs must not cost more with the history of others, and its indexes must cost runs little.

History of today and upcoming runs of other owners are put into the tables directly, and a few runs of an owner with
a task, name and tag of their own. Each filter is asked for over HTTP: what matches nothing, little and much. Then runs
go through a Rota as it is and one without the indexes of lists, in turns: what each run costs.
"""

from __future__ import annotations

import time

import msgspec

from bench.lab import Lab
from bench.progress import Progress
from bench.throughput import Sustained, sustain
from rota.ops.bench_load import Connections, Spread, percentile

AT_A_TIME = 100_000
ASKED = 15
PLANT_SECONDS = 600.0
_VALUES = """
       'owner-' || n % 1000, 'job ' || CASE WHEN n % 2 = 0 THEN n ELSE n % 50 END, 'task-' || n % 50, 'default', 0,
       CASE WHEN n % 10 = 0 THEN ARRAY['nightly', 'tag-' || n % 777] ELSE '{}' END, '{"n": 1}', '{}', 'submit', n % 64,
       due, due
"""
_IDS = """
  FROM (SELECT n, due,
               (substr(rota.id_floor(due)::text, 1, 14) || '7' || substr(gen_random_uuid()::text, 16))::uuid AS id
          FROM (SELECT n, {due} AS due FROM generate_series($1::bigint, $2::bigint) AS n) AS s) AS s
"""
HISTORY = f"""
INSERT INTO rota.finished_runs (namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload,
                                options, cause, shard, nominal_at, run_at, attempt, created_at, status, started_at,
                                finished_at, worker_id, claim)
SELECT 'default', id, id, 1, {_VALUES}, 1, due, CASE WHEN n % 97 = 0 THEN 'failed' ELSE 'success' END, due, due,
       gen_random_uuid(), n
{_IDS.format(due="date_trunc('day', now()) + n * ((now() - date_trunc('day', now())) / $3::float8)")}
"""
UPCOMING = f"""
INSERT INTO rota.upcoming_runs (namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload,
                                options, cause, shard, nominal_at, run_at, created_at)
SELECT 'default', id, id, 1, {_VALUES}, now()
{_IDS.format(due="now() + interval '1 day' + n * interval '1 second'")}
"""
MINE = """
UPDATE rota.{table} SET owner = 'me', name = 'mine', task = 'mine', tags = '{{mine}}'
 WHERE id IN (SELECT id FROM rota.{table} ORDER BY id OFFSET 20 LIMIT 5)
"""
# What is asked for: nothing that matches, five runs, and more than a page.
FILTERS = (
    "",
    "owner=nobody",
    "owner=me",
    "owner=owner-7",
    "task=nothing",
    "task=mine",
    "task=task-7",
    "name=nothing",
    "name=mine",
    "name=job+7",
    "tag=nothing",
    "tag=mine",
    "tag=nightly",
    "status=skipped",
    "status=failed",
    "status=success",
    "status=retrying",
    "status=scheduled",
    "owner=me&status=failed",
    "task=task-7&status=cancelled",
    "name=job+7&tag=nothing",
)
INDEXES = ("finished_runs_labelled", "upcoming_runs_owned", "upcoming_runs_labelled")


class List(msgspec.Struct):
    """One filter: how long a page took, and how many runs it had."""

    path: str
    found: int
    took: Spread


class IndexCost(msgspec.Struct):
    """Microseconds that a run costs with the indexes of lists and without: of all processes, of PostgreSQL alone."""

    with_indexes: float
    without: float
    share: float
    postgres_with: float
    postgres_without: float
    wal_bytes_with: float
    wal_bytes_without: float


class Lists(msgspec.Struct):
    """The scenario's figures."""

    others: int
    lists: list[List]
    cost: IndexCost


async def measure_lists(progress: Progress, *, others: int, seconds: float, turns: int) -> Lists:
    """Lists beside so many runs of others in history and as many upcoming ones, then what their indexes cost."""
    async with Lab() as lab:
        progress.say(f"planting {others:,} runs of others in history, and as many upcoming ones")
        await _plant(lab, others)
        progress.say("asking for lists")
        async with lab.connect(1) as connections:
            lists = [await _ask(connections, f"/v1/{kind}?{wanted}") for wanted in FILTERS for kind in ("runs", "jobs")]
    worst = max(lists, key=lambda one: one.took.p50)
    progress.figure(f"the slowest of {len(lists)} lists took {worst.took.p50:.1f} ms ({worst.path})")
    return Lists(others, lists, await _cost(progress, seconds, turns))


async def _plant(lab: Lab, others: int) -> None:
    for first in range(0, others, AT_A_TIME):
        last = min(others, first + AT_A_TIME)
        await lab.database.execute(HISTORY, first + 1, last, float(others), timeout=PLANT_SECONDS)
        await lab.database.execute(UPCOMING, first + 1, last, timeout=PLANT_SECONDS)
    for table in ("finished_runs", "upcoming_runs"):
        await lab.database.execute(MINE.format(table=table), timeout=PLANT_SECONDS)
    # What planting leaves to do is not what is to be measured.
    await lab.database.execute("VACUUM rota.upcoming_runs", timeout=PLANT_SECONDS)
    await lab.database.execute("CHECKPOINT", timeout=PLANT_SECONDS)


async def _ask(connections: Connections, path: str) -> List:
    times = []
    for _ in range(ASKED):
        began = time.perf_counter()
        answer = await connections.get(path)
        times.append(time.perf_counter() - began)
    return List(path, len(answer["items"]), Spread.of(times))


async def _cost(progress: Progress, seconds: float, turns: int) -> IndexCost:
    """In turns, so that a machine that is slower for a while is so for both; the median of each."""
    async with Lab(workers=2) as with_them, Lab(workers=2) as without:
        for name in INDEXES:
            await without.database.execute(f"DROP INDEX rota.{name}")
        progress.say("submitting and running, with the indexes of lists and without")
        both = (with_them, without)
        for lab in both:
            await sustain(lab, seconds / 2, progress, window=seconds)
        found: dict[Lab, list[Sustained]] = {lab: [] for lab in both}
        for turn in range(turns):
            for lab in both if turn % 2 else reversed(both):
                found[lab].append(await sustain(lab, seconds, progress, window=seconds))
    here, there = found[with_them], found[without]
    cost = IndexCost(
        _median([one.rota_cpu_ms_per_1000 + one.postgres_cpu_ms_per_1000 for one in here]),
        _median([one.rota_cpu_ms_per_1000 + one.postgres_cpu_ms_per_1000 for one in there]),
        0.0,
        _median([one.postgres_cpu_ms_per_1000 for one in here]),
        _median([one.postgres_cpu_ms_per_1000 for one in there]),
        _median([one.wal_bytes_per_job for one in here]),
        _median([one.wal_bytes_per_job for one in there]),
    )
    cost.share = cost.with_indexes / cost.without - 1
    progress.figure(
        f"a run takes {cost.with_indexes:.1f} µs of processor time, {cost.without:.1f} without ({cost.share:+.1%})"
    )
    return cost


def _median(values: list[float]) -> float:
    return percentile(sorted(values), 0.5)
