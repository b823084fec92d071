"""Runs, dead letters and logs on the command line, against a real `rota up`."""

from __future__ import annotations

import json

import pytest

from support import wait_until

NO_RUN = "run_" + "0" * 32


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


def test_a_run_that_succeeded_shows_the_attempt_that_did(rota):
    run = rota.json("submit", "fine", "--task", "rota.echo", "--wait")["runId"]
    attempts = rota.in_process("run", run).out.partition("ATTEMPT")[2].splitlines()
    assert attempts[1].split()[:2] == ["1", "success"]


def test_a_run_that_waits_for_its_retry_shows_the_last_error(rota):
    submitted = ("submit", "again", "--task", "rota.fail", "--payload", '{"message": "the disk is full"}')
    run = rota.json(*submitted, "--retries", "1")["runId"]
    wait_until(lambda: rota.status_of(run) in ("retrying", "failed"))
    shown = rota.in_process("run", run).out
    assert any(line.startswith("error") and "the disk is full" in line for line in shown.splitlines()), shown


def test_a_missing_script_fails_at_once_and_says_so_in_its_log(rota):
    done = rota.in_process("submit", "gone", "--script", "gone.py", "--wait", "--json")
    assert done.code == 1
    assert (done.json["status"], done.json["attempt"]) == ("failed", 1)
    assert done.json["error"] == "there is no script 'gone.py' in the scripts directory of this worker"
    assert "there is no script 'gone.py'" in rota.in_process("logs", done.json["runId"]).out


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


def test_found_lines_have_context_and_can_not_change_the_terminal(rota, tmp_path):
    script = rota.home / "scripts" / "colours.sh"
    script.write_text("#!/bin/sh\necho before\nprintf 'a \\033[31mmarigold\\033[2J\\n'\necho after\n")
    script.chmod(0o755)
    made = rota.json("submit", "colours", "--script", "colours.sh", "--timeout", "1m")
    rota("logs", made["runId"], "--follow")
    found = rota.in_process("logs", made["runId"], "--search", "marigold", "--context", "1")
    assert "\033" not in found.out
    assert [line.split()[-1] for line in found.out.splitlines()[1::2]] == ["before", "after"]
    assert rota.in_process("logs", "--search", "marigold", "--name", "another").out == ""
    saved, whole = tmp_path / "found.jsonl", tmp_path / "run.log"
    assert rota.in_process("logs", "--search", "marigold", "--job", "colours", "--output", str(saved)).code == 0
    assert [json.loads(line)["text"] for line in saved.read_text().splitlines()] == ["a \033[31mmarigold\033[2J"]
    assert rota.in_process("logs", made["runId"], "--output", str(whole)).code == 0
    assert whole.read_text().count("\n") == 3
    assert "--output: can't be written" in rota.in_process("logs", made["runId"], "-o", str(tmp_path)).err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "give a run or a job"),
        (("run_x",), "no job has the id or the name"),
        ((NO_RUN,), "no such run"),
        ((NO_RUN, "--search", "x", "--follow"), "can't be used with --follow"),
        ((NO_RUN, "--task", "x"), "needs --search, or --follow without a run"),
        ((NO_RUN, "--search", "x", "--level", "loud"), "must be one of debug, info"),
        ((NO_RUN, "--json"), "needs --follow or --search"),
    ],
)
def test_wrong_questions_about_logs_are_refused_in_words(rota, arguments, words):
    done = rota.in_process("logs", *arguments)
    assert done.code == 2
    assert words in done.err
