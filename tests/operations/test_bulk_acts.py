"""Replays, bulk redrives and bulk cancels: what was there when they were created, each once."""

from __future__ import annotations

import pytest
from backfilling import look, until

from rota.api.routes import dead_letters as dead_letter_routes
from rota.api.routes import runs as run_routes
from support import eventually


async def test_a_replay_runs_what_matches_again_and_nothing_that_ended_later(api, engine, sql):
    ran = []
    async with engine.running(engine.scheduler(), engine.worker({"act": lambda n: ran.append(n) or n})):
        for number in range(3):
            await engine.until(await engine.submit(task="act", payload={"n": number}, tags=["x"]), "success")
        await engine.until(await engine.submit(task="act", payload={"n": 7}), "success")
        preview = (await api.post("/v1/replays", json={"tag": "x", "preview": True})).json()
        assert (preview["runs"], len(preview["runIds"])) == (3, 3)
        made = (await api.post("/v1/replays", json={"tag": "x", "concurrency": 1})).json()
        done = await until(api, made)
    assert done["counts"]["success"] == 3
    assert sorted(ran) == [0, 0, 1, 1, 2, 2, 7]
    rows = await sql.fetch(
        """SELECT r.retry_of, r.root_id, r.nominal_at = o.nominal_at AS same FROM rota.finished_runs AS r
             JOIN rota.finished_runs AS o ON o.id = r.retry_of WHERE r.cause = 'replay'"""
    )
    assert len({row["retry_of"] for row in rows}) == 3
    assert all(row["same"] and row["root_id"] is None for row in rows)
    assert (await api.get("/v1/replays")).json()["items"][0]["operationId"] == made["operationId"]
    assert (await api.get(f"/v1/backfills/{made['operationId']}")).status_code == 404


async def test_a_replay_ends_at_its_bound(api, engine):
    async with engine.running(engine.scheduler(), engine.worker()):
        for _ in range(4):
            await engine.until(await engine.submit(), "success")
        done = await until(api, (await api.post("/v1/replays", json={"task": "rota.echo", "most": 3})).json())
    assert done["counts"]["made"] == 3


async def test_a_replay_needs_something_to_select_by(api):
    assert (await api.post("/v1/replays", json={})).status_code in (400, 422)
    assert (await api.post("/v1/replays", json={"status": "running"})).status_code in (400, 422)


async def test_a_redrive_takes_dead_letters_and_stops_when_they_fail_again(api, engine, sql):
    def act():
        raise ValueError("always")

    async with engine.running(engine.scheduler(), engine.worker({"act": act})):
        for _ in range(12):
            await engine.submit(task="act", maxRetries=0)
        await eventually(lambda: sql.fetchval("SELECT count(*) = 12 FROM rota.dead_letters"))
        asked = {"kind": "redrive", "task": "act", "concurrency": 1, "stopAtFailureShare": 0}
        preview = (await api.post("/v1/operations", json={**asked, "preview": True})).json()
        assert preview["runs"] == 12
        made = (await api.post("/v1/operations", json=asked)).json()
        stopped = await until(api, made, "stopped")
        path = f"/v1/operations/{made['operationId']}"
        assert 1 <= stopped["counts"]["made"] < 12
        await sql.execute("UPDATE rota.operations SET stop_share = NULL")
        assert (await api.post(f"{path}/resume")).status_code == 200
        done = await until(api, made)
    assert (done["status"], done["counts"]["made"], done["counts"]["failed"]) == ("completed", 12, 12)
    assert await sql.fetchval("SELECT count(*) FROM rota.dead_letters") == 12
    assert await sql.fetchval("SELECT count(DISTINCT root_id) FROM rota.runs WHERE cause = 'redrive'") == 12


async def test_a_bulk_cancel_meets_what_was_there_and_nothing_newer(api, engine, sql):
    for _ in range(5):
        await engine.submit(task="nobody")
    made = (await api.post("/v1/operations", json={"kind": "cancel", "task": "nobody"})).json()
    await engine.submit(task="nobody")
    async with engine.running(engine.scheduler()):
        done = await until(api, made)
    assert (done["status"], done["counts"]["cancelled"]) == ("completed", 5)
    assert await sql.fetchval("SELECT count(*) FROM rota.live_runs") == 1
    assert await sql.fetchval("SELECT count(*) FROM rota.finished_runs WHERE status = 'cancelled'") == 5


