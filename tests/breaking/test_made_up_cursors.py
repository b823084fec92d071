"""Cursors that no list gave: an answer within the filter, or a refusal."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from random import Random
from uuid import UUID

import pytest

from rota.api.routes import OPERATIONS
from rota.domain.ids import floor_id, new_id
from support import job, log_chunk

BORDER = datetime(2090, 1, 2, tzinfo=UTC)
LISTS = sorted(operation.path for operation in OPERATIONS if "cursor" in operation.query)
# Which list is narrowed by what, and how each of its items shows that it belongs there.
NARROW = {
    "/v1/jobs": ({"name": "wanted"}, lambda item: item["name"] == "wanted"),
    "/v1/schedules": ({"name": "hourly"}, lambda item: item["name"] == "hourly"),
    "/v1/runs": (
        {"name": "wanted", "endTime": BORDER.isoformat(), "startTime": "2090-01-01T00:00:00Z"},
        lambda item: item["name"] == "wanted" and "2090-01-01" <= item["scheduledTime"] < "2090-01-02",
    ),
    "/v1/jobs/{jobId}/runs": ({}, lambda item: item["name"] == "hourly"),
    "/v1/dead-letters": ({"task": "wanted"}, lambda item: item["task"] == "wanted"),
    "/v1/events": ({"kind": "test"}, lambda item: item["subject"] == "wanted"),
    "/v1/keys": ({}, lambda item: item["name"] == "wanted"),
    "/v1/limits": ({}, lambda item: item["subject"] == "wanted"),
    "/v1/tasks": ({}, lambda item: item["task"] == "wanted"),
    "/v1/audit": ({"object": "wanted"}, lambda item: item["object"] == "wanted"),
    "/v1/operations": ({"kind": "replay"}, lambda item: item["kind"] == "replay" and item["owner"] == "wanted"),
    "/v1/replays": ({}, lambda item: item["kind"] == "replay" and item["owner"] == "wanted"),
    "/v1/backfills": ({}, lambda item: item["kind"] == "backfill" and item["owner"] == "wanted"),
    "/v1/destinations": ({}, lambda item: item["name"] == "wanted"),
    "/v1/destinations/{destination}/deliveries": ({}, lambda item: item["error"] == "wanted"),
    "/v1/archive": ({}, lambda item: item["day"] == "20200101"),
    "/v1/calendars": ({}, lambda item: item["name"] == "wanted"),
    # Rules of the installation are everyone's to read.
    "/v1/alerts/rules": ({}, lambda item: item["scope"] == "installation" or item["name"] == "wanted"),
    "/v1/workflows": ({}, lambda item: item["name"] == "wanted"),
    "/v1/workflow-runs": ({"workflow": "wanted"}, lambda item: item["name"] == "wanted"),
    "/v1/workflow-runs/{workflowRunId}/nodes/{node}/members": ({}, lambda item: item["reason"] == "wanted"),
    "/v1/workflow-runs/{workflowRunId}/nodes/{node}/results": ({}, lambda item: item["result"] == "wanted"),
    "/v1/logs": (
        {"search": "wanted", "endTime": BORDER.isoformat()},
        lambda item: "wanted" in item["text"] and UUID(item["runId"][4:]) < floor_id(BORDER),
    ),
}
LINE = "2026-01-01T00:00:00.000Z stdout wanted\n"


def cursors(random):
    """Well-formed ones: the ends of what there can be, and some in between."""
    numbers = [0, 1, (1 << 128) - 1, 1 << 127, *(random.getrandbits(128) for _ in range(5))]
    numbers += [floor_id(BORDER + timedelta(days=days)).int for days in (-2, -1, 0, 1, 400)]
    for number in numbers:
        yield f"{number:032x}"
        for rest in ("0.0", "-1.-1", "999999999999999999.999999999", "-999999999999999999.-999999999", "1.0"):
            yield f"{number:032x}.{rest}"
    yield from ("/", "/a", "/wanted", "/\uffff", "//")
    yield from ("20300101.1", "203001.1", "20200101.1", "20200101.2")
    yield from ("0", "1", "9" * 18, str((1 << 63) - 1), "9" * 19, "0" * 18)


@pytest.fixture
async def rows(api, sql):
    """Something of every list inside of its filter, and something outside; also of another namespace."""
    recurring = job(name="hourly", scheduleType="cron", cronExpression="0 * * * *")
    job_id = (await api.post("/v1/jobs", json=recurring)).json()["jobId"]
    assert (await api.post(f"/v1/jobs/{job_id}/run")).status_code == 202
    for name in ("wanted", "other"):
        for day in (1, 2, 3):
            body = job(name=name, scheduleType="future", scheduleTime=f"2090-01-0{day}T12:00:00Z")
            assert (await api.post("/v1/jobs", json=body)).status_code == 201
    for moment in (BORDER - timedelta(days=1), BORDER + timedelta(days=1)):
        for namespace in ("default", "elsewhere"):
            chunk = log_chunk(new_id(moment.timestamp()), LINE, last=True, namespace=namespace)
            await api.services.logs.add([chunk])
    for namespace, word in (("default", "wanted"), ("default", "other"), ("elsewhere", "wanted")):
        await sql.execute(
            "INSERT INTO rota.dead_letters (namespace, run_id, job_id, name, task) VALUES ($1, $2, $2, $3, $3)",
            namespace,
            new_id(BORDER.timestamp()),
            word,
        )
    for namespace, subject in (("default", "wanted"), ("elsewhere", "other")):
        headers = {"Rota-Namespace": namespace}
        key = {"name": subject, "role": "viewer"}
        assert (await api.post("/v1/keys", json=key, headers=headers)).status_code == 201
        days = {"days": ["2030-01-01"]}
        assert (await api.put(f"/v1/calendars/{subject}", json=days, headers=headers)).status_code in (200, 201)
        hook = {"url": "https://example.com"}
        assert (await api.put(f"/v1/destinations/{subject}", json=hook, headers=headers)).status_code == 200
        await sql.execute(
            "INSERT INTO rota.deliveries (destination_id, event_id, error) SELECT id, 7, name FROM rota.destinations"
            " WHERE name = $1",
            subject,
        )
        rule = {"kind": "no_worker"}
        assert (await api.put(f"/v1/alerts/rules/{subject}", json=rule, headers=headers)).status_code == 200
        limits = {"mostWaiting": 100}
        assert (await api.put(f"/v1/limits/{subject}", json=limits, headers=headers)).status_code == 200
        await sql.execute(
            "INSERT INTO rota.events (namespace, kind, subject) VALUES ($1, 'test', $2)", namespace, subject
        )
        await sql.execute(
            """INSERT INTO rota.announced_tasks (namespace, app, version, digest, tasks)
               VALUES ($1, 'shop', '1', 'd', json_build_object($2::text, '{}'::json))""",
            namespace,
            subject,
        )
    await sql.execute(
        "INSERT INTO rota.archives (period, number, state, first_id, before_id, kept)"
        " VALUES ('20200101', 1, 'dropped', gen_random_uuid(), gen_random_uuid(), '{}')"
    )
    for namespace, owner in (("default", "wanted"), ("elsewhere", "other")):
        for kind, of_job in (("replay", None), ("backfill", UUID(job_id[4:]))):
            await sql.execute(
                """INSERT INTO rota.operations (namespace, id, kind, owner, shard, state, concurrency, filter, job_id,
                                                timetable, first_at, last_at)
                   SELECT $1, $2, $3, $4, 0, 'paused', 1, '{}', $5,
                          json_build_object('schedule_type', 'cron', 'cron_expression', '0 * * * *',
                                            'every_seconds', NULL, 'timezone', 'UTC', 'anchor_at', now()),
                          now(), now()""",
                namespace,
                new_id(BORDER.timestamp()),
                kind,
                owner,
                of_job,
            )
    names = {"jobId": job_id, "node": "each", "destination": "wanted"}
    return names | {"workflowRunId": await workflow_rows(api, sql)}


async def workflow_rows(api, sql):
    """A workflow run with a map, and others with theirs beside it."""
    nodes = {"each": {"task": "t", "map": {"items": [1, 2]}}, "other": {"task": "t", "map": {"items": [1, 2]}}}
    found = None
    for namespace, name in (("default", "wanted"), ("elsewhere", "other")):
        headers = {"Rota-Namespace": namespace}
        made = await api.post("/v1/workflows", json={"name": name, "nodes": nodes}, headers=headers)
        assert made.status_code == 201, made.text
        started = (await api.post(f"/v1/workflows/{name}/run", headers=headers)).json()["workflowRunId"]
        found = found or started
        for node, word in enumerate((name, "other")):
            key = (namespace, UUID(started[4:]), node)
            await sql.execute(
                "INSERT INTO rota.workflow_maps"
                " (namespace, flow, node, shard, generation, inputs_of, member_window, stops)"
                " VALUES ($1, $2, $3, 0, 1, 1, 1, false)",
                *key,
            )
            await sql.execute(
                "INSERT INTO rota.map_failures (namespace, flow, node, item, reason) VALUES ($1, $2, $3, 1, $4)",
                *key,
                word,
            )
            line = json.dumps({"index": 2, "result": word})
            await sql.execute(
                "INSERT INTO rota.map_results (namespace, flow, node, part, lines) VALUES ($1, $2, $3, 1, $4)",
                *key,
                line,
            )
    return found


def test_every_list_with_a_cursor_is_attacked_here():
    assert sorted(NARROW) == LISTS


@pytest.mark.parametrize("path", LISTS)
async def test_a_made_up_cursor_gives_nothing_outside_of_the_filter(api, rows, path):
    query, belongs = NARROW[path]
    address = path.format(**rows)
    whole = (await api.get(address, params=query)).json()["items"]
    assert whole
    given = [json.dumps(item, sort_keys=True) for item in whole]
    seen = 0
    for cursor in cursors(Random(7)):
        for limit in ("1", "500"):
            answer = await api.get(address, params={**query, "cursor": cursor, "limit": limit})
            assert answer.status_code in (200, 400), (cursor, answer.text)
            items = answer.json()["items"] if answer.status_code == 200 else []
            assert all(belongs(item) for item in items), cursor
            assert {json.dumps(item, sort_keys=True) for item in items} <= set(given)
            seen += len(items)
    assert seen
