"""Calendars over the API, and schedules that name them, fired on the real database."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import asyncpg
import pytest

from engine import plain
from support import eventually, job

DAY = timedelta(days=1)
NIGHTLY = {"scheduleType": "cron", "cronExpression": "0 2 * * *"}
EACH_SECOND = {"scheduleType": "cron", "cronExpression": "* * * * * *"}


async def put(api, name="holidays", days=("2090-01-01",), status=200, **body):
    answer = await api.put(f"/v1/calendars/{name}", json=body or {"days": list(days)})
    assert answer.status_code == status, answer.text
    return answer.json()


async def submit(api, status=201, **fields):
    answer = await api.post("/v1/jobs", json=job(**fields))
    assert answer.status_code == status, answer.text
    return answer.json()


async def next_times(api, job_id):
    shown = (await api.get(f"/v1/jobs/{job_id}")).json()
    return [datetime.fromisoformat(text) for text in shown["nextFireTimes"]]


def tomorrow():
    """The next two o'clock that is far enough away for a test."""
    now = datetime.now(UTC)
    first = now.replace(hour=2, minute=0, second=0, microsecond=0)
    return first if first > now + timedelta(minutes=5) else first + DAY


def days_from(moment, count):
    return [(moment.date() + number * DAY).isoformat() for number in range(count)]


async def test_a_calendar_is_made_shown_listed_replaced_and_deleted(api):
    made = await put(api, days=["2090-12-25", "2090-01-01", "2090-12-25"])
    assert (made["days"], made["schedules"]) == (["2090-01-01", "2090-12-25"], 0)
    text = "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART;VALUE=DATE:20900501\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
    await put(api, icalendar=text)
    await put(api, "works")
    assert (await api.get("/v1/calendars/holidays")).json()["days"] == ["2090-05-01"]
    page = (await api.get("/v1/calendars", params={"limit": 1})).json()
    rest = (await api.get("/v1/calendars", params={"limit": 5, "cursor": page["nextCursor"]})).json()
    assert [(item["name"], item["numberOfDays"]) for item in page["items"] + rest["items"]] == [
        ("holidays", 1),
        ("works", 1),
    ]
    assert (await api.delete("/v1/calendars/holidays")).json()["days"] == ["2090-05-01"]
    assert (await api.get("/v1/calendars/holidays")).status_code == 404
    assert (await api.delete("/v1/calendars/holidays")).status_code == 404


@pytest.mark.parametrize(
    ("name", "body", "field"),
    [
        ("holidays", {}, "days"),
        ("holidays", {"days": ["2090-01-01"], "icalendar": "x"}, "days"),
        ("holidays", {"icalendar": "x"}, "icalendar"),
        ("holidays", {"days": ["2090-02-30"]}, "days[0]"),
        ("holidays", {"days": ["1066-10-14"]}, "days"),
        ("holidays", {"days": ["2090-01-01"] * 5001}, "days"),
        ("holi%20days", {"days": []}, "calendar"),
    ],
)
async def test_what_is_no_calendar_is_refused_by_field(api, name, body, field):
    answer = await api.put(f"/v1/calendars/{name}", json=body)
    assert answer.status_code == 400, answer.text
    assert [error["field"] for error in answer.json()["errors"]] == [field]


