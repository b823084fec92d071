"""An archived day comes back into the database for a while."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest

from past_days import TODAY, keep, period
from rota.domain.ids import show_run
from rota.store.archive import Archives


async def restore(api, archivist, days_ago):
    answer = await api.post(f"/v1/archive/{period(days_ago)}/restore", json={"days": 3})
    assert answer.status_code == 202, answer.text
    await archivist.catch_up()


async def rows(sql):
    found = {}
    for table, key in (("finished_runs", "id"), ("attempts", "run_id"), ("kept_logs", "run_id"), ("payloads", "id")):
        found[table] = [dict(row) for row in await sql.fetch(f"SELECT * FROM rota.{table} ORDER BY namespace, {key}")]
    return found


async def history(past, sql):
    payload = uuid4()
    await sql.execute("INSERT INTO rota.payloads (namespace, id, body) VALUES ('default', $1, '[1]')", payload)
    ids = await past.add(40, 2, attempts=2, policies='{"order": "k"}', checkpoint="[2]", progress=0.5)
    ids += await past.add(40, 2, job_id=uuid4(), payload_id=payload)
    await sql.execute("INSERT INTO rota.kept_logs VALUES ('default', $1, 8, 1, 1, 'logs/x', 0, 1)", ids[0])
    return ids


async def test_a_restored_day_is_as_it_was_and_can_be_run_again(api, past, archivist, sql):
    ids = await history(past, sql)
    before = await rows(sql)
    await keep(api)
    await archivist.catch_up()
    assert (await rows(sql))["finished_runs"] == []
    await restore(api, archivist, 40)
    assert await past.states() == {period(40): "restored"}
    assert await rows(sql) == before
    run = (await api.get(f"/v1/runs/{show_run(ids[-1])}")).json()
    assert "archived" not in run
    assert run["payload"] == [1]
    assert (await api.post(f"/v1/runs/{show_run(ids[0])}/retry")).status_code == 202
    query = {"startTime": (TODAY - timedelta(days=60)).isoformat(), "endTime": TODAY.isoformat()}
    assert len((await api.get("/v1/runs", params=query)).json()["items"]) == len(ids)


async def test_a_restored_day_leaves_again_when_its_time_is_over(api, past, archivist, sql):
    ids = await history(past, sql)
    await keep(api)
    await archivist.catch_up()
    await restore(api, archivist, 40)
    objects = await sql.fetchval("SELECT objects FROM rota.archives")
    await sql.execute("UPDATE rota.archives SET restored_until = now() - interval '1 day'")
    await archivist.catch_up()
    assert await past.states() == {period(40): "dropped"}
    assert await sql.fetchval("SELECT objects FROM rota.archives") == objects
    for run_id in ids:
        assert (await api.get(f"/v1/runs/{show_run(run_id)}")).json()["archived"] is True


async def test_runs_that_came_to_a_restored_day_are_archived_with_it(api, past, archivist, sql):
    ids = await history(past, sql)
    await keep(api)
    await archivist.catch_up()
    ids += await past.add(40)  # after it was dropped
    await restore(api, archivist, 40)
    ids += await past.add(40)  # and after it came back
    await sql.execute("UPDATE rota.archives SET restored_until = now() - interval '1 day'")
    await archivist.catch_up()
    assert [tuple(row) for row in await sql.fetch("SELECT number, state, runs FROM rota.archives")] == [
        (1, "dropped", 6)
    ]
    for run_id in ids:
        assert (await api.get(f"/v1/runs/{show_run(run_id)}")).json()["archived"] is True


class DiesError(Exception):
    """The process ended here."""


@pytest.mark.parametrize("call", ["restore", "attach"])
async def test_a_death_while_a_day_is_restored_changes_nothing(api, past, archivist, sql, monkeypatch, call):
    ids = await history(past, sql)
    await keep(api)
    await archivist.catch_up()
    real = getattr(Archives, call)

    async def dying(*args):
        await real(*args)
        raise DiesError

    with monkeypatch.context() as patch:
        patch.setattr(Archives, call, dying)
        with pytest.raises(DiesError):
            await restore(api, archivist, 40)
    for run_id in ids:
        assert (await api.get(f"/v1/runs/{show_run(run_id)}")).status_code == 200
    await archivist.catch_up()
    assert await past.states() == {period(40): "restored"}
    assert len((await rows(sql))["finished_runs"]) == len(ids)


async def test_who_may_not_rule_everywhere_restores_nothing(api, past, archivist, somebody):
    await past.add(40)
    await keep(api)
    await archivist.catch_up()
    client = await somebody("admin")
    assert (await client.post(f"/v1/archive/{period(40)}/restore", json={})).status_code == 403
    assert (await client.get("/v1/archive")).status_code == 403
    assert (await api.post("/v1/archive/20200101/restore", json={})).status_code == 404
    assert [item["state"] for item in (await api.get("/v1/archive")).json()["items"]] == ["dropped"]
