"""Object storage: a directory, and S3 over HTTP with its faults."""

from __future__ import annotations

import asyncio
import urllib.request
from datetime import timedelta

import pytest

import rota.blobs
from rota.blobs import BlobError, BlobMissingError, Blobs
from rota.errors import SetupError
from support import eventually


@pytest.fixture(params=["directory", "s3"])
def blobs(request, tmp_path):
    if request.param == "directory":
        return Blobs.open(str(tmp_path / "blobs"))
    return Blobs.open(f"s3://{request.getfixturevalue('bucket')}/rota")


async def test_what_is_put_can_be_read_whole_and_in_pieces(blobs):
    await blobs.put("logs/2026-11-16/a b.log", b"hello world")
    assert await blobs.get("logs/2026-11-16/a b.log") == b"hello world"
    assert await blobs.get_piece("logs/2026-11-16/a b.log", 6, 5) == b"world"


async def test_what_is_missing_is_said(blobs):
    with pytest.raises(BlobMissingError, match="nothing-here"):
        await blobs.get("nothing-here")


async def test_a_key_does_not_lead_out_of_its_place(tmp_path):
    blobs = Blobs.open(str(tmp_path / "blobs"))
    (tmp_path / "secret").write_text("x")
    for key in ("../secret", "a/../../secret", "/etc/passwd"):
        with pytest.raises(BlobError):
            await blobs.get(key)


async def test_an_object_of_s3_has_an_address_for_a_while_and_a_file_has_none(blobs, tmp_path):
    await blobs.put("x", b"signed")
    address = await blobs.url("x", timedelta(minutes=1))
    if blobs.where.startswith("s3"):
        with await asyncio.to_thread(urllib.request.urlopen, address) as answer:
            assert answer.read() == b"signed"
    else:
        assert address is None


@pytest.mark.parametrize("where", ["s3://", "ftp://x/y", "nonsense://x"])
def test_what_is_no_storage_is_refused_in_one_line(where):
    with pytest.raises(SetupError) as caught:
        Blobs.open(where)
    assert "\n" not in str(caught.value)


async def test_a_bucket_that_is_not_there_and_a_server_that_is_not_are_errors_in_words(bucket, monkeypatch):
    with pytest.raises(BlobError):
        await Blobs.open("s3://no-such-bucket-here/x").put("a", b"")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setattr(rota.blobs, "_RETRIES", {"max_retries": 0})
    with pytest.raises(BlobError, match="object storage failed"):
        await Blobs.open(f"s3://{bucket}/rota").get("a")


