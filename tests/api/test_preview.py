"""Previews: when a schedule would fire, before it is a job."""

from __future__ import annotations

import time
from datetime import datetime

import pytest

from rota.domain.cron_grammar import members_of, parse_fields
from rota.domain.ids import find_job_id

NEW_YEAR = "2026-01-01T00:00:00Z"
JOB = "job_" + "0123456789abcdef" * 2


@pytest.fixture
def preview(api):
    """Asks for a preview from the new year on; gives the answer."""

    async def ask(**body):
        return await api.post("/v1/schedules/preview", json={"after": NEW_YEAR} | body)

    return ask


async def test_a_cron_tells_its_next_times_and_what_it_means(preview):
    answer = await preview(cronExpression="0 30 9 * * 1", timezone="Europe/Berlin", count=3)
    assert answer.status_code == 200
    assert answer.json() == {
        "fireTimes": ["2026-01-05T08:30:00Z", "2026-01-12T08:30:00Z", "2026-01-19T08:30:00Z"],
        "description": "at 09:30 on Mondays, Europe/Berlin",
    }


async def test_an_interval_is_counted_from_the_moment_asked_for(preview):
    answer = await preview(everySeconds=90, after="2026-01-01T02:00:00+02:00", count=2)
    assert answer.json() == {
        "fireTimes": ["2026-01-01T00:01:30Z", "2026-01-01T00:03:00Z"],
        "description": "every 90 seconds",
    }


async def test_ten_times_from_now_on_are_given_unless_told_otherwise(api):
    answer = await api.post("/v1/schedules/preview", json={"cronExpression": "* * * * * *"})
    times = [datetime.fromisoformat(moment) for moment in answer.json()["fireTimes"]]
    assert len(times) == 10
    assert abs((times[0] - api.services.now).total_seconds()) < 30


@pytest.mark.parametrize(
    ("dst", "expected"),
    [
        ("shift", ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]),
        ("skip", ["2026-03-30T00:30:00Z", "2026-03-31T00:30:00Z"]),
        ("strict", ["2026-03-30T00:30:00Z", "2026-03-31T00:30:00Z"]),
    ],
)
async def test_the_rule_at_a_clock_change_is_chosen_by_dst(preview, dst, expected):
    wanted = {"cronExpression": "30 2 * * *", "timezone": "Europe/Berlin", "after": "2026-03-28T12:00:00Z"}
    answer = await preview(**wanted, dst=dst, count=2)
    assert answer.json()["fireTimes"] == expected


async def test_start_and_end_are_taken_in(preview):
    bounds = {"startTime": "2026-01-01T03:00:00Z", "endTime": "2026-01-01T05:00:00+00:00"}
    hours = [f"2026-01-01T0{hour}:00:00Z" for hour in (3, 4, 5)]
    for schedule in ({"cronExpression": "0 * * * *"}, {"everySeconds": 3600}):
        answer = (await preview(**schedule, **bounds)).json()
        assert answer["fireTimes"] == hours
        assert answer["description"].endswith(", from 2026-01-01 03:00:00Z until 2026-01-01 05:00:00Z")


async def test_a_schedule_that_is_over_fires_no_more(preview):
    answer = await preview(cronExpression="0 * * * *", endTime="2025-01-01T00:00:00Z")
    assert answer.json()["fireTimes"] == []


async def test_h_is_that_of_the_job(preview):
    (minute,) = members_of(parse_fields("H * * * *", find_job_id(JOB)).minutes)
    answer = await preview(cronExpression="H * * * *", jobId=JOB, count=1)
    assert answer.json()["fireTimes"] == [f"2026-01-01T00:{minute:02}:00Z"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        pytest.param({}, "cronExpression", id="nothing"),
        pytest.param({"cronExpression": "0 0 * * *", "everySeconds": 60}, "everySeconds", id="both"),
        pytest.param({"cronExpression": "61 * * * *"}, "cronExpression", id="minute 61"),
        pytest.param({"cronExpression": "0 0 30 2 *"}, "cronExpression", id="30 February"),
        pytest.param({"cronExpression": "1," * 200 + "1 * * * *"}, "cronExpression", id="too long"),
        pytest.param({"cronExpression": "@every 90s"}, "cronExpression", id="an interval for a cron"),
        pytest.param({"everySeconds": 0}, "everySeconds", id="every 0 seconds"),
        pytest.param({"everySeconds": 1e300}, "everySeconds", id="an interval of ages"),
        pytest.param({"everySeconds": 60, "timezone": "Nowhere"}, "timezone", id="an unknown zone"),
        pytest.param({"everySeconds": 60, "dst": "maybe"}, "dst", id="an unknown rule"),
        pytest.param({"everySeconds": 60, "count": 101}, "count", id="too many"),
        pytest.param({"everySeconds": 60, "count": 0}, "count", id="none"),
        pytest.param({"everySeconds": 60, "after": "2026-01-01T00:00:00"}, "after", id="a time without an offset"),
        pytest.param({"everySeconds": 60, "after": "0001-01-01T00:00:00+14:00"}, "after", id="before all times"),
        pytest.param({"everySeconds": 60, "startTime": "9999-12-31T23:00:00-12:00"}, "startTime", id="after all times"),
        pytest.param(
            {"everySeconds": 60, "startTime": "2026-01-02T00:00:00Z", "endTime": NEW_YEAR}, "endTime", id="backwards"
        ),
        pytest.param({"everySeconds": 60, "jobId": "a b"}, "jobId", id="no job id"),
        pytest.param({"everySeconds": 60, "jitter": 5}, "jitter", id="an unknown field"),
    ],
)
async def test_a_bad_schedule_is_refused_with_its_field(preview, body, field):
    answer = await preview(**body)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert [error["field"] for error in answer.json()["errors"]] == [field]


async def test_what_is_wrong_with_an_expression_is_told(preview):
    (problem,) = (await preview(cronExpression="0 24 * * *")).json()["errors"]
    assert problem["message"] == "bad hour field: '24' is not within 0-23"


@pytest.mark.parametrize(
    "expression",
    ["0 0 */28 2 MON#5", "0 0 29 2 *", "59 59 23 31W 12 ?", "0-59 2 * 3 SUNL", ",".join(["*/59"] * 38) + " * * * *"],
)
async def test_a_preview_takes_a_bounded_time_whatever_is_asked(preview, expression):
    began = time.process_time()
    for dst in ("shift", "skip", "strict"):
        await preview(cronExpression=expression, timezone="Europe/Berlin", dst=dst, count=100)
    assert time.process_time() - began < 3
