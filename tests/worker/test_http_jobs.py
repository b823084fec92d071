"""HTTP jobs: what is sent, what counts as success, and which addresses are never called."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import asynccontextmanager

import aiohttp
import pytest

from rota.domain.runner_payloads import parse_http_call
from rota.errors import BadInputError, SetupError
from rota.http_addresses import AddressGuard, ForbiddenAddressError
from rota.worker.runners.http import HttpRunner


@asynccontextmanager
async def answering(*answers):
    """A server that gives these raw answers in turn, the last one for ever; None: never. Collects what it was asked."""
    asked = []

    async def serve(reader, writer):
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = next((line for line in head.split("\r\n") if line.lower().startswith("content-length")), ":0")
                body = await reader.readexactly(int(length.partition(":")[2]))
                answer = answers[min(len(asked), len(answers) - 1)]
                asked.append((head, body))
                if answer is None:
                    await asyncio.sleep(60)
                writer.write(answer.encode() if isinstance(answer, str) else answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked
    finally:
        server.close()


def answer(status=200, body="", **headers):
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", body])


@pytest.fixture
async def worker(engine):
    runner = HttpRunner(AddressGuard(["127.0.0.1"]))
    async with engine.running(engine.worker(runners={"http": runner}, grace_seconds=0.3)):
        yield
    await runner.close()


async def ended(engine, **payload):
    fields = {name: payload.pop(name) for name in ("maxRetries", "timeoutSeconds", "retry") if name in payload}
    run_id = await engine.submit(task="http", payload=payload, **({"maxRetries": 0} | fields))
    return await engine.until(run_id, "success", "failed")


async def test_a_request_says_which_run_it_is_and_the_answer_is_the_result(engine, worker):
    async with answering(answer(201, '{"ok": true}', Content_Type="application/json")) as (url, asked):
        run = await ended(engine, url=f"{url}/hook?x=1", json={"a": [1, 2]}, headers={"X-Mine": "yes"})
    (head, body), result = asked[0], run["result"]
    assert head.startswith("POST /hook?x=1 HTTP/1.1")
    assert json.loads(body) == {"a": [1, 2]}
    for name, value in (
        ("Rota-Run-Id", run["runId"]),
        ("Rota-Job-Id", run["jobId"]),
        ("Rota-Attempt", "1"),
        ("Idempotency-Key", run["idempotencyKey"]),
        ("X-Mine", "yes"),
        ("Content-Type", "application/json"),
    ):
        assert f"\r\n{name}: {value}\r\n" in head
    assert (result["status"], result["body"], result["headers"]["Content-Type"]) == (
        201,
        '{"ok": true}',
        "application/json",
    )


async def test_the_idempotency_key_is_the_same_on_every_attempt(engine, worker):
    async with answering(answer(500), answer(200)) as (url, asked):
        run = await ended(engine, url=url, method="PUT", maxRetries=1, retry={"strategy": "fixed", "baseSeconds": 0})
    keys = {line for head, _ in asked for line in head.split("\r\n") if line.startswith("Idempotency-Key")}
    assert (run["status"], len(asked), len(keys)) == ("success", 2, 1)
    assert "answered 500" in run["attempts"][0]["error"]


async def test_which_status_is_a_success_can_be_said(engine, worker):
    async with answering(answer(404)) as (url, _):
        assert (await ended(engine, url=url, expectedStatus=[404, 410]))["status"] == "success"
        assert (await ended(engine, url=url))["error"] == f"GET {url} answered 404"


async def test_a_server_that_never_answers_is_given_up_at_the_timeout(engine, worker):
    async with answering(None) as (url, _):
        run = await ended(engine, url=url, timeoutSeconds=0.3)
    assert run["error"] == "timed out after 0.3 s"


async def test_an_answer_is_kept_up_to_a_limit(engine, worker):
    async with answering(answer(200, "x" * 200_000)) as (url, _):
        run = await ended(engine, url=url)
    assert run["result"]["cut"] is True
    assert len(run["result"]["body"]) == 48 * 1024


async def test_binary_answers_and_answers_that_are_no_http_do_no_harm(engine, worker):
    async with answering(b"HTTP/1.1 200 X\r\nContent-Length: 4\r\n\r\n\xff\xfe\x00\x01") as (url, _):
        assert (await ended(engine, url=url))["result"]["bodyBase64"] == "//4AAQ=="
    async with answering(b"\x00\x01garbage\r\n\r\n") as (url, _):
        assert (await ended(engine, url=url))["status"] == "failed"


async def test_redirects_are_followed_and_what_was_meant_for_one_host_is_not_told_to_another(engine, worker):
    async with (
        answering(answer(200, "there")) as (target, there),
        answering(answer(302, Location=f"{target}/end")) as (url, _),
    ):
        run = await ended(engine, url=url, json={}, headers={"Authorization": "Bearer tell-nobody"})
    head, body = there[0]
    assert run["result"]["body"] == "there"
    assert head.startswith("GET /end")
    assert body == b""
    assert "tell-nobody" not in head
    assert "Idempotency-Key" not in head


async def test_redirects_that_keep_the_method_keep_the_body(engine, worker):
    async with answering(answer(307, Location="/next"), answer(200)) as (url, asked):
        assert (await ended(engine, url=url, body="hello", method="PUT"))["status"] == "success"
    assert asked[1][0].startswith("PUT /next")
    assert asked[1][1] == b"hello"


async def test_redirects_in_a_circle_end(engine, worker):
    async with answering(answer(302, Location="/again")) as (url, asked):
        run = await ended(engine, url=url, maxRedirects=3)
    assert "more than 3 redirects" in run["error"]
    assert len(asked) == 4
    async with answering(answer(302, Location="/again")) as (url, asked):
        run = await ended(engine, url=url, followRedirects=False, expectedStatus=302)
    assert run["status"] == "success"


@pytest.mark.parametrize("target", ["http://10.0.0.1/", "http://169.254.169.254/latest/meta-data", "http://[::1]/"])
async def test_a_redirect_to_a_private_address_is_not_followed(engine, worker, target):
    async with answering(answer(302, Location=target)) as (url, _):
        run = await ended(engine, url=url, maxRetries=3)
    assert run["status"] == "failed"
    assert len(run["attempts"]) == 1
    assert "address" in run["error"]


@pytest.mark.parametrize("target", ["file:///etc/passwd", "gopher://127.0.0.1/", "http://", "//"])
async def test_a_redirect_to_what_is_no_address_fails(engine, worker, target):
    async with answering(answer(302, Location=target)) as (url, _):
        assert (await ended(engine, url=url))["status"] == "failed"


@pytest.mark.parametrize("addresses", [["127.0.0.1"], ["10.1.2.3", "10.1.2.4"], ["169.254.1.2", "169.254.1.3"]])
async def test_a_name_that_resolves_to_a_private_address_is_caught_and_its_address_not_told(
    engine, monkeypatch, addresses
):
    runner = HttpRunner(AddressGuard())
    resolving(monkeypatch, addresses)
    async with engine.running(engine.worker(runners={"http": runner})):
        run = await ended(engine, url="http://vault.internal:9/", maxRetries=2)
    await runner.close()
    assert "ROTA_HTTP_ALLOW" in run["error"]
    assert len(run["attempts"]) == 1
    assert not [address for address in addresses if address in json.dumps(run)]


async def test_the_address_of_a_name_that_may_be_called_is_not_told_either(engine, monkeypatch):
    runner = HttpRunner(AddressGuard(["127.0.0.0/8"]))
    resolving(monkeypatch, ["127.0.0.1", "127.0.0.2"])
    async with engine.running(engine.worker(runners={"http": runner})):
        run = await ended(engine, url="http://vault.internal:9/")
    await runner.close()
    assert "can't be reached: Connection refused" in run["error"]
    assert "127.0.0" not in json.dumps(run)


async def test_a_name_that_does_not_exist_is_said(engine, worker):
    run = await ended(engine, url="http://no-such-host.invalid/")
    assert "its name can't be resolved" in run["error"]


def resolving(monkeypatch, addresses):
    """Every name has these addresses."""

    async def resolve(_resolver, host, port=0, family=0):
        return [
            {"hostname": host, "host": one, "port": port, "family": socket.AF_INET, "proto": 0, "flags": 0}
            for one in addresses
        ]

    monkeypatch.setattr(aiohttp.DefaultResolver, "resolve", resolve)


async def test_a_server_that_is_not_there_is_an_error_in_words(engine, worker):
    run = await ended(engine, url="http://127.0.0.1:9/")
    assert "can't be reached" in run["error"]


async def test_passwords_in_an_address_stay_out_of_the_record(engine, worker):
    async with answering(answer(500)) as (url, _):
        run = await ended(engine, url=url.replace("http://", "http://ada:tell-nobody@") + "/?token=tell-nobody")
    assert "tell-nobody" not in run["error"]


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.100.100.200",
        "168.63.129.16",
        "0.0.0.0",  # noqa: S104 - never bound to
        "224.0.0.1",
        "::1",
        "::",
        "fe80::1%eth0",
        "fd00::1",
        "fd00:ec2::254",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::10.0.0.1",
        "2002:7f00:1::",
        "100.64.0.1",
        "255.255.255.255",
        "fec0::1",
        "::7f00:1",
        "::ffff:0:a00:1",
        "5f00::1",
        "3fff::1",
        "192.88.99.1",
        "192.0.0.8",
    ],
)
def test_special_addresses_are_refused(address):
    with pytest.raises(ForbiddenAddressError):
        AddressGuard().check(address)


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "8.8.8.8"])
def test_the_public_internet_is_allowed(address):
    AddressGuard().check(address)


@pytest.mark.parametrize("address", ["169.254.169.254", "fe80::1", "::ffff:169.254.169.254", "100.100.100.200"])
def test_metadata_is_refused_whatever_is_allowed(address):
    with pytest.raises(ForbiddenAddressError):
        AddressGuard(["0.0.0.0/0", "::/0"]).check(address)


def test_what_is_allowed_must_be_networks():
    AddressGuard(["10.0.0.0/8"]).check("10.1.2.3")
    with pytest.raises(SetupError, match="ROTA_HTTP_ALLOW"):
        AddressGuard(["internal"])


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        ({}, "payload.url"),
        ({"url": "ftp://x/"}, "payload.url"),
        ({"url": "http://"}, "payload.url"),
        ({"url": "http://x/ y"}, "payload.url"),
        ({"url": "http://x:99999/"}, "payload.url"),
        ({"url": "http://x/", "method": "BREW"}, "payload.method"),
        ({"url": "http://x/", "headers": {"Host": "y"}}, "payload.headers"),
        ({"url": "http://x/", "headers": {"A": "b\r\nC: d"}}, "payload.headers"),
        ({"url": "http://x/", "headers": {"A b": "c"}}, "payload.headers"),
        ({"url": "http://x/", "expectedStatus": 42}, "payload.expectedStatus"),
        ({"url": "http://x/", "body": "a", "json": 1}, "payload.body"),
        ({"url": "http://x/", "timeout": 3}, "payload.timeout"),
    ],
)
async def test_calls_that_make_no_sense_are_refused_at_submission(api, payload, field):
    with pytest.raises(BadInputError):
        parse_http_call(payload)
    answer = await api.post(
        "/v1/jobs", json={"name": "n", "scheduleType": "immediate", "task": "http", "payload": payload}
    )
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"].startswith(field)
