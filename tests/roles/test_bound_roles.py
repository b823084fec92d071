"""A bound worker keeps to its namespaces and pools, whatever statements it makes up."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import asyncpg
import msgspec
import pytest

from rota.contract.jobs import JobIn, Submitted
from rota.domain.application import AnnouncedTask, Application
from rota.domain.fleet import WorkerProfile
from rota.domain.ids import new_id
from rota.domain.lag_histogram import STEPS
from rota.domain.rights import Caller
from rota.errors import ConflictError, DuplicateError, SetupError
from rota.gateway.local import LocalGateway
from rota.gateway.requests import JobRequest
from rota.service import ServiceGroup
from rota.store.schema.database_roles import DatabaseRole, DatabaseRoles
from rota.store.schema.role_rights import SUBMITTER, TABLES, WORKER
from support import job

BOUND = [table for table, line in TABLES.items() if line.bound]
# What rows are made of where a column must have a value and any will not do.
VALUES = {
    "cause": "submit",
    "status": "success",
    "gate": "new",
    "schedule_type": "interval",
    "every_seconds": 1.0,
    "state": "paused",
    "tags": [],
    "tasks": [],
    "pool": "ours",
    "task": "t",
    "priority": 0,
    "policies": "{}",
    "schedules": "[]",
    "body": "x",
    "options": "{}",
    "lags": [0] * STEPS,
    "durations": [0] * STEPS,
}
BY_TYPE = {
    "text": "x",
    "uuid": uuid4(),
    "integer": 1,
    "smallint": 1,
    "bigint": 1,
    "double precision": 1.0,
    "boolean": False,
    "bytea": b"x",
    "interval": timedelta(seconds=5),
}


async def columns_of(sql, table):
    """The columns that need a value, with their types."""
    rows = await sql.fetch(
        """SELECT attname AS name, format_type(atttypid, NULL) AS type,
                  attnotnull AND NOT atthasdef AND attidentity = '' AS needed
             FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped""",
        f"rota.{table}",
    )
    also = {"every_seconds"} if table == "jobs" else {"body"} if table == "payloads" else set()
    return {row["name"]: row["type"] for row in rows if row["needed"] or row["name"] in also}


async def add(sql, connection, table, namespace, pool="ours"):
    """Inserts a row of a namespace, as whoever the connection is; gives back by what to find it."""
    columns = await columns_of(sql, table)
    now = await sql.fetchval("SELECT now()")
    values = {}
    for name, kind in columns.items():
        values[name] = VALUES.get(name, now if kind.startswith("timestamp") else BY_TYPE.get(kind))
    values |= {name: new_id(now.timestamp()) for name in columns if name in ("id", "run_id")}
    values |= {
        name: str(uuid4())
        for name, kind in columns.items()
        if name in ("key", "version", "chosen_id") and kind == "text"
    }
    values |= {"namespaces": [namespace], "pools": [pool]} if table == "workers" else {"namespace": namespace}
    values |= {"pool": pool} if "pool" in columns else {}
    values |= {"tasks": "{}"} if columns.get("tasks") == "json" else {}
    if "lane" in columns:
        lane = "SELECT rota.lane_of($1, $2, 't', 0::smallint)"
        values["lane"] = await sql.fetchval(lane, namespace, pool)
    numbers = ", ".join(f"${n}" for n in range(1, len(values) + 1))
    await connection.execute(f"INSERT INTO rota.{table} ({', '.join(values)}) VALUES ({numbers})", *values.values())


def where(table, namespace):
    return f"namespaces = '{{{namespace}}}'" if table == "workers" else f"namespace = '{namespace}'"


async def reached(connection, statement):
    """How many rows a statement reached; 0 as well when it is refused. Nothing of it stays."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        answer = await connection.execute(statement)
    except asyncpg.InsufficientPrivilegeError:
        return 0
    finally:
        await transaction.rollback()
    return int(answer.split()[-1])


