"""An answer says what its own transaction did, whatever others do just before and just after it."""

from __future__ import annotations

import pytest

from engine import plain, report
from support import job

WRITES = {"pause_run", "resume_run", "change_run", "pause_pool", "limit_pool", "run_now", "rerun"}
EACH_HOUR = {"scheduleType": "interval", "everySeconds": 3600}
LATER = {"scheduleType": "future", "delaySeconds": 3600}


@pytest.fixture
def afterwards(database, monkeypatch):
    """afterwards(act): once the next write is committed, and before it is answered, this is done as well."""
    acts = []
    fetch, transact = database.fetch, database.transact

    async def act():
        while acts:
            await acts.pop()()

    async def fetch_and_act(name, /, **options):
        rows = await fetch(name, **options)
        if name in WRITES:
            await act()
        return rows

    async def transact_and_act(body):
        done = await transact(body)
        await act()
        return done

    monkeypatch.setattr(database, "fetch", fetch_and_act)
    monkeypatch.setattr(database, "transact", transact_and_act)
    return acts.append


@pytest.fixture
def beforehand(database, monkeypatch):
    """beforehand(name, act): once this statement has been run, and before anything is written, this is done."""
    fetch, acts = database.fetch, {}

    async def fetch_and_act(name, /, **options):
        rows = await fetch(name, **options)
        if name in acts:
            await acts.pop(name)()
        return rows

    monkeypatch.setattr(database, "fetch", fetch_and_act)
    return acts.__setitem__


async def claimed(engine):
    """A run that a worker has, with the means to report it."""
    run_id = await engine.submit()
    broker = engine.broker()
    await engine.join(broker)
    (claim,) = await broker.claim(1)

    async def succeed():
        await broker.report([report(claim)])

    return run_id, succeed


async def test_cancelling_a_job_that_runs_says_that_it_runs_and_is_being_stopped(engine):
    run_id, succeed = await claimed(engine)
    path = f"/v1/jobs/job_{plain(run_id).hex}"
    for _ in range(2):
        answer = (await engine.api.delete(path)).json()
        assert (answer["status"], answer["stopping"]) == ("running", 1)
    await succeed()
    assert (await engine.run(run_id))["status"] == "success"
    late = await engine.api.delete(path)
    assert (late.status_code, late.json()["detail"]) == (409, "the job has already ended: success")


async def test_cancelling_a_job_that_ends_at_this_moment_says_how_it_ended(engine, beforehand):
    run_id, succeed = await claimed(engine)
    beforehand("open_runs_of_job", succeed)
    answer = await engine.api.delete(f"/v1/jobs/job_{plain(run_id).hex}")
    assert (answer.status_code, answer.json()["detail"]) == (409, "the job has already ended: success")


async def test_cancelling_a_job_whose_latest_run_waits_cancels_that(engine):
    run_id, succeed = await claimed(engine)
    await succeed()
    path = f"/v1/jobs/job_{plain(run_id).hex}"
    await engine.api.post(f"{path}/run")
    answer = (await engine.api.delete(path)).json()
    assert (answer["status"], "stopping" in answer) == ("cancelled", False)


async def test_cancelling_a_recurring_job_counts_the_runs_that_are_being_stopped(engine):
    job_id = await engine.recurring(**EACH_HOUR)
    for _ in range(3):
        await engine.api.post(f"/v1/jobs/{job_id}/run")
    broker = engine.broker()
    await engine.join(broker)
    assert len(await broker.claim(2)) == 2
    for _ in range(2):
        answer = (await engine.api.delete(f"/v1/jobs/{job_id}")).json()
        assert answer == {"jobId": job_id, "status": "cancelled", "stopping": 2}
    assert (await engine.api.get(f"/v1/jobs/{job_id}")).json()["version"] == 2, "the repeat changed nothing"


async def test_cancelling_a_job_that_is_not_there_says_so(api):
    assert (await api.delete(f"/v1/jobs/job_{'0' * 32}")).status_code == 404


async def test_cancelling_a_run_claimed_ahead_of_its_time_says_that_it_is_queued(engine, sql):
    run_id = await engine.submit()
    await sql.execute("UPDATE rota.live_runs SET ready_at = now() + interval '900 ms'")
    broker = engine.broker()
    await engine.join(broker)
    assert len(await broker.claim(1)) == 1
    await sql.execute("UPDATE rota.live_runs SET ready_at = now() + interval '1 hour'")
    answer = (await engine.api.post(f"/v1/runs/{run_id}/cancel")).json()
    assert (answer["status"], answer["cancelRequested"]) == ("queued", True)


