"""Keys come and go: a provider that rotates, lies, stalls and goes away; a file that changes."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from forging import AUDIENCE, ISSUER, ec_signer, ed_signer, key_set, rsa_signer
from structlog.testing import capture_logs

from rota.access.jwt_claims import Expectations, RolesClaim
from rota.access.jwt_keys import (
    KEPT_SECONDS,
    LARGEST_SET_BYTES,
    MOST_KEYS,
    MOST_WAITING,
    KeyFile,
    Provider,
    SigningKeys,
    read_keys,
)
from rota.access.jwt_verifier import TokenVerifier
from rota.errors import InvalidTokenError, KeysUnavailableError
from support import eventually

NOT_VALID = "the token is not valid"


class Time:
    """A monotonic clock that stands until it is moved."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class IdentityProvider:
    """Serves a JWKS over HTTP: `answer` may be replaced, `gate` closed, and the whole be stopped and started again."""

    def __init__(self):
        self.keys = key_set(rsa_signer())
        self.answer = self.serve
        self.gate = asyncio.Event()
        self.gate.set()
        self.requests = []
        self.port = 0
        self._runner = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/keys?code=hidden"

    async def start(self):
        application = web.Application()
        application.router.add_get("/{path:.*}", self._handle)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self):
        await self._runner.cleanup()

    async def serve(self, _request):
        return web.Response(text=self.keys, content_type="application/json")

    async def _handle(self, request):
        self.requests.append(request.path)
        await self.gate.wait()
        return await self.answer(request)


@pytest.fixture
async def provider():
    provider = IdentityProvider()
    await provider.start()
    yield provider
    provider.gate.set()
    await provider.stop()


@pytest.fixture
def monotonic():
    return Time()


@asynccontextmanager
async def verifying(source, monotonic, **options):
    """A verifier on this source, with verifier.ring to look by hand."""
    ring = SigningKeys(source, monotonic=monotonic, **options)
    expectations = Expectations(issuer=ISSUER, audience=AUDIENCE)
    verifier = TokenVerifier(secret=None, keys=ring, expectations=expectations, roles=RolesClaim(name="rota"))
    verifier.ring = ring
    yield verifier
    await ring.close()


@pytest.fixture
async def verifier(provider, monotonic):
    async with verifying(Provider(provider.url), monotonic) as verifier:
        yield verifier


async def refusal(verifier, token):
    with pytest.raises(InvalidTokenError) as refused:
        await verifier.verify(token)
    return str(refused.value)