def attempts(table, namespace):
    """One statement of each kind on the rows of a namespace."""
    column = "namespaces" if table == "workers" else "namespace"
    rows = where(table, namespace)
    return {
        "SELECT": f"SELECT FROM rota.{table} WHERE {rows}",
        "UPDATE": f"UPDATE rota.{table} SET {column} = {column} WHERE {rows}",
        "DELETE": f"DELETE FROM rota.{table} WHERE {rows}",
    }


@pytest.mark.parametrize("table", BOUND)
async def test_rows_of_other_namespaces_are_out_of_reach(table, make_role, connect, sql):
    connection = await connect(await make_role(WORKER, namespaces=("ours",)))
    rights = TABLES[table].rights[WORKER]
    for namespace in ("ours", "theirs"):
        await add(sql, sql, table, namespace)
    for right, statement in attempts(table, "theirs").items():
        assert await reached(connection, statement) == 0, right
    for right, statement in attempts(table, "ours").items():
        assert await reached(connection, statement) == (right in rights and "SELECT" in rights), right
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await add(sql, connection, table, "theirs")
    if "INSERT" in rights:
        await add(sql, connection, table, "ours")
    if "UPDATE" in rights:
        column, value = ("namespaces", "{theirs}") if table == "workers" else ("namespace", "theirs")
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
            await connection.execute(f"UPDATE rota.{table} SET {column} = '{value}'")
    assert await sql.fetchval(f"SELECT count(*) FROM rota.{table} WHERE {where(table, 'theirs')}") == 1


async def test_the_view_of_all_runs_hides_them_too(make_role, connect, sql):
    connection = await connect(await make_role(WORKER, namespaces=("ours",)))
    for table in ("upcoming_runs", "held_runs", "live_runs", "finished_runs"):
        for namespace in ("ours", "theirs"):
            await add(sql, sql, table, namespace)
    assert [row[0] for row in await connection.fetch("SELECT namespace FROM rota.runs")] == ["ours"] * 4


async def test_what_is_ready_in_other_pools_is_out_of_reach(make_role, connect, sql):
    connection = await connect(await make_role(WORKER, namespaces=("ours",), pools=("ours",)))
    for pool in ("ours", "others"):
        await add(sql, sql, "live_runs", "ours", pool)
    for statement in (
        "SELECT FROM rota.live_runs",
        "SELECT FROM rota.live_runs FOR UPDATE",
        "UPDATE rota.live_runs SET worker_id = gen_random_uuid(), claim = 1",
        "DELETE FROM rota.live_runs",
    ):
        assert await reached(connection, statement) == 1
    await add(sql, connection, "live_runs", "ours", "others")  # to submit there is allowed
    assert await sql.fetchval("SELECT count(*) FROM rota.live_runs WHERE pool = 'others'") == 2


@pytest.mark.parametrize(
    ("bound", "namespaces", "pools", "may"),
    [
        ({"namespaces": ("ours", "more")}, ("ours", "theirs"), ("p",), "namespaces more, ours alone, not theirs"),
        ({"pools": ("p",)}, ("any",), ("p", "q"), "pools p alone, not q"),
    ],
)
async def test_a_worker_that_wants_more_is_told_what_it_may_serve(
    bound, namespaces, pools, may, make_role, connect, engine, sql
):
    role = await make_role(WORKER, **bound)
    broker = engine.broker(database=await connect(role, pool=True))
    with pytest.raises(SetupError, match=may) as refused:
        await broker.join(WorkerProfile("test", 1, namespaces, pools, ("t",), 1))
    assert role.name in str(refused.value)
    assert "rota database-roles" in str(refused.value)
    assert await sql.fetchval("SELECT count(*) FROM rota.workers") == 0


async def test_a_worker_that_does_not_ask_is_refused_by_the_database(make_role, connect, sql):
    connection = await connect(await make_role(WORKER, namespaces=("ours",), pools=("ours",)))
    for namespace, pool in (("theirs", "ours"), ("ours", "others")):
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
            await add(sql, connection, "workers", namespace, pool)
    await add(sql, connection, "workers", "ours", "ours")
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
        await connection.execute("UPDATE rota.workers SET app_namespace = 'theirs'")


