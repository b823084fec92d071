"""The audit trail: who did what, when, from where, to which object, with the change; only ever added to."""

from __future__ import annotations

import asyncpg
import httpx
import pytest

from listening import listening
from rota.api.routes import OPERATIONS
from rota.domain.rights import Right
from rota.errors import DatabaseUnavailableError
from serving import TOKEN
from support import job


async def trail(api, **query):
    return (await api.get("/v1/audit", params=query)).json()["items"]


async def test_a_change_is_told_with_who_what_where_and_what_it_was(api, somebody):
    alice = await somebody("submitter")
    made = (await alice.post("/v1/jobs", json=job(scheduleType="cron", cronExpression="@daily"))).json()["jobId"]
    await alice.put(f"/v1/jobs/{made}", json={"cronExpression": "@hourly", "payload": {"card": "no hex: 4111"}})
    change, submitted = (await trail(api, actor="alice"))[:2]
    assert (change["action"], change["object"], change["status"]) == ("change_job", made, 200)
    assert (change["actor"], change["actorKind"], change["keyId"]) == ("alice", "key", alice.key["keyId"])
    assert change["source"]
    assert change["time"]
    assert change["request"] == {"cronExpression": "@hourly", "payload": "…"}
    assert change["change"]["cronExpression"] == {"from": "@daily", "to": "@hourly"}
    assert change["change"]["payload"] == "…"
    assert (submitted["action"], submitted["object"], submitted["status"]) == ("submit", made, 201)
    assert "no hex" not in str(await trail(api))


async def test_what_was_refused_is_told_as_that(api, somebody):
    alice = await somebody("submitter")
    await alice.delete(f"/v1/jobs/job_{'0' * 32}")
    viewer = await somebody("viewer", owner="vera")
    await viewer.post("/v1/pools/default/pause")
    await alice.post("/v1/runs/cancel", json={})
    assert [(entry["actor"], entry["action"], entry["status"]) for entry in (await trail(api))[:4]] == [
        ("alice", "cancel_runs", 400),
        ("vera", "pause_pool", 403),
        ("admin", "create_key", 201),
        ("alice", "cancel_job", 404),
    ]


async def test_a_single_run_leaves_its_own_trace_and_none_here(api, somebody):
    alice = await somebody("submitter")
    await alice.post("/v1/jobs", json=job())
    await alice.post("/v1/jobs/batch", json=[job(), job()])
    assert await trail(api, actor="alice") == []
    await alice.post("/v1/jobs/batch", json=[job(), job(scheduleType="interval", everySeconds=60)])
    (entry,) = await trail(api, actor="alice")
    assert (entry["action"], "of 2 items" in entry["request"]["large"]) == ("submit_batch", True)


def test_every_operation_that_changes_something_is_recorded():
    quiet = {"submit", "submit_batch", "preview", "sign_in", "sign_out", "run_workflow", "send_signal"}
    for operation in OPERATIONS:
        if operation.method != "GET" and operation.handler.__name__ not in quiet:
            assert operation.recorded, operation.path
        if operation.needs in (Right.READ, Right.SUBMIT):
            assert not operation.recorded


@pytest.mark.parametrize("table", ["audit", "audit_outcomes"])
@pytest.mark.parametrize(
    "statement", ["UPDATE rota.{} SET at = now()", "DELETE FROM rota.{}", "TRUNCATE rota.{} CASCADE"]
)
async def test_nothing_is_taken_back(api, sql, table, statement):
    await api.post("/v1/pools/default/pause")
    with pytest.raises(asyncpg.RaiseError, match="only ever added to"):
        await sql.execute(statement.format(table))
    assert await sql.fetchval(f"SELECT count(*) FROM rota.{table}") == 1


async def test_what_can_not_be_noted_is_not_done(api, sql, monkeypatch):
    async def fail(_entry):
        raise DatabaseUnavailableError("away")

    monkeypatch.setattr(api.services.auditor.trail, "add", fail)
    assert (await api.post("/v1/pools/default/pause")).status_code == 503
    assert await sql.fetchval("SELECT count(*) FROM rota.pools") == 0


async def test_an_end_that_can_not_be_noted_leaves_the_entry_open(api, sql, monkeypatch):
    async def fail(*_arguments):
        raise DatabaseUnavailableError("away")

    monkeypatch.setattr(api.services.auditor.trail, "add_outcome", fail)
    assert (await api.put("/v1/pools/default", json={"mostWaiting": 5})).status_code == 200
    (entry,) = await trail(api)
    assert ("status" in entry, entry["action"]) == (False, "change_pool")


async def test_the_trail_of_a_namespace_is_for_its_admins(api, somebody):
    acme = await somebody("admin", owner="anna", namespace="acme")
    await acme.post("/v1/pools/default/pause")
    await api.post("/v1/pools/default/pause")
    assert {entry["actor"] for entry in (await acme.get("/v1/audit")).json()["items"]} == {"anna", "admin"}
    assert [entry["action"] for entry in await trail(api)] == ["pause_pool"]
    operator = await somebody("operator")
    assert (await operator.get("/v1/audit")).status_code == 403


async def test_it_is_read_page_by_page_and_by_its_fields(api):
    for name in ("one", "two", "three"):
        await api.put(f"/v1/pools/{name}", json={"mostWaiting": 1})
    seen, cursor = [], None
    while True:
        page = (await api.get("/v1/audit", params={"limit": 2} | ({"cursor": cursor} if cursor else {}))).json()
        seen += [entry["object"] for entry in page["items"]]
        if not (cursor := page["nextCursor"]):
            break
    assert seen == ["three", "two", "one"]
    assert [entry["object"] for entry in await trail(api, object="two")] == ["two"]
    assert await trail(api, action="cancel_job") == []
    assert await trail(api, startTime="2090-01-01T00:00:00Z") == []
    assert len(await trail(api, endTime="2090-01-01T00:00:00Z")) == 3


async def test_a_strange_name_in_the_path_is_kept_readable(api):
    await api.delete("/v1/jobs/job_%00%0A%1B[31m")
    (entry,) = await trail(api)
    assert entry["object"] == "job_���[31m"


@pytest.mark.parametrize(
    ("proxies", "source", "cookie"),
    [((), "127.0.0.1", "rota_session="), (("127.0.0.0/8",), "203.0.113.7", "__Host-rota_session=")],
)
async def test_a_proxys_word_counts_only_where_it_is_trusted(api, proxies, source, cookie):
    said = {"X-Forwarded-For": "198.51.100.9, 203.0.113.7", "X-Forwarded-Proto": "https"}
    async with (
        listening(api.services, proxies=proxies) as server,
        httpx.AsyncClient(base_url=server.url, timeout=30) as client,
    ):
        client.headers.update(said)
        answer = await client.post("/v1/session", json={"token": TOKEN})
        client.cookies.clear()
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        await client.post("/v1/pools/default/pause")
    assert answer.headers["set-cookie"].startswith(cookie)
    assert (await trail(api))[0]["source"] == source
