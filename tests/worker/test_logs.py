"""Logs: what runs write, in order, masked, cut, followed, kept, searched."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from uuid import UUID

import asyncpg
import pytest

import rota
from rota.blobs import BlobError
from rota.domain.ids import new_id
from rota.domain.run import Claim
from rota.errors import DatabaseUnavailableError
from rota.store.logs import Logs
from rota.task.output import RunHandler, RunStream
from rota.worker.run_log import LogWriter, RunLog
from rota.worker.runners.guarded_process import Subprocesses
from rota.worker.runners.shell import ShellRunner
from rota.worker.secret_mask import Mask
from support import eventually, in_time, log_chunk

MOMENT = 1_800_000_000.0


def make_log(*, limit=10_000, secrets=()):
    claim = Claim("default", new_id(MOMENT), new_id(MOMENT), 1, "t", 0, None, None, "{}", None, MOMENT, MOMENT, 0, 0)
    return RunLog(claim, limit_bytes=limit, mask=Mask(secrets), now=lambda: MOMENT, on_lines=lambda _log: None)


def text_of(log):
    return "".join(chunk.body for chunk in log.unsent())


@contextmanager
def captured():
    """As in a worker's process: what runs print and log goes to their logs."""
    handler = RunHandler()
    root = logging.getLogger()
    before = root.level, sys.stdout, sys.stderr
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    sys.stdout, sys.stderr = RunStream(sys.stdout, "stdout"), RunStream(sys.stderr, "stderr")
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(before[0])
        _, sys.stdout, sys.stderr = before


@pytest.fixture
def shell():
    return {"shell": ShellRunner(Subprocesses(), grace_seconds=0.3)}


async def log_of(engine, run_id):
    return (await engine.api.get(f"/v1/runs/{run_id}/logs")).text


def test_lines_are_put_together_however_they_come():
    log = make_log()
    for piece in (b"one\ntw", b"o\n", b"thr\xc3", b"\xa9e\nlast"):
        log.feed("stdout", piece)
    log.close()
    stamp = "2027-01-15T08:00:00.000Z"
    assert text_of(log) == "".join(f"{stamp} stdout {line}\n" for line in ("one", "two", "thrée", "last"))


def test_binary_output_and_progress_bars_become_text():
    log = make_log()
    log.feed("stdout", b"\xff\x00\xfe\n10%\r50%\r100%\r\n")
    log.close()
    lines = text_of(log).splitlines()
    assert "\x00" not in lines[0]
    assert lines[1].endswith(" stdout 100%")


def test_a_log_is_cut_in_the_middle_with_a_mark():
    log = make_log(limit=1000)
    for number in range(100_000):
        log.feed("stdout", b"line %d\n" % number)
    log.close()
    text = text_of(log)
    assert "line 0\n" in text
    assert "line 99999\n" in text
    assert "bytes are left out here: a log is cut at 1,000 bytes" in text
    assert len(text) < 150_000


def test_a_line_without_an_end_is_cut_in_pieces():
    log = make_log(limit=10**6)
    log.feed("stdout", b"x" * 100_000)
    log.close()
    assert len(text_of(log).splitlines()) == 7


@pytest.mark.parametrize("cut", range(16_376, 16_390))
def test_secrets_are_masked_even_across_pieces(cut):
    log = make_log(limit=10**6, secrets=["tell-nobody"])
    log.feed("stdout", b"y" * cut + b"tell-nob")
    log.feed("stdout", b"ody" + b"z" * 20_000 + b"\ntell-nobody\n")
    log.close()
    shown = "".join(line.split(" ", 2)[2] for line in text_of(log).splitlines())
    assert "tell-nobody" not in shown
    assert "tell" not in shown


def test_every_line_of_a_secret_of_several_lines_is_masked():
    mask = Mask(["-----BEGIN KEY-----\nMIIEvQIBADANBg\n-----END KEY-----"])
    assert mask("MIIEvQIBADANBg") == "***"
    assert mask('{"key": "-----BEGIN KEY-----\\nMIIEvQIBADANBg\\n-----END KEY-----"}') == '{"key": "***"}'


