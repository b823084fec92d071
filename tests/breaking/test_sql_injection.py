"""SQL in every text that any operation takes: it comes back as it went in, or is refused; nothing else changes.

The fields are those of the OpenAPI document, so that a new one is attacked without anybody thinking of it.
"""

from __future__ import annotations

import json
from itertools import product
from urllib.parse import quote

import pytest

from rota.api.openapi import document
from rota.api.routes import OPERATIONS
from support import job

ATTACKS = [
    "' OR '1'='1",
    "'; DROP TABLE rota.jobs; --",
    "'); DELETE FROM rota.live_runs; --",
    '" OR ""="',
    "$$; DROP SCHEMA rota CASCADE; $$",
    "$1",
    "E'\\047; DROP TABLE rota.jobs'",
    "\\'; SELECT pg_sleep(60); --",
    "U&'\\0027' UESCAPE '\\'",
    "\u02bc\uff07\u2019; DROP TABLE rota.jobs",
    "{run}",
    "{x.run}",
    "%s %(name)s {0} {name!r} ${jndi:x}",
    "a\x00b",
    "a\\u0000b",
    "*/ SELECT 1 /*",
    "1; COPY rota.jobs TO PROGRAM 'id'",
    "{a,b}",
    "[1,2)",
    "NULL",
    "-1",
    "\ud7ff\ufffe\U0001f4a3",
]
DOCUMENT = json.loads(json.dumps(document(OPERATIONS, "test")))
TABLES = ("jobs", "upcoming_runs", "held_runs", "live_runs", "finished_runs", "dead_letters", "payloads", "pools")


def resolve(schema):
    while "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    return schema


def texts_of(schema, path=()):
    """The places of a body that can hold a text, as paths."""
    schema = resolve(schema)
    for choice in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from texts_of(choice, path)
    kinds = schema.get("type", "string" if "enum" in schema else ())
    if "string" in kinds:
        yield path
    if "array" in kinds:
        yield from texts_of(schema["items"], (*path, 0))
    for name, inner in schema.get("properties", {}).items():
        yield from texts_of(inner, (*path, name))
    if "object" in kinds and "properties" not in schema:
        yield (*path, "key")
        yield (*path, None)


def placed(base, path, text):
    """A body with a text at this place; None: as the name of a field, with itself as the value."""
    if not path:
        return text
    step, *rest = path
    if isinstance(step, int):
        inner = base[0] if isinstance(base, list) and base else None
        return [placed(inner, rest, text)]
    base = base if isinstance(base, dict) else {}
    if step is None:
        return {**base, text: text}
    return {**base, step: placed(base.get(step), rest, text)}


BASES = {
    "JobIn": [
        job(),
        job(scheduleType="cron", cronExpression="0 9 * * *"),
        job(task="http", payload={"url": "http://a/"}),
    ],
    "BatchJobIn": [job()],
    "JobSetIn": [{"job": job(), "payloads": [{"a": 1}, None]}],
    "SchedulePreviewIn": [{"cronExpression": "* * * * *"}],
}


def bases_of(operation):
    """Each form of the body, with bodies that are accepted."""
    content = DOCUMENT["paths"][operation.path][operation.method.lower()]["requestBody"]["content"]["application/json"]
    for schema in content["schema"].get("anyOf", [content["schema"]]):
        many = "items" in schema
        name = (schema["items"] if many else schema)["$ref"].rsplit("/", 1)[1]
        for base in BASES.get(name, [{}]):
            yield schema, [base] if many else base


async def state(sql):
    """What nobody asked to be changed: the schema, and the rows that were there before."""
    objects = await sql.fetch("SELECT oid, relname FROM pg_class WHERE relnamespace = 'rota'::regnamespace ORDER BY 1")
    functions = await sql.fetch("SELECT oid, prosrc FROM pg_proc WHERE pronamespace = 'rota'::regnamespace ORDER BY 1")
    days = {row["relname"] for row in objects if "_20" in row["relname"]}
    roles = await sql.fetch("SELECT rolname, rolsuper FROM pg_roles ORDER BY 1")
    return [row for row in objects if row["relname"] not in days], functions, roles


async def rows(sql):
    return {table: set(await sql.fetch(f"SELECT t::text FROM rota.{table} AS t")) for table in TABLES}


@pytest.fixture
async def spared(api, sql):
    """Jobs, runs and a pool that every attack must leave as they are."""
    for body in (
        job(name="spared", payload={"a": 1}, pool="elsewhere"),
        job(name="spared", scheduleType="cron", cronExpression="0 9 * * *", tags=["spared"]),
        job(name="spared", scheduleType="future", scheduleTime="2090-01-01T00:00:00Z"),
    ):
        assert (await api.post("/v1/jobs", json=body)).status_code == 201
    assert (await api.put("/v1/pools/elsewhere", json={"mostWaiting": 5})).status_code == 200
    before, shape = await rows(sql), await state(sql)
    yield
    after = await rows(sql)
    assert {table: before[table] - after[table] for table in TABLES if before[table] - after[table]} == {}
    assert await state(sql) == shape