@pytest.mark.parametrize(
    "asked", [{"kind": "cancel"}, {"kind": "cancel", "error": "x"}, {"kind": "redrive", "tag": "x"}]
)
async def test_what_does_not_belong_to_the_kind_is_refused(api, asked):
    assert (await api.post("/v1/operations", json=asked)).status_code in (400, 422)


async def test_a_request_that_meets_very_many_hands_over_the_rest(api, engine, sql, monkeypatch):
    monkeypatch.setattr(run_routes, "MOST_AT_ONCE", 2)
    monkeypatch.setattr(run_routes, "_PAGE", 2)
    for _ in range(5):
        await engine.submit(task="nobody")
    answer = (await api.post("/v1/runs/cancel", json={"task": "nobody"})).json()
    assert answer["count"] == 2
    async with engine.running(engine.scheduler()):
        done = await until(api, answer)
    assert done["counts"]["cancelled"] == 3
    assert await sql.fetchval("SELECT count(*) FROM rota.live_runs") == 0


async def test_a_redrive_of_very_many_hands_over_the_rest(api, engine, sql, monkeypatch):
    monkeypatch.setattr(dead_letter_routes, "MOST_AT_ONCE", 2)
    monkeypatch.setattr(dead_letter_routes, "_PAGE", 2)
    fails = [True]

    def act():
        if fails:
            raise ValueError("then")

    async with engine.running(engine.scheduler(), engine.worker({"act": act})):
        for _ in range(5):
            await engine.submit(task="act", maxRetries=0)
        await eventually(lambda: sql.fetchval("SELECT count(*) = 5 FROM rota.dead_letters"))
        fails.clear()
        answer = (await api.post("/v1/dead-letters/redrive", json={"task": "act", "most": 4})).json()
        assert answer["count"] == 2
        done = await until(api, answer)
        assert done["counts"]["success"] == 2
    assert await sql.fetchval("SELECT count(*) FROM rota.dead_letters") == 1


async def test_a_run_that_is_redriven_by_itself_belongs_to_no_operation(api, engine, sql):
    def act():
        raise ValueError("always")

    async with engine.running(engine.scheduler(), engine.worker({"act": act})):
        run_id = await engine.submit(task="act", maxRetries=0)
        await engine.until(run_id, "failed")
        await api.post("/v1/dead-letters/redrive", json={"runIds": [run_id]})
        await eventually(lambda: sql.fetchval("SELECT count(*) = 2 FROM rota.finished_runs"))
    assert await sql.fetchval("SELECT count(*) FROM rota.operation_runs") == 0


async def test_each_sees_and_changes_their_own_and_other_tenants_nothing(api, engine, somebody):
    alice, bob = await somebody("submitter", owner="alice"), await somebody("submitter", owner="bob")
    stranger = await somebody("operator", owner="eve", namespace="elsewhere")
    viewer = await somebody("viewer", owner="alice")
    cron = {"name": "n", "scheduleType": "cron", "cronExpression": "0 0 * * *", "task": "rota.echo"}
    job_id = (await alice.post("/v1/jobs", json=cron)).json()["jobId"]
    asked = {"job": job_id, "from": "2026-03-27T00:00:00Z", "to": "2026-03-31T12:00:00Z"}
    for other in (bob, stranger):
        assert (await other.post("/v1/backfills", json=asked)).status_code == 404
        assert (await other.post("/v1/backfills", json={**asked, "job": "n"})).status_code == 404
    assert (await viewer.post("/v1/backfills", json=asked)).status_code == 403
    made = (await alice.post("/v1/backfills", json=asked)).json()
    path = f"/v1/backfills/{made['operationId']}"
    for other in (bob, stranger):
        assert (await other.get(path)).status_code == 404
        assert (await other.post(f"{path}/abort")).status_code == 404
        assert (await other.get("/v1/operations")).json()["items"] == []
    assert (await viewer.get(path)).json()["status"] == "running"
    # Bob's replay meets none of Alice's runs.
    async with engine.running(engine.scheduler(), engine.worker()):
        await until(api, made)
        done = await until(api, (await bob.post("/v1/replays", json={"task": "rota.echo"})).json())
        assert done["counts"]["made"] == 0
        assert (await look(api, made))["counts"]["success"] == 5
    recorded = [one["action"] for one in (await api.get("/v1/audit")).json()["items"]]
    assert "create_backfill" in recorded