async def test_a_run_that_writes_nothing_leaves_nothing(engine, sql):
    run_id = await engine.submit()
    async with engine.running(engine.worker()):
        await engine.until(run_id, "success")
    assert await sql.fetchval("SELECT count(*) FROM rota.log_chunks") == 0
    assert await log_of(engine, run_id) == ""


async def test_what_functions_print_and_log_is_in_order_and_their_own(engine):
    logger = logging.getLogger("library")

    async def speak(word):
        print(word, "printed")
        await asyncio.sleep(0.01)
        logger.info("%s logged", word)

    def speak_in_thread(word):
        print(word, "printed", file=sys.stderr)
        logger.warning("%s logged", word)

    runs = {}
    with captured():
        worker = engine.worker({"a": speak, "t": speak_in_thread})
        await _speak(engine, worker, runs)


async def _speak(engine, worker, runs):
    async with engine.running(worker):
        for number in range(10):
            for task in ("a", "t"):
                word = f"{task}{number}"
                runs[word] = await engine.submit(task=task, payload={"word": word})
        for word, run_id in runs.items():
            await engine.until(run_id, "success")
            lines = [line.split(" ", 2)[1:] for line in (await log_of(engine, run_id)).splitlines()]
            stream, level = ("stdout", "INFO") if word.startswith("a") else ("stderr", "WARNING")
            assert lines == [[stream, f"{word} printed"], ["log", f"{level} {word} logged"]]


async def test_the_contexts_logger_writes_tracebacks_too(engine):
    async def fail(context: rota.Context):
        try:
            int("no such customer")
        except ValueError:
            context.logger.exception("could not")

    run_id = await engine.submit(task="fail")
    with captured():
        async with engine.running(engine.worker({"fail": fail})):
            await engine.until(run_id, "success")
    text = await log_of(engine, run_id)
    assert "log ERROR could not" in text
    assert "no such customer" in text


async def test_the_log_of_all_attempts_is_one(engine, shell):
    run_id = await engine.submit(
        task="shell",
        payload={"command": "echo attempt $ROTA_ATTEMPT; exit 1"},
        maxRetries=1,
        retry={"strategy": "fixed", "baseSeconds": 0},
    )
    async with engine.running(engine.worker(runners=shell)):
        await engine.until(run_id, "failed")
    lines = [line.split(" ", 2)[2] for line in (await log_of(engine, run_id)).splitlines()]
    assert lines == ["attempt 1", "attempt 2"]


async def test_a_flood_is_cut_and_the_run_goes_on(engine, shell):
    command = "yes 0123456789012345678901234567890123456789 | head -c 100000000; echo the end"
    run_id = await engine.submit(task="shell", payload={"command": command})
    async with engine.running(engine.worker(runners=shell, log_limit_bytes=100_000)):
        run = await engine.until(run_id, "success", "failed", within=60)
    text = await log_of(engine, run_id)
    assert run["status"] == "success"
    assert "bytes are left out here" in text
    assert text.endswith("the end\n")
    assert len(text) < 400_000


async def test_a_run_is_followed_live_and_the_stream_ends_with_it(engine, shell, tmp_path):
    seen_by_us = tmp_path / "seen"
    command = f"echo 1; until [ -e {seen_by_us} ]; do sleep 0.05; done; echo 2; echo 3; exit 1"
    run_id = await engine.submit(task="shell", payload={"command": command}, maxRetries=0)
    seen = []
    async with engine.running(engine.worker(runners=shell)):
        services = engine.api.services
        async with services.tail.follow("default", _plain(run_id), 0) as follower:
            while True:
                coming = await in_time(follower.coming.get())
                if isinstance(coming, str):
                    break
                seen.append(((await engine.run(run_id))["status"], coming.body))
                seen_by_us.touch()
    assert coming == "failed"
    assert "".join(line.split(" ", 2)[2] for _, body in seen for line in body.splitlines(keepends=True)) == "1\n2\n3\n"
    assert seen[0][0] == "running"


def _plain(run_id):
    return UUID(run_id[4:])