def assert_decent(answer, text):
    """Taken or refused for a reason of ours: no error of the database's shows, and nothing went wrong inside."""
    assert answer.status_code < 500, (text, answer.text)
    for word in ("syntax error", "asyncpg", 'rota.jobs" ', "Traceback"):
        assert word not in answer.text


WITH_BODY = [operation for operation in OPERATIONS if operation.body]
SUBMITTING = ("/v1/jobs", "/v1/jobs/batch")


def named(operation):
    return f"{operation.method} {operation.path}"


@pytest.mark.parametrize("operation", WITH_BODY, ids=named)
async def test_a_text_in_a_body_is_a_text(api, spared, operation):
    names = {"jobId": await _job(api), "pool": "attacked", "subject": "attacked", "calendar": "attacked"}
    names["destination"] = "attacked"
    names["rule"] = "attacked"
    names["day"] = "20200101"
    target = operation.path.format(**names | await _workflow(api))
    taken = 0
    for schema, base in bases_of(operation):
        for path, text in product(set(texts_of(schema)), ATTACKS):
            body = placed(base, path, text)
            answer = await api.request(operation.method, target, json=body)
            assert_decent(answer, text)
            if answer.status_code == 201:
                taken += 1
                if "jobId" in answer.json() and operation.path in SUBMITTING:
                    await _comes_back(api, answer.json()["jobId"], body)
    assert taken or operation.path != "/v1/jobs"


async def _job(api):
    return (
        await api.post("/v1/jobs", json=job(name="attacked", scheduleType="cron", cronExpression="0 9 * * *"))
    ).json()["jobId"]


async def _workflow(api):
    """A workflow and its run, by the names of places in paths."""
    nodes = {"wait": {"wait": {"approval": True}}, "each": {"task": "t", "map": {"items": []}}}
    found = await api.post("/v1/workflows", json={"name": "attacked", "nodes": nodes})
    assert found.status_code in (201, 409)
    run = (await api.post("/v1/workflows/attacked/run")).json()["workflowRunId"]
    return {
        "workflowId": "attacked",
        "workflowRunId": run,
        "node": "wait",
        "signal": "go",
        "operationId": f"op_{'0' * 32}",
    }


async def _comes_back(api, job_id, body):
    shown = (await api.get(f"/v1/jobs/{job_id}")).json()
    for field, value in body.items():
        if (
            isinstance(value, str | dict | list)
            and field in shown
            and field not in ("retry", "misfire", "breaker", "dependencies")
        ):
            assert shown[field] == value


IN_PATHS = (
    *("jobId", "runId", "keyId", "pool", "subject", "task", "calendar", "destination", "day"),
    *("workflowId", "workflowRunId", "node", "signal", "operationId", "rule", "silenceId"),
)


@pytest.mark.parametrize("operation", OPERATIONS, ids=named)
async def test_a_text_in_an_address_or_header_is_a_text(api, spared, operation):
    addresses = operation.path.replace("{jobId}", await _job(api)).replace("{runId}", f"run_{'0' * 32}")
    for name, value in (await _workflow(api)).items():
        addresses = addresses.replace(f"{{{name}}}", value)
    addresses = addresses.replace("{pool}", "attacked")
    for text in ATTACKS:
        for name in operation.query:
            answer = await api.request(operation.method, addresses, params={name: text})
            assert_decent(answer, text)
            is_time = text == "-1" and name in ("startTime", "endTime")  # a second before 1970
            if answer.status_code == 200 and "items" in answer.json() and not is_time:
                assert answer.json()["items"] == []
        for name in operation.headers:
            header = {name: text.encode("utf-8").replace(b"\x00", b"")}
            assert_decent(
                await api.request(operation.method, addresses, headers=header, json=job(name="attacked")), text
            )
        for name in IN_PATHS:
            if f"{{{name}}}" in operation.path:
                inside = operation.path.replace(f"{{{name}}}", quote(text, safe=""))
                assert_decent(await api.request(operation.method, inside, json={}), text)


async def test_a_key_of_any_text_is_a_text(api, spared):
    for text in ATTACKS:
        if "\x00" in text:
            continue
        body = job(name="attacked", uniqueKey=text, orderingKey=text, concurrencyKey=text, concurrencyLimit=1)
        first = await api.post("/v1/jobs", json=body)
        assert first.status_code == 201, first.text
        assert (await api.post("/v1/jobs", json=body)).status_code == 409
        batch = [job(name="attacked", idempotencyKey=text)] * 2
        one, two = (await api.post("/v1/jobs/batch", json=batch)).json()["results"]
        assert two == one | {"replayed": True}
