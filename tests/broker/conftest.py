"""One set of tests for every transport: a transport is a way to make brokers; what is on record is the same for all."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest

from engine import plain
from rota.broker.postgres import PostgresBroker
from rota.service import ServiceGroup


def over_postgres(engine, lease_seconds):
    """A worker that works directly on the database."""
    return PostgresBroker(
        database=engine.database,
        listen_url=engine.url,
        lease_seconds=lease_seconds,
    )


TRANSPORTS = {"postgres": over_postgres}


@pytest.fixture(params=TRANSPORTS)
async def make_broker(request, engine):
    """A broker whose services run: await make_broker(lease_seconds=5.0)."""
    async with AsyncExitStack() as stack:

        async def make(lease_seconds=5.0):
            broker = TRANSPORTS[request.param](engine, lease_seconds)
            await stack.enter_async_context(ServiceGroup(broker.services))
            return broker

        yield make


@pytest.fixture
async def broker(make_broker, engine):
    """The broker of a worker that has joined; its id is broker.worker_id."""
    broker = await make_broker()
    broker.worker_id = await engine.join(broker)
    return broker


class Records:
    """The back door: what others do to runs and workers, and what is on record of them."""

    def __init__(self, engine, sql):
        self._engine = engine
        self._sql = sql
        self.submit = engine.submit
        self.run = engine.run

    async def recurring_run(self):
        """A run of a recurring job; (run id, job id)."""
        job_id = await self._engine.recurring(scheduleType="interval", everySeconds=3600)
        return (await self._engine.api.post(f"/v1/jobs/{job_id}/run")).json()["runId"], job_id

    async def log(self, run_id):
        """What it wrote, line by line."""
        return (await self._engine.api.get(f"/v1/runs/{run_id}/logs")).text.splitlines()

    async def cancel(self, run_id):
        await self._engine.api.post(f"/v1/runs/{run_id}/cancel")

    async def change(self, job_id):
        await self._engine.api.put(f"/v1/jobs/{job_id}", json={"payload": {"version": 2}})

    async def pause(self, pool):
        await self._engine.api.post(f"/v1/pools/{pool}/pause")

    async def resume(self, pool):
        await self._engine.api.post(f"/v1/pools/{pool}/resume")

    async def worker(self, worker_id):
        workers = (await self._engine.api.get("/v1/workers")).json()["items"]
        return next(one for one in workers if one["workerId"] == str(worker_id))

    async def reap(self, worker_id):
        """The worker's lease ended: its runs go to others."""
        beat = await self._sql.fetchval("SELECT beat FROM rota.workers WHERE id = $1", worker_id)
        assert await self._engine.lost_workers.give_up(worker_id, beat, "worker lost")
        await (await self._engine.leading()).reaper.tick()

    async def promote(self):
        """What waits for its next attempt, and is due, can be claimed."""
        await (await self._engine.leading()).promoter.tick()

    async def go_back(self, worker_id, *forgotten):
        """The records are older than what the worker knows: beats were forgotten, and these claims."""
        await self._sql.execute("UPDATE rota.workers SET beat = beat - 5 WHERE id = $1", worker_id)
        for run_id in forgotten:
            await self._sql.execute(
                "UPDATE rota.live_runs SET worker_id = NULL, claim = NULL, claimed_at = NULL WHERE id = $1",
                plain(run_id),
            )


@pytest.fixture
def records(engine, sql):
    return Records(engine, sql)