async def test_a_schedule_shows_its_calendars_and_the_times_that_they_leave(api):
    first = tomorrow()
    await put(api, days=days_from(first, 2))
    made = await submit(api, **NIGHTLY, excludeCalendars=["holidays"])
    shown = (await api.get(f"/v1/jobs/{made['jobId']}")).json()
    assert (shown["excludeCalendars"], shown["onExcludedDay"]) == (["holidays"], "skip")
    assert shown["description"].endswith("not on days of holidays")
    assert (await next_times(api, made["jobId"]))[:2] == [first + 2 * DAY, first + 3 * DAY]
    (listed,) = (await api.get("/v1/schedules")).json()["items"]
    assert datetime.fromisoformat(listed["nextFireTime"]) == first + 2 * DAY
    assert listed["excludeCalendars"] == ["holidays"]
    asked = {"cronExpression": "0 2 * * *", "excludeCalendars": ["holidays"], "onExcludedDay": "next", "count": 1}
    preview = (await api.post("/v1/schedules/preview", json=asked)).json()
    assert datetime.fromisoformat(preview["fireTimes"][0]) == first + 2 * DAY
    assert preview["description"].endswith("on days of holidays moved to the next business day")


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"excludeCalendars": ["moon"]}, "excludeCalendars", "there is no calendar 'moon'"),
        ({"onExcludedDay": "next"}, "onExcludedDay", "needs excludeCalendars or excludeWeekends"),
        ({"cronExpression": "0 2 * * SAT", "excludeWeekends": True}, "excludeWeekends", "no time within 366 days"),
        ({"excludeCalendars": ["always"]}, "excludeCalendars", "no time within 366 days"),
        ({"excludeCalendars": ["always"], "onExcludedDay": "next"}, "excludeCalendars", "no time within 366 days"),
        (
            {"scheduleType": "interval", "cronExpression": None, "everySeconds": 60}
            | {"excludeWeekends": True, "onExcludedDay": "next"},
            "onExcludedDay",
            "is for cron schedules",
        ),
        (
            {"scheduleType": "immediate", "cronExpression": None, "excludeWeekends": True},
            "excludeWeekends",
            "immediate",
        ),
    ],
)
async def test_a_schedule_that_can_not_be_is_refused_by_field(api, fields, field, words):
    await put(api, "always", days_from(datetime.now(UTC) - DAY, 400))
    refused = await submit(api, 400, **NIGHTLY | fields)
    (error,) = refused["errors"]
    assert error["field"] == field
    assert words in error["message"]


async def test_a_changed_calendar_changes_the_next_times_of_its_schedules_and_no_others(api):
    first = tomorrow()
    await put(api, days=days_from(first, 1))
    await put(api, "works", days_from(first + DAY, 1))
    named = (await submit(api, **NIGHTLY, excludeCalendars=["holidays", "works"]))["jobId"]
    paused = (await submit(api, **NIGHTLY, excludeCalendars=["holidays"]))["jobId"]
    other = (await submit(api, **NIGHTLY))["jobId"]
    await api.post(f"/v1/jobs/{paused}/pause")
    assert (await next_times(api, named))[0] == first + 2 * DAY
    changed = await put(api, days=days_from(first + 2 * DAY, 1))
    assert changed["schedules"] == 2
    assert (await next_times(api, named))[:2] == [first, first + 3 * DAY]
    await api.post(f"/v1/jobs/{paused}/resume")
    assert (await next_times(api, paused))[:3] == [first, first + DAY, first + 3 * DAY]
    assert (await api.get(f"/v1/jobs/{other}")).json()["version"] == 1


async def test_a_calendar_that_leaves_a_schedule_no_time_is_refused_and_changes_nothing(api):
    first = tomorrow()
    await put(api, days=days_from(first, 1))
    made = (await submit(api, name="nightly", **NIGHTLY, excludeCalendars=["holidays"]))["jobId"]
    refused = await put(api, days=days_from(first - DAY, 400), status=409)
    assert "nightly" in refused["detail"]
    assert (await api.get("/v1/calendars/holidays")).json()["days"] == days_from(first, 1)
    assert (await next_times(api, made))[0] == first + DAY


async def test_a_calendar_that_a_schedule_names_is_not_deleted(api):
    await put(api)
    made = (await submit(api, name="nightly", **NIGHTLY, excludeCalendars=["holidays"]))["jobId"]
    refused = await api.delete("/v1/calendars/holidays")
    assert refused.status_code == 409
    assert "nightly" in refused.json()["detail"]
    changed = await api.put(f"/v1/jobs/{made}", json={"excludeCalendars": []})
    assert "excludeCalendars" not in changed.json()
    assert (await api.delete("/v1/calendars/holidays")).status_code == 200


