"""A job is the same, however it came in, and so is a run, however its success was recorded.

The rules of submission exist twice: as statements that write batches, for the API and for tasks, and as a function that
writes in the caller's transaction. So does success: as a report of the worker, and as a function for transactional
tasks. Every case here goes both ways, each in a database of its own; answers and rows of all tables must be equal.

A difference that is known is named in its case, with the reason; one that is gone must be taken out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import asyncpg
import pytest
from both_ways import both_sides, compare

from rota.domain.run import Outcome
from support import eventually, job

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
FAR = timedelta(days=100)  # no partition of history is there yet

CLAIMED = "UPDATE rota.live_runs SET worker_id = '00000000-0000-7000-8000-000000000001', claim = 1"
GONE = "DELETE FROM rota.live_runs"
ID = "00000000-0000-7000-8000-000000000001"
EXPIRED = "UPDATE rota.submission_keys SET expires_at = now() - interval '2 hours'"
PAUSED = "UPDATE rota.jobs SET state = 'paused', next_fire_at = NULL"
CANCELLED = "UPDATE rota.jobs SET state = 'cancelled', next_fire_at = NULL"


class Submit(NamedTuple):
    """Jobs that are submitted together, from a program whose clock differs from the database's."""

    jobs: Sequence[Mapping[str, Any]]
    clock: timedelta = timedelta()


class Case(NamedTuple):
    """What is submitted one after the other, and statements that are run in between."""

    steps: Sequence[Submit | str]
    differs: Mapping[str, str] = {}


def once(*jobs: Mapping[str, Any]) -> Case:
    return Case([Submit(jobs)])


def twice(first: Mapping[str, Any], second: Mapping[str, Any], between: str | None = None) -> Case:
    return Case([Submit([first]), *([between] if between else []), Submit([second])])


def cron(**fields: Any) -> dict[str, Any]:
    return job(scheduleType="cron", cronExpression="30 4 * * 1", **fields)


def interval(**fields: Any) -> dict[str, Any]:
    return job(scheduleType="interval", everySeconds=3600, **fields)


def future(**fields: Any) -> dict[str, Any]:
    return job(scheduleType="future", **fields)


def payload_of(size: int) -> dict[str, str]:
    """A payload that has so many bytes as JSON."""
    return {"text": "x" * (size - len('{"text": ""}'))}


PLAIN = {
    "plain": once(job()),
    "everything that is stored as it comes": once(
        job(
            name="Grüße ☃ 🎉 \\ \" ' $1 {run}",
            task="reports.make",
            payload={"text": 'Ünïcödé "quoted" \\ \u0000 ☃', "list": [1, 2.5, 1e300, None, True], "nested": {"a": {}}},
            pool="mail",
            priority="critical",
            tags=["a", "b c", "ß"],
            headers={"traceparent": "00-ä"},
            maxRetries=7,
            retry={"strategy": "fibonacci", "baseSeconds": 1.5, "maxSeconds": 60, "jitter": 0},
            timeoutSeconds=2.5,
        )
    ),
    "priorities": once(*(job(priority=priority) for priority in ("low", "normal", "high", "critical"))),
    "an empty payload, null and none": once(job(payload={}), job(payload=None), job()),
    "payloads around what a row holds": once(*(job(payload=payload_of(size)) for size in (2047, 2048, 2049, 60_000))),
    "a payload with few characters and many bytes": once(job(payload={"text": "☃" * 1000})),
    "an expiry": once(job(expiresSeconds=3600), future(scheduleTime=HOUR, expiresSeconds=600)),
    "a script and a call": once(
        job(task=None, payload={"script": "clean.sh"}), job(task="http", payload={"url": "http://example.com/"})
    ),
    "what can't be taken": once(
        job(), job(task=None), future(), cron(timezone="Mars"), job(onDuplicate="keep"), job(payload=[]), job()
    ),
    "a payload for object storage": Case(
        [Submit([job(payload=payload_of(70_000))])],
        dict.fromkeys(
            ("payloads 1 body", "payloads 1 blob"), "object storage takes no part in a transaction: it stays in its row"
        ),
    ),
    "a payload of more than 1 MiB": Case(
        [Submit([job(payload=payload_of(1_100_000))])],
        dict.fromkeys(("answer 1.1 *", "payloads 1 *", "live_runs 1 *"), "too much for a transaction, as documented"),
    ),
}