async def test_keys_are_fetched_once_and_verifying_goes_on_without_the_provider(provider, verifier, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    assert await verifier.verify(rsa_signer().token())
    await provider.stop()
    for number in range(20):
        assert (await verifier.verify(rsa_signer().token(sub=f"user-{number}"))).name == f"user-{number}"
    assert provider.requests == ["/keys"]
    await provider.start()


async def test_a_new_key_is_taken_when_a_token_names_it(provider, verifier, monotonic):
    assert await verifier.verify(rsa_signer().token())
    provider.keys = key_set(rsa_signer(), ec_signer())
    monotonic.now += Provider.least_seconds
    assert await verifier.verify(ec_signer().token())
    assert await verifier.verify(rsa_signer().token())
    assert len(provider.requests) == 2


async def test_made_up_key_ids_cause_one_fetch_every_few_seconds(provider, verifier, monotonic):
    assert await verifier.verify(rsa_signer().token())
    for moment in range(4):
        monotonic.now += Provider.least_seconds
        for number in range(50):
            token = rsa_signer().token(header={"kid": f"made up {moment} {number}"})
            assert await refusal(verifier, token) == NOT_VALID
    assert len(provider.requests) == 1 + 4


async def test_a_known_key_with_another_algorithm_causes_no_fetch(provider, verifier, monotonic):
    assert await verifier.verify(rsa_signer().token())
    monotonic.now += Provider.least_seconds
    assert await refusal(verifier, ec_signer().token(header={"kid": "r1"})) == NOT_VALID
    assert len(provider.requests) == 1


async def test_a_flood_shares_one_fetch_and_only_so_many_wait_for_it(provider, verifier, monotonic):
    assert await verifier.verify(rsa_signer().token())
    provider.gate.clear()
    monotonic.now += Provider.least_seconds
    flood = [
        asyncio.create_task(refusal(verifier, rsa_signer().token(header={"kid": f"made up {number}"})))
        for number in range(3 * MOST_WAITING)
    ]
    await eventually(lambda: sum(task.done() for task in flood) == 2 * MOST_WAITING)
    await eventually(lambda: len(provider.requests) == 2)
    assert await verifier.verify(rsa_signer().token(sub="bob"))  # a known key waits for nothing
    provider.gate.set()
    assert set(await asyncio.gather(*flood)) == {NOT_VALID}
    assert len(provider.requests) == 2


async def test_who_stops_waiting_for_a_fetch_does_not_stop_it_for_others(provider, verifier):
    provider.gate.clear()
    impatient, patient = (asyncio.create_task(verifier.verify(rsa_signer().token())) for _ in range(2))
    await eventually(lambda: provider.requests)
    impatient.cancel()
    with pytest.raises(asyncio.CancelledError):
        await impatient
    provider.gate.set()
    assert await patient
    assert len(provider.requests) == 1


async def test_a_key_that_was_taken_out_ends_for_remembered_tokens_too(provider, verifier):
    provider.keys = key_set(rsa_signer(), ec_signer())
    taken_out, kept = rsa_signer().token(), ec_signer().token()
    assert await verifier.verify(taken_out)
    assert await verifier.verify(kept)
    provider.keys = key_set(ec_signer())
    await verifier.ring.tick()
    assert await refusal(verifier, taken_out) == NOT_VALID
    assert await verifier.verify(kept)


async def test_another_key_under_the_same_id_ends_the_first(provider, verifier):
    token = rsa_signer().token()
    assert await verifier.verify(token)
    provider.keys = key_set(rsa_signer("stranger").jwk(kid="r1"))
    await verifier.ring.tick()
    assert await refusal(verifier, token) == NOT_VALID


async def test_a_provider_that_lists_no_keys_has_taken_all_of_them_out(provider, verifier):
    token = rsa_signer().token()
    assert await verifier.verify(token)
    provider.keys = key_set()
    await verifier.ring.tick()
    assert await refusal(verifier, token) == NOT_VALID


async def test_keys_that_did_not_change_leave_what_is_remembered(provider, verifier):
    token = rsa_signer().token()
    first = await verifier.verify(token)
    await verifier.ring.tick()
    assert len(provider.requests) == 2
    assert await verifier.verify(token) is first


async def test_a_provider_that_is_away_leaves_the_known_keys_in_use_for_a_day(provider, verifier, monotonic):
    token = rsa_signer().token()
    first = await verifier.verify(token)
    await provider.stop()
    with capture_logs() as logs:
        monotonic.now += KEPT_SECONDS
        for _ in range(3):
            await verifier.ring.tick()
        assert await verifier.verify(token) is first
        assert await verifier.verify(rsa_signer().token(sub="bob"))
        monotonic.now += 1
        for unknown in (token, rsa_signer().token(sub="bob")):
            with pytest.raises(KeysUnavailableError):
                await verifier.verify(unknown)
        await verifier.ring.tick()
    told = [entry["event"] for entry in logs if entry["log_level"] == "warning"]
    assert told == [
        "can't get the keys for tokens; the known ones stay in use",
        "can't get the keys for tokens; no token of the provider is accepted",
    ]
    assert "hidden" not in str(logs)
    await provider.start()
    await verifier.ring.tick()
    assert await verifier.verify(token)


async def test_a_provider_that_was_never_reached_is_told_from_a_bad_token(provider, verifier, monotonic):
    await provider.stop()
    with pytest.raises(KeysUnavailableError):
        await verifier.verify(rsa_signer().token())
    await provider.start()
    with pytest.raises(KeysUnavailableError):
        await verifier.verify(rsa_signer().token())
    assert not provider.requests  # so soon after the last time nobody asks
    monotonic.now += Provider.least_seconds
    assert await verifier.verify(rsa_signer().token())


async def test_a_provider_that_stalls_is_given_up_and_the_known_keys_stay(provider, monotonic):
    async with verifying(Provider(provider.url), monotonic) as verifier:
        token = rsa_signer().token()
        assert await verifier.verify(token)
        verifier.ring._load_seconds = 0.2
        provider.gate.clear()
        with capture_logs() as logs:
            await verifier.ring.tick()
        assert "did not answer within 0.2 s" in logs[0]["error"]
        assert await verifier.verify(token)


async def dribble(request):
    """An answer that begins, and never ends."""
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b'{"keys": [')
    await asyncio.sleep(60)
    return response


