"""Logs go elsewhere: every line at least once, whatever dies, is away or refuses."""

from __future__ import annotations

import asyncio
import json
import signal
import sys

import pytest
from log_receivers import BulkReceiver, PushReceiver, receiving
from log_writing import ago, copied, leader_of, plain, write
from structlog.testing import capture_logs

from commands import ROTA, environment
from rota.blobs import BlobError
from rota.errors import DatabaseUnavailableError, SetupError
from rota.scheduler import log_exporter
from rota.scheduler.log_targets.address import open_target
from rota.scheduler.scheduler import Scheduler
from rota.settings import Settings
from rota.store.logs import Logs
from rota.store.logs.exports import LogExports
from support import GUARD_SECONDS, eventually, log_chunk

KINDS = [(BulkReceiver, "elasticsearch+{}/rota"), (PushReceiver, "loki+{}")]


@pytest.fixture(params=KINDS, ids=["bulk", "push"])
async def receiver(request):
    kind, form = request.param
    async with receiving(kind()) as receiver:
        receiver.target = form.format(receiver.url)
        yield receiver


@pytest.fixture
async def bulk():
    async with receiving(BulkReceiver()) as receiver:
        receiver.target = f"opensearch+{receiver.url}/rota"
        yield receiver


async def exporting(engine, url, authorization=None, tenant=None):
    """A scheduler that sends logs there, ticked by hand."""
    engine.leader = Scheduler(
        database=engine.database,
        listen_url=engine.url,
        lease_seconds=10 * GUARD_SECONDS,
        blobs=engine.blobs,
        log_target=open_target(url, authorization, tenant),
    )
    await engine.leader.leases.tick()
    return engine.leader.log_exporter


async def test_every_line_arrives_with_what_is_known_of_its_run(engine, receiver):
    exporter = await exporting(engine, receiver.target)
    run_id = await engine.submit(task="mail", pool="far")
    await write(engine, plain(run_id), "one", 'two: ünïcode "quoted" \\ {}')
    await write(engine, ago(minutes=1), "of a run that is not known")
    await copied(engine)
    await exporter.catch_up()
    await exporter.close()
    assert sorted(receiver.texts) == ["of a run that is not known", "one", 'two: ünïcode "quoted" \\ {}']
    (line,) = [line for line in receiver.lines if line["line"] == "one"]
    line.pop("@timestamp", None)
    assert line == {
        "time": "2026-01-01T00:00:00.000Z",
        "namespace": "default",
        "runId": run_id,
        "jobId": run_id.replace("run_", "job_"),
        "task": "mail",
        "pool": "far",
        "attempt": 1,
        "stream": "stdout",
        "line": "one",
        "number": 1,
        "claim": 1,
    }


async def test_lines_wait_for_a_target_that_is_away(engine, receiver):
    exporter = await exporting(engine, receiver.target)
    for status in (503, 401, 404, 429):
        receiver.away = status
        await write(engine, ago(minutes=1), f"during {status}")
        await copied(engine)
        with capture_logs() as logs:
            assert await exporter.tick() == 0
            assert await exporter.tick() == 0
        assert len([entry for entry in logs if entry["log_level"] == "warning"]) == (status == 503)
    assert exporter.pause_seconds > exporter.interval_seconds
    receiver.away = None
    await exporter.catch_up()
    await exporter.close()
    assert sorted(receiver.texts) == ["during 401", "during 404", "during 429", "during 503"]
    assert exporter.pause_seconds == exporter.interval_seconds


async def test_a_target_that_nobody_listens_at_keeps_nothing_from_being_sent_later(engine, bulk):
    exporter = await exporting(engine, "elasticsearch+http://127.0.0.1:9/rota")
    await write(engine, ago(minutes=1), "patience")
    await copied(engine)
    await exporter.tick()
    await exporter._target.close()
    exporter._target = open_target(bulk.target, None, None)
    await exporter.catch_up()
    await exporter.close()
    assert bulk.texts == ["patience"]


async def test_a_line_that_is_refused_does_not_stop_the_others(engine, receiver):
    receiver.refuses = lambda line: "poison" in line
    exporter = await exporting(engine, receiver.target)
    await write(engine, ago(minutes=2), *(f"line {number}" for number in range(20)), "poison", "behind it")
    await write(engine, ago(minutes=1), "another run")
    await copied(engine)
    with capture_logs() as logs:
        await exporter.catch_up()
    await exporter.close()
    assert sorted(receiver.texts) == sorted([*(f"line {number}" for number in range(20)), "behind it", "another run"])
    (entry,) = [entry for entry in logs if "refuses a line" in entry["event"]]
    assert entry["number"] == 21


