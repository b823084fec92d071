"""What the runbook says of the nights that need no process to die for real."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from engine import plain
from rota.access.authenticator import admin_token
from support import eventually


async def broken(name: str) -> None:
    raise TypeError(f"unsupported name {name} 42")


async def greet(name: str) -> str:
    return f"hello {name}"


async def test_why_names_the_lag_that_busy_slots_and_a_paused_pool_make(engine):
    release = asyncio.Event()
    async with engine.running(engine.scheduler(), engine.worker({"slow": release.wait}, slots=1)):
        await engine.until(await engine.submit(task="slow"), "running")
        late = await engine.submit(task="slow")

        async def why() -> str:
            return (await engine.run(late))["waitingFor"]

        assert await eventually(lambda: is_said(why, "all slots of pool default are busy"))
        await engine.api.post("/v1/pools/default/pause")
        assert await eventually(lambda: is_said(why, "paused"))
        await engine.api.post("/v1/pools/default/resume")
        release.set()
        await engine.until(late, "success")


async def is_said(why, words: str) -> bool:
    return words in await why()


async def test_a_bad_deploy_is_rolled_back_and_what_it_buried_runs_again(engine):
    async with engine.running(engine.scheduler()):
        async with engine.running(engine.worker({"greet": broken})):
            buried = await engine.submit(task="greet", payload={"name": "ann"}, maxRetries=0)
            await engine.until(buried, "failed")
            waits = await engine.submit(task="greet", payload={"name": "bob"}, retry={"baseSeconds": 1})
            await engine.until(waits, "retrying")
        async with engine.running(engine.worker({"greet": greet})):
            assert (await engine.until(waits, "success"))["attempt"] == 2, "its retry met the old code"
            groups = (await engine.api.get("/v1/dead-letters/groups")).json()["items"]
            assert [(group["count"], group["error"]) for group in groups] == [(1, "TypeError: unsupported name ann #")]
            await engine.api.post("/v1/dead-letters/redrive", json={"task": "greet", "error": "unsupported name"})

            async def runs() -> list:
                listed = (await engine.api.get("/v1/runs", params={"task": "greet"})).json()["items"]
                return [run for run in listed if run.get("retryOf") == buried and run["status"] == "success"]

            assert len(await eventually(runs)) == 1
            assert (await engine.api.get("/v1/dead-letters")).json()["items"] == []


async def test_a_run_that_kills_its_workers_is_buried_and_shows_each_of_them(engine, sql):
    scheduler = await engine.leading()
    run_id = await engine.submit(maxRetries=2)
    workers = []
    for _ in range(3):
        broker = engine.broker()
        workers.append(str(await engine.join(broker)))
        assert await broker.claim(1)
        await sql.execute(
            "UPDATE rota.workers SET gone_at = clock_timestamp(), gone_why = 'worker lost' WHERE gone_at IS NULL"
        )
        assert await scheduler.reaper.tick() == 1
    run = await engine.run(run_id)
    assert run["status"] == "failed"
    assert [attempt["executorId"] for attempt in run["attempts"]] == workers
    answer = await engine.api.get("/v1/dead-letters", params={"error": "worker lost"})
    assert [letter["runId"] for letter in answer.json()["items"]] == [run_id]


async def test_a_day_of_history_can_be_taken_away_while_everything_runs(engine, sql):
    day = datetime.now(UTC).date() - timedelta(days=40)
    await sql.fetchval("SELECT rota.make_day($1)", day)
    async with engine.running(engine.scheduler(), engine.worker()):
        old = await buried_on(engine, sql, day)
        for table in ("finished_runs", "attempts"):
            child = f"{table}_{day:%Y%m%d}"
            await sql.execute(f"ALTER TABLE rota.{table} DETACH PARTITION rota.{child} CONCURRENTLY")
            await sql.execute(f"DROP TABLE rota.{child}")
        assert (await engine.api.get(f"/v1/runs/{old}")).status_code == 404
        assert (await engine.api.post("/v1/dead-letters/redrive", json={"all": True})).json() == {"count": 0}
        letters = (await engine.api.get("/v1/dead-letters")).json()["items"]
        assert [letter["runId"] for letter in letters] == [old], "what can't be run again is not forgotten either"
        assert (await engine.api.post("/v1/dead-letters/discard", json={"all": True})).json() == {"count": 1}
        await engine.until(await engine.submit(), "success")


async def buried_on(engine, sql, day) -> str:
    """A dead letter of that day: a run that failed today, whose id is made one of then."""
    run_id = await engine.submit(task="rota.fail", maxRetries=0)
    await engine.until(run_id, "failed")
    old = await sql.fetchval(
        "UPDATE rota.finished_runs SET id = rota.id_floor($2::date::timestamptz + interval '12 hours')"
        " WHERE id = $1 RETURNING id",
        plain(run_id),
        day,
    )
    await sql.execute("UPDATE rota.dead_letters SET run_id = $1", old)
    return f"run_{old.hex}"


def test_an_admin_token_that_was_removed_is_made_anew_at_the_next_start(tmp_path):
    path = tmp_path / "admin.token"
    first = admin_token(path)
    assert admin_token(path) == first
    path.unlink()
    assert admin_token(path) not in ("", first)
    assert path.stat().st_mode & 0o777 == 0o600