TIMES = {
    "a time": once(future(scheduleTime=HOUR), future(scheduleTime=DAY), future(scheduleTime=FAR)),
    "a delay": once(future(delaySeconds=3600), future(delaySeconds=86400.5)),
    "a time that has just passed": once(future(scheduleTime=-0.9 * MINUTE)),
    "a time long ago": once(future(scheduleTime=-HOUR)),
    "a clock that is ahead": Case([Submit([job(), future(scheduleTime=HOUR)], clock=2 * MINUTE)]),
    "a clock that is behind": Case([Submit([job(), future(scheduleTime=HOUR)], clock=-2 * MINUTE)]),
    "a delay within the second that runs become ready ahead of their time": Case(
        [Submit([future(delaySeconds=0.8), future(delaySeconds=0.8, orderingKey="o")])],
        dict.fromkeys(
            ("answer 1.1 status", "answer 1.2 status"),
            "the gateway answers 'scheduled' by the time alone; the function answers what it has written",
        ),
    ),
}

POLICIES = {
    "an ordering key": once(job(orderingKey="o"), job(orderingKey="o", orderingOnFailure="release"), job()),
    "limits with and without a key": once(
        job(concurrencyLimit=3), job(concurrencyLimit=2, concurrencyKey="c"), job(rateLimit={"limit": 5})
    ),
    "a rate": once(job(rateLimit={"limit": 10, "perSeconds": 60, "burst": 2, "key": "r"})),
    "a breaker": once(job(breaker={"failures": 2, "cooldownSeconds": 30, "key": "b"}), job(breaker={})),
    "all of them, later": once(
        future(
            scheduleTime=HOUR,
            orderingKey="o",
            concurrencyLimit=1,
            rateLimit={"limit": 1},
            breaker={},
            expiresSeconds=60,
            payload=payload_of(3000),
        )
    ),
    "all of them, now": once(
        job(orderingKey="☃", concurrencyLimit=1, rateLimit={"limit": 1}, breaker={}, payload=payload_of(3000))
    ),
}

RECURRING = {
    "a cron expression": once(cron()),
    "an interval": once(interval(), job(scheduleType="interval", everySeconds=90.25)),
    "a whole calendar": once(
        cron(
            timezone="Europe/Berlin",
            dst="skip",
            startTime=DAY,
            endTime=FAR,
            jitterSeconds=12.5,
            misfire={"policy": "all", "windowSeconds": 7200, "cap": 5},
            overlap="queue",
        )
    ),
    "rules that are the default": once(cron(misfire="latest", overlap="allow", timezone="UTC", jitterSeconds=0)),
    "missed times that are skipped": once(interval(misfire="skip", startTime=HOUR)),
    "options, policies and a large payload": once(
        interval(
            payload=payload_of(5000),
            expiresSeconds=60,
            maxRetries=0,
            orderingKey="o",
            concurrencyLimit=2,
            rateLimit={"limit": 1},
            breaker={},
            tags=["t"],
            priority="low",
            pool="p",
        )
    ),
    "a calendar that leaves nothing": once(cron(endTime=MINUTE), cron(endTime=-DAY)),
}


IDEMPOTENCY = {
    "a key": once(job(idempotencyKey="k"), future(scheduleTime=HOUR, idempotencyKey="l"), cron(idempotencyKey="m")),
    "the same request again": twice(job(idempotencyKey="k"), job(idempotencyKey="k")),
    "another request with the key": twice(job(idempotencyKey="k"), job(idempotencyKey="k", pool="other")),
    "a recurring job again": twice(cron(idempotencyKey="k"), cron(idempotencyKey="k")),
    "a key that has expired": twice(job(idempotencyKey="k"), job(idempotencyKey="k", pool="other"), EXPIRED),
    "the key twice at once": once(job(idempotencyKey="k"), job(idempotencyKey="k"), job(idempotencyKey="k", name="n")),
    "the key of a request that can't be taken": once(job(idempotencyKey="k", task=None), job(idempotencyKey="k")),
    "the same request once its time has passed": Case(
        [
            Submit([future(scheduleTime=HOUR, idempotencyKey="k")]),
            Submit([future(scheduleTime=HOUR, idempotencyKey="k")], clock=2 * HOUR),
        ]
    ),
    "another request with the key once its time has passed": Case(
        [
            Submit([future(scheduleTime=HOUR, idempotencyKey="k")]),
            Submit([job(), future(scheduleTime=HOUR, idempotencyKey="k", pool="other")], clock=2 * HOUR),
        ]
    ),
}


def unique(on_duplicate: str | None = None, **fields: Any) -> dict[str, Any]:
    return fields | {"uniqueKey": "u"} | ({"onDuplicate": on_duplicate} if on_duplicate else {})


