"""A heartbeat to a monitor outside: it comes while all is well, and stays away if not."""

from __future__ import annotations

import signal
from contextlib import ExitStack

import pytest
from monitor import monitor
from structlog.testing import capture_logs

from commands import Commands
from rota.errors import SetupError
from rota.scheduler.outside_heartbeat import check_address
from rota.settings import Settings, is_secret
from support import eventually

HOURLY = {"scheduleType": "interval", "everySeconds": 3600}


def sender(alerting, url, seconds=1.0):
    made = alerting.another(lease_seconds=600, heartbeat_url=url, heartbeat_seconds=seconds)
    return made.outside_heartbeat


async def test_it_is_sent_while_all_is_well(alerting):
    with monitor() as outside:
        heartbeat = sender(alerting, outside.url)
        assert await heartbeat.serve({0: 1}) == 1
        assert outside.heard == [("GET", "/ping/9f1c0ffee-secret")]
        assert await heartbeat.serve({5: 1}) == 0, "another scheduler owns the shard that sends"


async def test_two_schedulers_send_one(alerting):
    with monitor() as outside:
        for each in (sender(alerting, outside.url, 60), sender(alerting, outside.url, 60)):
            await each.serve({0: 1})
        assert len(outside.heard) == 1
        # The database's clock went back: it is not silent until that time comes again.
        await alerting.sql.execute("UPDATE rota.outside_heartbeats SET at = now() + interval '1 hour'")
        assert await sender(alerting, outside.url, 60).serve({0: 1}) == 1


async def test_it_stays_away_while_schedules_are_overdue(alerting):
    for _ in range(3):
        await alerting.engine.recurring(**HOURLY)
    with monitor() as outside, capture_logs() as logs:
        heartbeat = sender(alerting, outside.url)
        await alerting.sql.execute(
            "UPDATE rota.jobs SET fired_through = now() - interval '1 hour', next_fire_at = now() - interval '5 min'"
        )
        assert await heartbeat.serve({0: 1}) == 0
        assert await heartbeat.serve({0: 1}) == 0
        assert outside.heard == []
        assert [entry["reason"] for entry in logs] == ["3 of 3 schedules are overdue"], "said once"
        await alerting.sql.execute("UPDATE rota.jobs SET next_fire_at = now() + interval '5 min'")
        assert await heartbeat.serve({0: 1}) == 1


async def test_one_schedule_that_cant_fire_does_not_stop_it(alerting):
    for _ in range(12):
        await alerting.engine.recurring(**HOURLY)
    await alerting.sql.execute(
        """UPDATE rota.jobs SET fired_through = now() - interval '1 hour', next_fire_at = now() - interval '5 min'
            WHERE id = (SELECT id FROM rota.jobs LIMIT 1)"""
    )
    with monitor() as outside:
        assert await sender(alerting, outside.url).serve({0: 1}) == 1


async def test_it_stays_away_while_the_database_cant_be_written_to(alerting):
    await alerting.sql.execute(
        """CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
           $$BEGIN RAISE 'no space left on device' USING ERRCODE = '53100'; END$$;
           CREATE TRIGGER refuse BEFORE INSERT ON rota.outside_heartbeats EXECUTE FUNCTION refuse()"""
    )
    with monitor() as outside:
        with pytest.raises(Exception, match="no space left"):
            await sender(alerting, outside.url).serve({0: 1})
        assert outside.heard == []


@pytest.mark.parametrize("status", [302, 404, 500])
async def test_the_address_is_never_said(alerting, status):
    with monitor(status) as outside, capture_logs() as logs:
        heartbeat = sender(alerting, outside.url, 0.001)
        assert await heartbeat.serve({0: 1}) == 0
    with capture_logs() as later:
        await heartbeat.serve({0: 1})
    assert [entry["reason"] for entry in logs] == [f"the monitor answered {status}"]
    assert [entry["reason"] for entry in later] == ["the monitor can't be reached (ClientConnectorError)"]
    assert "secret" not in f"{logs}{later}"


def test_the_address_is_a_secret_setting():
    settings = Settings(heartbeat_url="https://hc.example/ping/9f1c0ffee")
    assert "9f1c0ffee" not in repr(settings)
    assert "https://hc.example/ping/9f1c0ffee" in settings.hidden
    assert is_secret("ROTA_HEARTBEAT_URL")
    with pytest.raises(SetupError) as caught:
        check_address("hc.example/ping/9f1c0ffee")
    assert "9f1c0ffee" not in str(caught.value)


async def test_a_fleet_of_schedulers_that_was_down_is_missed_outside_and_reported_afterwards(
    alerting, database_url, tmp_path
):
    """The schedulers are killed with kill -9 and stay away; with the settings of this test, for seconds."""
    await alerting.rule("overdue", "schedule_overdue", threshold=6)
    await alerting.scheduler.leases.close()
    with monitor() as outside:
        fleet = Commands(
            tmp_path,
            1,
            ROTA_HOME=str(tmp_path / "home"),
            ROTA_DATABASE_URL=database_url,
            ROTA_SCHEDULER_LEASE_SECONDS="1",
            ROTA_HEARTBEAT_URL=outside.url,
            ROTA_HEARTBEAT_SECONDS="1",
            ROTA_ALERT_SECONDS="0.5",
        )
        await alerting.engine.recurring(name="nightly", scheduleType="interval", everySeconds=1)
        with ExitStack() as stack:
            schedulers = [stack.enter_context(fleet.running("scheduler", until="took shards")) for _ in range(2)]
            await eventually(lambda: len(outside.heard) > 2)
            for scheduler in schedulers:
                scheduler.process.send_signal(signal.SIGKILL)
                scheduler.process.wait()
        before = len(outside.heard)
        down = "SELECT bool_and(next_fire_at < now() - interval '7 seconds') FROM rota.jobs"
        await eventually(lambda: alerting.sql.fetchval(down))
        assert len(outside.heard) == before, "the monitor hears nothing and raises the alarm"
        with fleet.running("scheduler", until="took shards") as back:
            await eventually(lambda: len(outside.heard) > before)

            async def fires():
                return [each for each in await alerting.alerts("overdue") if each["state"] == "firing"]

            [found] = await eventually(fires)
        assert "secret" not in back.said
    assert found["subject"] == "nightly"
    kinds = [
        row["kind"]
        for row in await alerting.sql.fetch(
            "SELECT kind FROM rota.events WHERE kind ~ '^(alert|schedule)[.]' ORDER BY id"
        )
    ]
    assert kinds[:2] == ["alert.fired", "schedule.overdue"]
