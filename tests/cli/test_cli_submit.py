"""`rota submit` against a real `rota up`, with and without waiting."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from support import wait_until


def test_a_job_for_now_is_submitted_in_one_line(rota):
    done = rota("submit", "hello", "--task", "rota.echo")
    assert done.code == 0
    job, _, rest = done.out.strip().partition(" is queued, ")
    assert job.startswith("job_")
    assert rest == "run_" + job.removeprefix("job_")
    assert done.err == ""


def test_wait_shows_the_result_of_a_run_that_succeeds(rota):
    done = rota("submit", "hello", "--task", "rota.echo", "--payload", '{"hello": "world"}', "--wait")
    assert done.code == 0
    assert '{"hello": "world"}' in done.out
    assert "success" in done.out


def test_wait_with_json_prints_the_run_and_nothing_else(rota):
    done = rota("submit", "nap", "--task", "rota.sleep", "--payload", '{"seconds": 0.3}', "--wait", "--json")
    assert done.code == 0
    assert done.json["result"] == {"slept": 0.3}


def test_wait_for_a_run_that_fails_ends_with_exit_code_1(rota):
    failing = ("--payload", '{"message": "not [today]"}', "--retries", "0", "--wait")
    done = rota("submit", "doomed", "--task", "rota.fail", *failing)
    assert done.code == 1
    assert "RuntimeError: not [today]" in done.out


def test_a_job_in_a_while_waits_and_says_for_what(rota):
    run = rota.json("submit", "later", "--task", "rota.echo", "--in", "2h30m")["runId"]
    shown = rota.json("run", run)
    planned = datetime.fromisoformat(shown["scheduledTime"]) - datetime.now(UTC)
    assert timedelta(hours=2, minutes=29) < planned < timedelta(hours=2, minutes=31)
    assert shown["status"] == "scheduled"
    assert "not due until" in shown["waitingFor"]


def test_a_job_at_a_time_keeps_that_time_whatever_the_offset(rota):
    moment = (datetime.now(UTC) + timedelta(days=2)).replace(microsecond=0)
    local = moment.astimezone(tz=datetime.fromisoformat("2030-01-01T00:00:00+05:30").tzinfo)
    run = rota.json("submit", "at", "--task", "rota.echo", "--at", local.isoformat())["runId"]
    assert datetime.fromisoformat(rota.ask(f"/v1/runs/{run}")["scheduledTime"]) == moment


def test_a_job_at_a_time_shortly_ahead_can_be_waited_for(rota):
    done = rota("submit", "soon", "--task", "rota.echo", "--in", "1s", "--wait", "--json")
    assert done.code == 0
    assert done.json["startTime"] >= done.json["scheduledTime"]


def test_an_interval_job_fires_by_itself(rota):
    job = rota.json("submit", "ticker", "--task", "rota.echo", "--every", "1s")["jobId"]
    wait_until(lambda: any(run["status"] == "success" for run in rota.ask(f"/v1/jobs/{job}/runs")["items"]))
    assert "success" in rota.in_process("runs", "--job", job).out
    assert rota.json("cancel", job)["status"] == "cancelled"


def test_a_script_gets_its_parameters(rota):
    done = rota("submit", "cleanup", "--script", "cleanup.py", "--params", '{"days": 30}', "--wait", "--json")
    assert done.code == 0, done.err
    assert done.json["result"] == {"exitCode": 0, "stdout": "kept 30 days\n", "stderr": ""}


def test_the_same_key_makes_no_second_job(rota):
    first = rota.json("submit", "once", "--task", "rota.echo", "--key", "only-one")
    assert rota.json("submit", "once", "--task", "rota.echo", "--key", "only-one") == first
    other = rota.in_process("submit", "twice", "--task", "rota.echo", "--key", "only-one")
    assert other.code == 2
    assert "idempotency key" in other.err


def test_policies_are_given_as_options_and_shown(rota):
    options = (
        "--concurrency-limit",
        "2",
        "--rate",
        "100/1m",
        "--overlap",
        "skip",
        "--misfire",
        "all",
        "--jitter",
        "30s",
    )
    schedule = ("--cron", "H 3 * * *", "--set", '{"breaker": {"failures": 3}}')
    job = rota.ask(f"/v1/jobs/{rota.json('submit', 'x', '--task', 'rota.echo', *schedule, *options)['jobId']}")
    assert job["rateLimit"] == {"limit": 100, "perSeconds": 60.0, "burst": None, "key": None}
    assert (job["concurrencyLimit"], job["overlap"], job["misfire"]["policy"], job["jitterSeconds"]) == (
        2,
        "skip",
        "all",
        30,
    )
    assert job["breakerState"]["state"] == "closed"
    shown = rota.in_process("job", job["jobId"]).out
    assert job["description"] in shown
    assert "overlap" in shown


def test_a_unique_job_that_is_kept_is_said_to_be_there_already(rota):
    options = ("--task", "tasks.nobody_has", "--unique", "only one", "--on-duplicate", "keep")
    first = rota.json("submit", "x", *options)
    again = rota.in_process("submit", "x", *options)
    assert again.out == f"{first['jobId']} is queued, {first['runId']} (it already existed)\n"
    refused = rota.in_process("submit", "x", "--task", "tasks.nobody_has", "--unique", "only one")
    assert (refused.code, first["jobId"] in refused.err) == (2, True)
    rota.ask(f"/v1/runs/{first['runId']}/cancel", "POST")


def test_control_characters_of_a_task_do_not_reach_the_terminal(rota):
    evil = json.dumps({"message": "\x1b[31mred\x1b[0m\x07"})
    done = rota("submit", "evil", "--task", "rota.fail", "--payload", evil, "--retries", "0", "--wait")
    assert done.code == 1
    assert "red" in done.out
    assert "\x1b" not in done.out
    assert "\x07" not in done.out