async def test_the_stream_of_events_has_lines_and_an_end(engine, shell):
    run_id = await engine.submit(task="shell", payload={"command": "echo one; echo two >&2"})
    async with engine.running(engine.worker(runners=shell)):
        await engine.until(run_id, "success")
    answer = await engine.api.get(f"/v1/runs/{run_id}/logs?follow=true")
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [
        dict(line.split(": ", 1) for line in event.splitlines())
        for event in answer.text.split("\n\n")
        if event.startswith("event")
    ]
    lines = [json.loads(event["data"]) for event in events if event["event"] == "line"]
    assert {(line["stream"], line["text"], line["attempt"]) for line in lines} == {
        ("stdout", "one", 1),
        ("stderr", "two", 1),
    }
    assert json.loads(events[-1]["data"]) == {"status": "success"}
    again = await engine.api.get(f"/v1/runs/{run_id}/logs?follow=true", headers={"Last-Event-ID": events[-2]["id"]})
    assert "event: line" not in again.text


async def test_lines_wait_for_a_database_that_is_away_and_none_is_lost(engine):
    log = make_log()
    sent = []

    class Broker:
        away = True

        async def write_logs(self, chunks):
            if self.away:
                raise DatabaseUnavailableError("away")
            sent.extend(chunks)

    broker = Broker()
    writer = LogWriter(broker)
    log._on_lines = writer.note
    running = asyncio.create_task(writer.run())
    log.write("log", "first")
    await asyncio.sleep(0.4)
    log.write("log", "second")
    broker.away = False
    await eventually(lambda: len(sent) >= 1)
    log.close()
    await writer.send_of([log.claim.number])
    running.cancel()
    assert [chunk.number for chunk in sent] == list(range(len(sent)))
    assert "".join(chunk.body.split(" ", 2)[2] for chunk in sent if chunk.body).count("\n") >= 1
    assert sent[-1].last


async def test_threads_may_write_while_lines_are_sent():
    log = make_log(limit=10**7)

    def write():
        for _ in range(5000):
            log.write("log", "x")

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    count = 0
    while any(thread.is_alive() for thread in threads):
        chunks = log.unsent()
        count += sum(chunk.body.count("\n") for chunk in chunks)
        log.sent(len(chunks))
    count += text_of(log).count("\n")
    assert count == 20_000


async def test_logs_go_to_object_storage_and_are_read_from_there_when_their_day_is_gone(engine, shell, sql):
    runs = [await engine.submit(task="shell", payload={"command": f"echo run {n}"}) for n in range(3)]
    async with engine.running(engine.worker(runners=shell)):
        for run_id in runs:
            await engine.until(run_id, "success")
    scheduler = await engine.leading()
    assert await scheduler.log_keeper.tick() == 3
    assert await scheduler.log_keeper.tick() == 0
    before = [await log_of(engine, run_id) for run_id in runs]
    await sql.execute("DELETE FROM rota.log_chunks")
    assert [await log_of(engine, run_id) for run_id in runs] == before
    assert all(f"run {n}" in text for n, text in enumerate(before))


async def test_many_small_logs_share_an_object(engine, sql):
    day = datetime.now(UTC)
    ids = [new_id(day.timestamp()) for _ in range(60)]
    for number, run_id in enumerate(ids):
        await _write(engine, run_id, f"2026-01-01T00:00:00.000Z log line {number}\n")
    scheduler = await engine.leading()
    assert await scheduler.log_keeper.tick() == 60
    assert await sql.fetchval("SELECT count(DISTINCT blob) FROM rota.kept_logs") == 1
    row = await sql.fetchrow("SELECT * FROM rota.kept_logs WHERE run_id = $1", ids[37])
    assert (await engine.blobs.get_piece(row["blob"], row["first"], row["length"])).endswith(b"log line 37\n")


async def _write(engine, run_id, body, *, last=True):
    await Logs(engine.database).add([log_chunk(run_id, body, last=last)])


