"""What the command line refuses: one line that says what is wrong, and exit code 2."""

from __future__ import annotations

import pytest

NO_RUN = "run_" + "0" * 32
NO_JOB = "job_" + "0" * 32


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("submit",), "NAME: give the job a name, or --file"),
        (("submit", "x"), "--task"),
        (("submit", "x", "--task", "rota.echo", "--errors", "x"), "--errors: needs --file"),
        (("submit", "x", "--task", "a", "--script", "b"), "not both"),
        (("submit", "x", "--task", "a b"), "--task: may hold letters"),
        (("submit", "", "--task", "rota.echo"), "NAME: must not be empty"),
        (("submit", "x", "--task", "rota.echo", "--payload", "{bad"), "--payload: is not valid JSON"),
        (("submit", "x", "--task", "rota.echo", "--payload", "[1]"), "--payload: must be a JSON object"),
        (("submit", "x", "--task", "rota.echo", "--params", "{}"), "--params: needs --script"),
        (("submit", "x", "--script", "../x"), "--script: must be a plain path"),
        (("submit", "x", "--script", "x", "--payload", "{}"), "--payload: needs --task"),
        (("submit", "x", "--task", "rota.echo", "--in", "soon"), "--in: 'soon' is not a duration"),
        (("submit", "x", "--task", "rota.echo", "--in", "200000d"), "longer than a hundred years"),
        (("submit", "x", "--task", "rota.echo", "--at", "tomorrow"), "--at: 'tomorrow' is not a time"),
        (("submit", "x", "--task", "rota.echo", "--at", "2030-01-01T00:00:00"), "has no offset"),
        (("submit", "x", "--task", "rota.echo", "--at", "2001-01-01T00:00:00Z"), "--at: is in the past"),
        (("submit", "x", "--task", "rota.echo", "--cron", "61 * * * *"), "--cron: bad minute"),
        (("submit", "x", "--task", "rota.echo", "--cron", "* * * * *", "--timezone", "Mars/Base"), "--timezone: no"),
        (("submit", "x", "--task", "rota.echo", "--timezone", "UTC"), "--timezone: needs --cron"),
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
        (("why", "x"), "RUN: no job has the id or the name 'x'"),
        (("events", "--cursor", "x"), "--cursor"),
        (("jobs", "--status", "bad"), "--status: must be one of"),
        (("jobs", "--cursor", "bad"), "--cursor: "),
        (("runs", "--start", "yesterday"), "--start: 'yesterday' is not a time"),
        (("runs", "--job", NO_RUN), "is a run; give a job"),
        (("runs", "--job", NO_JOB, "--name", "x"), "--job: can't be used with other filters"),
        (("job", "../workers"), "JOB: no job has the id or the name '../workers'"),
        (("job", NO_JOB), "there is no such job"),
        (("job", NO_JOB, "--pause", "--resume"), "give one of"),
        (("job", NO_JOB, "--set", "{}"), "--set: has nothing to change"),
        (("run", NO_JOB), "there is no such job"),
        (("run", NO_RUN, "--wait"), "there is no such run"),
        (("cancel", "x"), "JOB: no job has the id or the name 'x'"),
        (("cancel",), "give a job or run, or a filter"),
        (("cancel", NO_RUN, "--task", "x"), "give a job or run, or a filter"),
        (("cancel", "--status", "success"), "--status: must be one of"),
        (("dead-letters", "redrive", NO_RUN, "--most", "1"), "--most: needs a filter"),
        (("dead-letters", "redrive", NO_RUN, "--per-second", "1"), "--per-second: needs a filter"),
        (("dead-letters", "redrive"), "choose dead letters by"),
        (("dead-letters", "redrive", "--all", "--name", "x"), "--all: can't be used with a filter"),
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


def test_an_address_that_is_none_is_bad_input(rota):
    for url in ("nonsense", "http://", "http://127.0.0.1:99999", "ftp://127.0.0.1"):
        done = rota.in_process("jobs", ROTA_URL=url)
        assert done.code == 2
        assert "is not the address of a server" in done.err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is empty; a JSON object is expected"),
        ("{bad", "is not valid JSON"),
        ("[1]", "must hold a JSON object"),
    ],
)
def test_a_file_that_holds_no_object_is_named(rota, tmp_path, content, words):
    file = tmp_path / "payload.json"
    file.write_text(content)
    done = rota.in_process("submit", "x", "--task", "rota.echo", "--payload", f"@{file}")
    assert done.code == 2
    assert f"--payload: {file} {words}" in done.err
    assert "quote it" not in done.err


def test_a_file_that_is_named_without_its_sign_is_noticed(rota, tmp_path):
    file = tmp_path / "payload.json"
    file.write_text("{}")
    done = rota.in_process("submit", "x", "--task", "rota.echo", "--payload", str(file))
    assert done.code == 2
    assert f"for what is in the file: --payload @{file}" in done.err


def test_a_task_that_nobody_knows_is_answered_with_the_nearest(rota):
    done = rota.in_process("tasks", "echo")
    assert done.code == 2
    assert "did you mean rota.echo?" in done.err