# What has the key: the job, and what happens to it before another comes.
HOLDERS: dict[str, tuple[dict[str, Any], str | None]] = {
    "waits": (job(), None),
    "waits for its time": (future(scheduleTime=HOUR), None),
    "waits for a time far away": (future(scheduleTime=FAR), None),
    "waits at its gates": (job(orderingKey="o"), None),
    "waits for its time and its gates": (future(scheduleTime=HOUR, concurrencyLimit=1), None),
    "runs": (job(), CLAIMED),
    "runs, within its window": (job(uniqueSeconds=3600), CLAIMED),
    "runs, after its window": (job(uniqueSeconds=3600), f"{CLAIMED}; {EXPIRED}"),
    "is gone": (job(), GONE),
    "is gone, within its window": (job(uniqueSeconds=3600), GONE),
    "is a schedule": (cron(), None),
    "is a schedule that is paused": (interval(), PAUSED),
    "is a schedule that is cancelled": (interval(), CANCELLED),
}
UNIQUE = {
    f"{on_duplicate}, and the other {state}": twice(
        unique(**holder), unique(on_duplicate, **job(name="second", uniqueSeconds=60)), between
    )
    for on_duplicate in ("reject", "keep", "replace")
    for state, (holder, between) in HOLDERS.items()
} | {
    "reject by default": twice(unique(**job()), unique(**job())),
    "a schedule with a key that is taken": twice(unique(**job()), unique("keep", **cron())),
    "a schedule with a key that is free": twice(unique(**job()), unique(**cron()), GONE),
    "a second that takes the key over, with policies": twice(
        unique(**job(orderingKey="o")), unique("replace", **job(orderingKey="o", payload=payload_of(4000)))
    ),
    "a duplicate leaves no trace of its other key": Case(
        [
            Submit([unique(**job())]),
            Submit([unique(**job(idempotencyKey="k"))]),
            Submit([unique(**job(idempotencyKey="k"))]),
            Submit([job(idempotencyKey="k")]),
        ]
    ),
    "a repeat is no duplicate": Case(
        [
            Submit([unique(**job(idempotencyKey="k"))]),
            Submit([unique(**job(idempotencyKey="k"))]),
            Submit([unique("replace", **job(idempotencyKey="l"))]),
            Submit([unique(**job(idempotencyKey="k"))]),
        ]
    ),
    "the same unique key at once": once(unique(**job()), unique("keep", **job()), unique(**job()), job()),
    "the same unique key at once, each replacing the one before": once(
        *(unique("replace", **job(name=name)) for name in ("first", "second", "third"))
    ),
    "unique keys of several jobs, with those of requests": once(
        job(uniqueKey="b", idempotencyKey="1"), job(uniqueKey="a", idempotencyKey="2"), cron(uniqueKey="c")
    ),
    "the same unique key at once, with keys of requests": once(
        unique("keep", **job(idempotencyKey="2")), unique("keep", **job(idempotencyKey="1"))
    ),
    "the same unique key at once, kept, refused and replaced in turn": once(
        unique(**job()),
        unique("keep", **job(orderingKey="o")),
        unique("replace", **future(scheduleTime=FAR, uniqueSeconds=60)),
        unique("keep", **job()),
        unique("replace", **cron()),
        unique("replace", **job()),
    ),
    "the same unique key at once, which another job has": Case(
        [
            Submit([unique(**job())]),
            Submit([unique("keep", **job()), unique("replace", **job()), unique("keep", **job())]),
        ]
    ),
    "the same unique key at once, after a repeat": Case(
        [
            Submit([job(idempotencyKey="k")]),
            Submit([unique(**job(idempotencyKey="k", uniqueSeconds=60)), unique("keep", **job()), unique(**job())]),
        ]
    ),
}

