"""Jobs, pools, limits and workers on the command line, against a real `rota up`."""

from __future__ import annotations

import pytest

from support import wait_until


def test_a_cron_job_shows_its_next_times(rota, nightly):
    shown = rota.json("job", nightly)
    assert shown["timezone"] == "Europe/Berlin"
    assert len(shown["nextFireTimes"]) == 5
    done = rota.in_process("job", nightly)
    assert done.code == 0
    assert shown["nextFireTimes"][0] in done.out


def test_jobs_are_listed_and_filtered(rota, nightly):
    assert nightly in rota.in_process("jobs", "--tag", "night").out
    assert [job["jobId"] for job in rota.json("jobs", "--name", "nightly report")["items"]] == [nightly]
    nothing = rota.in_process("jobs", "--name", "no such name")
    assert nothing.code == 0
    assert nothing.out.startswith("No jobs.")


def test_a_job_is_paused_and_resumed(rota, nightly):
    assert rota.json("job", nightly, "--pause")["status"] == "paused"
    assert nightly in rota.in_process("jobs", "--status", "paused").out
    assert rota.json("job", nightly, "--resume")["status"] == "scheduled"


def test_a_job_is_run_besides_its_schedule(rota, nightly):
    run = rota.json("job", nightly, "--run-now")["runId"]
    done = rota("run", run, "--wait", "--json")
    assert done.code == 0
    assert done.json["cause"] == "manual"
    assert done.json["jobId"] == nightly


def test_fields_of_a_job_are_changed_by_set(rota, nightly):
    changed = rota.json("job", nightly, "--set", '{"maxRetries": 7, "priority": "high"}')
    assert (changed["maxRetries"], changed["priority"]) == (7, "high")
    refused = rota.in_process("job", nightly, "--set", '{"maxRetrys": 7}')
    assert refused.code == 2
    assert refused.err == "error: maxRetrys: unknown field; did you mean maxRetries?\n"


def test_pools_are_paused_limited_and_listed(rota):
    paused = rota.in_process("pool", "mail", "--pause").out
    assert paused == "pool mail is paused; any number of runs may wait in it\n"
    limited = rota.in_process("pool", "mail", "--most-waiting", "5").out
    assert limited == "pool mail is paused; at most 5 runs may wait in it\n"
    assert rota.in_process("pool", "mail", "--resume").code == 0
    assert rota.in_process("pool", "mail", "--any-number").code == 0
    assert [pool["pool"] for pool in rota.json("pools")["items"]] == ["default", "mail"]
    assert "any number" in rota.in_process("pools").out
    assert [event["event"] for event in rota.json("events", "--kind", "pool.")["items"]] == [
        "pool.resumed",
        "pool.paused",
    ]
    assert "pool.paused" in rota.in_process("events", "--kind", "pool.").out


def test_limits_are_set_lifted_and_listed(rota):
    assert "No limits are set" in rota.in_process("limits").out
    done = rota.in_process("limits", "set", "--jobs-per-second", "500", "--most-waiting", "100000")
    assert (done.code, done.out) == (0, "the namespace: jobs per second 500, job burst 2500, most waiting 100000\n")
    whose = rota.json("limits", "set", "--subject", "alice@example.com", "--requests-per-second", "2.5")
    assert (whose["subject"], whose["requestsPerSecond"]) == ("alice@example.com", 2.5)
    shown = rota.in_process("limits").out
    assert [word in shown for word in ("(namespace)", "500 (burst 2500)", "alice@example.com", "2.5 (burst 13)")] == [
        True
    ] * 4
    assert [item["subject"] for item in rota.json("limits", "--limit", "1")["items"]] == [None]
    lifted = rota.json("limits", "set", "--lift", "jobs-per-second", "--lift", "most-waiting")
    assert (lifted["jobsPerSecond"], lifted["mostWaiting"]) == (None, None)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("set",), "give a limit to set or to --lift"),
        (("set", "--lift", "everything"), "--lift: must be one of requests-per-second, request-burst,"),
        (("set", "--lift", "job-burst", "--job-burst", "1"), "both set and lifted"),
        (("set", "--requests-per-second", "0"), "--requests-per-second: must be >= 0.001"),
        (("--json", "set", "--job-burst", "1"), "put options after set"),
    ],
)
def test_wrong_limits_are_refused_in_words(rota, arguments, words):
    done = rota.in_process("limits", *arguments)
    assert done.code == 2
    assert words in done.err


def test_workers_are_listed(rota):
    (worker,) = [worker for worker in rota.json("workers")["items"] if worker["status"] == "live"]
    assert "rota.echo" in worker["tasks"]
    assert worker["workerId"] in rota.in_process("workers").out


@pytest.mark.parametrize("command", ["jobs", "runs", "workers", "dead-letters"])
def test_a_list_fits_on_a_terminal_of_80_columns_with_whole_ids(rota, buried, nightly, command):
    key = {"jobs": "jobId", "workers": "workerId"}.get(command, "runId")
    code, lines = rota.on_terminal(80, command)
    assert code == 0, lines
    assert max(map(len, lines)) <= 80
    table = [line for line in lines if not line.startswith("There may be more")]
    ids = [line.split(" ", 1)[0] for line in table[1:]]
    path = f"/v1/{command}" if command == "workers" else f"/v1/{command}?limit=500"
    known = {item[key] for item in rota.ask(path)["items"]}
    assert ids
    assert set(ids) <= known


def test_a_list_in_a_pipe_is_not_cut(rota):
    name = "a rather long name " * 8
    rota.json("submit", name.strip(), "--task", "rota.echo", "--in", "1d")
    assert name.strip() in rota("jobs").out
    assert not any(name.strip() in line for line in rota.on_terminal(80, "jobs")[1])


def test_the_moment_of_creation_is_shown_once(rota):
    job_id = rota.json("submit", "created once", "--task", "rota.echo", "--in", "1h")["jobId"]
    shown = rota.in_process("job", job_id).out
    assert ("createdAt" in shown, "createdTime" in shown) == (True, False)


def test_a_job_depends_on_others_and_these_are_cancelled_by_force(rota):
    rota.json("submit", "load", "--id", "load-1", "--task", "rota.echo", "--cron", "0 0 1 1 *")
    depending = rota.json(
        *("submit", "use", "--task", "rota.echo", "--cron", "0 3 1 1 *"),
        *("--depends-on", "load-1", "--depends-window", "3h"),
    )["jobId"]
    shown = rota.json("job", depending)
    assert (shown["dependencies"], shown["dependencyWindowSeconds"]) == (["load-1"], 10800)
    refused = rota.in_process("cancel", "load-1")
    assert refused.code == 2
    assert f"other jobs depend on it: {depending}" in refused.err
    assert rota.json("cancel", "load-1", "--force")["status"] == "cancelled"
    assert rota.in_process("cancel", "run_" + 32 * "0", "--force").code == 2


def test_why_names_the_job_that_a_run_waits_for(rota):
    rota.json("submit", "later", "--id", "later-1", "--task", "rota.echo", "--in", "1d")
    run = rota.json("submit", "after", "--task", "rota.echo", "--depends-on", "later-1")["runId"]
    wait_until(lambda: "later-1" in rota.in_process("why", run).out)
    assert rota.in_process("why", run).out.endswith(") is scheduled\n")
