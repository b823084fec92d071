"""History of the figures: samples, minutes, hours."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from databases import pool_on
from rota.domain.lag_histogram import step_of
from rota.store.measure import FigureReader, FigureWriter

MINUTE = timedelta(minutes=1)


def steps(**counts):
    found = [0] * 32
    for seconds, many in counts.items():
        found[step_of(float(seconds[1:].replace("_", ".")))] = many
    return found


async def minute_ago(sql, minutes):
    """When that minute began."""
    return await sql.fetchval("SELECT date_trunc('minute', now()) - $1 * interval '1 minute'", minutes)


async def tell(
    sql, at, *, namespace="default", pool="default", started=10, succeeded=8, failed=1, retried=1, lags=None
):
    """What a worker says it did in five seconds."""
    await sql.execute(
        "INSERT INTO rota.tallies VALUES ($1, $2, $3, gen_random_uuid(), $4, $5, $6, $7, $8, $9, $10)",
        *(at, namespace, pool, started, succeeded, failed, retried, lags or steps(s0_003=started)),
        *(steps(s0_5=succeeded + failed + retried), 0.5 * (succeeded + failed + retried)),
    )


async def look(sql, at, *, queued=0, running=0, slots=10, busy=0, dead=0, pool="", namespace="default", blocked=None):
    """What a scheduler saw."""
    await sql.execute("INSERT INTO rota.samples VALUES ($1, '', '', 0, 0, 0, 0, 0) ON CONFLICT DO NOTHING", at)
    await sql.execute(
        "INSERT INTO rota.samples VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        *(at, namespace, pool, queued, running, slots, busy, dead, blocked),
    )


async def figures(sql):
    return await sql.fetch("SELECT * FROM rota.figures ORDER BY step, at, namespace, kind, name")


@pytest.fixture
def writer(database):
    return FigureWriter(database)


@pytest.fixture
def reader(database):
    return FigureReader(database)


async def test_the_figures_of_a_minute_are_what_workers_told_and_what_was_seen(writer, reader, sql):
    at = await minute_ago(sql, 3)
    await tell(sql, at)
    await tell(sql, at + timedelta(seconds=55), pool="mail", started=4, succeeded=4, failed=0, retried=0,
               lags=steps(s0_003=3, s1_5=1))  # fmt: skip
    await look(sql, at, queued=3, running=4, busy=4, dead=2, blocked='{"limit": 5, "rate": 1}')
    await look(sql, at + timedelta(seconds=5), queued=5, running=6, busy=6, dead=2, blocked='{"limit": 1}')
    assert await writer.roll_up() >= 1
    (point,) = [one for one in await reader.figures("default", "namespace", "", MINUTE, at) if one.at == at]
    found = point.totals
    assert (found.started, found.succeeded, found.failed, found.retried) == (14, 12, 1, 1)
    assert found.lags == steps(s0_003=13, s1_5=1)
    assert found.durations == steps(s0_5=14)
    assert found.run_seconds == 7.0
    assert (found.looks, found.queued, found.most_queued, found.running) == (2, 8, 5, 10)
    assert (found.utilisation, found.dead_letters) == (0.5, 4)
    assert found.blocked == {"limit": 6, "rate": 1}
    (mail,) = [one for one in await reader.figures("default", "pool", "mail", MINUTE, at) if one.at == at]
    assert (mail.totals.started, mail.totals.looks, mail.totals.queued) == (4, 2, 0)


async def test_minutes_that_nobody_wrote_are_made_up_while_tallies_have_them(writer, reader, sql):
    ago = [await minute_ago(sql, minutes) for minutes in (20, 12, 7, 2)]
    for at in ago:
        await tell(sql, at)
    await writer.roll_up()
    found = [one for one in await reader.figures("default", "namespace", "", MINUTE, ago[0]) if one.totals.started]
    assert [one.at for one in found] == ago[1:], "the first is too old: part of it may have been swept"
    assert [one.totals.looks for one in found] == [0, 0, 0], "what there was is unknown"


async def test_a_minute_is_written_once_however_often_and_by_however_many(writer, sql, database, database_url):
    for minutes in range(2, 10):
        at = await minute_ago(sql, minutes)
        for pool in range(20):
            await tell(sql, at, pool=f"pool {pool}")
        await look(sql, at, queued=3)
    async with pool_on(database_url) as other:
        done = await asyncio.gather(*(FigureWriter(one).roll_up() for one in (database, other) * 4))
    before = await figures(sql)
    assert sum(done) >= 8
    assert sum(row["namespace"] == "" and row["step"] == 60 for row in before) == len(
        {row["at"] for row in before if row["step"] == 60}
    )
    assert {row["started"] for row in before if row["kind"] == "pool" and row["step"] == 60} == {10}
    assert await writer.roll_up() == 0
    assert await figures(sql) == before


async def test_a_minute_that_is_not_over_is_not_written(writer, sql):
    await tell(sql, await minute_ago(sql, 0))
    await writer.roll_up()
    assert not [row for row in await figures(sql) if row["started"]]


async def test_a_minute_before_the_servers_start_of_which_nothing_is_there_is_a_gap(writer, sql):
    """After a crash tallies are empty: that is no minute in which nothing went on."""
    at = await minute_ago(sql, 13)
    began = await sql.fetchval("SELECT pg_postmaster_start_time()")
    await tell(sql, at)
    await writer.roll_up()
    written = {row["at"] for row in await figures(sql) if row["step"] == 60}
    assert at in written
    expected = [await minute_ago(sql, minutes) for minutes in range(2, 13)]
    assert {minute for minute in expected if minute < began} & written == set()
    assert {minute for minute in expected if minute >= began} <= written


async def plant_minutes(sql, hour, count):
    """Minutes of an hour, and that they were written."""
    for minute in range(count):
        at = hour + minute * MINUTE
        for namespace, looks in (("", 12), ("default", 12)):
            await sql.execute(
                "INSERT INTO rota.figures VALUES ($1, 'namespace', '', 60, $2, 100, 90, 5, 5, 50, $3, $4, $5, 24, 7,"
                " 12, 120, 60, 12, $6)",
                *(namespace, at, '{"3": 99, "10": 1}', '{"9": 100}', looks, '{"limit": 12}'),
            )


async def test_an_hour_is_the_sum_of_its_minutes_and_written_when_it_is_over(writer, reader, sql):
    hour = await sql.fetchval("SELECT date_trunc('hour', now()) - interval '3 hours'")
    await plant_minutes(sql, hour, 60)
    await writer.roll_up()
    (point,) = [one for one in await reader.figures("default", "namespace", "", timedelta(hours=1), hour)
                if one.at == hour]  # fmt: skip
    found = point.totals
    assert (found.started, found.success_rate, found.retry_rate) == (6000, 0.9474, 0.05)
    assert (found.lags[3], found.lags[10]) == (5940, 60)
    assert (found.looks, found.per_look(found.queued), found.most_queued, found.utilisation) == (720, 2, 7, 0.5)
    assert found.per_look(found.blocked["limit"]) == 1
    before = await figures(sql)
    assert await writer.roll_up() == 0
    assert await figures(sql) == before


async def test_a_scheduler_that_dies_between_minutes_and_hours_is_continued(writer, sql, database, monkeypatch):
    hour = await sql.fetchval("SELECT date_trunc('hour', now()) - interval '2 hours'")
    await plant_minutes(sql, hour, 5)
    fetch = database.fetch

    async def dies(name, **values):
        if name == "roll_up_hours":
            raise ConnectionError("killed")
        return await fetch(name, **values)

    monkeypatch.setattr(database, "fetch", dies)
    with pytest.raises(ConnectionError):
        await writer.roll_up()
    monkeypatch.undo()
    await writer.roll_up()
    assert [row["started"] for row in await figures(sql) if row["step"] == 3600 and row["namespace"]] == [500]


async def test_what_is_too_old_is_removed(writer, sql):
    await plant_minutes(sql, await sql.fetchval("SELECT date_trunc('hour', now()) - interval '50 hours'"), 3)
    await plant_minutes(sql, await sql.fetchval("SELECT date_trunc('hour', now()) - interval '40 hours'"), 3)
    await sql.execute(
        "INSERT INTO rota.figures SELECT namespace, kind, name, 3600, now() - days * interval '1 day', 1, 1, 0, 0, 0,"
        " NULL, NULL, 1, 0, 0, 0, 0, 0, 0 FROM rota.figures, unnest(ARRAY[36, 34]) AS days WHERE at = (SELECT min(at)"
        " FROM rota.figures)"
    )
    await look(sql, await minute_ago(sql, 20))
    await sql.execute(
        "INSERT INTO rota.task_tallies SELECT now() - interval '20 minutes', 'default', 't', gen_random_uuid(), 1, 1,"
        " 0, 0, array_fill(0, ARRAY[32]), array_fill(0, ARRAY[32]), 1"
    )
    assert await writer.forget() == 6 + 2
    assert len(await figures(sql)) == 6 + 2
    assert await sql.fetchval("SELECT count(*) FROM rota.samples") == 0
    assert await sql.fetchval("SELECT count(*) FROM rota.task_tallies") == 0


async def test_a_look_counts_what_is_there_by_namespace_and_pool(engine, writer, sql):
    broker = engine.broker()
    await engine.join(broker, slots=4, pools=("default", "mail"))
    for _ in range(3):
        await engine.submit()
    assert len(await broker.claim(1)) == 1
    await engine.submit(pool="mail")
    await engine.submit(concurrencyKey="k", concurrencyLimit=1)
    await sql.execute("UPDATE rota.live_runs SET ready_at = now() - interval '1 second'")
    await sql.execute("UPDATE rota.workers SET busy = 3")
    await sql.execute(
        "INSERT INTO rota.dead_letters (namespace, run_id, job_id, name, task)"
        " SELECT n, gen_random_uuid(), gen_random_uuid(), 'n', 't' FROM unnest(ARRAY['default', 'other', 'other']) AS n"
    )
    sample = await writer.sample()
    assert sample.active
    rows = {(row["namespace"], row["pool"]): row for row in await sql.fetch("SELECT * FROM rota.samples")}
    assert rows.keys() == {("", ""), ("default", ""), ("default", "default"), ("default", "mail"), ("other", "")}
    whole = rows["default", ""]
    assert (whole["queued"], whole["running"], whole["slots"], whole["busy"], whole["dead_letters"]) == (3, 1, 4, 3, 1)
    assert whole["blocked"] == '{"new": 1}'
    assert (rows["default", "default"]["queued"], rows["default", "mail"]["queued"]) == (2, 1)
    assert rows["other", ""]["dead_letters"] == 2


async def test_where_nothing_goes_on_a_look_writes_one_row_and_a_minute_another(engine, writer, sql):
    first, second = await writer.sample(), await writer.sample()
    assert (first.active, second.active) == (0, 0)
    assert 1 <= await sql.fetchval("SELECT count(*) FROM rota.samples") <= 2
    assert await sql.fetchval("SELECT count(*) FROM rota.samples WHERE namespace <> ''") == 0
    await writer.roll_up()
    assert {row["namespace"] for row in await figures(sql)} <= {""}


async def test_workers_tell_of_their_tasks_and_the_busiest_are_kept(engine, writer, reader, sql):
    async with engine.running(engine.worker({"rota.echo": lambda: None})):
        run = await engine.submit()
        await engine.until(run, "success")
    (told,) = await sql.fetch("SELECT * FROM rota.task_tallies")
    assert (told["namespace"], told["task"], told["started"], told["succeeded"]) == ("default", "rota.echo", 1, 1)
    assert sum(told["durations"]) == 1
    at = await minute_ago(sql, 2)
    await sql.execute(
        "INSERT INTO rota.task_tallies SELECT $1, 'default', 'task ' || n, gen_random_uuid(), n, n, 0, 0,"
        " array_fill(0, ARRAY[32]), array_fill(0, ARRAY[32]), n FROM generate_series(1, 150) AS n",
        at,
    )
    await tell(sql, at)
    await writer.roll_up()
    kept = await sql.fetch("SELECT name, started FROM rota.figures WHERE kind = 'task' ORDER BY started")
    assert (len(kept), kept[0]["started"], kept[-1]["started"]) == (100, 51, 150)


async def test_one_scheduler_samples_and_records(engine, sql):
    leading, other = await engine.leading(), engine.scheduler()
    assert other.leases.owned == {}
    await tell(sql, await minute_ago(sql, 2))
    for scheduler in (other, leading):
        await scheduler.sampler.tick()
        await scheduler.recorder.tick()
        written = await sql.fetchval("SELECT count(*) FROM rota.samples"), len(await figures(sql))
        assert all(written) == (scheduler is leading)
    assert 0 < leading.sampler.pause_seconds <= 20
    assert 5 <= leading.recorder.pause_seconds <= 60
