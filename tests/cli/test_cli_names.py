"""Names and chosen ids wherever the command line takes an id, against a real `rota up`."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from rota.cli.terminal.targets import find_job
from support import wait_until

FAR = (datetime.now(UTC) + timedelta(days=150)).strftime("0 30 9 %d %m *")


@pytest.fixture
def client(rota):
    with rota.client() as client:
        yield client


def schedule(rota, name, *options):
    return rota.json("submit", name, "--task", "rota.echo", "--cron", FAR, *options)["jobId"]


def test_a_job_is_submitted_under_an_id_of_ones_choice(rota):
    assert schedule(rota, "chosen", "--id", "my:daily.report") == "my:daily.report"
    assert rota.json("job", "my:daily.report")["name"] == "chosen"
    again = rota.in_process("submit", "other", "--task", "rota.echo", "--id", "my:daily.report")
    assert again.code == 2
    assert "another job has the jobId 'my:daily.report' already" in again.err
    wrong = rota.in_process("submit", "other", "--task", "rota.echo", "--id", "a b")
    assert wrong.code == 2
    assert wrong.err.startswith("error: --id: ")


def test_a_name_that_one_job_has_is_as_good_as_its_id(rota):
    made = schedule(rota, "name of one")
    assert rota.json("job", "name of one")["jobId"] == made
    assert rota.json("job", "name of one", "--pause")["status"] == "paused"
    assert rota.json("job", "name of one", "--resume")["status"] == "scheduled"
    run = rota.json("job", "name of one", "--run-now")["runId"]
    assert rota("run", "name of one", "--wait", "--json").json["runId"] == run
    assert rota.json("why", "name of one")["runId"] == run
    assert [item["runId"] for item in rota.json("runs", "--job", "name of one")["items"]] == [run]
    assert rota.in_process("logs", "name of one").code == 0
    assert rota.in_process("logs", "name of one", "--follow").code == 0
    assert rota.json("dead-letters", "--job", "name of one")["items"] == []
    assert rota.json("schedule", "preview", "H * * * *", "--job", "name of one")["fireTimes"]
    assert rota.json("cancel", "name of one") == {"jobId": made, "status": "cancelled"}


def test_an_id_wins_over_a_name(rota):
    schedule(rota, "wins")
    chosen = schedule(rota, "loses", "--id", "wins")
    assert rota.json("job", "wins")["name"] == "loses"
    assert rota.json("cancel", "wins")["jobId"] == chosen


def test_a_name_of_several_jobs_lists_them_and_does_nothing(rota):
    made = [schedule(rota, "twins") for _ in range(2)]
    for command in (("job", "twins", "--pause"), ("cancel", "twins"), ("logs", "twins"), ("watch", "twins")):
        refused = rota.in_process(*command)
        assert refused.code == 2, command
        assert "several jobs have the name 'twins'; give the id of one" in refused.err
        assert all(job_id in refused.err for job_id in made)
    assert {rota.json("job", job_id)["status"] for job_id in made} == {"scheduled"}


def test_of_several_jobs_the_one_that_has_not_ended_is_meant(rota):
    before = schedule(rota, "phoenix")
    rota.json("cancel", before)
    now = schedule(rota, "phoenix")
    assert rota.json("job", "phoenix")["jobId"] == now
    rota.json("cancel", now)
    assert rota.in_process("job", "phoenix").code == 2


def test_what_is_submitted_under_a_name_after_it_was_looked_up_is_spared(rota, client):
    first = schedule(rota, "raced")
    found = find_job(client, "raced", "JOB")
    second = schedule(rota, "raced")
    client.cancel_job(found)
    assert found == first
    assert rota.json("job", second)["status"] == "scheduled"


@pytest.mark.parametrize("command", [("job",), ("cancel",), ("logs",), ("run",), ("why",), ("watch",)])
@pytest.mark.parametrize("name", ["nobody", "no body/..", "..", "%2e"])
def test_a_name_that_no_job_has_is_said_so(rota, command, name):
    refused = rota.in_process(*command, name)
    assert refused.code == 2
    assert f"no job has the id or the name {name!r}" in refused.err


def test_a_run_is_no_job(rota):
    refused = rota.in_process("job", "run_" + "0" * 32)
    assert refused.code == 2
    assert "is a run; give a job" in refused.err


def test_a_key_is_revoked_by_its_name_if_only_one_has_it(rota):
    def make():
        return rota.json("token", "create", "robot", "--role", "submitter")

    first = make()
    assert rota.json("token", "revoke", "robot")["keyId"] == first["keyId"]
    others = [make() for _ in range(2)]
    refused = rota.in_process("token", "revoke", "robot")
    assert refused.code == 2
    assert all(key["prefix"] in refused.err for key in others)
    assert first["prefix"] not in refused.err
    assert rota.in_process("token", "revoke", "nobody").code == 2


def test_schedules_are_listed_with_their_last_and_next_times(rota):
    job_id = schedule(rota, "listed", "--tag", "listed")
    (before,) = rota.json("schedules", "--tag", "listed")["items"]
    assert (before["jobId"], before["lastRunId"], before["nextFireTime"]) == (
        job_id,
        None,
        rota.json("job", job_id)["nextFireTimes"][0],
    )
    rota("run", rota.json("job", job_id, "--run-now")["runId"], "--wait")
    (after,) = rota.json("schedules", "--name", "listed")["items"]
    assert after["lastStatus"] == "success"
    shown = rota.in_process("schedules", "--tag", "listed").out
    assert after["nextFireTime"][:16].replace("T", " ") in shown.replace("T", " ")
    rota.json("submit", "once", "--task", "rota.echo", "--tag", "listed", "--in", "1d")
    rota.json("cancel", job_id)
    assert rota.in_process("schedules", "--tag", "listed").out.startswith("No schedules.")
    assert [item["status"] for item in rota.json("schedules", "--status", "cancelled", "--tag", "listed")["items"]] == [
        "cancelled"
    ]


def test_cancelling_by_filter_says_that_schedules_go_on_and_how_to_stop_them(rota):
    job_id = schedule(rota, "ticking")
    done = rota.in_process("cancel", "--name", "ticking")
    assert done.code == 0
    assert f"rota cancel {job_id}" in done.err
    assert "goes on" in done.err
    rota.json("cancel", job_id)
    assert rota.in_process("cancel", "--name", "ticking").err == ""


def test_a_payload_is_read_from_a_file_or_standard_input(rota, tmp_path):
    file = tmp_path / "payload.json"
    file.write_text('{"from": "a file", "é": 1}', encoding="utf-8")
    by_file = rota.json("submit", "payload", "--task", "rota.echo", "--payload", f"@{file}")["jobId"]
    assert rota.json("job", by_file)["payload"] == {"from": "a file", "é": 1}
    arguments = [sys.executable, "-m", "rota.cli.main", "submit", "payload", "--task", "rota.echo", "--json", "-p", "-"]
    piped = subprocess.run(
        arguments, input='{"from": "a pipe"}', env=rota.environment, capture_output=True, text=True, check=True
    )
    assert rota.json("job", json.loads(piped.stdout)["jobId"])["payload"] == {"from": "a pipe"}


def test_a_file_that_can_not_be_read_is_named(rota, tmp_path):
    refused = rota.in_process("submit", "x", "--task", "rota.echo", "--payload", f"@{tmp_path}/none.json")
    assert refused.code == 2
    assert refused.err.startswith("error: --payload: ")
    assert "none.json can't be read: No such file" in refused.err
    (tmp_path / "raw").write_bytes(b"\xff\xfe")
    assert "is not UTF-8" in rota.in_process("submit", "x", "--task", "rota.echo", "-p", f"@{tmp_path}/raw").err


def test_a_job_that_no_other_holds_up_is_not_called_blocked(rota):
    done = rota.in_process("submit", "alone", "--task", "rota.echo", "--ordering-key", "alone")
    assert done.code == 0
    assert " is blocked" not in done.out


def test_a_job_that_waits_for_another_says_for_which(rota):
    slow = rota.json("submit", "first", "--task", "rota.sleep", "-p", '{"seconds": 60}', "--ordering-key", "line")
    wait_until(lambda: rota.status_of(slow["runId"]) == "running")
    done = rota.in_process("submit", "second", "--task", "rota.echo", "--ordering-key", "line")
    assert " is blocked (" in done.out
    assert slow["runId"] in done.out.replace("\n", "")
    rota.json("cancel", slow["runId"])


def test_without_a_run_follow_shows_what_all_runs_write(rota):
    with rota.running("logs", "--follow", "--json") as following:
        wait_until(lambda: _written(rota, following))


def _written(rota, following):
    """Whether a run that has just begun is seen. One may begin before the first look, and not be."""
    done = rota("submit", "talk", "--script", "cleanup.py", "--params", '{"days": 30}', "--wait")
    assert done.code == 0, done.err
    return "kept 30 days" in following.said
