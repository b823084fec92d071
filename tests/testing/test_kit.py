"""The kit: runs what is due, at its moment, on the real engine."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import asyncpg
import kit_tasks as tasks
import pytest

import rota
from rota.errors import BadInputError, SetupError
from rota.testing import EndlessError, StuckError, running
from support import eventually

NEW_YEAR = datetime(2031, 1, 1, tzinfo=UTC)


@pytest.fixture
async def connection(rota_kit):
    """A connection of the test's own."""
    made = await asyncpg.connect(rota_kit.database_url)
    yield made
    await made.close()


def results(runs):
    return [run.result for run in runs]


def statuses(runs):
    return [run.status for run in runs]


async def _is_running(run):
    return await run.status() == "running"


async def test_what_is_due_runs_and_is_returned(rota_kit):
    await tasks.greet.submit("Ada", times=2)
    (run,) = await rota_kit.run_until_idle()
    assert run.task == "kit_tasks.greet"
    assert (run.status, run.attempt) == ("success", 1)
    assert run.arguments == {"name": "Ada", "times": 2}
    assert run.result == "Hello, Ada! Hello, Ada!"
    assert await rota_kit.run_until_idle() == []


async def test_a_run_for_tomorrow_runs_tomorrow_and_all_its_times_say_so(rota_kit):
    await rota_kit.travel_to(NEW_YEAR)
    await tasks.double.after("1d").submit(4)
    assert await rota_kit.run_until_idle() == []
    assert await rota_kit.advance(hours=23, minutes=59, seconds=59) == []
    (run,) = await rota_kit.advance(seconds=1)
    assert run.nominal_time == run.due == run.started == run.finished == rota_kit.now == NEW_YEAR + timedelta(days=1)
    assert run.result == 8


async def test_a_run_that_is_due_in_a_moment_does_not_start_early(rota_kit):
    await tasks.double.at(rota_kit.now + timedelta(milliseconds=1)).submit(4)
    assert await rota_kit.run_until_idle() == []
    assert results(await rota_kit.advance(timedelta(milliseconds=1))) == [8]


async def test_every_clock_in_the_database_is_the_one_that_was_moved(rota_kit, connection):
    await connection.execute("CREATE TABLE orders (item text, at timestamptz DEFAULT now())")
    await connection.execute("DELETE FROM rota.events")  # those of a worker and a scheduler that began before
    await rota_kit.travel_to(NEW_YEAR)
    await tasks.tell_time.cron("0 * * * *").submit()
    await tasks.stumble.submit()
    await tasks.order.submit("chair")
    await tasks.slowly.submit(1)
    await tasks.fail_for_good.submit()
    await rota_kit.advance(hours=2)
    columns = await connection.fetch(
        "SELECT c.table_schema || '.' || c.table_name AS name, c.column_name AS column "
        "FROM information_schema.columns AS c "
        "WHERE c.data_type LIKE 'timestamp%' AND c.table_schema IN ('rota', 'public') "
        "AND c.table_name NOT IN ('workers', 'schedulers', 'migrations', 'alert_rules')"  # from before the journey
    )
    seen = 0
    for name, column in columns:
        for (moment,) in await connection.fetch(f"SELECT {column} FROM {name} WHERE {column} IS NOT NULL"):
            # Figures are written of the hour before, too.
            since = NEW_YEAR - timedelta(hours=1) if name == "rota.figures" else NEW_YEAR
            assert since <= moment <= NEW_YEAR + timedelta(days=2), f"{name}.{column}"
            seen += 1
    assert seen > 50
    assert await connection.fetchval("SELECT max(at) FROM orders") == NEW_YEAR


async def test_nothing_of_the_schema_keeps_the_real_clock(connection):
    unmoved = await connection.fetch(
        "SELECT classid::regclass, objid FROM pg_depend WHERE refclassid = 'pg_proc'::regclass AND refobjid IN "
        "('pg_catalog.now()'::regprocedure, 'pg_catalog.clock_timestamp()'::regprocedure)"
    )
    assert unmoved == []
    paths = await connection.fetch(
        "SELECT proname FROM pg_proc, unnest(proconfig) AS setting WHERE pronamespace = 'rota'::regnamespace "
        "AND setting LIKE 'search_path=%' AND setting NOT LIKE 'search_path=rota_time,%'"
    )
    assert paths == []