async def test_the_days_of_a_schedule_are_changed_field_by_field(api):
    first = tomorrow()
    await put(api, days=days_from(first, 1))
    made = (await submit(api, **NIGHTLY))["jobId"]

    async def change(**fields):
        answer = await api.put(f"/v1/jobs/{made}", json=fields)
        assert answer.status_code == 200, answer.text
        return answer.json()

    assert (await change(excludeCalendars=["holidays"]))["onExcludedDay"] == "skip"
    assert (await next_times(api, made))[0] == first + DAY
    assert (await change(onExcludedDay="next"))["excludeCalendars"] == ["holidays"]
    assert (await change(excludeWeekends=True, excludeCalendars=None))["onExcludedDay"] == "next"
    assert all(moment.weekday() < 5 for moment in await next_times(api, made))
    assert "onExcludedDay" not in await change(excludeWeekends=False)
    assert (await next_times(api, made))[0] == first
    refused = await api.put(f"/v1/jobs/{made}", json={"excludeCalendars": ["moon"]})
    assert "there is no calendar 'moon'" in refused.json()["detail"]


async def test_calendars_of_other_namespaces_are_neither_seen_nor_named(api):
    await put(api)
    there = {"Rota-Namespace": "elsewhere"}
    assert (await api.get("/v1/calendars/holidays", headers=there)).status_code == 404
    assert (await api.get("/v1/calendars", headers=there)).json()["items"] == []
    answer = await api.post("/v1/jobs", json=job(**NIGHTLY, excludeCalendars=["holidays"]), headers=there)
    assert answer.status_code == 400
    await api.put("/v1/calendars/holidays", json={"days": ["2091-01-01"]}, headers=there)
    assert (await api.get("/v1/calendars/holidays")).json()["days"] == ["2090-01-01"]


async def test_a_day_that_becomes_excluded_stops_the_schedule_and_made_runs_stay(api, engine, sql):
    now = datetime.now(UTC)
    await put(api)
    made = (await submit(api, **EACH_SECOND, excludeCalendars=["holidays"]))["jobId"]
    async with engine.running(engine.scheduler(), engine.worker()):
        await eventually(lambda: sql.fetchval("SELECT count(*) > 1 FROM rota.finished_runs"))
        await put(api, days=days_from(now - DAY, 3))
        stopped = await sql.fetchval("SELECT clock_timestamp()")
        row = await sql.fetchrow("SELECT * FROM rota.jobs WHERE id = $1", plain(made))
        assert row["next_fire_at"].date() == now.date() + 2 * DAY
        before = await sql.fetchval("SELECT count(*) FROM rota.finished_runs WHERE status = 'success'")
        # Nothing that the old days had made ahead is left; what was due is not lost.
        assert await sql.fetchval("SELECT count(*) FROM rota.runs WHERE nominal_at > $1", stopped) == 0
        await put(api, days=["2090-01-01"])
        more = "SELECT count(*) > $1 FROM rota.finished_runs WHERE status = 'success'"
        await eventually(lambda: sql.fetchval(more, before + 1))
    times = await sql.fetch("SELECT nominal_at FROM rota.runs WHERE job_id = $1", plain(made))
    assert len({row["nominal_at"] for row in times}) == len(times)


