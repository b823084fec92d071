"""Keys: shown once, kept as a hash, ended at once."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import asynccontextmanager

import httpx
import pytest

from listening import listening
from rota.access.credential_cache import FRESH_SECONDS, CredentialCache
from rota.errors import DatabaseUnavailableError
from rota.service import ServiceGroup
from rota.store.access.api_keys import ApiKeys
from serving import serving
from support import eventually, job


async def test_a_key_is_shown_once_and_kept_as_a_hash(api, somebody, sql):
    client = await somebody("submitter")
    secret = client.key["key"]
    assert secret.startswith(client.key["prefix"] + "_")
    assert (await client.get("/v1/jobs")).status_code == 200
    listed = (await api.get("/v1/keys")).json()["items"]
    assert [key["keyId"] for key in listed] == [client.key["keyId"]]
    assert secret not in str(listed)
    row = await sql.fetchrow("SELECT * FROM rota.api_keys")
    assert row["hash"] == hashlib.sha256(secret.encode()).digest()
    hidden = secret.removeprefix(client.key["prefix"])
    assert not any(hidden in str(value) for value in row.values())


async def test_once_a_revocation_is_answered_no_server_takes_the_key(api, somebody, database, tmp_path):
    client = await somebody("viewer")
    async with serving(database, tmp_path) as second:
        headers = {"Authorization": f"Bearer {client.key['key']}"}
        assert (await client.get("/v1/jobs")).status_code == 200
        using = True

        async def use():
            while using:
                await second.get("/v1/jobs", headers=headers)

        busy = asyncio.create_task(use())
        answer = await api.delete(f"/v1/keys/{client.key['keyId']}")
        assert answer.json()["status"] == "revoked"
        after = await second.get("/v1/jobs", headers=headers)
        using = False
        await busy
    assert after.status_code == 401
    assert (await client.get("/v1/jobs")).status_code == 401
    again = await api.delete(f"/v1/keys/{client.key['keyId']}")
    assert again.json()["revokedTime"] == answer.json()["revokedTime"]


async def test_what_is_followed_ends_with_the_key(api, somebody, engine):
    """A stream that is open when the key is revoked, and an answer that is waited for."""
    alice = await somebody("submitter")
    run_id = (await alice.post("/v1/jobs", json=job())).json()["runId"]
    async with listening(api.services) as server, httpx.AsyncClient(base_url=server.url, timeout=30) as client:
        client.headers["Authorization"] = f"Bearer {alice.key['key']}"

        async def follow(path):
            async with client.stream("GET", path, params={"follow": "true"}) as answer:
                return answer.status_code, [line async for line in answer.aiter_lines()]

        async def wait():
            return (await client.get(f"/v1/runs/{run_id}", params={"waitSeconds": "3"})).status_code

        following = [asyncio.create_task(follow(path)) for path in (f"/v1/runs/{run_id}/logs", "/v1/events")]
        waiting = asyncio.create_task(wait())
        await eventually(lambda: len(api.services.tail._followers) and len(api.services.event_tail._followers))
        await api.delete(f"/v1/keys/{alice.key['keyId']}")
        for status, lines in await asyncio.gather(*following):
            assert (status, lines[0]) == (200, ": following")
        assert await waiting == 401


async def test_a_key_ends_with_its_time(api, somebody, sql):
    client = await somebody("viewer", expiresSeconds=3600)
    assert (await client.get("/v1/jobs")).status_code == 200
    await sql.execute("UPDATE rota.api_keys SET expires_at = now() - interval '1 second'")
    api.services.credentials.forget()
    answer = await client.get("/v1/jobs")
    assert (answer.status_code, answer.json()["title"]) == (401, "Not authenticated")
    assert (await api.get("/v1/keys")).json()["items"][0]["status"] == "expired"


async def test_a_key_that_ends_while_it_is_remembered_is_refused(api, somebody, sql):
    client = await somebody("viewer")
    assert (await client.get("/v1/jobs")).status_code == 200
    await sql.execute("UPDATE rota.api_keys SET expires_at = now()")

    async def refused():
        return (await client.get("/v1/jobs")).status_code == 401

    await eventually(refused)


@pytest.mark.parametrize(
    "body",
    [
        {"name": "x"},
        {"name": "x", "role": "root"},
        {"name": "", "role": "viewer"},
        {"name": "x", "role": "viewer", "scopes": []},
        {"name": "x", "role": "viewer", "scopes": ["everything"]},
        {"name": "x", "role": "viewer", "sees": "some"},
        {"name": "x", "role": "viewer", "expiresTime": "2020-01-01T00:00:00Z"},
        {"name": "x", "role": "viewer", "expiresSeconds": 0},
        {"name": "x", "role": "viewer", "expiresSeconds": 5, "expiresTime": "2090-01-01T00:00:00Z"},
        {"name": "x", "role": "viewer", "owner": "a\nb"},
        {"name": "x", "role": "viewer", "hash": "00"},
    ],
)
async def test_what_can_not_be_a_key_is_refused(api, sql, body):
    answer = await api.post("/v1/keys", json=body)
    assert answer.status_code == 400, answer.text
    assert await sql.fetchval("SELECT count(*) FROM rota.api_keys") == 0


async def test_nobody_gives_more_than_they_have(somebody):
    admin = await somebody("admin", owner="anna", namespace="acme")
    wider = await admin.post("/v1/keys", json={"name": "x", "role": "viewer", "everywhere": True})
    assert wider.status_code == 403
    as_admin = await admin.post("/v1/keys", json={"name": "x", "role": "submitter", "owner": "admin"})
    assert as_admin.status_code == 403
    made = await admin.post("/v1/keys", json={"name": "x", "role": "admin"})
    assert made.json()["namespace"] == "acme"


async def test_a_key_of_another_namespace_is_neither_seen_nor_revoked(somebody):
    admin = await somebody("admin", owner="anna", namespace="acme")
    other = await somebody("viewer", namespace="default")
    everywhere = await somebody("viewer", everywhere=True)
    assert [key["keyId"] for key in (await admin.get("/v1/keys")).json()["items"]] == [admin.key["keyId"]]
    for key in (other.key, everywhere.key):
        assert (await admin.delete(f"/v1/keys/{key['keyId']}")).status_code == 404
    assert (await other.get("/v1/jobs")).status_code == 200


async def test_a_key_for_everywhere_works_in_every_namespace(somebody):
    client = await somebody("submitter", everywhere=True)
    for namespace in ("default", "acme"):
        headers = {"Rota-Namespace": namespace}
        answer = await client.post("/v1/jobs", json=job(name=namespace), headers=headers)
        assert answer.status_code == 201
        names = [item["name"] for item in (await client.get("/v1/jobs", headers=headers)).json()["items"]]
        assert names == [namespace]


@pytest.mark.parametrize("namespace", ["", "a b", "-", "x" * 101, "a\x7f", "../x", "*"])
async def test_what_is_no_namespace_is_refused(api, namespace):
    answer = await api.get("/v1/jobs", headers={"Rota-Namespace": namespace})
    assert answer.status_code == 400, answer.text


@pytest.mark.parametrize(
    "change",
    [
        lambda key: key[:-1],
        lambda key: key + "A",
        lambda key: key[:-1] + ("A" if key[-1] != "A" else "B"),
        lambda key: key.upper(),
        lambda key: key.replace("rota_", "rotasession_"),
        lambda key: "rota_" + key,
        lambda key: key.rsplit("_", 1)[0],
        lambda key: hashlib.sha256(key.encode()).hexdigest(),
        lambda _: "rota_" + "x" * 10_000,
        lambda _: "rota_'; DROP TABLE rota.api_keys; --",
        lambda _: "rota_\u00e9",
    ],
)
async def test_a_key_that_is_not_quite_right_is_refused(somebody, change):
    client = await somebody("viewer")
    header = f"Bearer {change(client.key['key'])}".encode()
    answer = await client.get("/v1/jobs", headers={"Authorization": header})
    assert answer.status_code == 401
    assert client.key["key"] not in answer.text


async def test_when_it_was_last_used_is_noted(api, somebody):
    client = await somebody("viewer")
    await client.get("/v1/jobs")

    async def noted():
        return (await api.get("/v1/keys")).json()["items"][0].get("lastUsedTime")

    await eventually(noted)


class CountingKeys:
    """Keys that count how often they are looked up."""

    def __init__(self, keys):
        self._keys = keys
        self.lookups = 0
        self.away = False

    async def find(self, hashes):
        self.lookups += 1
        await asyncio.sleep(0)
        if self.away:
            raise DatabaseUnavailableError("away")
        return await self._keys.find(hashes)

    async def note_use(self, ids):
        await self._keys.note_use(ids)


@asynccontextmanager
async def remembering(keys, **options):
    """A cache of its own over these keys."""
    cache = CredentialCache(keys, **options)
    async with ServiceGroup([cache]):
        yield cache


async def test_a_key_is_looked_up_once_a_second_however_often_it_is_used(somebody, database):
    client, now = await somebody("viewer"), 100.0
    keys = CountingKeys(ApiKeys(database))
    async with remembering(keys, monotonic=lambda: now) as cache:

        async def use(times):
            return await asyncio.gather(*(cache.identify(client.key["key"], authorities={}) for _ in range(times)))

        assert all(identity.name == "alice" for identity in await use(100))
        assert keys.lookups == 1
        now += FRESH_SECONDS - 0.01
        await use(10)
        assert keys.lookups == 1
        now += 0.02
        await use(10)
        assert keys.lookups == 2


async def test_a_flood_of_made_up_keys_is_a_few_lookups(database):
    keys = CountingKeys(ApiKeys(database))
    async with remembering(keys) as cache:
        found = await asyncio.gather(*(cache.identify(f"rota_{number}", authorities={}) for number in range(5000)))
    assert not any(found)
    assert keys.lookups <= 2


async def test_a_database_that_is_away_is_told_and_forgotten(somebody, database):
    client = await somebody("viewer")
    keys = CountingKeys(ApiKeys(database))
    keys.away = True
    async with remembering(keys) as cache:
        with pytest.raises(DatabaseUnavailableError):
            await cache.identify(client.key["key"], authorities={})
        keys.away = False
        assert (await cache.identify(client.key["key"], authorities={})).name == "alice"


async def test_each_owner_has_keys_of_their_own_for_submissions(somebody, sql):
    """An idempotency key or a unique key of another's neither tells about their job nor touches it."""
    alice, bob = await somebody("submitter"), await somebody("submitter", owner="bob")
    later = job(scheduleType="future", delaySeconds=3600, uniqueKey="one")
    first = await alice.post("/v1/jobs", json=later, headers={"Idempotency-Key": "k"})
    second = await bob.post("/v1/jobs", json=later | {"onDuplicate": "replace"}, headers={"Idempotency-Key": "k"})
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json()["jobId"] != second.json()["jobId"]
    again = await alice.post("/v1/jobs", json=later, headers={"Idempotency-Key": "k"})
    assert again.json()["jobId"] == first.json()["jobId"]
    assert (await alice.post("/v1/jobs", json=later)).status_code == 409
    assert await sql.fetchval("SELECT count(*) FROM rota.runs WHERE status = 'cancelled'") == 0


