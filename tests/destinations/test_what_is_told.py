"""Events of the fleet, of dead letters, operations and workflows: each recorded once, seen where it should be."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import rota
from engine import report
from rota.domain.events import KINDS
from rota.domain.fleet import WorkerProfile
from rota.domain.run import LOOKAHEAD, Outcome
from rota.errors import DatabaseUnavailableError
from support import eventually, job

NOT_KINDS = {"destination.key"}  # looks like one


@pytest.fixture
def told(sql):
    """Events of a kind, in order."""

    async def find(kind, namespace=None):
        rows = await sql.fetch(
            "SELECT * FROM rota.events WHERE kind = $1 AND ($2::text IS NULL OR namespace = $2) ORDER BY id",
            kind,
            namespace,
        )
        return [dict(row) | {"data": json.loads(row["data"])} for row in rows]

    return find


@pytest.fixture
def join(engine):
    async def make(*namespaces):
        return await engine.broker().join(WorkerProfile("host-1", 7, namespaces, ("default",), ("rota.echo",), 4))

    return make


async def test_a_worker_that_joins_and_leaves_is_told_once_for_all_and_in_each_namespace(engine, join, told):
    worker = await join("shop", "billing")
    await engine.claims.leave(worker)
    await engine.claims.leave(worker)
    for kind in ("worker.joined", "worker.left"):
        events = await told(kind)
        assert [event["namespace"] for event in events] == ["*", "billing", "shop"]
        assert {event["subject"] for event in events} == {str(worker)}
        assert [event["data"]["namespaces"] for event in events] == [["shop", "billing"], ["billing"], ["shop"]]
        assert [event["is_copy"] for event in events] == [False, True, True]
    assert await told("worker.lost") == []


async def test_a_lost_worker_is_told_with_what_it_held_in_each_namespace(engine, join, told, api, sql):
    worker = await join("default", "shop")
    for namespace in ("default", "default", "shop"):
        answer = await api.post("/v1/jobs", json=job(), headers={"Rota-Namespace": namespace})
        assert answer.status_code == 201
    lanes = [row["lane"] for row in await sql.fetch("SELECT DISTINCT lane FROM rota.live_runs")]
    assert len(await engine.claims.claim(worker, lanes, 10, LOOKAHEAD)) == 3
    beat = await sql.fetchval("SELECT beat FROM rota.workers WHERE id = $1", worker)
    assert [await engine.lost_workers.give_up(worker, beat, "worker lost") for _ in range(2)] == [True, False]
    events = await told("worker.lost")
    held = {event["namespace"]: (event["data"]["held"], event["data"]["severity"]) for event in events}
    assert held == {"*": (3, "warning"), "default": (2, "warning"), "shop": (1, "warning")}
    assert await told("worker.left") == []


async def test_schedulers_are_told_of_by_those_who_see_everything_alone(engine, told, api, somebody):
    scheduler = engine.scheduler()
    await scheduler.leases.tick()
    await scheduler.leases.tick()
    await scheduler.leases.close()
    assert [event["namespace"] for event in await told("scheduler.started")] == ["*"]
    assert [event["subject"] for event in await told("scheduler.stopped")] == [str(scheduler.id)]
    assert {item["event"] for item in (await api.get("/v1/events?kind=scheduler.")).json()["items"]} == {
        "scheduler.started",
        "scheduler.stopped",
    }
    operator = await somebody("operator")
    assert (await operator.get("/v1/events?kind=scheduler.")).json()["items"] == []


async def test_a_takeover_is_one_event_and_a_scheduler_that_comes_back_is_told_of(engine, told, sql):
    silent, taker = engine.scheduler(lease_seconds=1.0), engine.scheduler(lease_seconds=1.0)
    await silent.leases.tick()
    assert len(silent.leases.owned) == 64

    async def taken():
        await taker.leases.tick()
        return len(taker.leases._owned) == 64

    await eventually(taken)
    (takeover,) = await told("scheduler.takeover")
    assert takeover["data"] == {"schedulerId": str(taker.id), "from": str(silent.id), "shards": 64}
    assert [event["subject"] for event in await told("scheduler.lost")] == [str(silent.id)]
    await silent.leases.tick()
    await silent.leases.tick()
    assert [event["subject"] for event in await told("scheduler.returned")] == [str(silent.id)]


async def test_a_takeover_waits_for_no_beat_that_hangs(engine, told, sql, database_url):
    silent, taker = engine.scheduler(lease_seconds=1.0), engine.scheduler(lease_seconds=1.0)
    await silent.leases.tick()
    async with sql.transaction():
        await sql.execute("SELECT FROM rota.schedulers WHERE id = $1 FOR UPDATE", silent.id)

        async def taken():
            await taker.leases.tick()
            return len(taker.leases._owned) == 64

        await eventually(taken)
    assert len(await told("scheduler.takeover")) == 1


async def test_buried_runs_of_one_report_are_one_event_for_each_task_and_owner(engine, told, api, somebody, sql):
    alice = await somebody("submitter", owner="alice")
    worker = await engine.join(engine.broker(), "a", "b")
    for client, task, count in ((api, "a", 30), (alice, "a", 2), (api, "b", 1)):
        for _ in range(count):
            answer = await client.post("/v1/jobs", json=job(task=task, maxRetries=0))
            assert answer.status_code == 201, answer.text
    lanes = [row["lane"] for row in await sql.fetch("SELECT DISTINCT lane FROM rota.live_runs")]
    claims = await engine.claims.claim(worker, lanes, 100, LOOKAHEAD)
    failed = [report(claim, Outcome.failed, error="ValueError: no\nmore lines", traceback="…") for claim in claims]
    recorded = await engine.reports.record(failed)
    assert recorded.written == 33
    events = await told("run.buried")
    assert sorted((event["subject"], event["data"]["runs"], event["owner"]) for event in events) == [
        ("a", 2, "alice"),
        ("a", 30, "admin"),
        ("b", 1, "admin"),
    ]
    data = next(event["data"] for event in events if event["subject"] == "b")
    assert data["error"] == "ValueError: no"
    assert data["runId"] in data["runIds"]
    assert data["jobId"].startswith("job_")
    assert all(len(event["data"]["runIds"]) <= 20 for event in events)
    seen = (await alice.get("/v1/events?kind=run.buried")).json()["items"]
    assert [item["data"]["runs"] for item in seen] == [2]
    # A repeat of the report, whose answer was lost, changes nothing.
    await engine.reports.record(failed)
    assert len(await told("run.buried")) == 3


async def test_a_report_that_buries_nothing_tells_nothing(engine, told, sql):
    broker = engine.broker()
    worker = await engine.join(broker)
    await engine.submit(maxRetries=3)
    await engine.submit()
    lanes = [row["lane"] for row in await sql.fetch("SELECT DISTINCT lane FROM rota.live_runs")]
    one, two = await engine.claims.claim(worker, lanes, 10, LOOKAHEAD)
    await engine.reports.record([report(one, Outcome.failed, error="x", traceback="x"), report(two)])
    assert await sql.fetch("SELECT kind FROM rota.events WHERE kind NOT LIKE 'worker.%'") == []


async def test_what_is_rolled_back_is_not_told(engine, told, database):
    async def bury(statements):
        await statements._connection.execute(
            "INSERT INTO rota.dead_letters (namespace, run_id, job_id, name, task) SELECT 'default', u, u, 'n', 't'"
            " FROM gen_random_uuid() AS u"
        )
        raise DatabaseUnavailableError("cut")

    with pytest.raises(DatabaseUnavailableError):
        await database.transact(bury)
    assert await told("run.buried") == []


async def test_operations_are_told_of(told, sql):
    await sql.execute(
        "INSERT INTO rota.operations (namespace, id, kind, owner, shard, state, concurrency)"
        " VALUES ('default', gen_random_uuid(), 'cancel', 'alice', 0, 'running', 5)"
    )
    await sql.execute("UPDATE rota.operations SET state = 'stopped', reason = 'too much failed'")
    await sql.execute("UPDATE rota.operations SET state = 'running', reason = NULL")
    await sql.execute("UPDATE rota.operations SET state = 'completed', ended_at = now()")
    await sql.execute("UPDATE rota.operations SET changed_at = now()")
    (stopped,), (completed,) = await told("operation.stopped"), await told("operation.completed")
    assert (stopped["owner"], stopped["detail"]) == ("alice", "too much failed")
    assert completed["data"]["operation"] == "cancel"


async def test_a_workflow_run_that_fails_is_told_of(engine, told, api):
    def fail():
        raise ValueError("no")

    nodes = {"one": {"task": "fail", "maxRetries": 0}, "two": {"task": "fail", "after": ["one"]}}
    made = await api.post("/v1/workflows", json={"name": "nightly", "nodes": nodes})
    assert made.status_code < 300, made.text
    async with engine.running(engine.scheduler(), engine.worker({"fail": fail})):
        started = await api.post(f"/v1/workflows/{made.json()['workflowId']}/run", json={})
        assert started.status_code < 300, started.text
        (event,) = await eventually(lambda: told("workflow.failed"))
    assert event["subject"] == event["data"]["workflowRunId"] == started.json()["workflowRunId"]
    assert (event["data"]["workflow"], event["data"]["node"]) == ("nightly", "one")
    assert len(await told("run.buried")) == 1


async def test_lists_and_streams_are_filtered_by_kind_subject_and_time(api, sql):
    add = "INSERT INTO rota.events (namespace, kind, subject, at) VALUES ('default', $1, $2, $3::text::timestamptz)"
    for kind, subject, at in (
        ("pool.paused", "a", "2030-01-01T00:00:00Z"),
        ("pool.resumed", "a", "2030-01-02T00:00:00Z"),
        ("pool.paused", "b", "2030-01-03T00:00:00Z"),
        ("breaker.opened", "b", "2030-01-04T00:00:00Z"),
    ):
        await sql.execute(add, kind, subject, at)

    async def found(query):
        answer = await api.get(f"/v1/events?{query}")
        assert answer.status_code == 200, answer.text
        return [(item["event"], item["subject"]) for item in answer.json()["items"]]

    assert await found("kind=pool.") == [("pool.paused", "b"), ("pool.resumed", "a"), ("pool.paused", "a")]
    assert await found("kind=pool.paused,breaker.opened&subject=b") == [("breaker.opened", "b"), ("pool.paused", "b")]
    assert await found("kind=pool") == []
    assert await found("since=2030-01-02T00:00:00Z&until=2030-01-04T00:00:00Z") == [
        ("pool.paused", "b"),
        ("pool.resumed", "a"),
    ]
    assert (await api.get("/v1/events?since=yesterday")).status_code == 400
    assert (await api.get("/v1/events?follow=true&since=2030-01-02T00:00:00Z")).status_code == 400


async def test_runs_that_succeed_fire_no_trigger_that_tells(sql):
    rows = await sql.fetch("SELECT DISTINCT tgrelid::regclass::text AS name FROM pg_trigger WHERE tgname LIKE 'tell%'")
    tables = {row["name"].removeprefix("rota.") for row in rows}
    assert tables == {"dead_letters", "workers", "schedulers", "shard_leases", "operations", "workflow_runs"}


async def test_every_kind_that_is_recorded_is_known(sql):
    """In the database, in statements and in code; those of alerts and overdue schedules are recorded by others."""
    functions = await sql.fetch(
        "SELECT prosrc FROM pg_proc WHERE pronamespace = 'rota'::regnamespace AND proname LIKE 'tell%'"
    )
    source = Path(rota.__file__).parent
    known = source / "domain" / "events.py"
    texts = [row["prosrc"] for row in functions]
    texts += [path.read_text() for path in source.rglob("*.sql") if "schema" not in path.parts]
    texts += [path.read_text() for path in source.rglob("*.py") if path != known]
    families = "|".join(sorted({kind.partition(".")[0] for kind in KINDS}))
    found = {kind for text in texts for kind in re.findall(rf"['\"]((?:{families})\.[a-z_]+)['\"]", text)}
    assert found - NOT_KINDS <= set(KINDS)
    whats = ("declared", "changed", "undeclared")
    composed = {f"{family}.{what}" for family in ("schedule", "workflow") for what in whats}
    assert set(KINDS) - found - composed <= {"alert.fired", "alert.resolved", "schedule.overdue", "schedule.recovered"}


def test_the_reference_names_every_kind():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "events.md").read_text()
    rows = dict(re.findall(r"^\| `([a-z]+\.[a-z_]+)` \| ([^|]*?) \|", page, re.MULTILINE))
    assert rows == dict(KINDS)
