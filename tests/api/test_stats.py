"""What is going on, in numbers."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

import rota
from rota.api import statistics
from rota.api.statistics import MOST_COUNTED, Statistics
from rota.domain.lag_histogram import STEPS, quantile, step_of
from rota.store.promote import Promotions
from rota.store.read.activity import Tallies
from rota.store.read.fleet import Fleet
from support import eventually


def test_lags_are_counted_in_powers_of_two_of_milliseconds():
    assert [step_of(lag) for lag in (-1, 0, 0.0009, 0.001, 0.0015, 0.002, 0.004, 1.0)] == [0, 0, 0, 1, 1, 2, 3, 10]
    assert step_of(10_000_000) == STEPS - 1


def test_a_quantile_is_the_end_of_the_step_in_which_it_lies():
    counts = [0] * STEPS
    assert quantile(counts, 0.5) is None
    counts[step_of(0.0005)], counts[step_of(0.003)], counts[step_of(1.5)] = 90, 9, 1
    assert (quantile(counts, 0.5), quantile(counts, 0.99), quantile(counts, 1)) == (0.001, 0.004, 2.048)


async def stats(engine, **query):
    answer = await engine.api.get("/v1/stats", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def submit(engine, *jobs):
    return [await engine.submit(**fields) for fields in jobs]


async def test_nothing_is_going_on_in_an_empty_namespace(engine):
    found = await stats(engine)
    assert set(found["counts"].values()) == {0}
    assert found["perSecond"] == {"started": 0, "succeeded": 0, "failed": 0, "retried": 0}
    assert found["startLag"] == {"p50": None, "p90": None, "p99": None, "samples": 0}
    assert (found["pools"], found["workers"], found["history"], found["retryRate"]) == ([], {}, [], None)
    assert found["oldestQueuedSeconds"] is None


async def test_what_waits_is_counted_by_where_it_waits(engine, sql):
    await submit(engine, {}, {"pool": "mail"}, {"scheduleType": "future", "delaySeconds": 3600})
    await sql.execute("UPDATE rota.live_runs SET ready_at = now() - interval '90 seconds' WHERE pool = 'mail'")
    found = await stats(engine)
    assert {name: count for name, count in found["counts"].items() if count} == {"scheduled": 1, "queued": 2}
    assert {pool["pool"]: pool["queued"] for pool in found["pools"]} == {"default": 1, "mail": 1}
    assert 90 <= found["oldestQueuedSeconds"] < 1000
    assert [pool["oldestQueuedSeconds"] >= 90 for pool in found["pools"]] == [False, True]


async def test_what_workers_do_is_told_by_their_beats(engine):
    def fail():
        raise ValueError("no")

    async with engine.running(engine.worker({"rota.echo": lambda: None, "fail": fail})):
        runs = await submit(engine, *[{}] * 20, {"task": "fail", "maxRetries": 0}, {"task": "fail"})
        await engine.until(runs[-1], "retrying")
        await engine.until(runs[-2], "failed")

        async def told():
            found = await stats(engine)
            return found if sum(one["started"] for one in found["history"]) == 22 else None

        found = await eventually(told)
        assert found["workers"] == {"live": 1}
    moments = found["history"]
    assert [sum(one[name] for one in moments) for name in ("succeeded", "failed", "retried")] == [20, 1, 1]
    assert found["perSecond"]["started"] > 0
    assert 0 < found["retryRate"] < 0.1
    assert found["startLag"]["samples"] == 22
    assert 0 < found["startLag"]["p50"] <= found["startLag"]["p99"]
    assert found["counts"]["deadLetters"] == 1
    assert found["counts"]["retrying"] == 1
    assert found["pools"][0]["perSecond"] == found["perSecond"]


async def test_the_start_of_a_run_that_goes_on_is_told_before_it_ends_and_once(engine):
    until = threading.Event()
    async with engine.running(engine.worker({"rota.echo": until.wait})):
        run = await engine.submit()
        found = await eventually(lambda: _started(engine))
        assert found["counts"]["running"] == 1
        until.set()
        await engine.until(run, "success")
        found = await eventually(lambda: _succeeded(engine))
    assert sum(one["started"] for one in found["history"]) == 1


async def _started(engine):
    found = await stats(engine)
    return found if found["startLag"]["samples"] else None


async def _succeeded(engine):
    found = await stats(engine)
    return found if sum(one["succeeded"] for one in found["history"]) else None


async def test_a_worker_that_leaves_tells_what_it_did_last(engine):
    async with engine.running(engine.worker({"rota.echo": lambda: None})):
        run = await engine.submit()
        await engine.until(run, "success")
    found = await stats(engine)
    assert sum(one["succeeded"] for one in found["history"]) == 1


async def test_rates_are_of_the_window_that_was_asked_for(engine, sql):
    await sql.execute(
        "INSERT INTO rota.tallies SELECT date_bin('5 s', now() - ago, '2000-01-01Z'), 'default', 'default', "
        "gen_random_uuid(), 600, 500, 60, 40, array_fill(0, ARRAY[32]) "
        "FROM unnest(ARRAY[interval '2 minutes', interval '15 seconds']) AS ago"
    )
    short, long = await stats(engine, windowSeconds=30), await stats(engine, windowSeconds=300)
    assert 600 / 30 <= short["perSecond"]["started"] <= round(600 / 15, 3)
    assert 1200 / 300 <= long["perSecond"]["started"] <= round(1200 / 295, 3)
    assert short["retryRate"] == 0.0667
    assert [one["started"] for one in short["history"]] == [600, 600]


@pytest.mark.parametrize("given", ["0", "9", "601", "-60", "1000", "", "10.5", "٦٠"])
async def test_a_window_that_is_none_is_refused(engine, given):
    answer = await engine.api.get("/v1/stats", params={"windowSeconds": given})
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == "windowSeconds"


async def test_another_namespace_is_not_counted(engine, sql):
    await engine.submit()
    await sql.execute(
        "UPDATE rota.live_runs SET namespace = 'other', lane = rota.lane_of('other', pool, task, priority)"
    )
    assert (await stats(engine))["counts"]["queued"] == 0


async def test_many_who_ask_cost_one_look(database, monkeypatch):
    looks = []
    tallies = Tallies(database)
    look = tallies.look

    async def counted(namespace, **options):
        looks.append(namespace)
        return await look(namespace, **options)

    monkeypatch.setattr(tallies, "look", counted)
    now = [0.0]
    statistics = Statistics(tallies, Fleet(database), monotonic=lambda: now[0])
    await asyncio.gather(*(statistics.of("default", 60) for _ in range(50)))
    assert len(looks) == 1
    await statistics.of("other", 60)
    now[0] = 1.1
    await statistics.of("default", 60)
    assert looks == ["default", "other", "default"]


async def test_counting_stops_somewhere(engine, sql):
    await sql.execute(
        "INSERT INTO rota.dead_letters (namespace, run_id, job_id, name, task) "
        "SELECT 'default', gen_random_uuid(), gen_random_uuid(), 'n', 't' FROM generate_series(1, $1::int)",
        MOST_COUNTED + 5,
    )
    found = await stats(engine)
    assert found["counts"]["deadLetters"] == found["countedUpTo"] == MOST_COUNTED


async def test_old_tallies_are_swept(engine, sql):
    await sql.execute(
        "INSERT INTO rota.tallies SELECT now() - ago, 'default', 'default', gen_random_uuid(), 1, 1, 0, 0, "
        "array_fill(0, ARRAY[32]) FROM unnest(ARRAY[interval '1 hour', interval '1 minute']) AS ago"
    )
    await Promotions(engine.database, uuid4()).sweep(100)
    (kept,) = await sql.fetch("SELECT at FROM rota.tallies")
    assert kept["at"] > datetime.now(UTC) - timedelta(minutes=10)


async def test_what_was_snoozed_is_scheduled(engine):
    async with engine.running(engine.worker({"snooze": lambda: rota.Snooze(3600)})):
        run = await engine.submit(task="snooze")
        await engine.until(run, "scheduled")
    assert (await stats(engine))["counts"]["scheduled"] == 1


async def test_what_was_told_before_a_clock_was_set_back_does_not_count(engine, sql):
    await sql.execute(
        "INSERT INTO rota.tallies SELECT now() + interval '5 minutes', 'default', 'default', gen_random_uuid(), "
        "9, 9, 0, 0, array_fill(9, ARRAY[32])"
    )
    found = await stats(engine)
    assert (found["perSecond"]["started"], found["startLag"]["samples"], found["history"]) == (0, 0, [])


async def test_counts_that_stopped_are_named(engine, monkeypatch):
    monkeypatch.setattr(statistics, "MOST_COUNTED", 4)
    broker = engine.broker()
    await engine.join(broker)
    await submit(engine, {}, {})
    assert len(await broker.claim(2)) == 2
    await submit(engine, *[{"pool": "bulk"}] * 3)
    found = await stats(engine)
    assert found["counts"]["running"] + found["counts"]["queued"] == 4
    assert found["atLeast"] == ["queued", "running"]
    assert found["counts"]["scheduled"] == 0
