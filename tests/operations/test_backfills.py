"""Backfills on the real database, served by real schedulers."""

from __future__ import annotations

import asyncio
import random
import threading
from datetime import UTC, datetime, timedelta

import pytest
from backfilling import create, daily, look, make_live, moments, record, times_of, until
from structlog.testing import capture_logs

from engine import plain
from rota.errors import DatabaseUnavailableError
from rota.store.operate import Operations
from support import eventually, job

SPRING = moments(
    *("2026-03-27T02:30+01:00", "2026-03-28T02:30+01:00"),
    "2026-03-29T03:00+02:00",  # there is no 02:30: the time moves to the end of the gap
    *("2026-03-30T02:30+02:00", "2026-03-31T02:30+02:00"),
)
AUTUMN = moments("2026-10-24T02:30+02:00", "2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00")


@pytest.mark.parametrize("order", ["oldest", "newest"])
@pytest.mark.parametrize(
    ("begin", "end", "wanted"),
    [("2026-03-27", "2026-03-31T12:00", SPRING), ("2026-10-24", "2026-10-26T12:00", AUTUMN)],
    ids=["spring", "autumn"],
)
async def test_the_times_across_a_clock_change_are_those_of_the_calendar(api, engine, sql, begin, end, wanted, order):
    seen = []
    job_id = await daily(api, sql, task="note", payload={})
    made = await create(
        api, job=job_id, **{"from": f"{begin}T00:00:00Z", "to": f"{end}:00Z"}, order=order, concurrency=1
    )
    async with engine.running(engine.scheduler(), engine.worker({"note": lambda: seen.append(1)})):
        done = await until(api, made)
    assert done["status"] == "completed"
    assert await times_of(sql) == wanted
    number = len(wanted)
    counts = {
        "total": number,
        "made": number,
        "leftOut": 0,
        "running": 0,
        "success": number,
        "failed": 0,
        "cancelled": 0,
    }
    assert done["counts"] == counts
    rows = await sql.fetch("SELECT nominal_at FROM rota.runs ORDER BY created_at, id")
    assert [row["nominal_at"] for row in rows] == (wanted if order == "oldest" else wanted[::-1])
    assert len(seen) == len(wanted)
    assert await sql.fetchval("SELECT count(*) FROM rota.operation_runs") == 0


async def test_times_that_the_schedule_has_not_fired_are_left_to_it(api, engine, sql):
    job_id = await daily(api, sql, through="2026-03-28T12:00:00+00:00")
    made = await create(api, job=job_id, **{"from": "2026-03-27T00:00:00Z"}, unknown="run")
    assert datetime.fromisoformat(made["to"]) == datetime(2026, 3, 28, 12, tzinfo=UTC)
    async with engine.running(engine.scheduler(), engine.worker()):
        await until(api, made)
    assert await times_of(sql) == SPRING[:2]
    assert (await look(api, made))["counts"]["total"] == 2


RANGE = {"from": "2026-03-27T00:00:00Z", "to": "2026-03-31T12:00:00Z"}


@pytest.mark.parametrize(
    ("existing", "wanted"),
    [("skip", [3, 4]), ("failed", [1, 2, 3, 4]), ("rerun", [0, 1, 2, 3, 4])],
)
async def test_times_that_have_run_are_left_out_or_run_again_as_asked(api, engine, sql, existing, wanted):
    job_id = await daily(api, sql, through="2026-04-01T00:00:00+00:00")
    await record(sql, job_id, SPRING[0], "success")
    await record(sql, job_id, SPRING[1], "failed")
    await record(sql, job_id, SPRING[2], "cancelled")
    await record(sql, job_id, SPRING[3], "skipped", started=False)  # it never ran: it is missing
    asked = {"job": job_id, **RANGE, "existing": existing, "unknown": "run"}
    preview = (await api.post("/v1/backfills", json={**asked, "preview": True})).json()
    assert (preview["runs"], preview["existing"], preview["unknown"]) == (len(wanted), 3, 1)
    assert [datetime.fromisoformat(it) for it in preview["times"]] == [SPRING[at] for at in wanted]
    async with engine.running(engine.scheduler(), engine.worker()):
        done = await until(api, await create(api, **asked))
    assert await times_of(sql) == [SPRING[at] for at in wanted]
    assert done["counts"]["leftOut"] == 5 - len(wanted)