async def test_a_provider_that_dribbles_is_given_up(provider, monotonic):
    async with verifying(Provider(provider.url), monotonic, load_seconds=0.2) as verifier:
        provider.answer = dribble
        with pytest.raises(KeysUnavailableError):
            await verifier.verify(rsa_signer().token())


async def endless(request):
    """Valid as far as it goes, and it goes on."""
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b'{"keys": [')
    while True:
        await response.write(b" " * 65536)


async def elsewhere(request):
    if request.path == "/keys":
        raise web.HTTPFound("/elsewhere")
    return web.Response(text=key_set(ec_signer()))


def answering(data, status=200, **headers):
    async def answer(request):
        return web.Response(body=data.encode() if isinstance(data, str) else data, status=status, headers=headers)

    return answer


ANSWERS = {
    "endless": (endless, f"more than {LARGEST_SET_BYTES} bytes"),
    "large": (answering(key_set(ec_signer()) + " " * LARGEST_SET_BYTES), f"more than {LARGEST_SET_BYTES} bytes"),
    "a redirect": (elsewhere, "answered 302"),
    "an error with keys": (answering(key_set(ec_signer()), status=500), "answered 500"),
    "nothing": (answering("", status=204), "answered 204"),
    "empty": (answering(""), "not a JSON object"),
    "a page": (answering("<html>sign in</html>"), "not a JSON object"),
    "compressed": (
        answering(gzip.compress(key_set(ec_signer()).encode()), **{"Content-Encoding": "gzip"}),
        "not a JSON object",
    ),
    "not UTF-8": (answering(key_set(ec_signer()).encode("utf-16")), "not a JSON object"),
    "keys twice": (answering(key_set(ec_signer())[:-1] + ', "keys": []}'), "a field twice"),
    "deep": (answering('{"keys": ' + "[" * 100_000 + "]" * 100_000 + "}"), "not a JSON object"),
    "a list": (answering(json.dumps([ec_signer().jwk()])), "not a JSON object"),
    "one key": (answering(json.dumps(ec_signer().jwk())), "no list named keys"),
    "keys by name": (answering(json.dumps({"keys": {"e1": ec_signer().jwk()}})), "no list named keys"),
    "too many": (answering(key_set(*[ec_signer()] * (MOST_KEYS + 1))), f"more than {MOST_KEYS} keys"),
}


@pytest.mark.parametrize(("answer", "error"), ANSWERS.values(), ids=ANSWERS.keys())
async def test_an_answer_that_is_no_key_set_changes_nothing(provider, verifier, monotonic, answer, error):
    known = rsa_signer().token()
    assert await verifier.verify(known)
    provider.answer = answer
    monotonic.now += Provider.least_seconds
    with capture_logs() as logs:
        assert await refusal(verifier, ec_signer().token()) == NOT_VALID
    assert error in logs[0]["error"]
    assert await verifier.verify(known)
    assert provider.requests == ["/keys", "/keys"]


async def test_entries_that_are_no_keys_are_passed_over(provider, verifier):
    provider.keys = json.dumps({"keys": [None, 1, "key", [], {}, {"kty": "oct"}, ec_signer().jwk(), {"kid": []}]})
    assert await verifier.verify(ec_signer().token())


async def test_keys_are_looked_at_again_and_again_and_sooner_after_a_failure(provider, monotonic):
    source = Provider(provider.url)
    source.pause_seconds, source.retry_seconds = 3600.0, 0.01
    async with verifying(source, monotonic) as verifier:
        provider.answer = answering("", status=503)
        running = asyncio.create_task(verifier.ring.run())
        await eventually(lambda: len(provider.requests) >= 3)
        provider.answer = provider.serve
        await eventually(lambda: verifier.ring.current)
        source.pause_seconds = 0.01  # too late for the pause that has begun
        asked = len(provider.requests)
        assert await verifier.verify(rsa_signer().token())
        assert len(provider.requests) == asked
        running.cancel()
        await asyncio.wait({running})
        running = asyncio.create_task(verifier.ring.run())
        await eventually(lambda: len(provider.requests) >= asked + 3)
        running.cancel()
        await asyncio.wait({running})


