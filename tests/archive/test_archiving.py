"""Days whose retention is over go to object storage, are found there, and leave the database."""

from __future__ import annotations

from uuid import uuid4

from past_days import period
from rota.domain.ids import show_run

KEEP_30 = {"success": 30, "failed": 30, "cancelled": 30, "skipped": 30}


async def keep(api, **policy):
    answer = await api.put("/v1/retention", json={"history": KEEP_30, **policy})
    assert answer.status_code == 200, answer.text


async def test_a_day_whose_time_is_over_is_archived_dropped_and_found_by_id(api, past, archivist):
    job = uuid4()
    old = await past.add(40, 3, attempts=2)
    recurring = await past.add(40, 4, job_id=job)
    young = await past.add(3, 1)
    await keep(api)
    await archivist.catch_up()
    assert await past.states() == {period(40): "dropped"}
    assert not [name for name in await past.partitions() if period(40) in name]
    for run_id in (*old, *recurring):
        answer = await api.get(f"/v1/runs/{show_run(run_id)}")
        assert answer.status_code == 200, answer.text
        run = answer.json()
        assert run["archived"] is True
        assert run["result"] == "done"
        assert run["payload"] == {"a": 1}
        assert len(run["attempts"]) == (2 if run_id in old else 0)
    assert "archived" not in (await api.get(f"/v1/runs/{show_run(young[0])}")).json()