async def test_a_target_that_takes_nothing_is_not_believed(engine, receiver, sql):
    """It is set up wrongly: giving lines up would lose them all."""
    receiver.refuses = lambda _line: True
    exporter = await exporting(engine, receiver.target)
    await write(engine, ago(minutes=1), "one", "two")
    await copied(engine)
    await exporter.tick()
    assert await sql.fetchval("SELECT count(*) FROM rota.log_exports") == 1
    if isinstance(receiver, PushReceiver):
        receiver.lines.clear()
    receiver.refuses = lambda _line: False
    await exporter.catch_up()
    await exporter.close()
    assert sorted(receiver.texts) == ["one", "two"]
    assert await sql.fetchval("SELECT count(*) FROM rota.log_exports") == 0


async def test_single_lines_that_come_too_fast_are_sent_again(engine, bulk):
    bulk.is_busy = lambda line: "busy" in line
    exporter = await exporting(engine, bulk.target)
    await write(engine, ago(minutes=1), "easy", "busy", "easy, too")
    await copied(engine)
    await exporter.tick()
    bulk.is_busy = lambda _line: False
    await exporter.catch_up()
    await exporter.close()
    assert sorted(bulk.texts) == ["busy", "easy", "easy, too"]
    assert len(bulk.documents) == 3


async def test_a_death_between_sending_and_recording_sends_again_and_stores_once(engine, bulk, monkeypatch):
    exporter = await exporting(engine, bulk.target)
    await write(engine, ago(minutes=1), "one", "two")
    await copied(engine)
    note = LogExports.note

    async def die(*_arguments):
        raise DatabaseUnavailableError("gone")

    monkeypatch.setattr(LogExports, "note", die)
    with pytest.raises(DatabaseUnavailableError):
        await exporter.tick()
    monkeypatch.setattr(LogExports, "note", note)
    await exporter.catch_up()
    await exporter.close()
    assert bulk.requests == 2
    assert [document["line"] for document in bulk.documents.values()] == ["one", "two"]


async def test_a_run_that_goes_on_is_sent_as_it_writes(engine, bulk, sql, monkeypatch):
    monkeypatch.setattr(log_exporter, "_GROWING_SECONDS", 0.0)
    exporter = await exporting(engine, bulk.target)
    run_id = plain(await engine.submit(task="rota.echo"))
    worker_id = await engine.join(engine.broker(), "rota.echo")
    await sql.execute(
        "UPDATE rota.live_runs SET worker_id = $1, claim = 1, claimed_at = now() - interval '1 minute'", worker_id
    )
    logs = Logs(engine.database)
    stamp = "2026-01-01T00:00:00.000Z stdout"
    await logs.add([log_chunk(run_id, f"{stamp} one\n{stamp} two\n")])
    await exporter.tick()
    assert bulk.texts == ["one", "two"]
    await logs.add([log_chunk(run_id, f"{stamp} three\n", number=1), log_chunk(run_id, f"{stamp} four\n", number=2)])
    await exporter.tick()
    await exporter.tick()
    assert bulk.texts == ["one", "two", "three", "four"]
    await logs.add([log_chunk(run_id, f"{stamp} five\n", number=3, last=True)])
    await sql.execute("DELETE FROM rota.live_runs")
    await copied(engine)
    await exporter.catch_up()
    await exporter.close()
    assert [line["line"] for line in bulk.lines] == ["one", "two", "three", "four", "five"]
    assert [line["number"] for line in bulk.lines] == [1, 2, 3, 4, 5]
    assert await sql.fetchval("SELECT count(*) FROM rota.log_exports") == 0


async def test_what_another_process_noted_too_late_is_cleared_up(engine, bulk, sql):
    exporter = await exporting(engine, bulk.target)
    await write(engine, ago(minutes=1), "one", "two")
    await copied(engine)
    await sql.execute("UPDATE rota.log_exports SET ended_at = NULL, lines = 1, chunk = 1")
    await exporter.catch_up()
    await exporter.close()
    assert bulk.texts == ["two"]
    assert await sql.fetchval("SELECT count(*) FROM rota.log_exports") == 0


async def test_large_logs_go_in_several_requests(engine, bulk, monkeypatch):
    monkeypatch.setattr(log_exporter, "_LINES_PER_REQUEST", 10)
    exporter = await exporting(engine, bulk.target)
    for run in range(3):
        await write(engine, ago(minutes=run), *(f"{run} {number}" for number in range(35)))
    await copied(engine)
    await exporter.catch_up()
    await exporter.close()
    assert len(bulk.documents) == 105
    assert bulk.requests >= 10


async def test_a_log_that_storage_does_not_give_lets_others_go_first(engine, bulk, monkeypatch, sql):
    exporter = await exporting(engine, bulk.target)
    for number in range(3):
        await write(engine, ago(minutes=number), f"log {number}")
    await copied(engine)
    broken = await sql.fetchval("SELECT blob FROM rota.kept_logs ORDER BY run_id LIMIT 1")
    get_piece = engine.blobs.get_piece

    async def fail(key, *piece):
        if key == broken:
            raise BlobError("away")
        return await get_piece(key, *piece)

    monkeypatch.setattr(engine.blobs, "get_piece", fail)
    await exporter.catch_up()
    assert sorted(bulk.texts) == ["log 0", "log 1"]
    monkeypatch.setattr(engine.blobs, "get_piece", get_piece)
    await exporter.catch_up()
    await exporter.close()
    assert sorted(bulk.texts) == ["log 0", "log 1", "log 2"]


