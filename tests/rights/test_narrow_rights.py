"""Narrow places of identity, rights, limits and the audit trail: what somebody with bad intentions tries first."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import time
from contextlib import AsyncExitStack

import httpx
import pytest

from rota.access.jwt_verifier import TokenVerifier
from rota.api.streams.followers import MOST_FOLLOWERS
from rota.domain.events import EventFilter
from rota.domain.limits import Limits
from rota.domain.rights import Caller
from rota.errors import NotFoundError, OverloadedError
from rota.settings import Settings
from serving import TOKEN, serving
from support import eventually, in_time, job

SECRET = "a secret of at least thirty-two bytes"  # noqa: S105 - known to the tests alone
OTHER = "another secret of thirty-two bytes or so"


def verifier(secret=SECRET):
    return TokenVerifier.from_settings(Settings(jwt_secret=secret))


def token(roles=None, sub="mallory", seconds=600, secret=SECRET):
    def part(data):
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    claims = {"sub": sub, "exp": int(time.time()) + seconds}
    if roles is not None:
        claims["rota"] = roles
    signed = f"{part(json.dumps({'alg': 'HS256', 'typ': 'JWT'}).encode())}.{part(json.dumps(claims).encode())}"
    return f"{signed}.{part(hmac.digest(secret.encode(), signed.encode(), hashlib.sha256))}"


@pytest.fixture
async def jwt_api(database, tmp_path):
    async with serving(database, tmp_path, verifier()) as client:
        yield client


async def ask(api, bearer, method="GET", path="/v1/jobs", headers=None, **options):
    headers = {"Authorization": f"Bearer {bearer}"} | (headers or {})
    async with httpx.AsyncClient(transport=api._transport, base_url="http://rota", headers=headers) as client:
        return await client.request(method, path, **options)


# Escalation


async def test_a_viewer_everywhere_who_is_admin_of_one_namespace_makes_no_admin_of_everything(jwt_api):
    mallory = token({"*": "viewer", "orders": "admin"})
    body = {"name": "all mine", "role": "admin", "everywhere": True}
    made = await ask(jwt_api, mallory, "POST", "/v1/keys", {"Rota-Namespace": "orders"}, json=body)
    assert made.status_code == 403, made.text


async def test_a_viewer_everywhere_who_is_admin_of_one_namespace_revokes_no_key_for_everywhere(jwt_api):
    fields = {"name": "platform", "role": "admin", "everywhere": True}
    platform = (await jwt_api.post("/v1/keys", json=fields)).json()
    mallory = token({"*": "viewer", "orders": "admin"})
    in_orders = {"Rota-Namespace": "orders"}
    revoked = await ask(jwt_api, mallory, "DELETE", f"/v1/keys/{platform['keyId']}", in_orders)
    assert revoked.status_code == 404, revoked.text


async def test_a_key_with_scopes_makes_none_with_more_than_it_has(api, somebody):
    narrow = await somebody("admin", owner="rotator", scopes=["administer"])
    assert (await narrow.get("/v1/jobs")).status_code == 403
    made = await narrow.post("/v1/keys", json={"name": "wide", "role": "admin"})
    assert made.status_code == 403


async def test_a_key_that_expires_makes_none_that_never_does(api, somebody):
    short = await somebody("admin", owner="contractor", expiresSeconds=60)
    made = await short.post("/v1/keys", json={"name": "for ever", "role": "admin"})
    assert made.status_code == 403 or made.json().get("expiresTime"), made.text


# What ends


async def test_a_request_that_dallies_with_its_body_is_not_served_once_its_key_is_revoked(api, somebody):
    alice = await somebody("submitter")
    revoked = asyncio.Event()
    begun = asyncio.Event()

    async def body():
        whole = json.dumps(job()).encode()
        yield whole[:1]
        begun.set()
        await revoked.wait()
        yield whole[1:]

    # The in-process transport gathers bodies, so the application is called by hand.
    answer = {}
    pieces = body()

    async def receive():
        try:
            piece = await anext(pieces)
        except StopAsyncIteration:
            return {"type": "http.request", "body": b"", "more_body": False}
        return {"type": "http.request", "body": piece, "more_body": True}

    async def send(message):
        answer.setdefault("status", message.get("status"))

    scope = {
        "type": "http", "method": "POST", "path": "/v1/jobs", "raw_path": b"/v1/jobs", "query_string": b"",
        "headers": [(b"host", b"rota"), (b"authorization", f"Bearer {alice.key['key']}".encode())],
        "scheme": "http", "server": ("rota", 80), "client": ("127.0.0.1", 1), "http_version": "1.1",
    }  # fmt: skip
    asking = asyncio.create_task(api._transport.app(scope, receive, send))
    await begun.wait()
    assert (await api.delete(f"/v1/keys/{alice.key['keyId']}")).status_code == 200
    assert (await alice.get("/v1/jobs")).status_code == 401
    revoked.set()
    await asking
    assert answer["status"] == 401


async def test_a_session_ends_on_all_servers_when_signing_out_is_answered(api, make_api, somebody):
    alice = await somebody("viewer")
    browser = await somebody.with_token()
    signed_in = await browser.post("/v1/session", json={"token": alice.key["key"]})
    cookie = {"Cookie": f"rota_session={browser.cookies['rota_session']}"}
    async with make_api() as second:
        del second.headers["Authorization"]
        assert (await second.get("/v1/jobs", headers=cookie)).status_code == 200
        csrf = {"X-CSRF-Token": signed_in.json()["csrfToken"]}
        assert (await browser.delete("/v1/session", headers=csrf)).status_code == 200
        assert (await second.get("/v1/jobs", headers=cookie)).status_code == 401


async def test_a_session_made_of_a_jwt_ends_when_the_secret_that_signed_it_is_changed(database, tmp_path):
    async with serving(database, tmp_path, verifier()) as first:
        del first.headers["Authorization"]
        await first.post("/v1/session", json={"token": token({"default": "admin"})})
        cookie = {"Cookie": f"rota_session={first.cookies['rota_session']}"}
    async with serving(database, tmp_path, verifier(OTHER)) as second:
        assert (await ask(second, token({"default": "admin"}))).status_code == 401
        del second.headers["Authorization"]
        assert (await second.get("/v1/keys", headers=cookie)).status_code == 401


async def test_over_tls_a_cookie_that_another_host_of_the_domain_may_have_set_counts_for_nothing(api, somebody):
    mallory = await somebody("submitter", owner="mallory")
    browser = await somebody.with_token()
    await browser.post("/v1/session", json={"token": mallory.key["key"]})
    tossed = {"Cookie": f"rota_session={browser.cookies['rota_session']}"}
    victim = await somebody.with_token()
    assert (await victim.get("https://rota/v1/session", headers=tossed)).status_code == 401


async def test_a_token_within_the_leeway_makes_a_session_that_lasts_or_none(jwt_api):
    late = token({"default": "viewer"}, seconds=-5)
    assert (await ask(jwt_api, late)).status_code == 200
    del jwt_api.headers["Authorization"]
    answer = await jwt_api.post("/v1/session", json={"token": late})
    assert answer.status_code == 401 or "Max-Age=-" not in answer.headers["set-cookie"], answer.headers["set-cookie"]


# Limits


async def test_who_has_no_role_anywhere_uses_up_nobodys_limits(jwt_api):
    limits = {"requestsPerSecond": 0.001, "requestBurst": 3}
    in_victim = {"Rota-Namespace": "victim"}
    assert (await jwt_api.put("/v1/limits", json=limits, headers=in_victim)).status_code == 200
    nobody = token()
    assert {(await ask(jwt_api, nobody, headers=in_victim)).status_code for _ in range(5)} == {403}
    member = token({"victim": "viewer"}, sub="member")
    assert (await ask(jwt_api, member)).status_code == 200


async def test_signing_in_counts_towards_the_limits_of_who_signs_in(api, somebody, sql):
    alice = await somebody("viewer")
    await api.put("/v1/limits/alice", json={"requestsPerSecond": 0.001, "requestBurst": 2})
    browser = await somebody.with_token()
    statuses = [(await browser.post("/v1/session", json={"token": alice.key["key"]})).status_code for _ in range(30)]
    rows = await sql.fetchval("SELECT count(*) FROM rota.api_keys WHERE kind = 'session'")
    assert 429 in statuses, f"{rows} rows, kept for twelve hours"


async def test_what_is_refused_by_a_limit_does_not_ask_the_database(api, somebody, monkeypatch):
    alice = await somebody("submitter")
    await api.put("/v1/limits/alice", json={"requestsPerSecond": 0.001, "requestBurst": 1})
    await eventually(lambda: _is_refused(alice))
    asked = []
    owner = api.services.jobs.owner

    async def counted(*arguments):
        asked.append(arguments)
        return await owner(*arguments)

    monkeypatch.setattr(api.services.jobs, "owner", counted)
    statuses = {(await alice.get(f"/v1/jobs/job_{number:032x}")).status_code for number in range(50)}
    assert statuses == {429}
    assert len(asked) < 5, f"{len(asked)} statements for 50 requests that were refused"


async def _is_refused(client):
    return (await client.get("/v1/jobs")).status_code == 429


async def test_requests_with_a_namespace_that_can_not_be_one_count_as_well(api, somebody):
    alice = await somebody("submitter")
    await api.put("/v1/limits/alice", json={"requestsPerSecond": 0.001, "requestBurst": 1})
    odd = {"Rota-Namespace": "no/such"}
    statuses = {(await alice.get("/v1/jobs", headers=odd)).status_code for _ in range(20)}
    unparsable = {(await alice.get("/v1/jobs/nothing")).status_code for _ in range(20)}
    assert (429 in statuses, 429 in unparsable) == (True, True), (statuses, unparsable)


async def test_an_owner_with_a_slash_in_the_name_can_be_limited(jwt_api):
    subject = "spiffe://cluster/ns/shop"
    who = token({"default": "viewer"}, sub=subject)
    assert (await ask(jwt_api, who)).status_code == 200, "such a subject is taken"
    answer = await jwt_api.put("/v1/limits/spiffe:%2F%2Fcluster%2Fns%2Fshop", json={"requestsPerSecond": 1})
    assert answer.status_code == 200, answer.text


async def test_the_admin_of_a_tenant_does_not_lift_the_limits_that_were_set_on_the_tenant(api, somebody):
    tenant = await somebody("admin", owner="anna", namespace="acme")
    in_acme = {"Rota-Namespace": "acme"}
    await api.put("/v1/limits", json={"mostWaiting": 10, "jobsPerSecond": 1}, headers=in_acme)
    lifted = await tenant.put("/v1/limits", json={"mostWaiting": None, "jobsPerSecond": None})
    assert lifted.status_code == 403


async def test_an_owner_called_like_a_key_does_not_share_the_limit_of_that_key(jwt_api):
    key = (await jwt_api.post("/v1/keys", json={"name": "alice", "role": "viewer"})).json()
    limits = {"requestsPerSecond": 0.001, "requestBurst": 2}
    await jwt_api.put(f"/v1/limits/{key['keyId']}", json=limits)
    mallory = token({"default": "viewer"}, sub=key["keyId"])
    for _ in range(3):
        await ask(jwt_api, mallory)
    assert (await ask(jwt_api, key["key"])).status_code == 200


# Keys


async def test_a_row_that_this_release_can_not_read_does_not_leave_everybody_waiting(api, somebody, sql):
    alice, bob = await somebody("viewer"), await somebody("viewer", owner="bob")
    await sql.execute("UPDATE rota.api_keys SET scopes = '{levitate}' WHERE owner = 'alice'")
    answers = await in_time(asyncio.gather(alice.get("/v1/jobs"), bob.get("/v1/jobs"), return_exceptions=True))
    assert answers[1].status_code == 200


async def test_a_key_that_is_used_through_a_session_counts_as_used(api, somebody, sql):
    alice = await somebody("viewer")
    browser = await somebody.with_token()
    await browser.post("/v1/session", json={"token": alice.key["key"]})
    await sql.execute("UPDATE rota.api_keys SET last_used_at = NULL")
    api.services.credentials.forget()
    assert (await browser.get("/v1/jobs")).status_code == 200

    async def used():
        return await sql.fetchval("SELECT last_used_at FROM rota.api_keys WHERE kind = 'key'")

    await eventually(used)


async def test_two_authorization_headers_are_refused(api, somebody):
    alice = await somebody("viewer")
    client = await somebody.with_token()
    headers = [("Authorization", f"Bearer {TOKEN}"), ("Authorization", f"Bearer {alice.key['key']}")]
    answer = await client.get("/v1/keys", headers=headers)
    assert (answer.status_code, answer.json()["detail"]) == (401, "send one Authorization header, not several")


# Audit


async def audited(api, **query):
    return (await api.get("/v1/audit", params=query)).json()["items"]


async def test_what_is_mistaken_for_a_payload_stays_out_of_the_trail(api, somebody):
    alice = await somebody("submitter")
    made = (await alice.post("/v1/jobs", json=job(scheduleType="future", delaySeconds=9999))).json()
    for body in (
        {"Payload": {"card": "no hex: 4111"}},
        {"retry": {"payload": {"card": "no hex: 4111"}}},
        {"name": "x", "payload ": {"card": "no hex: 4111"}},
    ):
        assert (await alice.put(f"/v1/jobs/{made['jobId']}", json=body)).status_code == 400
    assert "no hex" not in json.dumps(await audited(api))


async def test_a_key_that_somebody_sends_in_the_wrong_field_stays_out_of_the_trail(api, somebody):
    admin = await somebody("admin", owner="anna")
    sent = await admin.post("/v1/keys", json={"name": "x", "role": "admin", "key": admin.key["key"]})
    assert sent.status_code == 400
    assert admin.key["key"] not in json.dumps(await audited(api))


async def test_a_key_in_the_path_stays_out_of_the_trail(api, somebody):
    admin = await somebody("admin", owner="anna")
    await admin.delete(f"/v1/keys/{admin.key['key']}")
    assert admin.key["key"] not in json.dumps(await audited(api))


async def test_signing_in_and_out_is_in_the_trail(api, somebody):
    alice = await somebody("admin")
    browser = await somebody.with_token()
    signed_in = await browser.post("/v1/session", json={"token": alice.key["key"]})
    await browser.delete("/v1/session", headers={"X-CSRF-Token": signed_in.json()["csrfToken"]})
    assert {"sign_in", "sign_out"} <= {entry["action"] for entry in await audited(api)}


async def test_a_schedule_that_was_refused_is_in_the_trail(api, somebody):
    viewer = await somebody("viewer")
    wanted = job(scheduleType="interval", everySeconds=60)
    assert (await viewer.post("/v1/jobs", json=wanted)).status_code == 403
    assert [entry["status"] for entry in await audited(api, actor="alice")] == [403]


async def test_a_job_is_not_replaced_without_the_right_to_change_and_without_a_trace(api, somebody):
    alice = await somebody("submitter")
    webhook = await somebody("submitter", owner="alice", scopes=["submit"])
    wanted = job(scheduleType="future", delaySeconds=9999, uniqueKey="invoice")
    first = (await alice.post("/v1/jobs", json=wanted)).json()
    assert (await webhook.put(f"/v1/jobs/{first['jobId']}", json={"name": "x"})).status_code == 403
    before = len(await audited(api))
    replaced = await webhook.post("/v1/jobs", json=wanted | {"onDuplicate": "replace", "payload": {"to": "mallory"}})
    status = (await alice.get(f"/v1/jobs/{first['jobId']}/status")).json().get("status")
    gone = replaced.status_code == 201 and status != "scheduled"
    assert not gone or len(await audited(api)) > before


# One for all


async def test_one_tenant_does_not_take_the_last_place_to_follow(api, somebody):
    """Nor one of a tenant's people all of the tenant's places."""
    tail = api.services.event_tail
    async with AsyncExitStack() as stack:
        for number in range(MOST_FOLLOWERS // 2):
            holder = f"mallory {number // (MOST_FOLLOWERS // 5)}"
            tail.check_room("a", holder)
            await stack.enter_async_context(tail.follow(EventFilter(namespace="a"), holder))
        for holder, said in (("mallory 0", "of your requests follow"), ("carol", "namespace 'a'")):
            with pytest.raises(OverloadedError, match=said):
                tail.check_room("a", holder)
        tail.check_room("b", "bob")


async def test_naming_another_namespace_each_time_is_no_way_around_the_default_limits(database, tmp_path, sql):
    async with serving(
        database, tmp_path, verifier(), defaults=Limits(requests_per_second=0.001, request_burst=2)
    ) as api:
        nobody = token()
        statuses = [
            (await ask(api, nobody, headers={"Rota-Namespace": f"made-up-{number}"})).status_code
            for number in range(30)
        ]
    rows = await sql.fetchval("SELECT count(*) FROM rota.buckets")
    assert 429 in statuses, f"{rows} buckets for somebody without any role"


async def test_a_task_neither_reads_nor_cancels_what_is_another_owners(api, engine, somebody):
    bob = await somebody("submitter", owner="bob")
    alice = await somebody("submitter", owner="alice")
    run_id = (await bob.post("/v1/jobs", json=job(scheduleType="future", delaySeconds=9999))).json()["runId"]
    assert (await alice.post(f"/v1/runs/{run_id}/cancel")).status_code == 404

    gateway = api.services.gateway.for_caller(Caller("default", "alice"))
    with pytest.raises(NotFoundError):
        await gateway.look(run_id, 0)
    with pytest.raises(NotFoundError):
        await gateway.cancel(run_id)
