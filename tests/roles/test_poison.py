"""What a role that is bound to one namespace writes does not stop the work of others."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime

import asyncpg
import pytest

from rota.domain.ids import new_id
from rota.store.schema.role_rights import SUBMITTER, WORKER
from support import eventually

SUBMIT = "SELECT rota.submit_v1($1)"


def prepared(namespace="ours", **changes):
    return {
        "id": str(new_id(datetime.now(UTC).timestamp())), "namespace": namespace, "owner": "o", "name": "n",
        "task": "t",
        "pool": "ours", "priority": 0, "tags": [], "payload": None, "inlineBytes": 1000, "options": "{}",
        "spread": 1,
    } | changes  # fmt: skip


def timetable(**changes):
    now = datetime.now(UTC).isoformat()
    usual = {
        "schedule_type": "cron", "cron_expression": "* * * * *", "every_seconds": None, "timezone": "UTC",
        "anchor_at": now, "start_at": None, "end_at": None, "jitter_seconds": 0, "dst": None, "misfire": None,
    }  # fmt: skip
    return {"timetable": usual | changes, "nextFireAt": now}


POISONS = {
    "cron": timetable(cron_expression="garbage"),
    "zone": timetable(timezone="Nowhere/Land"),
    "misfire": timetable(misfire="garbage"),
    "no time at all": timetable(schedule_type="interval", cron_expression=None, every_seconds=1e-9),
    "order": {"policies": '{"order": 5}'},
    "limit": {"policies": '{"limit": "k", "most": "many"}'},
    "rate": {"policies": '{"rate": "k", "count": 0, "per": 0, "burst": 0}'},
    "list": {"policies": "[1]"},
}


@pytest.mark.parametrize("poison", POISONS)
async def test_what_a_bound_submitter_hands_in_does_not_stop_the_jobs_of_others(
    poison, make_role, connect, engine, sql
):
    connection = await connect(await make_role(SUBMITTER, namespaces=("ours",)))
    with suppress(asyncpg.IntegrityConstraintViolationError, asyncpg.DataError):  # refused at once is as good
        jobs = [prepared(spread=shard, **POISONS[poison]) for shard in range(64)]
        await connection.fetchval(SUBMIT, json.dumps(jobs))
    async with engine.running(engine.scheduler(), engine.worker()):
        if "policies" in POISONS[poison]:
            run_id = await engine.submit(task="rota.echo", orderingKey="mine")
            await engine.until(run_id, "success", within=8)
        else:
            job_id = await engine.recurring(task="rota.echo", scheduleType="interval", everySeconds=1)

            async def fired():
                items = (await engine.api.get(f"/v1/jobs/{job_id}/runs")).json().get("items")
                return any(item["status"] == "success" for item in items or [])

            await eventually(fired, within=12)


async def test_what_a_bound_worker_writes_does_not_stop_housekeeping(make_role, connect, database):
    connection = await connect(await make_role(WORKER, namespaces=("ours",), pools=("ours",)))
    with pytest.raises(asyncpg.CheckViolationError):
        await connection.execute(
            "INSERT INTO rota.submission_keys (namespace, kind, key, request_hash, answer, expires_at)"
            " VALUES ('ours', 'unique', 'k', 'waits', 'garbage', now() - interval '1 hour')"
        )
    await database.fetch_value("sweep", limit=1000)


WRITES = {
    "departure": "INSERT INTO rota.departures (namespace, run_id, job_id, policies, outcome)"
    ' SELECT \'ours\', gen_random_uuid(), gen_random_uuid(), \'{"rate": "k", "count": 0, "per": 0, "burst": 0,'
    ' "breaker": "b", "failures": 1, "cooldown": 1e300}\', \'failed\' FROM generate_series(1, 3)',
    "departure of a list": "INSERT INTO rota.departures (namespace, run_id, job_id, policies, outcome)"
    " VALUES ('ours', gen_random_uuid(), gen_random_uuid(), '[1]', 'garbage')",
}


@pytest.mark.parametrize("write", WRITES)
async def test_what_a_bound_worker_writes_does_not_stop_the_gates_of_others(write, make_role, connect, engine):
    connection = await connect(await make_role(WORKER, namespaces=("ours",), pools=("ours",)))
    await connection.execute(WRITES[write])
    async with engine.running(engine.scheduler(), engine.worker()):
        run_id = await engine.submit(task="rota.echo", orderingKey="mine")
        await engine.until(run_id, "success", within=8)
