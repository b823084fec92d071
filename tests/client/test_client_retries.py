"""What the client sends again, and what it does not."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from listening import TOKEN
from rota.client import AnswerError, AsyncClient, Client, NewJob, ServerUnreachableError, retries
from rota.client.http_messages import (
    ConnectionLostError,
    ConnectTimeoutError,
    ExchangeTimeoutError,
    HttpAnswer,
    HungUpError,
    NotConnectedError,
    NotHttpError,
)
from support import in_time

RUN = "run_" + "0" * 32
JOB = "job_" + "0" * 32


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Pauses that a test can afford."""
    monkeypatch.setattr(retries, "FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(retries, "LONGEST_PAUSE_SECONDS", 0.01)


class Unsteady:
    """Connections that fail as told, one failure after the other; an error comes before or after the server acted."""

    def __init__(self, beyond, *failures, arrives=False):
        self.beyond = beyond
        self.failures = list(failures)
        self.arrives = arrives
        self.requests = []

    async def request(self, method, path, **options):
        self.requests.append(options)
        if not self.failures:
            return await self.beyond.request(method, path, **options)
        failure = self.failures.pop(0)
        if isinstance(failure, HttpAnswer):
            return failure
        if self.arrives:
            await self.beyond.request(method, path, **options)
        raise failure

    async def aclose(self):
        await self.beyond.aclose()


def answered(status, content, **headers):
    fields = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return HttpAnswer(status, content.encode(), "/v1/x", fields)


def not_now(status=503, **headers):
    return answered(status, json.dumps({"status": status, "detail": "not now"}), **headers)


@pytest.fixture
def unsteady(server):
    """Clients whose connection fails as told."""

    def make(*failures, arrives=False, **options):
        client = AsyncClient(server.url, TOKEN, **options)
        client._http = Unsteady(client._http, *failures, arrives=arrives)
        client.requests = client._http.requests
        return client

    return make


REFUSED = NotConnectedError("refused")
RESET = ConnectionLostError("reset", unanswered=True)
SILENT = ExchangeTimeoutError("hangs")


@pytest.mark.parametrize(
    "failure",
    [
        REFUSED,
        ConnectTimeoutError("nobody"),
        SILENT,
        RESET,
        HungUpError(),
        NotHttpError("noise"),
        *(not_now(status) for status in (429, 502, 503, 504)),
    ],
    ids=repr,
)
async def test_reading_is_repeated(unsteady, failure):
    async with unsteady(failure, failure) as client:
        assert await client.workers() == []
        assert len(client.requests) == 3


@pytest.mark.parametrize("lost", [RESET, SILENT], ids=repr)
async def test_a_submission_whose_answer_was_lost_leaves_one_job(unsteady, sql, lost):
    async with unsteady(lost, lost, arrives=True) as client:
        made = await client.submit("once", task="rota.echo")
        assert await sql.fetchval("SELECT count(*) FROM rota.live_runs") == 1
        assert (await client.run(made.run_id)).name == "once"
        assert len({request["headers"]["Idempotency-Key"] for request in client.requests[:3]}) == 1


async def test_a_batch_whose_answer_was_lost_leaves_each_job_once(unsteady, sql):
    async with unsteady(RESET, arrives=True) as client:
        results = await client.submit_many([NewJob(name=f"n{number}", task="rota.echo") for number in range(20)])
        assert all(result.run_id for result in results)
        assert await sql.fetchval("SELECT count(*) FROM rota.live_runs") == 20


async def test_two_submissions_are_two_jobs(unsteady, sql):
    async with unsteady() as client:
        for _ in range(2):
            await client.submit("same", task="rota.echo")
        assert await sql.fetchval("SELECT count(*) FROM rota.live_runs") == 2


UNSAFE = [
    lambda client: client.run_job(JOB),
    lambda client: client.retry_run(RUN),
    lambda client: client.redrive(everything=True),
    lambda client: client.discard(everything=True),
    lambda client: client.cancel_runs(name="x"),
    lambda client: client.change_job(JOB, if_match=1, name="x"),
    lambda client: client.call("POST", f"/v1/jobs/{JOB}/run"),
]


@pytest.mark.parametrize("act", UNSAFE)
@pytest.mark.parametrize("failure", [RESET, SILENT, not_now()], ids=repr)
async def test_what_would_happen_twice_is_not_repeated_once_it_may_have_arrived(unsteady, act, failure):
    async with unsteady(failure) as client:
        with pytest.raises((ServerUnreachableError, AnswerError)):
            await act(client)
        assert len(client.requests) == 1


@pytest.mark.parametrize("act", UNSAFE)
async def test_what_surely_did_not_arrive_is_always_repeated(unsteady, act):
    async with unsteady(REFUSED) as client:
        try:
            await act(client)
        except AnswerError as error:
            assert error.status == 404  # noqa: PT017 - some of them find what they look for, and some don't
        assert len(client.requests) == 2


async def test_the_number_of_repeats_is_limited(unsteady):
    async with unsteady(*[REFUSED] * 9, retries=2) as client:
        with pytest.raises(ServerUnreachableError, match="no Rota server answers at http"):
            await client.workers()
        assert len(client.requests) == 3


async def test_the_last_refusal_is_the_error(unsteady):
    async with unsteady(*[not_now()] * 9, retries=1) as client:
        with pytest.raises(AnswerError, match="not now") as refused:
            await client.workers()
        assert refused.value.status == 503


async def test_repeats_end_with_the_time(unsteady):
    async with unsteady(*[REFUSED] * 9, timeout=0.0001) as client:
        with pytest.raises(ServerUnreachableError):
            await client.workers()
        assert len(client.requests) < 3


async def test_the_server_says_how_long_to_pause_up_to_a_limit(unsteady, monkeypatch):
    monkeypatch.setattr(retries, "LONGEST_PAUSE_SECONDS", 0.3)
    async with unsteady(not_now(429, retry_after="3600")) as client:
        began = time.monotonic()
        assert await in_time(client.workers()) == []
        assert time.monotonic() - began >= 0.3


@pytest.mark.parametrize("status", [400, 401, 404, 409, 412, 422, 500])
async def test_other_refusals_are_final(unsteady, status):
    async with unsteady(not_now(status)) as client:
        with pytest.raises(AnswerError):
            await client.workers()
        assert len(client.requests) == 1


async def test_what_is_no_rota_server_is_named(unsteady):
    async with unsteady(answered(200, "<html>hello</html>"), answered(404, "no")) as client:
        for _ in range(2):
            with pytest.raises(ServerUnreachableError, match="is not a Rota server"):
                await client.workers()


async def test_an_answer_of_another_version_is_named(unsteady):
    async with unsteady(answered(200, '{"things": []}')) as client:
        with pytest.raises(ServerUnreachableError, match="another version of Rota"):
            await client.workers()


async def test_waiting_goes_on_while_the_server_is_away(unsteady, engine):
    run_id = await engine.submit()
    await engine.api.post(f"/v1/runs/{run_id}/cancel")
    async with unsteady(*[REFUSED] * 8) as client:
        assert (await client.wait(run_id)).status == "cancelled"


async def test_waiting_ends_with_its_time_while_the_server_is_away(unsteady):
    async with unsteady(*[REFUSED] * 1000) as client:
        with pytest.raises(TimeoutError):
            await client.wait(RUN, timeout=0.2)


async def test_waiting_for_what_does_not_exist_is_refused(unsteady):
    async with unsteady() as client:
        with pytest.raises(AnswerError) as refused:
            await client.wait(RUN)
        assert refused.value.status == 404


async def test_who_is_not_ready_is_asked_once(unsteady):
    async with unsteady(not_now(), REFUSED) as client:
        assert not await client.is_ready()
        assert not await client.is_alive()
        assert len(client.requests) == 2


@pytest.fixture
def grumpy():
    """A server that hangs up twice, and then answers."""

    class Handler(BaseHTTPRequestHandler):
        left = 2

        def do_GET(self):
            if Handler.left:
                Handler.left -= 1
                self.close_connection = True
                return
            self.send_response(200)
            self.send_header("Content-Length", "12")
            self.end_headers()
            self.wfile.write(b'{"items":[]}')

        def log_message(self, *_arguments):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_synchronous_client_repeats_as_well(grumpy):
    with Client(grumpy, "") as client:
        assert client.workers() == []