def prepared(namespace, pool="ours"):
    """A job as libraries hand it to rota.submit_v1."""
    return {
        "id": str(uuid4()), "namespace": namespace, "owner": "o", "name": "n", "task": "t", "pool": pool, "priority": 0,
        "tags": [], "payload": None, "inlineBytes": 1000, "options": "{}", "spread": 1,
    }  # fmt: skip


@pytest.mark.parametrize("kind", [WORKER, SUBMITTER])
async def test_a_bound_role_submits_in_its_namespaces_alone(kind, make_role, connect, sql):
    connection = await connect(await make_role(kind, namespaces=("ours",)))
    submit = "SELECT rota.submit_v1($1)"
    await connection.fetchval(submit, json.dumps([prepared("ours")]))
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="namespaces alone: ours"):
        await connection.fetchval(submit, json.dumps([prepared("ours"), prepared("theirs")]))
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await connection.fetchval(submit, json.dumps([{**prepared("ours"), "namespace": None}]))
    assert await sql.fetchval("SELECT array_agg(namespace) FROM rota.live_runs") == ["ours"]


async def test_a_bound_role_completes_no_run_of_others(make_role, connect, sql):
    connection = await connect(await make_role(WORKER, namespaces=("ours",), pools=("ours",)))
    for namespace, pool in (("ours", "ours"), ("ours", "others"), ("theirs", "ours")):
        await add(sql, sql, "live_runs", namespace, pool)
    await sql.execute("UPDATE rota.live_runs SET worker_id = gen_random_uuid(), claim = 7")
    completed = {}
    for run in await sql.fetch("SELECT namespace, pool, id FROM rota.live_runs"):
        arguments = (run["namespace"], run["id"], 7)
        done = "SELECT rota.complete_v1($1, $2, $3, now(), NULL, NULL)"
        completed[run["namespace"], run["pool"]] = await connection.fetchval(done, *arguments)
    assert completed == {("ours", "ours"): True, ("ours", "others"): False, ("theirs", "ours"): False}


async def test_a_member_of_bound_roles_is_bound_by_each_of_them(make_role, connect, sql):
    first = await make_role(WORKER, namespaces=("a", "b"))
    second = await make_role(WORKER, namespaces=("b", "c"))
    member = await make_role(None)
    await sql.execute(f"GRANT {first.name}, {second.name} TO {member.name}")
    connection = await connect(member)
    for namespace in ("a", "b", "c"):
        await add(sql, sql, "live_runs", namespace)
    assert [row[0] for row in await connection.fetch("SELECT namespace FROM rota.live_runs")] == ["b"]
    assert await connection.fetchval("SELECT namespaces FROM rota.bound_to()") == ["b"]


async def test_a_member_that_does_not_inherit_can_not_submit_elsewhere(make_role, connect, sql):
    group = await make_role(WORKER, namespaces=("ours",))
    member = await make_role(None)
    await sql.execute(f"ALTER ROLE {member.name} NOINHERIT")
    await sql.execute(f"GRANT {group.name} TO {member.name}")
    connection = await connect(member)
    await connection.execute(f"SET ROLE {group.name}")
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="namespaces alone"):
        await connection.fetchval("SELECT rota.submit_v1($1)", json.dumps([prepared("theirs")]))


async def test_roles_bound_to_nothing_in_common_reach_nothing(make_role, connect, sql):
    first = await make_role(WORKER, namespaces=("a",))
    second = await make_role(WORKER, namespaces=("b",))
    await sql.execute(f"GRANT {first.name} TO {second.name}")
    assert await (await connect(second)).fetchval("SELECT namespaces FROM rota.bound_to()") == []


async def test_who_is_not_bound_is_not_held_back_by_those_who_are(make_role, connect, sql):
    await make_role(WORKER, namespaces=("ours",))
    free = await connect(await make_role(WORKER))
    for namespace in ("ours", "theirs"):
        await add(sql, sql, "live_runs", namespace)
    assert len(await free.fetch("SELECT FROM rota.live_runs")) == 2
    assert await free.fetchval("SELECT namespaces FROM rota.bound_to()") is None
    await free.fetchval("SELECT rota.submit_v1($1)", json.dumps([prepared("theirs")]))