async def test_a_schedule_fires_for_each_of_its_times_and_none_is_late(rota_kit):
    await rota_kit.travel_to(NEW_YEAR)
    await tasks.tell_time.cron("* * * * *").submit()
    runs = await rota_kit.advance(hours=2)
    assert [run.nominal_time for run in runs] == [NEW_YEAR + timedelta(minutes=number) for number in range(1, 121)]
    assert all(run.started == run.nominal_time for run in runs)
    assert set(statuses(runs)) == {"success"}
    assert results(runs)[-1] == "2031-01-01T02:00:00+00:00"


async def test_a_schedule_follows_a_clock_change(rota_kit):
    await rota_kit.travel_to(datetime(2027, 3, 26, 12, tzinfo=UTC))
    await tasks.tell_time.cron("30 2 * * *", timezone="Europe/Berlin").submit()
    runs = await rota_kit.advance(days=3)
    assert [run.started.strftime("%d %H:%M") for run in runs] == ["27 01:30", "28 01:00", "29 00:30"]


async def test_a_schedule_that_is_declared_in_code_fires(rota_database_url):
    app = rota.App("declared")

    @app.every("6h")
    @app.task(name="tidy")
    async def tidy() -> None: ...

    async with running(app, database_url=rota_database_url) as kit:
        await kit.travel_to(NEW_YEAR)
        assert len(await kit.advance(days=1)) == 4
        assert await kit.submitted() == []


async def test_a_failed_attempt_is_retried_when_its_time_has_come(rota_kit):
    await tasks.stumble.submit()
    assert await rota_kit.run_until_idle() == []
    (waiting,) = await rota_kit.runs()
    assert (waiting.status, waiting.attempt, waiting.error) == ("retrying", 1, "ValueError: attempt 1 fails")
    assert waiting.due > rota_kit.now
    (run,) = await rota_kit.advance(hours=1)
    assert (run.status, run.result, run.attempt) == ("success", 3, 3)


async def test_retries_can_be_waited_for(rota_kit):
    began = rota_kit.now
    await tasks.stumble.submit()
    assert results(await rota_kit.run_until_idle(retries=True)) == [3]
    assert began < rota_kit.now < began + timedelta(hours=1)


async def test_failures_are_told_with_their_traceback(rota_kit):
    await tasks.fail_for_good.submit()
    assert statuses(await rota_kit.run_until_idle()) == ["failed"]
    (failure,) = await rota_kit.failures()
    assert failure.error == "LookupError: there is nothing here"
    with pytest.raises(AssertionError, match="1 run failed") as caught:
        await rota_kit.assert_no_failures()
    assert 'raise LookupError("there is nothing here")' in str(caught.value)
    assert len(rota_kit.errors()) == 1


async def test_failures_can_be_raised_at_once(rota_kit):
    await tasks.greet.submit("Ada")
    await rota_kit.run_until_idle(raise_errors=True)
    await tasks.stumble.submit()
    with pytest.raises(AssertionError, match="attempt 1, retry at"):
        await rota_kit.run_until_idle(raise_errors=True)


@pytest.mark.parametrize("task", [tasks.quadruple, tasks.quadruple_in_thread, tasks.quadruple_apart])
async def test_a_task_may_submit_another_and_wait_for_it(rota_kit, task):
    await task.submit(3)
    runs = await rota_kit.run_until_idle()
    assert sorted(results(runs)) == [6, 12], rota_kit.errors()
    assert [one.task for one in await rota_kit.submitted()] == [task.name, "kit_tasks.double"]


async def test_whoever_waits_for_a_run_makes_it_run(rota_kit):
    run = await tasks.double.submit(4)
    assert await run.result() == 8


async def test_waiting_for_what_is_due_later_is_refused(rota_kit):
    run = await tasks.double.after("1h").submit(4)
    with pytest.raises(SetupError, match="Move time first"):
        await run.result()
    assert await run.status() == "scheduled"


async def test_a_transactional_task_writes_once_or_not_at_all(rota_kit, connection):
    await connection.execute("CREATE TABLE orders (item text, at timestamptz)")
    await rota_kit.travel_to(NEW_YEAR)
    await tasks.order.submit("chair")
    await tasks.order.submit("table", fails=True)
    runs = await rota_kit.run_until_idle()
    assert sorted(statuses(runs)) == ["failed", "success", "success"]
    assert [run.started for run in runs] == [NEW_YEAR] * 3
    assert [tuple(row) for row in await connection.fetch("SELECT * FROM orders")] == [("chair", NEW_YEAR)]
    await rota_kit.assert_submitted(tasks.greet, name="chair", count=1)
    await rota_kit.assert_not_submitted(tasks.greet, name="table")