CHOSEN_IDS = {
    "chosen ids": once(job(jobId="a"), future(scheduleTime=HOUR, jobId="b"), cron(jobId="c"), job()),
    "a chosen id twice": twice(job(jobId="a"), job(jobId="a", name="second")),
    "a chosen id twice at once": once(job(jobId="a"), job(jobId="a"), job(), cron(jobId="a")),
    "a chosen id whose job is gone": twice(job(jobId="a"), job(jobId="a"), between=GONE),
    "a chosen id under the same idempotency key": twice(
        job(jobId="a", idempotencyKey="k"), job(jobId="a", idempotencyKey="k")
    ),
    "a chosen id under another idempotency key": twice(
        job(jobId="a", idempotencyKey="k"), job(jobId="a", idempotencyKey="l")
    ),
    "an idempotency key that was used without the chosen id": Case(
        [Submit([job(idempotencyKey="k")]), Submit([job(jobId="a", idempotencyKey="k")]), Submit([job(jobId="a")])]
    ),
    "a duplicate with a chosen id": Case(
        [
            Submit([unique("keep", **job(jobId="a"))]),
            Submit([unique("keep", **job(jobId="b")), unique("reject", **job())]),
            Submit([job(jobId="b")]),
        ]
    ),
    "a taken id replaces nothing": Case(
        [
            Submit([job(jobId="a"), unique("replace", **future(scheduleTime=HOUR))]),
            Submit([unique("replace", **future(scheduleTime=HOUR, jobId="a"))]),
        ]
    ),
    "a taken id holds no unique key": Case(
        [Submit([job(jobId="a")]), Submit([unique("reject", **job(jobId="a"))]), Submit([unique("reject", **job())])]
    ),
}
SUBMISSIONS = PLAIN | TIMES | POLICIES | RECURRING | IDEMPOTENCY | UNIQUE | CHOSEN_IDS


class End(NamedTuple):
    """A run that succeeds, and what happens to it while a worker has it."""

    meanwhile: str = ""
    job: Mapping[str, Any] = job()
    clock: timedelta = timedelta()
    before: Sequence[Outcome] = ()  # how earlier attempts ended
    result: Mapping[str, str] = {}
    times: int = 1
    differs: Mapping[str, str] = {}


SUCCESSES = {
    "nothing else": End(),
    "a result": End(result={"result": '{"text": "Grüße \\u2603"}'}),
    "a result in object storage": End(result={"result_blob": "results/2026-11-18/run.json"}),
    "a definition with everything": End(
        job=job(payload=payload_of(3000), tags=["t"], priority="high", expiresSeconds=600, headers={"a": "b"}, name="ß")
    ),
    "earlier attempts": End(before=[Outcome.lost, Outcome.interrupted, Outcome.lost], job=job(expiresSeconds=600)),
    "progress, a checkpoint and a start on record": End(
        "UPDATE rota.live_runs SET progress = 0.5, progress_note = 'half', checkpoint = '[1]', snoozes = 2,"
        " started_at = now() - interval '10 minutes'"
    ),
    "a recurring job with policies": End(
        "UPDATE rota.live_runs SET job_id = '00000000-0000-7000-8000-000000000002', job_version = 3,"
        """ cause = 'schedule', policies = '{"order": "o", "limit": "key:c", "most": 2}'"""
    ),
    "a run that is repeated": End("UPDATE rota.live_runs SET cause = 'retry', retry_of = id, root_id = id"),
    "a cancel that was asked for": End("UPDATE rota.live_runs SET cancel_requested_at = now()"),
    "a recall": End("UPDATE rota.live_runs SET recalled = true"),
    "a day without a partition": End(clock=FAR),
    "a claim that was given back": End("UPDATE rota.live_runs SET worker_id = NULL, claim = NULL"),
    "a claim of another worker": End("UPDATE rota.live_runs SET claim = 1"),
    "a run that is gone": End("DELETE FROM rota.live_runs"),
    "success that is recorded already": End(
        times=2,
        differs={"answer 3 current": "a report is repeated until it is answered, a transaction is committed once"},
    ),
}


@pytest.fixture
async def sides(postgres, database_url, tmp_path):
    """Two databases that are alike."""
    name = database_url.partition("?")[0].rpartition("/")[2]
    admin = await asyncpg.connect(postgres.url("postgres"))
    await admin.execute(f"CREATE DATABASE {name}_twin TEMPLATE {name} STRATEGY FILE_COPY")
    try:
        async with both_sides((database_url, postgres.url(f"{name}_twin")), datetime.now(UTC), tmp_path) as sides:
            yield sides
    finally:
        await admin.execute(f"DROP DATABASE {name}_twin WITH (FORCE)")
        await admin.close()


@pytest.mark.parametrize("sets", [True, False], ids=["as sets", "one by one"])
@pytest.mark.parametrize("case", SUBMISSIONS.values(), ids=SUBMISSIONS)
async def test_a_job_is_the_same_however_it_came_in(sides, case, sets):
    for side in sides:
        side.sets = sets
    for side in sides:
        for step in case.steps:
            if isinstance(step, str):
                await side.connection.execute(step)
            else:
                await side.submit(step.jobs, step.clock)
    assert not (found := await compare(sides, case.differs)), f"- batches, + function:\n{found}"


