"""A database that comes back as it was at an earlier moment, while processes from after that moment are still alive."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress

import asyncpg
import pytest
from servers import run_tool

from engine import plain, report
from rota.errors import DatabaseUnavailableError
from rota.store.claim import Beat
from support import eventually, job

pytestmark = pytest.mark.scenario


class Tasks:
    """Runs that go on until they are let go, and what became of each."""

    def __init__(self) -> None:
        self.let_go = asyncio.Event()
        self.seen: list[str] = []

    async def long(self, name: str) -> str:
        self.seen.append(f"start {name}")
        try:
            await self.let_go.wait()
        except asyncio.CancelledError:
            self.seen.append(f"stopped {name}")
            raise
        self.seen.append(f"end {name}")
        return name


async def test_a_worker_that_outlived_a_restore_keeps_what_both_know_and_stops_what_the_database_forgot(
    ground, open_engine, tmp_path
):
    tasks, later = Tasks(), {"scheduleType": "future", "delaySeconds": 86400}
    async with open_engine(ground.url) as engine, engine.running(engine.scheduler()):
        survivor = engine.worker({"long": tasks.long}, broker=engine.broker(lease_seconds=120.0))
        async with engine.running(survivor):
            known = await submit(engine, "before", task="long", payload={"name": "known"})
            await eventually(lambda: "start known" in tasks.seen)
            await run_tool(ground.server, "pg_basebackup", "-D", str(tmp_path / "backup"), "-cfast", "-d", ground.url)
            await engine.api.post("/v1/pools/default/pause")
            await eventually(lambda: survivor._broker._paused)
            waiting = await engine.submit(task="long", payload={"name": "forgotten"})
            moment = await ground.now()

            # After the moment: the run starts, another job comes.
            await engine.api.post("/v1/pools/default/resume")
            await eventually(lambda: "start forgotten" in tasks.seen)
            before = await claims(ground.url)
            await submit(engine, "after", **later)
            await ground.now()
            await ground.go_back(tmp_path / "backup", moment)

            # With so long a lease no outage of a slow machine cuts it off; so its next beat is made by hand.
            await eventually(lambda: beats(survivor))
            await eventually(lambda: "stopped forgotten" in tasks.seen)
            assert "stopped known" not in tasks.seen
            assert (await claims(ground.url))[known] == before[known]
            assert await submit(engine, "before", task="long", payload={"name": "known"}) is None
            assert await submit(engine, "after", **later), "a submission that was forgotten is accepted as a new one"

            await engine.api.post("/v1/pools/default/resume")
            await eventually(lambda: tasks.seen.count("start forgotten") == 2)
            assert (await claims(ground.url))[waiting] != before[waiting]
            tasks.let_go.set()
            ends = [await engine.until(run_id, "success") for run_id in (known, waiting)]
            assert [end["attempt"] for end in ends] == [1, 1]
            assert survivor.slots.reporter.fenced == 1, "what it said of the claim that was forgotten changed nothing"


async def beats(worker) -> bool:
    before = worker.lease.beaten_at
    with suppress(DatabaseUnavailableError):
        await worker.heartbeat.tick()
    return worker.lease.beaten_at > before


async def claims(url: str) -> dict[str, int]:
    connection = await asyncpg.connect(url)
    try:
        rows = await connection.fetch("SELECT id, claim FROM rota.live_runs WHERE claim IS NOT NULL")
        return {f"run_{row['id'].hex}": row["claim"] for row in rows}
    finally:
        await connection.close()


async def submit(engine, key: str, **fields) -> str | None:
    """Submits under a key; None when the answer is that of an earlier submission."""
    answer = await engine.api.post("/v1/jobs", json=job(**fields), headers={"Idempotency-Key": key})
    assert answer.status_code == 201, answer.text
    return None if answer.headers.get("Idempotent-Replay") else answer.json()["runId"]


async def test_a_sequence_that_went_back_gives_no_claim_number_again(engine, sql):
    broker = engine.broker()
    await engine.join(broker)
    run_id = await engine.submit()
    (first,) = await broker.claim(1)
    # What a restore does: the run is unclaimed, the sequence is where it was.
    await sql.execute("UPDATE rota.live_runs SET worker_id = NULL, claim = NULL, claimed_at = NULL")
    await sql.execute("ALTER SEQUENCE rota.claim_numbers RESTART")
    other = engine.broker()
    await engine.join(other)
    (second,) = await other.claim(1)
    assert first.run_id == second.run_id == plain(run_id)
    assert first.number != second.number
    assert (await broker.report([report(first)])).fenced == {first.number}
    assert (await engine.run(run_id))["status"] == "running"


def test_a_beat_tells_another_server_and_records_that_went_back():
    def beat(number: int = 5, since: int = 1, database: int = 1) -> Beat:
        return Beat(None, number, since, database)

    assert beat(6).follows(beat())
    assert not beat(5).follows(beat()), "records that went back"
    assert not beat(6, since=2).follows(beat()), "another server, or the same after a restart"
    assert not beat(6, database=2).follows(beat()), "another database on the same server"


async def test_what_was_dumped_is_restored_into_another_database_and_goes_on(
    engine, postgres, database_url, open_engine, tmp_path
):
    async with engine.running(engine.worker(), engine.scheduler()):
        ended = await engine.submit(payload={"a": 1})
        await engine.until(ended, "success")
        later = await engine.submit(scheduleType="future", scheduleTime="2040-01-01T00:00:00Z")
        recurring = await engine.recurring(scheduleType="interval", everySeconds=3600)
    restored = f"restored_{os.getpid()}"
    await run_tool(postgres, "pg_dump", "-Fc", "-f", str(tmp_path / "dump"), "-d", database_url)
    await run_tool(postgres, "createdb", "-T", "template0", "--maintenance-db", postgres.url("postgres"), restored)
    await run_tool(postgres, "pg_restore", "--exit-on-error", "-d", postgres.url(restored), str(tmp_path / "dump"))
    async with open_engine(postgres.url(restored)) as other, other.running(other.worker(), other.scheduler()):
        assert [(await other.run(run))["status"] for run in (ended, later)] == ["success", "scheduled"]
        assert (await other.api.get(f"/v1/jobs/{recurring}")).json()["status"] == "scheduled"
        assert await other.until(await other.submit(), "success")
    await run_tool(postgres, "dropdb", "--maintenance-db", postgres.url("postgres"), restored)
