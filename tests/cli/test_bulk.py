"""`rota submit --file` against a real server: what goes in, what is refused, and what is never made twice."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import time

import pytest
from typer.testing import CliRunner

import commands
from listening import TOKEN
from rota.cli import bulk_submit, runs
from rota.cli.bulk_lines import LONGEST_BYTES, BadLine, JobLine, split_lines, with_key
from rota.cli.main import app
from rota.cli.terminal import progress
from rota.client import Client, ServerUnreachableError
from support import eventually
from terminals import on_terminal

COUNT = "SELECT count(*) FROM rota.runs"


def job(name, **fields):
    later = {"scheduleType": "future", "scheduleTime": "2090-01-01T00:00:00Z"}
    return json.dumps({"name": name, "task": "rota.echo", **later, **fields})


@pytest.fixture
def environment(server, tmp_path):
    return commands.environment(ROTA_URL=server.url, ROTA_TOKEN=TOKEN, ROTA_HOME=str(tmp_path), NO_COLOR="1")


@pytest.fixture
def submit(environment, tmp_path, monkeypatch):
    """Submits lines from a file; gives exit code, output and errors."""
    monkeypatch.setattr(bulk_submit, "MOST_PER_BATCH", 10)
    file = tmp_path / "jobs.ndjson"

    async def run(lines, *arguments, end="\n"):
        if lines is not None:
            file.write_text("\n".join(lines) + end)
        call = ["submit", "--file", str(file), *arguments]
        return await asyncio.to_thread(CliRunner().invoke, app, call, env=environment)

    run.file = file
    return run


async def test_every_line_becomes_a_job_and_again_none(submit, sql):
    lines = [job(f"n{number}") for number in range(25)]
    first = await submit(lines, "--json")
    assert first.exit_code == 0, first.stderr
    shown = json.loads(first.stdout)
    assert (shown["accepted"], shown["thereAlready"], shown["refused"], shown["complete"]) == (25, 0, 0, True)
    again = await submit(None)
    assert again.stdout.startswith("0 accepted, 25 there already, 0 refused (")
    assert await sql.fetchval(COUNT) == 25


async def test_the_same_line_twice_is_two_jobs_and_another_key_makes_others(submit, sql):
    assert (await submit([job("same")] * 3)).exit_code == 0
    assert await sql.fetchval(COUNT) == 3
    assert (await submit(None, "--key", "tuesday")).exit_code == 0
    assert await sql.fetchval(COUNT) == 6


async def test_lines_are_told_by_their_own_key_where_they_have_one(submit, sql):
    assert (await submit([job("x", idempotencyKey="mine"), job("y", idempotencyKey=None)])).exit_code == 0
    moved = await submit([job("new"), job("x", idempotencyKey="mine")])
    assert moved.stdout.startswith("1 accepted, 1 there already")
    assert await sql.fetchval(COUNT) == 3


async def test_what_is_refused_is_told_by_line_and_the_rest_goes_through(submit, tmp_path):
    bad = ["not json", "[1]", job("x", task="a b"), '{"name": "x"}', job("\u00e9", task="rota.echo")]
    errors = tmp_path / "errors.ndjson"
    done = await submit(["", job("first"), *bad, job("last")], "--errors", str(errors))
    assert done.exit_code == 2
    assert done.stdout.startswith("3 accepted, 0 there already, 4 refused (")
    kept = [json.loads(line) for line in errors.read_text().splitlines()]
    assert [(one["line"], one["status"]) for one in kept] == [(3, None), (4, None), (5, 400), (6, 400)]
    assert [f"line {one['line']}: {one['reason']}" for one in kept] == done.stderr.splitlines()
    assert "task: required, but missing" in done.stderr


async def test_a_mended_file_sent_again_adds_only_what_was_mended(submit, sql):
    assert (await submit([job("a"), "{bad", job("c")])).exit_code == 2
    done = await submit([job("a"), job("b"), job("c")])
    assert done.stdout.startswith("1 accepted, 2 there already, 0 refused")
    assert await sql.fetchval(COUNT) == 3


async def test_of_many_refusals_a_few_are_shown_and_all_are_kept(submit, tmp_path):
    errors = tmp_path / "errors.ndjson"
    done = await submit(["x"] * 30, "--errors", str(errors))
    assert done.stderr.count("line ") == bulk_submit.MOST_SHOWN
    assert "and 20 more lines were refused" in done.stderr
    assert len(errors.read_text().splitlines()) == 30


async def test_a_limit_is_waited_for_and_batches_become_as_small_as_they_must(submit, api, sql, monkeypatch):
    await api.put("/v1/limits", json={"largestBatch": 3, "jobsPerSecond": 1000, "jobBurst": 100})
    done = await submit([job(f"n{number}") for number in range(20)])
    assert done.stdout.startswith("20 accepted"), done.stderr
    pauses = []
    loop = asyncio.get_running_loop()

    def lift(seconds):
        pauses.append(seconds)
        asyncio.run_coroutine_threadsafe(api.put("/v1/limits", json={"jobsPerSecond": None}), loop).result()

    monkeypatch.setattr(bulk_submit.time, "sleep", lift)
    await api.put("/v1/limits", json={"largestBatch": None, "jobsPerSecond": 0.5, "jobBurst": 10})
    done = await submit([job(f"m{number}") for number in range(20)])
    assert done.stdout.startswith("20 accepted"), done.stderr
    assert pauses[0] >= 1
    assert "too many jobs: the limit of namespace 'default' is 0.5 a second; trying again in " in done.stderr
    assert await sql.fetchval(COUNT) == 40


async def test_what_finds_too_much_waiting_goes_in_later(submit, api, sql, monkeypatch):
    await api.put("/v1/pools/small", json={"mostWaiting": 5})
    await api.services.gateway.backlog.tick()
    looked = asyncio.get_running_loop()

    def make_room(_seconds):
        asyncio.run_coroutine_threadsafe(room(), looked).result()

    async def room():
        await api.put("/v1/pools/small", json={"mostWaiting": 100})
        await api.services.gateway.backlog.tick()

    monkeypatch.setattr(bulk_submit.time, "sleep", make_room)
    now = {"scheduleType": "immediate", "scheduleTime": None, "pool": "small"}
    done = await submit([job(f"n{number}", **now) for number in range(8)])
    assert done.stdout.startswith("8 accepted, 0 there already, 0 refused"), done.stderr
    assert "5 runs wait in pool 'small'" in done.stderr


async def test_a_server_that_is_not_there_is_told_at_once(submit):
    done = await submit([job("x")])
    assert done.exit_code == 0
    environment = {"ROTA_URL": "http://127.0.0.1:9"}
    call = ["submit", "--file", str(submit.file)]
    done = await asyncio.to_thread(CliRunner().invoke, app, call, env=environment)
    assert (done.exit_code, "no Rota server answers" in done.stderr) == (1, True)


async def test_a_server_that_goes_away_is_waited_for_and_lost_answers_make_nothing_twice(submit, sql, monkeypatch):
    send, calls = Client.submit_lines, []

    def fail_now_and_then(client, lines):
        calls.append(len(lines))
        if len(calls) == 3:
            raise ServerUnreachableError("no Rota server answers")
        results = send(client, lines)
        if len(calls) == 2:
            raise ServerUnreachableError("the answer was lost")
        return results

    monkeypatch.setattr(Client, "submit_lines", fail_now_and_then)
    monkeypatch.setattr(bulk_submit.time, "sleep", lambda _seconds: None)
    done = await submit([job(f"n{number}") for number in range(25)])
    assert calls == [10, 10, 10, 10, 5]
    assert done.stdout.startswith("15 accepted, 10 there already, 0 refused"), done.stderr
    assert [line.split(";")[0] for line in done.stderr.splitlines()] == [
        "the answer was lost",
        "no Rota server answers",
    ]
    assert await sql.fetchval(COUNT) == 25


async def test_a_server_that_stays_away_is_given_up(submit, monkeypatch):
    send, calls = Client.submit_lines, []

    def fail_after_the_first(client, lines):
        calls.append(len(lines))
        if len(calls) > 1:
            raise ServerUnreachableError("no Rota server answers")
        return send(client, lines)

    monkeypatch.setattr(Client, "submit_lines", fail_after_the_first)
    monkeypatch.setattr(bulk_submit, "PATIENCE_SECONDS", 0.0)
    done = await submit([job(f"n{number}") for number in range(25)])
    assert done.exit_code == 1
    assert "10 accepted, 0 there already, 0 refused" in done.stdout
    assert "up to line 10" in done.stdout
    assert "Run the same command within 24 hours to continue" in done.stderr


async def begin(environment):
    """Reads from a pipe."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = (*commands.ROTA, "submit", "--file", "-")
    return await asyncio.create_subprocess_exec(*command, env=environment, **pipes)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