async def test_closing_ends_a_fetch_and_those_who_wait_for_it(provider, verifier):
    provider.gate.clear()
    waiting = asyncio.create_task(verifier.verify(rsa_signer().token()))
    await eventually(lambda: provider.requests)
    await verifier.ring.close()
    with pytest.raises(KeysUnavailableError):
        await waiting


class BrokenSource(Provider):
    async def load(self):
        raise RuntimeError("a mistake of ours")


async def test_a_mistake_in_looking_for_keys_is_logged_and_nobody_fails_for_it(provider, monotonic):
    async with verifying(BrokenSource(provider.url), monotonic) as verifier:
        with capture_logs() as logs, pytest.raises(KeysUnavailableError):
            await verifier.verify(rsa_signer().token())
        assert [entry["log_level"] for entry in logs] == ["error"]
        assert logs[0]["exc_info"]


def test_without_keys_to_keep_fresh_there_is_nothing_to_run():
    verifier = TokenVerifier(secret=b"x", keys=None, expectations=Expectations(), roles=RolesClaim(name="rota"))
    assert verifier.services == []


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "keys.json"
    path.write_text(key_set(rsa_signer()))
    return path


@pytest.fixture
async def file_verifier(key_file, monotonic):
    async with verifying(KeyFile(key_file), monotonic) as verifier:
        yield verifier


async def test_a_file_that_changed_is_read_again(key_file, file_verifier, monotonic):
    taken_out = rsa_signer().token()
    assert await file_verifier.verify(taken_out)
    key_file.write_text(key_set(ec_signer()))
    await file_verifier.ring.tick()
    assert await file_verifier.verify(ec_signer().token())
    assert await refusal(file_verifier, taken_out) == NOT_VALID


async def test_a_file_is_read_again_when_a_token_names_a_new_key(key_file, file_verifier, monotonic):
    assert await file_verifier.verify(rsa_signer().token())
    key_file.write_text(key_set(rsa_signer(), ec_signer()))
    monotonic.now += KeyFile.least_seconds
    assert await file_verifier.verify(ec_signer().token())


async def test_a_file_put_in_place_of_another_is_noticed_though_size_and_time_are_the_same(key_file, file_verifier):
    old, new = ed_signer("d1"), ed_signer("d2")
    key_file.write_text(key_set(old))
    assert await file_verifier.verify(old.token())
    before = key_file.stat()
    other = key_file.with_suffix(".new")
    other.write_text(key_set(new))
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.rename(key_file)
    assert (key_file.stat().st_size, key_file.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    await file_verifier.ring.tick()
    assert await file_verifier.verify(new.token())


async def test_a_file_that_did_not_change_is_not_read(key_file, file_verifier, monkeypatch):
    token = rsa_signer().token()
    first = await file_verifier.verify(token)
    read = []
    monkeypatch.setattr("rota.access.jwt_keys.read_keys", lambda data: read.append(data) or read_keys(data))
    await file_verifier.ring.tick()
    assert await file_verifier.verify(token) is first
    assert not read
    key_file.touch()
    await file_verifier.ring.tick()
    assert len(read) == 1


async def test_a_file_caught_half_written_leaves_the_keys_and_is_read_when_it_is_whole(key_file, file_verifier):
    known = rsa_signer().token()
    assert await file_verifier.verify(known)
    whole = key_set(ec_signer())
    with key_file.open("w") as file:
        file.write(whole[:50])
        file.flush()
        with capture_logs() as logs:
            await file_verifier.ring.tick()
            await file_verifier.ring.tick()
        assert len(logs) == 1  # and not that all is well again, since it did not change
        assert "not a JSON object" in logs[0]["error"]
        assert await file_verifier.verify(known)
        file.write(whole[50:])
    await file_verifier.ring.tick()
    assert await file_verifier.verify(ec_signer().token())


@pytest.mark.parametrize("trouble", ["gone", "a directory", "a pipe", "large"])
async def test_a_file_that_can_not_be_read_leaves_the_known_keys_in_use(key_file, file_verifier, trouble):
    known = rsa_signer().token()
    assert await file_verifier.verify(known)
    key_file.unlink()
    if trouble == "a directory":
        key_file.mkdir()
    elif trouble == "a pipe":
        os.mkfifo(key_file)
    elif trouble == "large":
        key_file.write_text(key_set(ec_signer()) + " " * LARGEST_SET_BYTES)
    with capture_logs() as logs:
        await file_verifier.ring.tick()
    assert str(key_file) in logs[0]["error"]
    assert await file_verifier.verify(known)