async def test_missed_times_of_excluded_days_make_no_runs_and_moved_ones_make_one(api, engine, sql):
    """Nothing ran for a week. The days before yesterday's were excluded, and yesterday had the times of all of them."""
    now = datetime.now(UTC)
    yesterday = (now - DAY).replace(hour=0, minute=0, second=0, microsecond=0)
    await put(api, days=days_from(yesterday - 5 * DAY, 5))
    fields = {"excludeCalendars": ["holidays"], "misfire": {"policy": "all", "windowSeconds": 30 * 86400}}
    daily = {"scheduleType": "cron", "cronExpression": "0 0 * * *"}
    skips = (await submit(api, **daily, **fields))["jobId"]
    moves = (await submit(api, **daily, **fields, onExcludedDay="next"))["jobId"]
    first = "next_fire_at = $2, excluded_next_at = $2, fired_through = $3"
    for job_id in (skips, moves):
        await sql.execute(
            f"UPDATE rota.jobs SET {first} WHERE id = $1", plain(job_id), yesterday - 6 * DAY, yesterday - 7 * DAY
        )
    async with engine.running(engine.scheduler(), engine.worker()):
        for job_id in (skips, moves):
            ran = "SELECT array_agg(nominal_at ORDER BY nominal_at) FROM rota.finished_runs WHERE job_id = $1"

            async def times(ran=ran, job_id=job_id):
                found = await sql.fetchval(ran, plain(job_id))
                return found if found and len(found) == 3 else None

            assert await eventually(times) == [yesterday - 6 * DAY, yesterday, yesterday + DAY]


async def test_a_process_that_does_not_know_excluded_days_can_not_fire_such_a_schedule(api, sql):
    await put(api)
    made = (await submit(api, **NIGHTLY, excludeCalendars=["holidays"]))["jobId"]
    plainly = (await submit(api, **NIGHTLY))["jobId"]
    fire = (
        "UPDATE rota.jobs SET fired_through = next_fire_at, next_fire_at = next_fire_at + interval '1 day'"
        " WHERE id = $1"
    )
    with pytest.raises(asyncpg.CheckViolationError, match="does not know excluded days"):
        await sql.execute(fire, plain(made))
    await sql.execute(fire, plain(plainly))


async def test_a_workflow_s_schedule_leaves_out_days(api):
    first = tomorrow()
    await put(api, days=days_from(first, 1))
    schedule = {"cronExpression": "0 2 * * *", "excludeCalendars": ["holidays"]}
    body = {"name": "nightly", "nodes": {"a": {"task": "rota.echo"}}, "schedule": schedule}
    made = await api.post("/v1/workflows", json=body)
    assert made.status_code == 201, made.text
    assert made.json()["schedule"]["excludeCalendars"] == ["holidays"]
    (listed,) = (await api.get("/v1/schedules")).json()["items"]
    assert datetime.fromisoformat(listed["nextFireTime"]) == first + DAY
    await put(api, days=days_from(first, 2))
    (listed,) = (await api.get("/v1/schedules")).json()["items"]
    assert datetime.fromisoformat(listed["nextFireTime"]) == first + 2 * DAY
    assert (await api.delete("/v1/calendars/holidays")).status_code == 409
    schedule["excludeCalendars"] = ["moon"]
    refused = await api.post("/v1/workflows", json=body | {"name": "other"})
    assert refused.json()["errors"][0]["field"] == "schedule.excludeCalendars"


async def test_a_backfill_keeps_to_the_days_that_its_schedule_leaves_out(api, sql):
    monday = date(2026, 11, 16)
    made = (await submit(api, name="nightly", **NIGHTLY, excludeWeekends=True, onExcludedDay="next"))["jobId"]
    await sql.execute(
        "UPDATE rota.jobs SET fired_through = '2026-11-17T12:00Z', created_at = '2020-01-01' WHERE id = $1", plain(made)
    )
    asked = {"job": made, "from": "2026-11-13T00:00:00Z", "to": "2026-11-17T12:00:00Z", "preview": True}
    preview = await api.post("/v1/backfills", json=asked | {"unknown": "run"})
    assert preview.status_code in (200, 201), preview.text
    assert monday.isoformat() in preview.text
    assert "2026-11-14T" not in preview.text
    assert "2026-11-15T" not in preview.text