async def test_a_storage_that_is_away_keeps_nothing_from_working(engine, shell, monkeypatch):
    run_id = await engine.submit(task="shell", payload={"command": "echo here"})
    async with engine.running(engine.worker(runners=shell)):
        await engine.until(run_id, "success")
    scheduler = await engine.leading()

    async def refuse(*_arguments):
        raise BlobError("away")

    put = engine.blobs.put
    monkeypatch.setattr(engine.blobs, "put", refuse)
    assert await scheduler.log_keeper.tick() == 0
    assert "here" in await log_of(engine, run_id)
    monkeypatch.setattr(engine.blobs, "put", put)
    assert await scheduler.log_keeper.tick() == 1


async def test_a_day_of_logs_goes_when_all_of_it_is_kept_and_not_before(engine, sql):
    old = datetime.now(UTC) - timedelta(days=4)
    ended, endless = new_id(old.timestamp()), new_id(old.timestamp())
    await _write(engine, ended, "2026-01-01T00:00:00.000Z log ended\n")
    await _write(engine, endless, "2026-01-01T00:00:00.000Z log endless\n", last=False)
    scheduler = await engine.leading()
    keeper = scheduler.log_keeper
    assert await keeper._logs.drop_days(2) == 0
    await keeper._logs.find_endless()
    assert await keeper.tick() == 2
    assert await keeper._logs.drop_days(2) == 1
    assert await sql.fetchval("SELECT count(*) FROM rota.kept_logs") == 2
    assert await sql.fetchval("SELECT count(*) FROM rota.log_chunks") == 0


async def test_a_day_somebody_is_writing_to_stays(engine, database_url):
    old = datetime.now(UTC) - timedelta(days=4)
    await _write(engine, new_id(old.timestamp()), "2026-01-01T00:00:00.000Z log kept\n")
    keeper = (await engine.leading()).log_keeper
    assert await keeper.tick() == 1
    other = await asyncpg.connect(database_url)
    await other.execute("BEGIN")
    await other.execute(
        "INSERT INTO rota.log_chunks (namespace, run_id, claim, number, position, attempt, last, body) "
        "VALUES ('default', $1, 9, 0, 9, 1, false, 'late')",
        new_id(old.timestamp()),
    )
    assert await keeper._logs.drop_days(2) == 0
    await other.execute("COMMIT")
    assert await keeper._logs.drop_days(2) == 0
    assert await other.fetchval("SELECT count(*) FROM rota.log_chunks") == 2
    await other.close()


async def test_logs_are_searched_from_the_latest_back_page_by_page(engine, sql):
    now = datetime.now(UTC)
    ids = [new_id((now - timedelta(minutes=n)).timestamp()) for n in range(30)]
    for number, run_id in enumerate(ids):
        word = "Needle" if number % 3 == 0 else "hay"
        await _write(
            engine, run_id, f"2026-01-01T00:00:00.000Z stdout {word} {number}\n2026-01-01T00:00:00.000Z stdout x\n"
        )
    found, cursor = [], None
    while True:
        query = {"search": "needle", "limit": 4} | ({"cursor": cursor} if cursor else {})
        page = (await engine.api.get("/v1/logs", params=query)).json()
        found += [item["text"] for item in page["items"]]
        cursor = page["nextCursor"]
        if not cursor:
            break
    assert found == [f"Needle {number}" for number in range(0, 30, 3)]
    early = (
        await engine.api.get(
            "/v1/logs", params={"search": "needle", "endTime": (now - timedelta(minutes=20)).isoformat()}
        )
    ).json()
    assert [item["text"] for item in early["items"]] == ["Needle 21", "Needle 24", "Needle 27"]


async def test_wrong_questions_about_logs_are_refused(engine):
    assert (await engine.api.get("/v1/logs")).status_code == 400
    assert (await engine.api.get("/v1/logs", params={"search": " "})).status_code == 400
    missing = f"run_{new_id(MOMENT).hex}"
    assert (await engine.api.get(f"/v1/runs/{missing}/logs")).status_code == 404
    run_id = await engine.submit(task="nobody.knows")
    assert (await engine.api.get(f"/v1/runs/{run_id}/logs", params={"follow": "maybe"})).status_code == 400
    assert (await engine.api.get(f"/v1/runs/{run_id}/logs", params={"url": "true"})).status_code == 404
    assert (await engine.api.get(f"/v1/jobs/{run_id.replace('run_', 'job_')}/logs")).status_code == 200