async def test_refused_credentials_are_said(monkeypatch):
    async with _Answering(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n") as url:
        _lead_to(url, monkeypatch)
        with pytest.raises(BlobError, match="object storage"):
            await Blobs.open("s3://bucket/x").get("a")


async def test_an_answer_that_does_not_come_is_given_up(monkeypatch):
    monkeypatch.setattr(rota.blobs, "TIMEOUT_SECONDS", 0.3)
    async with _Answering(None) as url:
        _lead_to(url, monkeypatch)
        with pytest.raises(BlobError, match="did not answer within"):
            await Blobs.open("s3://bucket/x").get("a")


def _lead_to(url, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ada")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    monkeypatch.setenv("AWS_REGION", "us-east-1")


class _Answering:
    """A server with one answer; None: never."""

    def __init__(self, answer):
        self._answer = answer

    async def __aenter__(self):
        async def serve(reader, writer):
            try:
                await reader.readuntil(b"\r\n\r\n")
                if self._answer is None:
                    await asyncio.sleep(30)
                writer.write(self._answer)
                await writer.drain()
            except (asyncio.IncompleteReadError, ConnectionError):
                pass
            finally:
                writer.close()

        self._server = await asyncio.start_server(serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aexit__(self, *_details):
        self._server.close()


async def test_payloads_and_results_travel_through_s3(engine, bucket, sql):
    engine.api.services.blobs = engine.api.services.gateway._blobs = Blobs.open(f"s3://{bucket}/rota")
    payload = {"text": "x" * 300_000}
    run_id = await engine.submit(payload=payload)
    assert await sql.fetchval("SELECT body FROM rota.payloads") is None
    async with engine.running(engine.worker(blobs=Blobs.open(f"s3://{bucket}/rota"))):
        run = await engine.until(run_id, "success")
    assert run["payload"] == payload
    assert run["result"] == payload
    assert len(str(await sql.fetchrow("SELECT * FROM rota.finished_runs"))) < 5000


async def test_a_payload_that_cannot_be_fetched_is_a_failed_attempt(engine, sql):
    run_id = await engine.submit(payload={"text": "x" * 300_000}, maxRetries=0)
    key = await sql.fetchval("SELECT blob FROM rota.payloads")
    await sql.execute("UPDATE rota.payloads SET blob = 'payloads/gone.json'")
    async with engine.running(engine.worker(blobs=engine.blobs)):
        run = await engine.until(run_id, "failed")
        assert "payloads/gone.json: it is not in object storage" in run["error"]
        assert "it is not in object storage" in run["storageError"]
        # The same run goes on when the object is back.
        await sql.execute("UPDATE rota.payloads SET blob = $1", key)
        again = (await engine.api.post(f"/v1/runs/{run_id}/retry")).json()["runId"]
        assert (await engine.until(again, "success"))["result"] == {"text": "x" * 300_000}


async def test_storage_that_is_away_at_submission_is_503_and_nothing_is_kept(engine, sql, monkeypatch):
    async def refuse(*_arguments):
        raise BlobError("could not store: object storage failed")

    monkeypatch.setattr(engine.blobs, "put", refuse)
    answer = await engine.api.post(
        "/v1/jobs",
        json={"name": "n", "scheduleType": "immediate", "task": "rota.echo", "payload": {"text": "x" * 300_000}},
    )
    assert answer.status_code == 503
    assert answer.headers["retry-after"]
    assert await sql.fetchval("SELECT count(*) FROM rota.live_runs") == 0


async def test_payloads_above_the_limit_are_refused(engine):
    answer = await engine.api.post(
        "/v1/jobs",
        json={"name": "n", "scheduleType": "immediate", "task": "rota.echo", "payload": {"text": "x" * 10_600_000}},
    )
    assert answer.status_code == 400
    assert "the limit is 10485760" in answer.json()["detail"]


async def test_a_recurring_job_keeps_its_large_payload_through_changes(engine, sql):
    job_id = await engine.recurring(scheduleType="interval", everySeconds=3600, payload={"text": "x" * 100_000})
    await engine.api.put(f"/v1/jobs/{job_id}", json={"name": "renamed"})
    shown = (await engine.api.get(f"/v1/jobs/{job_id}")).json()
    assert (shown["name"], len(shown["payload"]["text"])) == ("renamed", 100_000)
    await engine.api.put(f"/v1/jobs/{job_id}", json={"payload": {"text": "y" * 100_000}})
    assert (await engine.api.get(f"/v1/jobs/{job_id}")).json()["payload"]["text"][0] == "y"
    run_id = (await engine.api.post(f"/v1/jobs/{job_id}/run")).json()["runId"]
    async with engine.running(engine.worker(blobs=engine.blobs)):
        assert (await engine.until(run_id, "success"))["result"]["text"][0] == "y"


async def test_results_above_the_limit_fail_the_run_and_say_so(engine):
    async def huge():
        return "x" * 10_600_000

    run_id = await engine.submit(task="huge")
    async with engine.running(engine.worker({"huge": huge}, blobs=engine.blobs)):
        run = await eventually(lambda: engine.until(run_id, "failed"))
    assert "too large" in run["error"]
    assert len(run["attempts"]) == 1
