"""The whole engine under narrow roles: an API, a scheduler and a worker, each a process with a role of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from rota.store.schema.role_rights import SERVER, WORKER
from scenarios.fleet import Fleet
from support import eventually

HERE = Path(__file__).parent
BINDINGS = {"free": {}, "bound": {"namespaces": ("default",), "pools": ("default",)}}


@pytest.fixture(params=BINDINGS)
async def fleet(request, make_role, sql):
    """`rota api`, `rota scheduler` and `rota worker`; the worker bound or not."""
    server, worker = await make_role(SERVER), await make_role(WORKER, **BINDINGS[request.param])
    await sql.execute(f"CREATE TABLE public.ledger (cents integer); GRANT INSERT ON public.ledger TO {worker.name}")
    fleet = Fleet({"ROTA_DATABASE_URL": server.url, "PYTHONPATH": str(HERE), "ROTA_LOG_LEVEL": "info"})
    try:
        await fleet.start_api()
        await fleet.start("scheduler")
        await fleet.start("worker", "--app", "narrow_tasks:app", directory=HERE, ROTA_DATABASE_URL=worker.url)
        yield fleet
        assert "permission denied" not in fleet.logs()
        assert "row-level security" not in fleet.logs()
    finally:
        print(fleet.logs())  # shown when the test fails
        await fleet.stop()


async def outcome(fleet, task, *statuses, **fields):
    submitted = await fleet.submit(f"narrow_tasks.{task}", **fields)
    return await fleet.until(submitted["runId"], *(statuses or ("success", "failed")))


@pytest.mark.scenario
async def test_everything_works_under_narrow_roles(fleet, sql, make_role, connect):
    run = await outcome(fleet, "talk", payload={"words": "hello"})
    assert (run["status"], run["result"]) == ("success", "hello")
    await eventually(lambda: logged(fleet, run["runId"], "hello"))

    assert (await outcome(fleet, "stumble"))["result"] == 2
    assert (await outcome(fleet, "fail", maxRetries=0))["status"] == "failed"
    assert len((await fleet.get("/v1/dead-letters"))["items"]) == 1
    assert (await outcome(fleet, "delegate"))["result"] == "from within"
    assert (await outcome(fleet, "talk", payload={"words": "x" * 100_000}))["status"] == "success"

    lingering = await outcome(fleet, "linger", "running")
    await fleet.post(f"/v1/runs/{lingering['runId']}/cancel")
    assert (await fleet.until(lingering["runId"], "cancelled"))["status"] == "cancelled"

    for task in ("charge", "charge_in_thread"):
        assert (await outcome(fleet, task, payload={"cents": 5}))["status"] == "success"
    assert await sql.fetchval("SELECT sum(cents) FROM ledger") == 10
    keyed = [await outcome(fleet, "talk", payload={"words": "one"}, orderingKey="k") for _ in range(2)]
    assert [one["status"] for one in keyed] == ["success"] * 2

    await eventually(lambda: count(sql, "finished_runs WHERE task = 'narrow_tasks.tick' AND cause = 'schedule'"))
    await eventually(lambda: count(sql, "finished_runs WHERE payload LIKE '%charged%'"))
    await days_are_made_and_dropped(fleet, sql, make_role, connect)


async def days_are_made_and_dropped(fleet, sql, make_role, connect):
    """By those who own no table."""
    server = await connect(await make_role(SERVER), pool=True)
    before = await count(sql, "pg_inherits")
    assert await server.fetch_value("make_days", ahead=9) == 2
    assert await count(sql, "pg_inherits") > before
    await sql.execute("SELECT rota.make_day(current_date - 30)")
    assert await server.fetch_value("drop_log_days", recent_days=7) == 1
    # A run whose day is not there: its worker makes it.
    today = await sql.fetchval("SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')")
    for parent in ("finished_runs", "attempts"):
        await sql.execute(f"DROP TABLE rota.{parent}_{today}")
    assert (await outcome(fleet, "talk", payload={"words": "again"}))["status"] == "success"


async def logged(fleet, run_id, words):
    answer = await fleet.client.get(f"/v1/runs/{run_id}/logs")
    return words in answer.text


async def count(sql, what):
    schema = "" if what.startswith("pg_") else "rota."
    return await sql.fetchval(f"SELECT count(*) FROM {schema}{what}")