async def test_what_was_cut_off_is_completed_by_the_same_command(environment, sql, how):
    lines = [job(f"n{number}") for number in range(40)]
    process = await begin(environment)
    process.stdin.write("".join(f"{line}\n" for line in lines[:25]).encode())
    await eventually(lambda: sql.fetchval(COUNT))
    process.send_signal(how)
    _, err = await process.communicate()
    if how == signal.SIGINT:
        assert process.returncode == 1
        assert b"Interrupted. Accepted jobs stay." in err
    process = await begin(environment)
    out, _ = await process.communicate("".join(f"{line}\n" for line in lines).encode())
    assert out.startswith(b"15 accepted, 25 there already, 0 refused")
    assert await sql.fetchval(COUNT) == 40


async def test_a_bar_is_drawn_on_a_terminal_only_and_plain_lines_elsewhere(submit, environment, monkeypatch):
    monkeypatch.setattr(progress, "PLAIN_SECONDS", 0.0)
    plain = await submit([job("x")])
    assert plain.stderr.startswith("1 jobs (100%), ")
    assert (await submit(None, "--quiet")).stderr == ""
    coloured = {name: value for name, value in environment.items() if name != "NO_COLOR"} | {"TERM": "xterm"}
    command = [*commands.ROTA, "submit", "--file", str(submit.file)]
    _, shown = await asyncio.to_thread(on_terminal, command, coloured)
    assert "100%" in shown
    assert "1 there already" in shown.splitlines()[-1]
    _, shown = await asyncio.to_thread(on_terminal, command, coloured | {"NO_COLOR": "1"})
    assert "\x1b" not in shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("NAME",), "NAME: can't be used with --file"),
        (("--task", "x"), "--task: can't be used with --file"),
        (("--wait",), "--wait: can't be used with --file"),
        (("--tag", "x"), "--tag: can't be used with --file"),
        (("--errors", "{file}"), "--errors: is the input file"),
        (("--errors", "/nowhere/x"), "--errors: /nowhere/x can't be written"),
    ],
)
async def test_options_that_make_no_sense_together_are_refused(submit, arguments, words):
    done = await submit([job("x")], *(argument.format(file=submit.file) for argument in arguments))
    assert (done.exit_code, done.stdout) == (2, "")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_files_that_can_not_be_read_are_named(tmp_path):
    for file, words in ((tmp_path, "is a directory"), (tmp_path / "none", "No such file"), ("a\0b", "can't be read")):
        done = CliRunner().invoke(app, ["submit", "--file", str(file)], env={"ROTA_HOME": str(tmp_path)})
        assert (done.exit_code, words in done.stderr) == (2, True)