@pytest.mark.parametrize("schedule", [EACH_HOUR, LATER], ids=["recurring", "one-shot"])
@pytest.mark.parametrize("action", ["pause", "resume", "change"])
async def test_what_others_change_meanwhile_does_not_show_in_an_answer(api, afterwards, schedule, action):
    path = f"/v1/jobs/{(await api.post('/v1/jobs', json=job(**schedule))).json()['jobId']}"
    if action == "resume":
        await api.post(f"{path}/pause")
    version = (await api.get(path)).json()["version"]

    async def change_by_another():
        assert (await api.put(path, json={"name": "theirs"})).status_code == 200
        assert (await api.delete(path)).status_code == 200

    afterwards(change_by_another)
    if action == "change":
        answer = await api.put(path, json={"name": "ours"})
    else:
        answer = await api.post(f"{path}/{action}")
    shown = answer.json()
    assert answer.status_code == 200, answer.text
    held = "paused" if schedule is EACH_HOUR else "blocked"
    assert (shown["name"], shown["status"]) == {
        "pause": ("test", held),
        "resume": ("test", "scheduled"),
        "change": ("ours", "scheduled"),
    }[action]
    assert shown["version"] == version + (schedule is EACH_HOUR or action == "change")
    assert answer.headers["etag"] == f'"{shown["version"]}"', "another's change must not pass for one that was seen"
    assert (await api.get(path)).json()["status"] == "cancelled"


async def test_the_trail_tells_the_change_that_was_made_and_no_other(api, afterwards):
    path = f"/v1/jobs/{(await api.post('/v1/jobs', json=job(**EACH_HOUR))).json()['jobId']}"

    async def change_by_another():
        await api.put(path, json={"name": "theirs", "priority": "high"})

    afterwards(change_by_another)
    await api.put(path, json={"name": "ours"})
    changes = {entry["request"]["name"]: entry["change"] for entry in (await api.get("/v1/audit")).json()["items"][:2]}
    assert changes["ours"] == {"name": {"from": "test", "to": "ours"}}
    assert changes["theirs"]["name"] == {"from": "ours", "to": "theirs"}


async def test_a_pause_of_a_job_that_was_resumed_at_this_moment_pauses_it(api, beforehand):
    path = f"/v1/jobs/{(await api.post('/v1/jobs', json=job(**EACH_HOUR))).json()['jobId']}"
    await api.post(f"{path}/pause")

    async def resume():
        assert (await api.post(f"{path}/resume")).json()["status"] == "scheduled"

    beforehand("get_job", resume)
    assert (await api.post(f"{path}/pause")).json()["status"] == "paused"
    assert (await api.get(path)).json()["status"] == "paused"


@pytest.mark.parametrize(("action", "other", "status"), [("pause", "resume", "paused"), ("resume", "pause", "open")])
async def test_a_pool_is_shown_as_the_call_left_it(api, afterwards, action, other, status):
    await api.post(f"/v1/pools/mail/{other}")

    async def undo():
        await api.post(f"/v1/pools/mail/{other}")

    afterwards(undo)
    assert (await api.post(f"/v1/pools/mail/{action}")).json()["status"] == status


async def test_the_limit_of_a_pool_is_shown_as_the_call_left_it(api, afterwards):
    async def lift():
        await api.put("/v1/pools/mail", json={"mostWaiting": None})

    afterwards(lift)
    assert (await api.put("/v1/pools/mail", json={"mostWaiting": 5})).json()["mostWaiting"] == 5


@pytest.mark.parametrize(("fields", "status"), [({}, "queued"), ({"orderingKey": "k"}, "blocked")])
async def test_a_run_made_on_request_says_where_it_waits(engine, fields, status):
    job_id = await engine.recurring(**EACH_HOUR, **fields)
    answers = [await engine.api.post(f"/v1/jobs/{job_id}/run")]
    one_shot = (await engine.api.post("/v1/jobs", json=job(**LATER, **fields))).json()
    answers.append(await engine.api.post(f"/v1/jobs/{one_shot['jobId']}/run"))
    await engine.api.post(f"/v1/runs/{one_shot['runId']}/cancel")
    answers.append(await engine.api.post(f"/v1/runs/{one_shot['runId']}/retry"))
    for answer in answers:
        made = answer.json()
        assert made["status"] == status
        assert (await engine.run(made["runId"]))["status"] == status


async def test_a_run_that_vanishes_while_many_are_cancelled_does_not_hide_what_was_done(engine, sql, monkeypatch):
    runs = [await engine.submit(name="many") for _ in range(3)]

    async def list_and_drop(*choice, **options):
        found = await listed(*choice, **options)
        await sql.execute("DELETE FROM rota.live_runs WHERE id = $1", plain(runs[1]))
        return found

    listed = engine.api.services.runs.find
    monkeypatch.setattr(engine.api.services.runs, "find", list_and_drop)
    answer = await engine.api.post("/v1/runs/cancel", json={"name": "many"})
    assert (answer.status_code, answer.json()) == (202, {"count": 2})


async def test_a_run_that_history_drops_while_it_is_retried_is_not_found(engine, sql, beforehand):
    run_id = await engine.submit()
    await engine.api.post(f"/v1/runs/{run_id}/cancel")

    async def drop():
        await sql.execute("DELETE FROM rota.finished_runs")

    beforehand("get_finished_run", drop)
    assert (await engine.api.post(f"/v1/runs/{run_id}/retry")).status_code == 404