async def test_why_a_run_waits_names_no_run_of_another(engine, somebody):
    alice, bob = await somebody("submitter"), await somebody("submitter", owner="bob")
    for client in (bob, alice):
        answer = await client.post("/v1/jobs", json=job(orderingKey="line"))
        await asyncio.sleep(0.005)
    run_id = answer.json()["runId"]
    scheduler = await engine.leading()
    await eventually(scheduler.admitter.tick)
    said = (await alice.get(f"/v1/runs/{run_id}")).json()["waitingFor"]
    assert said == "behind another run of ordering key 'line'"
    assert "behind run_" in (await engine.run(run_id))["waitingFor"]


async def test_workers_of_other_namespaces_are_not_shown(engine, somebody, sql):
    broker = engine.broker()
    await engine.join(broker)
    await sql.execute("UPDATE rota.workers SET ailing = 'run_of_somebody hangs'")
    acme = await somebody("admin", namespace="acme")
    assert (await acme.get("/v1/workers")).json()["items"] == []
    viewer = await somebody("viewer")
    (shown,) = (await viewer.get("/v1/workers")).json()["items"]
    assert "somebody" not in str(shown)
    (shown,) = (await engine.api.get("/v1/workers")).json()["items"]
    assert "somebody" in shown["detail"]


async def test_without_credentials_the_answer_says_what_to_send(api):
    async with httpx.AsyncClient(transport=api._transport, base_url="http://rota") as stranger:
        answer = await stranger.get("/v1/jobs")
    assert answer.status_code == 401
    assert "Authorization: Bearer" in answer.json()["detail"]