async def test_a_binding_can_be_changed_and_taken_away(make_role, connect, database, sql):
    role = await make_role(WORKER, namespaces=("a",))
    connection = await connect(role)
    for namespace in ("a", "b", "c"):
        await add(sql, sql, "live_runs", namespace)

    async def seen():
        return {row[0] for row in await connection.fetch("SELECT namespace FROM rota.live_runs")}

    assert await seen() == {"a"}
    await DatabaseRoles(database).set([DatabaseRole(role.name, WORKER, ("b", "c"))])
    assert await seen() == {"b", "c"}
    await DatabaseRoles(database).set([DatabaseRole(role.name, WORKER)])
    assert await seen() == {"a", "b", "c"}


async def test_names_with_quotes_in_them_bind_as_they_are(make_role, connect, sql):
    odd = ("o'clock", 'say "so"', "back\\slash", "a,b", "{}")
    connection = await connect(await make_role(WORKER, namespaces=odd))
    for namespace in (*odd, "theirs"):
        await add(sql, sql, "live_runs", namespace)
    assert {row[0] for row in await connection.fetch("SELECT namespace FROM rota.live_runs")} == {*odd}


@pytest.mark.parametrize("on_duplicate", ["reject", "replace"])
async def test_a_unique_job_in_a_pool_out_of_sight_is_in_the_way_all_the_same(
    on_duplicate, make_role, connect, engine, sql
):
    await engine.submit(uniqueKey="k", pool="others")
    role = await make_role(WORKER, namespaces=("default",), pools=("default",))
    asked = msgspec.convert(job(uniqueKey="k", onDuplicate=on_duplicate), JobIn)
    (answer,) = await submit_as(await connect(role, pool=True), engine, asked)
    assert isinstance(answer, DuplicateError)
    assert await sql.fetchval("SELECT count(*) FROM rota.live_runs") == 1
    await sql.execute("DELETE FROM rota.live_runs")
    (answer,) = await submit_as(await connect(role, pool=True), engine, asked)
    assert isinstance(answer, Submitted)


async def test_a_worker_is_told_that_its_role_can_not_make_jobs_depend_on_others(make_role, connect, engine):
    await engine.submit(jobId="load")
    pool = await connect(await make_role(WORKER), pool=True)
    dependent = JobIn(name="t", schedule_type="immediate", task="t", dependencies=["load"])
    plain = JobIn(name="t", schedule_type="immediate", task="t", job_id="other")
    refused, accepted = await submit_as(pool, engine, dependent, plain)
    assert "submit them over the API" in str(refused)
    assert isinstance(accepted, Submitted)


async def submit_as(pool, engine, *asked):
    """What a task of a worker does that submits another."""
    gateway = LocalGateway(
        database=pool,
        shards=64,
        payload_limit_bytes=1000,
        blobs=engine.blobs,
        now=lambda: datetime.now(UTC),
    )
    async with ServiceGroup(gateway.services):
        return await gateway.submit([JobRequest(one) for one in asked], Caller("default", "admin"))


@pytest.mark.parametrize("kind", [WORKER, SUBMITTER])
async def test_a_role_bound_to_pools_replaces_nothing_that_is_ready_in_others(kind, make_role, connect, engine, sql):
    await engine.submit(uniqueKey="k", pool="others", name="theirs")
    connection = await connect(await make_role(kind, namespaces=("default",), pools=("default",)))
    key = await sql.fetchval("SELECT key FROM rota.submission_keys")
    wanted = prepared("default", "default") | {"unique": {"key": key, "seconds": None, "onDuplicate": "replace"}}
    submit = "SELECT rota.submit_v1($1)"
    assert "duplicate" in await connection.fetchval(submit, json.dumps([wanted]))
    assert [row["name"] for row in await sql.fetch("SELECT name FROM rota.live_runs")] == ["theirs"]
    move = "UPDATE rota.live_runs SET pool = 'default', lane = rota.lane_of(namespace, 'default', task, priority)"
    await sql.execute(move)
    assert "queued" in await connection.fetchval(submit, json.dumps([wanted]))
    assert [row["name"] for row in await sql.fetch("SELECT name FROM rota.live_runs")] == ["n"]