@pytest.mark.parametrize("existing", ["skip", "failed", "rerun"])
async def test_a_run_that_has_not_ended_is_never_run_again(api, engine, sql, existing):
    job_id = await daily(api, sql, through="2026-04-01T00:00:00+00:00")
    await make_live(sql, job_id, SPRING[2])
    asked = {"job": job_id, **RANGE, "existing": existing, "unknown": "run"}
    preview = (await api.post("/v1/backfills", json={**asked, "preview": True})).json()
    assert (preview["runs"], preview["open"]) == (4, 1)
    async with engine.running(engine.scheduler(), engine.worker()):
        await until(api, await create(api, **asked))
    assert await times_of(sql) == [*SPRING[:2], *SPRING[3:]]


@pytest.mark.parametrize(("existing", "again"), [("skip", []), ("failed", [1]), ("rerun", [0, 1, 2, 3, 4])])
async def test_what_an_earlier_backfill_ran_exists_already(api, engine, sql, existing, again):
    fails = [SPRING[1]]
    ran = []

    def act():
        ran.append(1)
        if len(ran) == 2 and fails:
            raise ValueError("once")

    job_id = await daily(api, sql, task="act")
    async with engine.running(engine.scheduler(), engine.worker({"act": act})):
        first = await until(api, await create(api, job=job_id, **RANGE, concurrency=1))
        fails.clear()
        second = await until(api, await create(api, job=job_id, **RANGE, existing=existing))
    assert (first["counts"]["success"], first["counts"]["failed"]) == (4, 1)
    assert [it["status"] for it in first["failures"]] == ["failed"]
    assert second["counts"]["made"] == len(again)
    assert await times_of(sql) == sorted(SPRING + [SPRING[at] for at in again])


async def test_what_was_removed_from_the_history_is_run_or_left_out_as_said(api, engine, sql):
    job_id = await daily(api, sql, through="2026-04-01T00:00:00+00:00")
    refused = await api.post("/v1/backfills", json={"job": job_id, **RANGE})
    assert refused.status_code in (400, 422)
    assert refused.json()["errors"][0]["field"] == "unknown"
    async with engine.running(engine.scheduler(), engine.worker()):
        skipped = await until(api, await create(api, job=job_id, **RANGE, unknown="skip"))
        assert skipped["counts"]["made"] == 0
        assert (await until(api, await create(api, job=job_id, **RANGE, unknown="run")))["counts"]["made"] == 5


async def test_before_the_job_was_made_nothing_is_unknown(api, sql):
    job_id = await daily(api, sql)
    preview = (await api.post("/v1/backfills", json={"job": job_id, **RANGE, "preview": True})).json()
    assert (preview["runs"], preview["unknown"]) == (5, 0)
    assert (await api.get("/v1/backfills")).json()["items"] == []


async def test_never_more_than_its_window_and_each_run_says_what_it_is(api, engine, sql):
    most, busy, lock, nominal = [0], [0], threading.Lock(), []

    def act():
        with lock:
            busy[0] += 1
            most[0] = max(most[0], busy[0])
        threading.Event().wait(0.02)
        with lock:
            busy[0] -= 1

    job_id = await daily(api, sql, task="act", cronExpression="0 * * * *")
    made = await create(
        api, job=job_id, **{"from": "2026-03-27T00:00:00Z", "to": "2026-03-28T00:00:00Z"}, concurrency=3
    )
    async with engine.running(engine.scheduler(), engine.worker({"act": act})):
        await until(api, made)
    rows = await sql.fetch("SELECT id, job_id, cause, nominal_at, created_at FROM rota.finished_runs")
    assert len(rows) == 25
    assert 1 <= most[0] <= 3
    nominal = {row["nominal_at"] for row in rows}
    assert len(nominal) == 25
    for row in rows:
        assert (row["cause"], row["job_id"]) == ("backfill", plain(job_id))
        assert abs((row["id"].int >> 80) / 1000 - row["created_at"].timestamp()) < 5