async def test_submitting_in_a_transaction_of_ones_own(rota_kit, connection):
    await rota_kit.travel_to(NEW_YEAR)
    async with connection.transaction():
        await tasks.double.within(connection).after("1h").submit(5)
    transaction = connection.transaction()
    await transaction.start()
    await tasks.double.within(connection).submit(6)
    await transaction.rollback()
    (submitted,) = await rota_kit.submitted(tasks.double)
    assert (submitted.submitted, submitted.at) == (NEW_YEAR, NEW_YEAR + timedelta(hours=1))
    assert results(await rota_kit.advance(hours=1)) == [10]


async def test_limits_of_rate_spread_runs_over_time(rota_kit):
    for number in range(4):
        await tasks.slowly.submit(number)
    assert len(await rota_kit.run_until_idle()) == 1
    runs = await rota_kit.runs()
    assert statuses(runs).count("blocked") == 3
    await rota_kit.advance(minutes=10)
    starts = [run.started for run in await rota_kit.runs()]
    assert all(later - sooner >= timedelta(minutes=1) for sooner, later in pairwise(starts))
    assert rota_kit.now - starts[0] == timedelta(minutes=10)


async def test_what_waits_for_too_long_expires(rota_kit):
    await tasks.in_time.submit(1)
    await tasks.in_time.submit(2)
    runs = await rota_kit.advance(minutes=5)
    assert sorted(statuses(runs)) == ["skipped", "success"]
    (skipped,) = await rota_kit.runs(status="skipped")
    assert "expired" in skipped.reason
    assert skipped.finished - skipped.due == timedelta(seconds=90, microseconds=1)


async def test_a_snoozed_run_comes_back_at_its_time(rota_kit):
    await tasks.later.submit()
    assert await rota_kit.advance(minutes=59) == []
    assert results(await rota_kit.advance(minutes=1)) == ["now"]


async def test_middleware_surrounds_a_run(rota_kit):
    run = await tasks.greet.submit("Ada")
    await rota_kit.run_until_idle()
    assert tasks.gone_through == [f"before {run.id}", "after"]


async def test_a_runs_output_is_its_log_and_the_tests_output(rota_kit, connection, capsys, caplog):
    await tasks.send_mail.submit("ada")
    assert statuses(await rota_kit.run_until_idle()) == ["success"]
    assert "printed for ada" in capsys.readouterr().out
    assert "logged for ada" in caplog.text
    lines = "".join(row["body"] for row in await connection.fetch("SELECT body FROM rota.log_chunks ORDER BY number"))
    assert "stdout printed for ada" in lines
    assert "INFO logged for ada" in lines


async def test_submissions_are_there_with_their_options_in_order(rota_kit):
    due = rota_kit.now + timedelta(hours=1)
    await tasks.send_mail.submit("ada", due=due)
    await tasks.send_mail.at(due).with_options(pool="other", name="reminder").submit("bob")
    await tasks.greet.every(3600).submit("all")
    ada, bob, hourly = await rota_kit.submitted()
    assert (ada.pool, ada.priority, ada.tags, ada.at) == ("mail", "high", ["post"], None)
    assert (bob.pool, bob.name, bob.at) == ("other", "reminder", due)
    assert (hourly.every_seconds, hourly.arguments) == (3600.0, {"name": "all"})
    assert [run.arguments["to"] for run in await rota_kit.advance(minutes=59)] == ["ada"]
    assert len(await rota_kit.advance(minutes=1)) == 2


async def test_two_applications_can_be_served(rota_kit):
    other = rota.App("other")

    @other.task(name="other.task")
    async def task() -> str:
        return "other"

    await rota_kit.use(other)
    await task.submit()
    await tasks.double.submit(1)
    assert sorted(map(str, results(await rota_kit.run_until_idle()))) == ["2", "other"]
    with pytest.raises(SetupError, match=r"other\.task"):
        await rota_kit.use(other)


async def test_something_that_never_comes_to_an_end_is_an_error(rota_kit):
    rota_kit.limit(most_runs=20)
    await tasks.again_and_again.submit()
    with pytest.raises(EndlessError, match="again_and_again"):
        await rota_kit.run_until_idle()


