"""The command line against a real `rota up`: every command as a process of its own, as people call it."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from rota.cli.main import app
from rota.client import Client
from support import free_port, wait_until

ROTA = (sys.executable, "-m", "rota.cli.main")
# Guards against waiting for ever, on a machine that is busy with others.
START_SECONDS = 240.0
COMMAND_SECONDS = 240.0
NO_RUN = "run_" + "0" * 32
NO_JOB = "job_" + "0" * 32


@dataclass(frozen=True)
class Done:
    """A command that ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Rota:
    """A running `rota up`, and the commands of somebody who uses it."""

    def __init__(self, home: Path, port: int) -> None:
        self.home = home
        self.port = port
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
        self.environment = kept | {"ROTA_HOME": str(home), "ROTA_PORT": str(port), "NO_COLOR": "1"}

    def __call__(self, *arguments: str, **environment: str) -> Done:
        """As from a shell: once for each way of waiting, ending and printing, and for what runs a part of Rota."""
        done = subprocess.run(
            [*ROTA, *arguments],
            env=self.environment | environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def json(self, *arguments: str) -> Any:
        done = self.in_process(*arguments, "--json")
        assert done.code == 0, done.err
        return done.json

    def in_process(self, *arguments: str, **environment: str) -> Done:
        """The same without a process, whose start takes far longer than what most commands do."""
        done = CliRunner().invoke(app, list(arguments), env=self.environment | environment)
        return Done(done.exit_code, done.stdout, done.stderr)

    def ask(self, path: str, method: str = "GET", **options: Any) -> Any:
        """The API itself: for preparing and for looking again and again."""
        with Client(f"http://127.0.0.1:{self.port}", (self.home / "admin.token").read_text().strip()) as client:
            return client.call(method, path, **options)

    def status_of(self, run_id: str) -> str:
        return self.ask(f"/v1/runs/{run_id}")["status"]

    def on_terminal(self, columns: int, *arguments: str) -> list[str]:
        """The lines a command shows on a terminal of this width."""
        terminal, far_end = pty.openpty()
        fcntl.ioctl(far_end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), far_end)
        process = subprocess.Popen([*ROTA, *arguments], env=self.environment | {"TERM": "dumb"}, **streams)
        os.close(far_end)
        shown = b""
        with suppress(OSError):  # the terminal is gone when the command has ended
            while part := os.read(terminal, 65536):
                shown += part
        os.close(terminal)
        assert process.wait(COMMAND_SECONDS) == 0, shown
        return shown.decode().splitlines()


@pytest.fixture(scope="module")
def rota():
    """One `rota up` for this module. It must stop by SIGTERM with exit code 0."""
    home = Path(tempfile.mkdtemp(prefix="rota-cli-"))
    rota = Rota(home, free_port())
    said = home / "said.txt"
    with said.open("w") as output:
        arguments = ("up", "--home", str(home), "--port", str(rota.port), "--workers", "1")
        process = subprocess.Popen([*ROTA, *arguments], env=rota.environment, stdout=output, stderr=output)
    try:
        wait_until(lambda: "Ctrl-C stops" in said.read_text() or process.poll(), within=START_SECONDS)
        assert process.poll() is None, said.read_text()
        (home / "scripts" / "cleanup.py").write_text(
            "import json, os, sys\n"
            "given = json.load(sys.stdin)\n"
            "assert given == json.loads(os.environ['ROTA_PARAMS'])\n"
            "print('kept', given['days'], 'days')\n"
        )
        wait_until(lambda: any(worker["status"] == "live" for worker in rota.ask("/v1/workers")["items"]))
        yield rota
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=START_SECONDS) == 0, said.read_text()
        assert "Stopped. All data is in" in said.read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="module")
def buried(rota):
    """Runs of rota.fail that were buried: four, with the names grave-0 to grave-3."""
    body = {"scheduleType": "immediate", "task": "rota.fail", "maxRetries": 0}
    runs = [rota.ask("/v1/jobs", "POST", body=body | {"name": f"grave-{number}"})["runId"] for number in range(4)]
    wait_until(lambda: all(rota.status_of(run) == "failed" for run in runs))
    return runs


