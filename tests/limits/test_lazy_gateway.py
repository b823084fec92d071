"""A worker whose tasks submit nothing asks the database nothing for it."""

from __future__ import annotations

import asyncio

from rota.clock import DatabaseClock
from rota.compose import worker_gateway
from rota.contract.jobs import BatchJobIn
from rota.domain.rights import Caller
from rota.gateway.protocol import OutgoingJob
from rota.service import ServiceGroup
from rota.settings import Settings
from rota.store.postgres.database import Database
from support import eventually


async def test_limits_and_backlog_are_read_only_after_the_first_submission(database_url, tmp_path, monkeypatch):
    monkeypatch.setattr("rota.access.limits.tenant_limits.TenantLimits.interval_seconds", 0.01)
    monkeypatch.setattr("rota.access.limits.backlog.Backlog.interval_seconds", 0.01)
    database = await Database.connect(database_url, size=2)
    asked, fetch = [], database.fetch

    async def counted(statement, **parameters):
        asked.append(statement)
        return await fetch(statement, **parameters)

    monkeypatch.setattr(database, "fetch", counted)
    gateway = worker_gateway(Settings(home=tmp_path), database, shards=64, clock=DatabaseClock())
    try:
        async with ServiceGroup(gateway.services):
            await asyncio.sleep(0.2)
            assert not asked
            job = BatchJobIn(name="one", schedule_type="immediate", task="rota.echo")
            (answer,) = await gateway.for_caller(Caller("default", "admin")).submit([OutgoingJob.of(job)])
            assert answer.status == "queued"
            await eventually(lambda: all(asked.count(name) > 2 for name in ("changed_limits", "capped_pools")))
    finally:
        await database.close()


async def test_a_backlog_without_caps_rests_until_something_is_submitted(database_url, tmp_path, monkeypatch):
    monkeypatch.setattr("rota.access.limits.backlog._CALM_SECONDS", 1e6)
    monkeypatch.setattr("rota.access.limits.backlog.Backlog.interval_seconds", 0.01)
    database = await Database.connect(database_url, size=2)
    gateway = worker_gateway(Settings(home=tmp_path), database, shards=64, clock=DatabaseClock())
    submissions = gateway.for_caller(Caller("default", "admin"))
    job = OutgoingJob.of(BatchJobIn(name="one", schedule_type="immediate", task="rota.echo"))

    async def is_refused():
        (answer,) = await submissions.submit([job])
        return "backlog limit reached" in str(answer)

    try:
        async with ServiceGroup(gateway.services):
            await submissions.submit([job])
            await eventually(lambda: gateway.backlog.pause_seconds == 1e6)
            async with database.raw() as connection:
                await connection.execute(
                    "INSERT INTO rota.pools (namespace, pool, most_waiting) VALUES ('default', 'default', 1)"
                )
            await eventually(is_refused)
    finally:
        await database.close()