async def test_a_file_gets_json_lines_and_half_a_line_does_no_harm(engine, tmp_path):
    path = tmp_path / "logs.jsonl"
    path.touch(0o600)
    path.write_bytes(b'{"line": "hal')
    exporter = await exporting(engine, f"file://{path}")
    await write(engine, ago(minutes=1), "one", "two")
    await copied(engine)
    await exporter.catch_up()
    torn, *lines = path.read_text().splitlines()
    assert torn == '{"line": "hal'
    assert [json.loads(line)["line"] for line in lines] == ["one", "two"]


async def test_a_file_that_was_rotated_is_left_alone(engine, tmp_path):
    path = tmp_path / "logs.jsonl"
    exporter = await exporting(engine, f"file://{path}")
    for number in range(2):
        await write(engine, ago(minutes=1), f"line {number}")
        await copied(engine)
        await exporter.catch_up()
        path.rename(tmp_path / f"{number}.jsonl")
    assert (tmp_path / "0.jsonl").stat().st_mode & 0o007 == 0
    assert [json.loads((tmp_path / f"{number}.jsonl").read_text())["line"] for number in range(2)] == [
        "line 0",
        "line 1",
    ]


async def test_credentials_are_sent_and_never_shown(engine, bulk):
    secret = "pass/word"  # noqa: S105 - made up
    exporter = await exporting(engine, bulk.target.replace("//", "//ada:pass%2Fword@"))
    await write(engine, ago(minutes=1), "one")
    await copied(engine)
    await exporter.catch_up()
    assert bulk.headers[-1]["Authorization"] == "Basic YWRhOnBhc3Mvd29yZA=="
    bulk.away = 401
    await write(engine, ago(minutes=1), "two")
    await copied(engine)
    with capture_logs() as logs:
        await exporter.tick()
    await exporter.close()
    assert logs
    assert secret not in str(logs)
    settings = Settings(log_export_url="loki+https://ada:pass%2Fword@host", log_export_authorization="Bearer s3cret")
    assert "s3cret" not in repr(settings)
    assert "pass" not in repr(settings)
    assert {secret, "Bearer s3cret"} <= {*settings.hidden}


async def test_headers_of_settings_are_sent(engine, bulk):
    exporter = await exporting(engine, bulk.target, authorization="ApiKey abc", tenant="shop")
    await write(engine, ago(minutes=1), "one")
    await copied(engine)
    await exporter.catch_up()
    await exporter.close()
    assert (bulk.headers[-1]["Authorization"], bulk.headers[-1]["X-Scope-OrgID"]) == ("ApiKey abc", "shop")


@pytest.mark.parametrize(
    "url",
    [
        "http://host",
        "elasticsearch://host/x",
        "kafka+https://host",
        "file:relative",
        "loki+https:///x",
        "https://a:b@[",
    ],
)
def test_an_address_that_can_not_be_read_is_refused_without_quoting_it(url):
    with pytest.raises(SetupError) as refusal:
        open_target(url, None, None)
    assert "ROTA_LOG_EXPORT_URL" in str(refusal.value)
    assert url not in str(refusal.value)


async def test_without_the_setting_nothing_is_queued(engine, sql):
    await write(engine, ago(minutes=1), "one")
    await copied(engine)
    assert (await leader_of(engine)).log_exporter is None
    assert await sql.fetchval("SELECT count(*) FROM rota.log_exports") == 0


async def test_schedulers_killed_again_and_again_lose_no_line(engine, bulk, database_url, tmp_path, monkeypatch):
    """Real processes, killed while they send; the target is away now and then."""
    variables = environment(
        ROTA_DATABASE_URL=database_url,
        ROTA_HOME=str(tmp_path / "home"),
        ROTA_BLOBS_URL=str(engine.blobs._directory),
        ROTA_LOG_EXPORT_URL=bulk.target,
        ROTA_SCHEDULER_LEASE_SECONDS="1",
    )
    wanted = []
    for attempt in range(3):
        for run in range(40):
            lines = [f"{attempt} {run} {number}" for number in range(20)]
            await write(engine, ago(seconds=run), *lines)
            wanted += lines
        before = bulk.requests
        bulk.away = 503 if attempt == 1 else None
        process = await asyncio.create_subprocess_exec(*ROTA, "scheduler", env=variables, stderr=sys.stderr.fileno())
        try:
            await eventually(lambda before=before: bulk.requests > before, within=60)
            if attempt == 2:
                await eventually(lambda: len(bulk.documents) == 3 * 40 * 20, within=60)
        finally:
            process.send_signal(signal.SIGKILL)
            await process.wait()
    assert sorted(document["line"] for document in bulk.documents.values()) == sorted(wanted)