@pytest.fixture(scope="module")
def nightly(rota):
    """A job with a schedule that does not fire while the tests run."""
    far = (datetime.now(UTC) + timedelta(days=180)).strftime("0 30 9 %d %m *")
    schedule = ("--cron", far, "--timezone", "Europe/Berlin", "--tag", "night")
    return rota.json("submit", "nightly report", "--task", "rota.echo", *schedule)["jobId"]


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


def test_a_cron_job_shows_its_next_times(rota, nightly):
    shown = rota.json("job", nightly)
    assert shown["timezone"] == "Europe/Berlin"
    assert len(shown["nextFireTimes"]) == 5
    done = rota.in_process("job", nightly)
    assert done.code == 0
    assert shown["nextFireTimes"][0] in done.out


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
    assert refused.err == "error: maxRetrys: unknown field\n"


def test_runs_are_listed_with_a_cursor_for_the_next_page(rota, buried):
    first = rota.json("runs", "--task", "rota.fail", "--limit", "2")
    rest = rota.json("runs", "--task", "rota.fail", "--limit", "500", "--cursor", first["nextCursor"])
    listed = [run["runId"] for run in (*first["items"], *rest["items"])]
    assert set(buried) <= set(listed)
    assert len(listed) == len(set(listed))
    assert f"--cursor {first['nextCursor']}" in rota.in_process("runs", "--task", "rota.fail", "--limit", "2").err


def test_a_failed_run_shows_its_attempts_and_traceback(rota, buried):
    done = rota.in_process("run", buried[0])
    assert done.code == 0
    assert "ATTEMPT" in done.out
    assert "Traceback (most recent call last)" in done.out


def test_a_run_that_ended_is_retried_as_a_new_run(rota, buried):
    old = buried[3]
    new = rota.json("run", old, "--retry")["runId"]
    assert new != old
    shown = rota.json("run", new)
    assert shown["retryOf"] == old
    assert shown["idempotencyKey"] == rota.json("run", old)["idempotencyKey"]


def test_a_running_run_is_cancelled(rota):
    run = rota.json("submit", "long", "--task", "rota.sleep", "--payload", '{"seconds": 600}')["runId"]
    wait_until(lambda: rota.status_of(run) == "running")
    assert rota.json("cancel", run)["cancelRequested"] is True
    wait_until(lambda: rota.status_of(run) == "cancelled")


def test_a_waiting_job_is_cancelled(rota):
    job = rota.json("submit", "never", "--task", "rota.echo", "--in", "1d")["jobId"]
    assert rota.json("cancel", job) == {"jobId": job, "status": "cancelled"}


def test_all_runs_that_match_are_cancelled(rota):
    runs = [
        rota.json("submit", "many", "--task", "rota.echo", "--in", "1d", "--tag", f"wave-{n % 2}")["runId"]
        for n in range(3)
    ]
    assert rota("cancel", "--name", "many", "--tag", "wave-0").out == "2 cancelled or asked to stop\n"
    assert [rota.status_of(run) for run in runs] == ["cancelled", "scheduled", "cancelled"]
    assert rota.json("cancel", "--name", "many") == {"count": 1}


def test_a_run_that_no_worker_knows_says_what_it_waits_for(rota):
    run = rota.json("submit", "unknown", "--task", "tasks.nobody_has")["runId"]
    assert rota.json("run", run)["waitingFor"] == "no live worker knows task tasks.nobody_has"
    rota.ask(f"/v1/runs/{run}/cancel", "POST")