async def test_a_way_with_too_many_moments_is_an_error(rota_kit):
    rota_kit.limit(most_runs=20)
    await tasks.tell_time.cron("* * * * *").submit()
    assert len(await rota_kit.advance(minutes=20)) == 20
    with pytest.raises(EndlessError, match="tell_time"):
        await rota_kit.advance(days=1)


async def test_a_run_that_hangs_is_an_error(rota_kit):
    rota_kit.limit(patience_seconds=0.1)
    await tasks.never_end.submit()
    with pytest.raises(StuckError, match="never_end"):
        await rota_kit.run_until_idle()


async def test_a_run_can_be_cancelled_while_it_runs(rota_kit):
    run = await tasks.never_end.submit()
    running_it = asyncio.create_task(rota_kit.run_until_idle())
    await eventually(lambda: _is_running(run))
    await run.cancel()
    assert statuses(await running_it) == ["cancelled"]


async def test_travelling_is_for_the_beginning(rota_kit):
    await rota_kit.travel_to(NEW_YEAR)
    await rota_kit.travel_to(NEW_YEAR - timedelta(days=4000))
    await tasks.double.after("1h").submit(1)
    with pytest.raises(SetupError, match="advance_to"):
        await rota_kit.travel_to(NEW_YEAR)
    with pytest.raises(BadInputError, match="can't go back"):
        await rota_kit.advance(seconds=-1)
    with pytest.raises(BadInputError, match="no time zone"):
        await rota_kit.advance_to(datetime(2031, 1, 1))  # noqa: DTZ001 - that is the point
    assert results(await rota_kit.advance_to(rota_kit.now + timedelta(hours=1))) == [2]


async def test_time_stands_still_until_it_is_moved(rota_kit, connection):
    before = rota_kit.now
    await tasks.double.submit(1)
    await rota_kit.run_until_idle()
    assert rota_kit.now == before == await connection.fetchval("SELECT clock_timestamp()")
    assert before.microsecond == 0


async def test_a_database_of_another_kind_is_refused(database_url):
    with pytest.raises(SetupError, match=r"not made by rota\.testing"):
        async with running(tasks.app, database_url=database_url):
            pass


async def test_afterwards_submissions_go_where_they_went_before(rota_database_url):
    app = rota.App("bound", url="http://127.0.0.1:9", token="none")  # noqa: S106 - nobody's

    @app.task(name="bound")
    async def bound() -> None: ...

    real = app.now
    async with running(app, database_url=rota_database_url):
        await bound.submit()
    assert app.now is real
    assert type(app.gateways.open_async()).__name__ == "HttpGateway"
    await app.close()


async def test_a_chosen_id_is_that_of_the_submission_and_of_its_run(rota_kit):
    run = await tasks.greet.with_options(job_id="welcome-17").submit("Ada")
    assert run.job_id == "welcome-17"
    assert [one.job_id for one in await rota_kit.submitted()] == ["welcome-17"]
    assert [one.job_id for one in await rota_kit.run_until_idle()] == ["welcome-17"]


async def test_jobs_wait_for_those_they_depend_on(rota_kit):
    first = await tasks.double.after("1h").submit(1)
    await tasks.double.with_options(dependencies=[first.id.replace("run_", "job_")]).submit(2)
    assert await rota_kit.run_until_idle() == []
    assert results(await rota_kit.advance(hours=1)) == [2, 4]


async def test_schedules_wait_for_those_they_depend_on(rota_kit):
    await rota_kit.travel_to(NEW_YEAR)
    await tasks.double.with_options(job_id="first").cron("0 6 * * *").submit(1)
    second = tasks.double.with_options(dependencies=["first"]).cron("30 6 * * *", dependency_window="1h")
    await second.submit(2)
    assert results(await rota_kit.advance(hours=7)) == [2, 4]


async def test_a_job_that_can_not_be_met_is_skipped_in_the_kit_as_well(rota_kit):
    failed = await tasks.fail_for_good.after("1m").submit()
    waits = await tasks.double.with_options(dependencies=[failed.id.replace("run_", "job_")]).submit(2)
    assert sorted(statuses(await rota_kit.advance(minutes=2))) == ["failed", "skipped"]
    assert await waits.status() == "skipped"