async def test_output_outside_of_runs_goes_where_it_went(capsys):
    stream = RunStream(sys.stdout, "stdout")
    stream.write("for everybody\n")
    assert capsys.readouterr().out == "for everybody\n"


def test_one_large_write_does_not_get_around_the_limit():
    for write in (lambda log: log.feed("stdout", b"x\n" * 3_000_000), lambda log: log.write("log", "x\n" * 1_000_000)):
        log = make_log(limit=100_000)
        write(log)
        log.close()
        assert len(text_of(log)) < 1_500_000


def test_a_secret_at_the_cut_of_a_log_is_masked_on_both_sides():
    for spare in range(0, 40, 3):
        log = make_log(limit=1000, secrets=["tell-nobody"])
        log.feed("stdout", b"y" * (950 - spare) + b"\ntell-no")
        log.feed("stdout", b"body\n" + b"z" * 50 + b"\n")
        log.feed("stdout", b"w" * 40_000 + b"\n" + b"tell-nobody" * 4000)
        log.close()
        text = text_of(log)
        assert "nobody" not in text
        assert "tell-" not in text


async def test_the_end_of_a_run_waits_for_lines_that_are_under_way():
    written, release = [], asyncio.Event()

    class Broker:
        async def write_logs(self, chunks):
            await release.wait()
            written.extend(chunks)

    writer = LogWriter(Broker())
    log = make_log()
    log._on_lines = writer.note
    running = asyncio.create_task(writer.run())
    log.write("log", "line")
    await eventually(lambda: writer._under_way)
    sending = asyncio.create_task(writer.send_of([log.claim.number]))
    await asyncio.sleep(0.05)
    assert not sending.done()
    release.set()
    await sending
    running.cancel()
    assert written


async def test_lines_with_odd_characters_stay_one_line(engine):
    run_id = new_id(datetime.now(UTC).timestamp())
    await _write(engine, run_id, "2026-01-01T00:00:00.000Z stdout page\x0cone\x85two\u2028three\n")
    page = (await engine.api.get("/v1/logs", params={"search": "page"})).json()
    assert [item["text"] for item in page["items"]] == ["page\x0cone\x85two\u2028three"]


async def test_long_logs_are_read_and_searched_to_their_end(engine, sql):
    run_id = await engine.submit()
    await sql.execute(
        "INSERT INTO rota.log_chunks (namespace, run_id, claim, number, position, attempt, last, body) "
        "SELECT 'default', $1, 1, n, n + 1, 1, false, '2026-01-01T00:00:00.000Z log line ' || n || E'\\n' "
        "FROM generate_series(0, 4999) AS n",
        _plain(run_id),
    )
    await sql.execute("INSERT INTO rota.log_ends (namespace, run_id, claim) VALUES ('default', $1, 1)", _plain(run_id))
    assert len((await log_of(engine, run_id)).splitlines()) == 5000
    page = (await engine.api.get("/v1/logs", params={"search": "LINE 5\n".strip(), "limit": 500})).json()
    while page["nextCursor"] and not any(item["text"] == "line 5" for item in page["items"]):
        query = {"search": "line 5", "limit": 500, "cursor": page["nextCursor"]}
        page = (await engine.api.get("/v1/logs", params=query)).json()
    assert "line 5" in [item["text"] for item in page["items"]]


async def test_a_position_that_is_none_is_taken_as_the_beginning(engine):
    run_id = await engine.submit()
    async with engine.running(engine.worker()):
        await engine.until(run_id, "success")
    for wrong in ("\u00b2", "x", "9" * 40):
        answer = await engine.api.get(
            f"/v1/runs/{run_id}/logs?follow=true", headers=[(b"Last-Event-ID", wrong.encode("latin-1"))]
        )
        assert answer.status_code == 200


async def test_too_many_followers_are_refused(engine):
    engine.api.services.tail.shares.most = 0
    run_id = await engine.submit()
    answer = await engine.api.get(f"/v1/runs/{run_id}/logs?follow=true")
    assert answer.status_code == 503