def test_why_says_behind_whom_a_run_waits(rota):
    first = rota.json("submit", "a", "--task", "tasks.nobody_has", "--ordering-key", "k")["runId"]
    second = rota.json("submit", "b", "--task", "tasks.nobody_has", "--ordering-key", "k")["runId"]
    behind = f"{second} is blocked: behind {first} of ordering key 'k'\n"
    wait_until(lambda: rota.in_process("why", second).out == behind)
    assert rota.in_process("why", first).out == f"{first} is queued: no live worker knows task tasks.nobody_has\n"
    for run in (second, first):
        rota.ask(f"/v1/runs/{run}/cancel", "POST")
    assert rota.in_process("why", first).out == f"{first} is cancelled: cancelled on request\n"


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


def test_pools_are_paused_limited_and_listed(rota):
    paused = rota.in_process("pool", "mail", "--pause").out
    assert paused == "pool mail is paused; any number of runs may wait in it\n"
    limited = rota.in_process("pool", "mail", "--most-waiting", "5").out
    assert limited == "pool mail is paused; at most 5 runs may wait in it\n"
    assert rota.in_process("pool", "mail", "--resume").code == 0
    assert rota.in_process("pool", "mail", "--any-number").code == 0
    assert [pool["pool"] for pool in rota.json("pools")["items"]] == ["default", "mail"]
    assert "any number" in rota.in_process("pools").out
    assert [event["event"] for event in rota.json("events")["items"]] == ["pool.resumed", "pool.paused"]
    assert "pool.paused" in rota.in_process("events").out


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


def test_dead_letters_are_listed_redriven_and_discarded(rota, buried):
    listed = rota.in_process("dead-letters")
    assert listed.code == 0
    assert all(run in listed.out for run in buried[:3])
    assert rota.in_process("dead-letters", "redrive", buried[0]).out == "1 redriven\n"
    assert rota.json("dead-letters", "discard", "--name", "grave-1") == {"count": 1}
    left = {letter["runId"] for letter in rota.json("dead-letters", "--limit", "500")["items"]}
    assert buried[2] in left
    assert not left & set(buried[:2])


def test_dead_letters_are_grouped_and_redriven_by_their_error_in_portions(rota):
    for number in range(3):
        fields = ("--task", "rota.fail", "--payload", f'{{"message": "order {number} has no lines"}}', "--retries", "0")
        rota("submit", "grouped", *fields, "--wait")

    def kind():
        groups = rota.json("dead-letters", "groups")["items"]
        return [group["count"] for group in groups if "order # has no lines" in group["error"]]

    assert kind() == [3]
    assert "order # has no lines" in rota("dead-letters", "groups").out
    assert rota.json("dead-letters", "discard", "--error", "order 1 has") == {"count": 1}
    done = rota("dead-letters", "redrive", "--error", "has no lines", "--per-second", "1", "--most", "2")
    assert (done.out, done.err) == ("2 redriven\n", "1 redriven so far\n2 redriven so far\n")
    wait_until(lambda: kind() == [2])  # they failed again, each once
    assert rota("dead-letters", "discard", "--name", "grouped", "--most", "1").out == "1 discarded\n"
    assert rota("dead-letters", "discard", "--name", "grouped").out == "1 discarded\n"


def test_deciding_on_a_run_that_is_no_dead_letter_fails(rota):
    done = rota.in_process("dead-letters", "redrive", NO_RUN)
    assert done.code == 1
    assert done.out == "0 redriven\n"
    assert "not a dead letter" in done.err


def test_workers_are_listed(rota):
    (worker,) = [worker for worker in rota.json("workers")["items"] if worker["status"] == "live"]
    assert "rota.echo" in worker["tasks"]
    assert worker["workerId"] in rota.in_process("workers").out


@pytest.mark.parametrize("command", ["jobs", "runs", "workers", "dead-letters"])
def test_a_list_fits_on_a_terminal_of_80_columns_with_whole_ids(rota, buried, nightly, command):
    key = {"jobs": "jobId", "workers": "workerId"}.get(command, "runId")
    lines = rota.on_terminal(80, command)
    assert max(map(len, lines)) <= 80
    table = [line for line in lines if not line.startswith("There may be more")]
    ids = [line.split(" ", 1)[0] for line in table[1:]]
    known = {item[key] for item in rota.ask(f"/v1/{command}?limit=500")["items"]}
    assert ids
    assert set(ids) <= known