async def test_paused_it_makes_nothing_resumed_it_goes_on(api, engine, sql):
    job_id = await daily(api, sql)
    made = await create(api, job=job_id, **RANGE, concurrency=1)
    scheduler = await engine.leading()
    await scheduler.operation_runner.tick()
    assert (await look(api, made))["counts"]["made"] == 1
    path = f"/v1/backfills/{made['operationId']}"
    assert (await api.post(f"{path}/pause")).json()["status"] == "paused"
    assert (await api.post(f"{path}/pause")).status_code == 200  # it is already
    async with engine.running(engine.worker()):
        await eventually(lambda: sql.fetchval("SELECT count(*) = 1 FROM rota.finished_runs"))
    for _ in range(3):
        await scheduler.operation_runner.tick()
    paused = await look(api, made)
    assert (paused["counts"]["made"], paused["counts"]["success"]) == (1, 1)
    assert (await api.post(f"{path}/resume")).json()["status"] == "running"
    async with engine.running(engine.scheduler(), engine.worker()):
        assert (await until(api, made))["status"] == "completed"
    assert await times_of(sql) == SPRING
    assert (await api.post(f"{path}/pause")).status_code == 409


async def test_aborted_what_waits_is_cancelled_and_what_runs_goes_on_to_its_end(api, engine, sql):
    held, started = threading.Event(), []
    job_id = await daily(api, sql, task="act")
    made = await create(api, job=job_id, **RANGE, concurrency=3)
    tasks = {"act": lambda: started.append(1) or held.wait(20)}
    async with engine.running(engine.scheduler(), engine.worker(tasks, slots=1)):
        await eventually(lambda: bool(started))
        answer = await api.post(f"/v1/backfills/{made['operationId']}/abort")
        assert (answer.status_code, answer.json()["status"]) == (202, "aborting")
        await eventually(lambda: sql.fetchval("SELECT count(*) >= 1 FROM rota.finished_runs"))
        held.set()
        done = await until(api, made)
        counts = done["counts"]
        assert done["status"] == "aborted"
        assert counts["made"] == 3
        assert counts["success"] >= 1
        assert counts["success"] + counts["cancelled"] == 3
        assert counts["cancelled"] >= 1
        # What never ran is missing: the next one makes it.
        again = await until(api, await create(api, job=job_id, **RANGE))
    assert again["counts"]["made"] == 5 - counts["success"]


async def test_too_many_failures_stop_it_and_a_resume_counts_anew(api, engine, sql):
    def act():
        raise ValueError("always")

    job_id = await daily(api, sql, task="act", cronExpression="0 * * * *")
    asked = {"from": "2026-03-01T00:00:00Z", "to": "2026-03-31T00:00:00Z"}
    made = await create(api, job=job_id, **asked, concurrency=2, stopAtFailureShare=0.2)
    async with engine.running(engine.scheduler(), engine.worker({"act": act})):
        stopped = await until(api, made, "stopped")
        assert 3 <= stopped["counts"]["made"] <= 8
        assert "failed" in stopped["reason"]
        await api.post(f"/v1/backfills/{made['operationId']}/resume")
        again = await until(api, made, "stopped")
        assert again["counts"]["made"] > stopped["counts"]["made"]
        await api.post(f"/v1/backfills/{made['operationId']}/abort")
        assert (await until(api, made))["status"] == "aborted"