@pytest.mark.parametrize("end", SUCCESSES.values(), ids=SUCCESSES)
async def test_success_is_the_same_however_it_was_recorded(sides, end):
    for side in sides:
        await side.submit([end.job], end.clock)
        for outcome in end.before:
            (claim,) = await side.claim(1)
            await side.fail(claim, outcome)
        (claim,) = await side.claim(1)
        await side.connection.execute(end.meanwhile or "SELECT")
        for _ in range(end.times):
            await side.succeed(claim, **end.result)
    assert not (found := await compare(sides, end.differs)), f"- report, + function:\n{found}"


async def test_a_difference_is_shown_and_so_is_an_exception_without_one(sides):
    for side in sides:
        await side.submit([job()])
    assert await compare(sides, {}) == ""
    await sides[1].connection.execute("UPDATE rota.live_runs SET name = 'other'")
    assert (
        await compare(sides, {})
        == "live_runs 1:\n   lane: -6212411360737971201\n  -name: test\n  +name: other\n   pool: default"
    )
    assert await compare(sides, {"live_runs 1 name": "known"}) == ""
    found = await compare(sides, {"live_runs 1 name": "known", "live_runs 1 task": "gone"})
    assert found == "live_runs 1 task: both are the same, the exception is not needed (gone)"


async def test_the_same_request_both_ways_at_once_is_taken_once(database_url, sql, tmp_path):
    request = unique("keep", **job(idempotencyKey="k"))
    # The caller's transaction finds the deadlock first: a batch would be tried again.
    name = database_url.partition("?")[0].rpartition("/")[2]
    await sql.execute(f"ALTER DATABASE {name} SET deadlock_timeout = '10s'")
    async with both_sides((database_url, database_url), datetime.now(UTC), tmp_path) as (batches, functions):
        await functions.connection.execute("SET deadlock_timeout = '1500ms'")
        await batches.submit([unique(**job())])
        await sql.execute(GONE)
        async with sql.transaction():
            await sql.execute("SELECT FROM rota.submission_keys FOR UPDATE")
            first = asyncio.create_task(batches.submit([request]))
            await eventually(lambda: are_waiting(sql, 1))
            second = asyncio.create_task(functions.submit([request]))
            await eventually(lambda: are_waiting(sql, 2))
        await asyncio.gather(first, second)
        assert await sql.fetchval("SELECT count(*) FROM rota.live_runs") == 1


async def are_waiting(connection, sessions):
    """Whether so many sessions wait for a lock."""
    return await connection.fetchval("SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted") == sessions


async def test_the_same_chosen_id_both_ways_at_once_is_taken_once(database_url, sql, tmp_path):
    async with both_sides((database_url, database_url), datetime.now(UTC), tmp_path) as (batches, functions):
        async with sql.transaction():
            await sql.execute(
                "INSERT INTO rota.submission_keys VALUES ('default', 'unique', E'ada\\nu', '', $1, now())", ID
            )
            first = asyncio.create_task(batches.submit([unique(**job(jobId="a")), job(jobId="b")]))
            await eventually(lambda: are_waiting(sql, 1))
            second = asyncio.create_task(functions.submit([unique(**job(jobId="b")), job(jobId="a")]))
            await eventually(lambda: are_waiting(sql, 2))
        await asyncio.gather(first, second)
        assert await sql.fetchval("SELECT count(*) FROM rota.live_runs") == 2
        assert await sql.fetchval("SELECT count(*) FROM rota.chosen_ids") == 2


async def test_the_same_request_with_a_chosen_id_both_ways_at_once_gets_one_answer(database_url, sql, tmp_path):
    request = job(jobId="a", idempotencyKey="k")
    async with both_sides((database_url, database_url), datetime.now(UTC), tmp_path) as (batches, functions):
        async with sql.transaction():
            await sql.execute("INSERT INTO rota.chosen_ids VALUES ('default', 'a', $1)", ID)
            first = asyncio.create_task(batches.submit([request]))
            await eventually(lambda: are_waiting(sql, 1))
            second = asyncio.create_task(functions.submit([request]))
            await eventually(lambda: are_waiting(sql, 2))
            await sql.execute("DELETE FROM rota.chosen_ids")
        await asyncio.gather(first, second)
        assert await sql.fetchval("SELECT count(*) FROM rota.live_runs") == 1
        told = [
            fields
            for side in (batches, functions)
            for name, fields in (await side.record()).items()
            if "answer" in name
        ]
        assert [one.get("job_id") for one in told] == ["a", "a"]