def test_a_list_in_a_pipe_is_not_cut(rota):
    name = "a rather long name " * 8
    rota.json("submit", name.strip(), "--task", "rota.echo", "--in", "1d")
    assert name.strip() in rota("jobs").out
    assert not any(name.strip() in line for line in rota.on_terminal(80, "jobs"))


def test_control_characters_of_a_task_do_not_reach_the_terminal(rota):
    evil = json.dumps({"message": "\x1b[31mred\x1b[0m\x07"})
    done = rota("submit", "evil", "--task", "rota.fail", "--payload", evil, "--retries", "0", "--wait")
    assert done.code == 1
    assert "red" in done.out
    assert "\x1b" not in done.out
    assert "\x07" not in done.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("submit",), "NAME: give the job a name, or --file"),
        (("submit", "x"), "--task"),
        (("submit", "x", "--task", "rota.echo", "--errors", "x"), "--errors: goes with --file"),
        (("submit", "x", "--task", "a", "--script", "b"), "not both"),
        (("submit", "x", "--task", "a b"), "--task: may hold letters"),
        (("submit", "", "--task", "rota.echo"), "NAME: must not be empty"),
        (("submit", "x", "--task", "rota.echo", "--payload", "{bad"), "--payload: is not valid JSON"),
        (("submit", "x", "--task", "rota.echo", "--payload", "[1]"), "--payload: must be a JSON object"),
        (("submit", "x", "--task", "rota.echo", "--params", "{}"), "--params: goes with --script"),
        (("submit", "x", "--script", "../x"), "--script: must be a plain path"),
        (("submit", "x", "--script", "x", "--payload", "{}"), "--payload: goes with --task"),
        (("submit", "x", "--task", "rota.echo", "--in", "soon"), "--in: 'soon' is not a duration"),
        (("submit", "x", "--task", "rota.echo", "--in", "200000d"), "longer than a hundred years"),
        (("submit", "x", "--task", "rota.echo", "--at", "tomorrow"), "--at: 'tomorrow' is not a time"),
        (("submit", "x", "--task", "rota.echo", "--at", "2030-01-01T00:00:00"), "has no offset"),
        (("submit", "x", "--task", "rota.echo", "--at", "2001-01-01T00:00:00Z"), "--at: is in the past"),
        (("submit", "x", "--task", "rota.echo", "--cron", "61 * * * *"), "--cron: bad minute"),
        (("submit", "x", "--task", "rota.echo", "--cron", "* * * * *", "--timezone", "Mars/Base"), "--timezone: no"),
        (("submit", "x", "--task", "rota.echo", "--timezone", "UTC"), "--timezone: goes with --cron"),
        (("submit", "x", "--task", "rota.echo", "--every", "0.1s"), "--every: must be between"),
        (("submit", "x", "--task", "rota.echo", "--every", "5", "--in", "5"), "give one of"),
        (("submit", "x", "--task", "rota.echo", "--every", "5", "--wait"), "--wait: is for jobs that run once"),
        (("submit", "x", "--task", "rota.echo", "--key", ""), "--key: must not be empty"),
        (("submit", "x", "--task", "rota.echo", "--key", "é"), "--key: must be printable ASCII"),
        (("submit", "x", "--task", "rota.echo", "--tag", "a,b"), "--tag: may hold neither commas"),
        (("submit", "x", "--task", "rota.echo", "--ordering-key", ""), "--ordering-key: must not be empty"),
        (("submit", "x", "--task", "rota.echo", "--concurrency-key", "k"), "--concurrency-limit: required"),
        (("submit", "x", "--task", "rota.echo", "--rate", "fast"), "--rate: must be starts per time"),
        (("submit", "x", "--task", "rota.echo", "--rate", "0/s"), "--rate"),
        (("submit", "x", "--task", "rota.echo", "--overlap", "skip"), "--overlap: is for recurring jobs"),
        (("submit", "x", "--task", "rota.echo", "--on-duplicate", "keep"), "--on-duplicate: needs a uniqueKey"),
        (("submit", "x", "--task", "rota.echo", "--set", "[]"), "--set: must be a JSON object"),
        (("pool", "mail"), "give one of"),
        (("pool", "a b", "--pause"), "not the name of a pool"),
        (("why", "x"), "RUN_ID: 'x' is not an id"),
        (("events", "--cursor", "x"), "--cursor"),
        (("jobs", "--status", "bad"), "--status: must be one of"),
        (("jobs", "--cursor", "bad"), "--cursor: "),
        (("runs", "--start", "yesterday"), "--start: 'yesterday' is not a time"),
        (("runs", "--job", NO_RUN), "is a run; a job is wanted"),
        (("runs", "--job", NO_JOB, "--name", "x"), "--job: goes with no other filter"),
        (("job", "../workers"), "JOB_ID: '../workers' is not an id"),
        (("job", NO_JOB), "there is no such job"),
        (("job", NO_JOB, "--pause", "--resume"), "give one of"),
        (("job", NO_JOB, "--set", "{}"), "--set: has nothing to change"),
        (("run", NO_JOB), "is a job; a run is wanted"),
        (("run", NO_RUN, "--wait"), "there is no such run"),
        (("cancel", "x"), "neither a job"),
        (("cancel",), "give an ID, or a filter"),
        (("cancel", NO_RUN, "--task", "x"), "give an ID, or a filter"),
        (("cancel", "--status", "success"), "--status: must be one of"),
        (("dead-letters", "redrive", NO_RUN, "--most", "1"), "--most: goes with a filter"),
        (("dead-letters", "redrive", NO_RUN, "--per-second", "1"), "--per-second: goes with a filter"),
        (("dead-letters", "redrive"), "say which"),
        (("dead-letters", "redrive", "--all", "--name", "x"), "--all: goes with no filter"),
        (("dead-letters", "discard", "x"), "RUN_ID: 'x' is not an id"),
        (("dead-letters", "--task", "x", "redrive", "--all"), "put options after"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_input_is_refused_in_one_line_with_exit_code_2(rota, arguments, words):
    done = rota.in_process(*arguments)
    assert done.code == 2, done.err
    assert done.out == ""
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1
    assert words in done.err


@pytest.mark.parametrize("arguments", [("bogus",), ("jobs", "--bogus"), ("jobs", "--limit", "0")])
def test_wrong_usage_ends_with_exit_code_2(rota, arguments):
    done = rota.in_process(*arguments)
    assert done.code == 2
    assert "Usage:" in done.err


def test_a_server_that_is_down_is_named_with_what_to_do(rota):
    port = free_port()
    done = rota("jobs", ROTA_PORT=str(port))
    assert done.code == 1
    assert f"no Rota server answers at http://127.0.0.1:{port}" in done.err
    assert "rota up" in done.err


def test_an_address_that_is_none_is_bad_input(rota):
    for url in ("nonsense", "http://", "http://127.0.0.1:99999", "ftp://127.0.0.1"):
        done = rota.in_process("jobs", ROTA_URL=url)
        assert done.code == 2
        assert "is not the address of a server" in done.err


def test_a_token_that_is_not_accepted_is_said_to_be_so(rota):
    done = rota.in_process("jobs", ROTA_TOKEN="wrong")  # noqa: S106 - that is the point
    assert done.code == 1
    assert "does not accept the token in ROTA_TOKEN" in done.err


def test_a_home_without_a_token_is_named(rota, tmp_path):
    done = rota.in_process("jobs", ROTA_HOME=str(tmp_path))
    assert done.code == 1
    assert f"{tmp_path}/admin.token can't be read" in done.err


def test_a_second_up_on_the_same_home_is_refused(rota):
    done = rota("up", "--port", str(free_port()))
    assert done.code == 2
    assert "Another `rota up` is running" in done.err


def test_up_on_a_taken_port_is_refused(rota, tmp_path):
    for role in ("up", "api"):
        home = str(tmp_path) if role == "up" else str(rota.home)
        done = rota(role, "--home", home)
        assert done.code == 2
        assert f"Port {rota.port} on 127.0.0.1 can't be used" in done.err
        assert "Traceback" not in done.err


def test_up_in_a_home_that_can_not_be_used_is_refused(rota, tmp_path):
    (tmp_path / "file").touch()
    done = rota("up", "--home", str(tmp_path / "file"), "--port", str(free_port()))
    assert done.code == 2
    assert "can't be used as Rota's home" in done.err


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("tasks", "wants MODULE:APP"),
        ("../tasks:app", "wants MODULE:APP"),
        ("no_such_module:app", "there is no module 'no_such_module'"),
        ("json:app", "json has no 'app'"),
        ("json:loads", "'loads' is of type function, not a rota.App"),
    ],
)
def test_an_app_that_can_not_be_loaded_is_refused(rota, tmp_path, where, words):
    done = rota.in_process("up", "--home", str(tmp_path), "--port", str(free_port()), "--app", where)
    assert done.code == 2
    assert words in done.err
    assert done.err.count("\n") == 1