class _Faulty:
    """A database of which every statement may fail, before it is carried out or after."""

    def __init__(self, database, chance):
        self._database = database
        self._chance = chance

    def __getattr__(self, name):
        return getattr(self._database, name)

    async def fetch(self, name, /, **parameters):
        if self._chance.random() < 0.15:
            raise DatabaseUnavailableError("before")
        rows = await self._database.fetch(name, **parameters)
        if self._chance.random() < 0.15:
            raise DatabaseUnavailableError("after")
        return rows

    async def fetch_row(self, name, /, **parameters):
        rows = await self.fetch(name, **parameters)
        return rows[0] if rows else None

    async def fetch_value(self, name, /, **parameters):
        rows = await self.fetch(name, **parameters)
        return rows[0][0] if rows else None

    async def transact(self, body, **options):
        """Before, between its statements, or after the commit."""

        async def faulty_body(statements):
            return await body(_Faulty(statements, self._chance))

        done = await self._database.transact(faulty_body, **options)
        if self._chance.random() < 0.15:
            raise DatabaseUnavailableError("after the commit")
        return done


@pytest.mark.parametrize("seed", range(6))
async def test_cut_off_before_or_after_any_statement_nothing_is_lost_or_made_twice(api, engine, sql, seed):
    job_id = await daily(api, sql, cronExpression="0 * * * *")
    asked = {"from": "2026-03-27T00:00:00Z", "to": "2026-03-29T00:00:00Z"}
    made = await create(api, job=job_id, **asked, concurrency=7)
    chance = random.Random(seed)
    schedulers = [await engine.leading(), await engine.leading()]
    owned = dict.fromkeys(range(64), 1)
    for scheduler in schedulers:
        scheduler.operation_runner._operations = Operations(_Faulty(engine.database, chance))

    async def serve(scheduler):
        try:
            await scheduler.operation_runner.serve(owned)
        except DatabaseUnavailableError:
            return

    async with engine.running(engine.worker()):

        async def over():
            await asyncio.gather(*map(serve, schedulers))
            return (await look(api, made))["status"] == "completed"

        await eventually(over, within=60)
    times = await times_of(sql)
    assert len(times) == 49
    assert len({*times}) == 49
    assert (await look(api, made))["counts"]["success"] == 49


async def test_two_schedulers_that_both_believe_to_own_it_make_each_time_once(api, engine, sql):
    job_id = await daily(api, sql, cronExpression="0 * * * *")
    made = await create(
        api, job=job_id, **{"from": "2026-03-01T00:00:00Z", "to": "2026-03-09T23:00:00Z"}, concurrency=50
    )
    first, second = await engine.leading(), await engine.leading()
    owned = dict.fromkeys(range(64), 1)
    async with engine.running(engine.worker(slots=50)):

        async def over():
            await asyncio.gather(first.operation_runner.serve(owned), second.operation_runner.serve(owned))
            return (await look(api, made))["status"] == "completed"

        await eventually(over, within=60)
    times = await times_of(sql)
    assert (len(times), len({*times})) == (216, 216)


async def test_a_job_that_is_cancelled_ends_its_backfill(api, engine, sql):
    job_id = await daily(api, sql)
    made = await create(api, job=job_id, **RANGE, concurrency=1)
    scheduler = await engine.leading()
    await scheduler.operation_runner.tick()
    await api.delete(f"/v1/jobs/{job_id}")

    async def over():
        await scheduler.operation_runner.tick()
        found = await look(api, made)
        return found if found["status"] == "aborted" else None

    done = await eventually(over)
    assert "cancelled" in done["reason"]
    assert done["counts"]["made"] == 1
    assert done["counts"]["cancelled"] == 1


async def test_a_change_of_the_job_keeps_the_calendar_and_counts_every_end(api, engine, sql):
    seen = []
    job_id = await daily(api, sql, task="note", payload={"n": 1})
    made = await create(api, job=job_id, **RANGE, concurrency=2)
    scheduler = await engine.leading()
    await scheduler.operation_runner.tick()
    answer = await api.put(f"/v1/jobs/{job_id}", json={"cronExpression": "0 0 1 1 *", "payload": {"n": 2}})
    assert answer.status_code == 200, answer.text
    tasks = {"note": lambda n: seen.append(n) or n}
    async with engine.running(engine.scheduler(), engine.worker(tasks)):
        done = await until(api, made)
    assert done["counts"]["success"] == 5
    assert await times_of(sql) == SPRING
    assert seen == [2] * 5