async def test_a_command_that_is_turned_away_says_for_how_long_and_waits_if_it_may(api, environment, monkeypatch):
    await api.put("/v1/limits", json={"jobsPerSecond": 0.01, "jobBurst": 1})
    call = ["submit", "x", "--task", "rota.echo", "--at", "2090-01-01T00:00:00Z"]

    async def run(*more):
        return await asyncio.to_thread(CliRunner().invoke, app, [*call, *more], env=environment)

    began = time.monotonic()
    assert (await run()).exit_code == 0
    refused = await run()
    assert refused.exit_code == 1
    said = int(re.search(r"Try again in (\d+) s\.", refused.stderr)[1])
    assert 100 - (time.monotonic() - began) <= said <= 100, "a token takes 100 s, some of which are over"
    pauses = []

    def lift(seconds):
        pauses.append(seconds)
        asyncio.run_coroutine_threadsafe(api.put("/v1/limits", json={"jobsPerSecond": None}), loop).result()

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(runs.clock, "sleep", lift)
    monkeypatch.setattr(runs, "wait_for_end", lambda _client, run_id: {"runId": run_id, "status": "success"})
    waited = await run("--wait")
    assert (waited.exit_code, len(pauses)) == (0, 1)
    assert "trying again in" in waited.stderr


def lines_of(content, *, piece=7):
    pieces = [content[place : place + piece] for place in range(0, len(content), piece)]
    return list(split_lines(pieces))


def test_lines_are_counted_whatever_the_pieces():
    content = b'\xef\xbb\xbf{"a":1}\r\n\n  \n{"b":2}\n{"c":\r3}'
    for piece in range(1, 30):
        assert [line[:2] for line in lines_of(content, piece=piece)] == [
            (1, b'{"a":1}'),
            (4, b'{"b":2}'),
            (5, b'{"c": 3}'),
        ]
        assert lines_of(content, piece=piece)[-1].end == len(content)


def test_a_line_that_is_too_long_is_refused_without_being_kept():
    content = [b"x" * 1_000_000] * (LONGEST_BYTES // 1_000_000 + 5)
    (line, after) = split_lines([*content, b'\n{"a":1}'])
    assert isinstance(line, BadLine)
    assert after == JobLine(2, b'{"a":1}', len(content) * 1_000_000 + 8)


@pytest.mark.parametrize(
    "content", [b"{}", b"{ }", b'{"name":"x"}', b'{"idempotencyKey":null,"big":123456789012345678901}']
)
def test_a_key_is_put_into_every_line_that_has_none(content):
    keyed = json.loads(with_key(JobLine(1, content, 0), "").content)
    assert keyed.pop("idempotencyKey").startswith("line-")
    assert keyed == {name: value for name, value in json.loads(content).items() if name != "idempotencyKey"}


def test_keys_differ_by_place_content_and_salt():
    lines = [JobLine(1, b"{}", 0), JobLine(2, b"{}", 0), JobLine(1, b'{"a":1}', 0)]
    keys = [with_key(line, salt).content[:60] for line in lines for salt in ("", "x")]
    assert len(set(keys)) == 6