async def test_in_one_batch_a_job_in_a_pool_out_of_reach_is_not_replaced_either(make_role, connect, engine, sql):
    role = await make_role(WORKER, namespaces=("default",), pools=("default",))
    asked = [
        msgspec.convert(job(uniqueKey="k", onDuplicate="replace", pool=pool), JobIn) for pool in ("others", "default")
    ]
    first, second = await submit_as(await connect(role, pool=True), engine, *asked)
    assert isinstance(first, Submitted)
    assert isinstance(second, DuplicateError)
    assert [row["pool"] for row in await sql.fetch("SELECT pool FROM rota.live_runs")] == ["others"]


async def test_a_bound_worker_submits_jobs_with_ids_of_their_choice(make_role, connect, engine, sql):
    role = await make_role(WORKER, namespaces=("default",), pools=("default",))
    asked = msgspec.convert(job(jobId="daily"), JobIn)
    pool = await connect(role, pool=True)
    (first,), (second,) = [await submit_as(pool, engine, asked) for _ in range(2)]
    assert first.job_id == "daily"
    assert isinstance(second, ConflictError)


async def test_a_bound_submitter_chooses_ids_in_its_own_namespaces_alone(make_role, connect, sql):
    connection = await connect(await make_role(SUBMITTER, namespaces=("ours",)))
    submit = "SELECT rota.submit_v2($1)"
    wanted = [prepared(namespace, "default") | {"chosenId": "daily"} for namespace in ("ours", "theirs")]
    assert "queued" in await connection.fetchval(submit, json.dumps(wanted[:1]))
    again = prepared("ours", "default") | {"chosenId": "daily"}
    assert "taken" in await connection.fetchval(submit, json.dumps([again]))
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await connection.fetchval(submit, json.dumps(wanted[1:]))
    assert await sql.fetchval("SELECT count(*) FROM rota.chosen_ids") == 1


async def test_a_bound_worker_announces_for_its_own_namespaces_alone(make_role, connect, engine, sql):
    broker = engine.broker(database=await connect(await make_role(WORKER, namespaces=("ours",)), pool=True))
    tasks = {"t": AnnouncedTask({}, {"maxRetries": 0})}
    ours = Application("ours", "shop", "1", (), tasks)
    await broker.join(WorkerProfile("test", 1, ("ours",), ("p",), ("t",), 1, application=ours))
    theirs = msgspec.structs.replace(ours, namespace="theirs")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await broker.join(WorkerProfile("test", 1, ("ours",), ("p",), ("t",), 1, application=theirs))
    assert await sql.fetchval("SELECT array_agg(namespace) FROM rota.announced_tasks") == ["ours"]
    answers = [
        await sql.fetch("SELECT * FROM rota.announcements_of(ARRAY[$1::text])", name) for name in ("ours", "theirs")
    ]
    assert [len(answer) for answer in answers] == [1, 0]


@pytest.mark.parametrize("kind", [WORKER, SUBMITTER])
async def test_a_bound_role_hears_of_the_tasks_of_its_namespaces_alone(kind, make_role, connect, engine, sql):
    for namespace in ("ours", "theirs"):
        app = Application(namespace, "shop", "1", (), {"t": AnnouncedTask({}, {"maxRetries": 0})})
        await engine.broker().join(WorkerProfile("test", 1, (namespace,), ("p",), ("t",), 1, application=app))
    connection = await connect(await make_role(kind, namespaces=("ours",)))
    ask = "SELECT rota.task_defaults_v1($1, $2)"
    told = [json.loads(await connection.fetchval(ask, name, '["t", "u"]')) for name in ("ours", "theirs")]
    assert told == [{"t": {"defaults": {"maxRetries": 0}, "computed": None}}, {}]
