"""The archive: what it costs plain jobs when days of history are archived, and how long it takes to find runs there."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any
from uuid import UUID

import msgspec

from bench.lab import Lab
from bench.progress import Progress
from bench.throughput import submit
from rota.client import AsyncClient
from rota.domain.ids import show_run

OLDEST_DAYS = 40
JOBS = 100
OWNERS = 200
LOOKUPS = 20
LOOK_SECONDS = 0.5
DAYS_KEPT = 30
# Half of the runs are of recurring jobs. Not 'success': that is what the jobs beside are counted by.
_FILL = """
    INSERT INTO rota.finished_runs (namespace, id, job_id, job_version, owner, name, task, pool, priority, tags,
                                    payload, options, cause, shard, nominal_at, run_at, created_at, status, started_at,
                                    finished_at, worker_id, claim, attempt, result, error)
    SELECT 'default', i.id, CASE WHEN i.n % 2 = 0 THEN i.id ELSE md5('job' || i.n % {jobs})::uuid END, 1,
           'owner' || i.n % {owners}, 'nightly', 'shop.mail', 'default', 0, ARRAY['a'],
           '{{"order": ' || i.n || '}}', '{{}}', CASE WHEN i.n % 2 = 0 THEN 'submit' ELSE 'schedule' END,
           i.n % 64, i.at, i.at, i.at, CASE WHEN i.n % 50 = 0 THEN 'failed' ELSE 'cancelled' END, i.at,
           i.at + interval '40 ms', gen_random_uuid(), i.n, 1, '{{"sent": true}}',
           CASE WHEN i.n % 50 = 0 THEN 'ValueError: no such order' END
      FROM (SELECT n, at, (left(rota.id_floor(at)::text, 13) || '-7' || substr(md5(n::text), 1, 3) || '-8'
                           || substr(md5(n::text), 4, 3) || '-' || substr(md5(n::text), 7, 12))::uuid AS id
              FROM (SELECT n, $1::timestamptz + n * ($2::interval / $3::bigint) AS at
                      FROM generate_series(0, $3::bigint - 1) AS n) AS n) AS i
"""


class ArchiveFigures(msgspec.Struct):
    """Jobs a second and CPU per 1000 of them, in stretches without and beside the archiver; and the archive itself."""

    runs: int
    days: int
    alone_per_second: list[float]
    beside_per_second: list[float]
    throughput_ratio: float
    cpu_ms_alone: float
    cpu_ms_beside: float
    archived_per_second: float
    bytes_per_run: float
    scheduler_peak_bytes: int
    id_ms: float
    job_ms: float
    owner_ms: float


async def measure_archive(progress: Progress, *, runs: int, days: int, seconds: float, turns: int) -> ArchiveFigures:
    """Plain jobs before, while and after old days are archived and dropped; then looks for archived runs."""
    alone: list[tuple[float, float]] = []
    beside: list[tuple[float, float]] = []
    async with Lab(workers=2) as lab, AsyncClient(lab.url, lab.token) as client:
        progress.say(f"writing {runs:,} runs of {days} days")
        known = await _fill(lab, runs // days, days)
        await _stretch(lab, seconds)
        alone += [await _stretch(lab, seconds) for _ in range(turns)]
        history = dict.fromkeys(("success", "failed", "cancelled", "skipped"), DAYS_KEPT)
        await client.call("PUT", "/v1/retention", body={"history": history})
        await client.call("POST", "/v1/archive/now")
        began = time.perf_counter()
        progress.say("beside the archiver")
        while await _archived(lab) < days:
            if len(beside) < 4 * turns:
                beside.append(await _stretch(lab, seconds))
                progress.figure(f"{beside[-1][0]:,.0f} jobs/s, {await _archived(lab)} days archived")
            else:
                await asyncio.sleep(LOOK_SECONDS)
        took = time.perf_counter() - began
        alone += [await _stretch(lab, seconds) for _ in range(turns)]
        size = await lab.database.fetchval("SELECT sum(bytes) FROM rota.archives")
        found = await _look_up(client, known, days)
        peak = lab.peak_memory().get("scheduler", 0)
    rate, cpu = (median(one[at] for one in alone) for at in (0, 1))
    return ArchiveFigures(
        runs,
        days,
        [one for one, _ in alone],
        [one for one, _ in beside],
        median(one for one, _ in beside) / rate,
        cpu,
        median(one for _, one in beside),
        runs / took,
        float(size) / runs,
        peak,
        *found,
    )


async def _fill(lab: Lab, runs: int, days: int) -> list[UUID]:
    """Writes days of history; returns some of its runs."""
    known: list[UUID] = []
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    for day in range(days):
        first = midnight - timedelta(days=OLDEST_DAYS + day)
        await lab.database.execute("SELECT rota.make_day($1)", first.date())
        text = _FILL.format(jobs=JOBS, owners=OWNERS)
        await lab.database.execute(text, first, timedelta(hours=23), runs, timeout=600)
        sample = "SELECT id FROM rota.finished_runs WHERE id >= rota.id_floor($1) AND id < rota.id_floor($2) LIMIT 200"
        rows = await lab.database.fetch(sample, first + timedelta(hours=3), first + timedelta(days=1))
        known += [row["id"] for row in rows]
    return known


async def _stretch(lab: Lab, seconds: float) -> tuple[float, float]:
    """Jobs a second, and milliseconds of CPU per 1000 of them, Rota's and PostgreSQL's."""
    ran = lab.counter.total
    await lab.look()
    began = time.perf_counter()
    submitted = await submit(lab, seconds=seconds)
    ended = await lab.has_run(ran + submitted.accepted)
    used = await lab.used()
    cpu = (used.rota_cpu_seconds + used.postgres_cpu_seconds) / submitted.accepted * 1e6
    return submitted.accepted / (ended - began), cpu


async def _archived(lab: Lab) -> int:
    count: int = await lab.database.fetchval("SELECT count(*) FROM rota.archives WHERE state = 'dropped'")
    return count


async def _look_up(client: AsyncClient, known: list[UUID], days: int) -> list[float]:
    """The median milliseconds of looks by id, by job and by owner."""
    start = (datetime.now(UTC) - timedelta(days=OLDEST_DAYS + days + 1)).isoformat()
    jobs: list[str] = []

    async def by_id(at: int) -> None:
        run = await client.call("GET", f"/v1/runs/{show_run(known[at])}")
        if not run["archived"]:
            raise AssertionError("the run was not in the archive")
        if run["cause"] == "schedule":
            jobs.append(run["jobId"])

    async def by_job(_at: int) -> None:
        job = random.choice(jobs)  # noqa: S311
        _check(await client.call("GET", f"/v1/jobs/{job}/runs"))

    async def by_owner(_at: int) -> None:
        owner = f"owner{random.randrange(OWNERS)}"  # noqa: S311
        _check(await client.call("GET", "/v1/runs", query={"owner": owner, "startTime": start}))

    return [await _median_ms(look, len(known)) for look in (by_id, by_job, by_owner)]


def _check(page: Any) -> None:
    if not page["items"]:
        raise AssertionError("nothing was found in the archive")


async def _median_ms(look: Callable[[int], Awaitable[None]], count: int) -> float:
    took = []
    for _ in range(LOOKUPS):
        at = random.randrange(count)  # noqa: S311
        began = time.perf_counter()
        await look(at)
        took.append((time.perf_counter() - began) * 1000)
    return median(took)