def test_dev_wants_an_app_that_could_be_one(rota, tmp_path):
    done = rota.in_process("dev", "tasks.py", "--home", str(tmp_path), "--port", str(free_port()))
    assert done.code == 2
    assert done.err == "error: rota dev wants MODULE:APP, such as tasks:app, not 'tasks.py'\n"


def test_a_worker_without_its_database_says_what_to_start(rota, tmp_path):
    done = rota("worker", "--home", str(tmp_path))
    assert done.code == 1
    assert "start `rota up` first" in done.err


def test_migrate_has_nothing_to_do_where_up_has_been(rota):
    done = rota("migrate")
    assert done.code == 0
    assert done.out == "The schema is up to date.\n"


def test_the_databases_address_is_told_and_works(rota):
    url = rota("database-url").out.strip()
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT shards FROM rota.constants").fetchone() == (64,)


def test_logs_are_shown_followed_and_searched(rota):
    (rota.home / "scripts" / "count.sh").write_text(
        "#!/bin/sh\nfor n in 1 2 3; do echo haystack $n; sleep 0.2; done\nexit 4\n"
    )
    (rota.home / "scripts" / "count.sh").chmod(0o755)
    made = rota.json("submit", "count", "--script", "count.sh", "--retries", "0", "--timeout", "1m")
    followed = rota("logs", made["runId"], "--follow")
    assert (followed.code, followed.out.count("haystack")) == (1, 3)
    assert "The run ended: failed" in followed.err
    assert rota.in_process("logs", made["runId"]).out == followed.out
    assert rota.in_process("logs", made["jobId"]).out == followed.out
    lines = [json.loads(line) for line in rota.in_process("logs", "-f", made["runId"], "--json").out.splitlines()]
    assert [line["text"] for line in lines] == ["haystack 1", "haystack 2", "haystack 3"]
    found = rota.json("logs", "--search", "HAYSTACK 2")["items"]
    assert [(item["runId"], item["text"]) for item in found] == [(made["runId"], "haystack 2")]
    assert "Nothing found" in rota.in_process("logs", "--search", "no such line anywhere").err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "give a run"),
        (("run_x",), "is not an id"),
        ((NO_RUN,), "no such run"),
        ((NO_RUN, "--search", "x"), "goes with neither a run"),
        ((NO_RUN, "--json"), "goes with --follow or --search"),
    ],
)
def test_wrong_questions_about_logs_are_refused_in_words(rota, arguments, words):
    done = rota.in_process("logs", *arguments)
    assert done.code == 2
    assert words in done.err