async def test_a_schedule_that_skips_overlaps_goes_on_beside_its_backfill(api, engine, sql):
    held = threading.Event()
    started = []
    job_id = await daily(api, sql, task="act", cronExpression="* * * * * *", overlap="skip")
    asked = {"from": "2026-03-27T00:00:00Z", "to": "2026-03-27T00:00:10Z"}
    await create(api, job=job_id, **asked, concurrency=1)
    async with engine.running(engine.scheduler(), engine.worker({"act": lambda: started.append(1) or held.wait(20)})):
        live = "SELECT count(*) FROM rota.live_runs WHERE cause = $1 AND claim IS NOT NULL"
        await eventually(lambda: sql.fetchval(f"SELECT ({live}) > 0", "backfill"))
        await eventually(lambda: sql.fetchval(f"SELECT ({live}) > 0", "schedule"))
        held.set()
        await api.delete(f"/v1/jobs/{job_id}")


async def test_one_that_can_not_be_carried_out_is_set_aside_and_stops_no_other(api, engine, sql):
    broken = await create(api, job=await daily(api, sql), **RANGE)
    await sql.execute("UPDATE rota.operations SET timetable = replace(timetable, '30 2', 'whenever')")
    sound = await create(api, job=await daily(api, sql), **RANGE)
    with capture_logs() as logged:
        async with engine.running(engine.scheduler(), engine.worker()):
            assert (await until(api, sound))["status"] == "completed"
    assert any("set aside" in entry["event"] for entry in logged)
    assert (await look(api, broken))["status"] == "running"


async def test_a_rate_is_kept(api, engine, sql):
    job_id = await daily(api, sql, cronExpression="0 * * * *")
    asked = {"from": "2026-03-01T00:00:00Z", "to": "2026-03-02T00:00:00Z"}
    made = await create(api, job=job_id, **asked, concurrency=100, ratePerSecond=10)
    async with engine.running(engine.scheduler(), engine.worker()):
        done = await until(api, made)
    began, ended = datetime.fromisoformat(done["createdAt"]), datetime.fromisoformat(done["endTime"])
    assert done["counts"]["made"] == 25
    assert ended - began > timedelta(seconds=1.4)  # 25 runs, ten of them at once


async def test_one_backfill_of_a_job_at_a_time_and_so_many_operations_of_a_namespace(api, sql):
    job_id = await daily(api, sql)
    await create(api, job=job_id, **RANGE)
    assert (await api.post("/v1/backfills", json={"job": job_id, **RANGE})).status_code == 409
    for _ in range(19):
        assert (await api.post("/v1/replays", json={"task": "rota.echo"})).status_code == 201
    refused = await api.post("/v1/replays", json={"task": "rota.echo"})
    assert refused.status_code == 409
    assert "20 operations" in refused.json()["detail"]


async def test_a_job_by_its_name(api, sql):
    await daily(api, sql, name="nightly report")
    assert (await create(api, job="nightly report", **RANGE))["name"] == "nightly report"
    await daily(api, sql, name="twice")
    await daily(api, sql, name="twice")
    assert (await api.post("/v1/backfills", json={"job": "twice", **RANGE})).status_code == 409


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"to": "2026-03-26T00:00:00Z"}, "to"),
        ({"from": "1960-01-01T00:00:00Z"}, "from"),
        ({"concurrency": 0}, "concurrency"),
        ({"stopAtFailureShare": 1.5}, "stopAtFailureShare"),
        ({"workflow": "x"}, "job"),
        ({"cron": "x"}, None),
    ],
)
async def test_what_makes_no_sense_is_refused_by_name(api, sql, asked, field):
    job_id = await daily(api, sql)
    answer = await api.post("/v1/backfills", json={"job": job_id, **RANGE, **asked})
    assert answer.status_code in (400, 422), answer.text
    if field:
        assert answer.json()["errors"][0]["field"] == field


async def test_a_one_shot_has_no_calendar(api):
    made = (await api.post("/v1/jobs", json=job())).json()
    assert (await api.post("/v1/backfills", json={"job": made["jobId"], **RANGE})).status_code == 404
