"""Refused changes: recorded where the actor belongs, and so few that nobody can fill a trail with them."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from rota.access import refusal_trail
from rota.access.refusal_trail import WINDOW_SECONDS
from rota.domain.rights import Grant, Identity, Role
from rota.errors import DatabaseUnavailableError, DataRejectedError


async def trail(api, namespace="default"):
    """Actor, action, request and status of each entry, the first one first."""
    entries = (await api.get("/v1/audit", headers={"Rota-Namespace": namespace})).json()["items"]
    return [
        (entry["actor"], entry["action"], entry.get("request"), entry["status"])
        for entry in reversed(entries)
        if entry["actor"] != "admin"
    ]


@pytest.fixture
def refusals(api):
    """The part that records, with a clock that the test moves."""
    part = api.services.refusals
    part.now = 0.0
    part._monotonic = lambda: part.now
    return part


async def test_a_stranger_leaves_no_trace_in_the_trail_of_a_namespace(api, somebody):
    mallory = await somebody("submitter", owner="mallory", namespace="theirs")
    answer = await mallory.post("/v1/pools/default/pause", headers={"Rota-Namespace": "acme"})
    assert answer.status_code == 403
    assert await trail(api, "acme") == []
    assert await trail(api, "theirs") == [("mallory", "pause_pool", {"namespace": "acme"}, 403)]


async def test_who_has_a_role_there_is_recorded_there(api, somebody):
    viewer = await somebody("viewer", owner="vera", namespace="acme")
    assert (await viewer.post("/v1/pools/default/pause")).status_code == 403
    assert await trail(api, "acme") == [("vera", "pause_pool", None, 403)]


async def test_signing_in_and_out_is_recorded_where_the_actor_belongs(api, somebody):
    member = await somebody("viewer", owner="mia", namespace="theirs")
    await member.post("/v1/session", json={"token": member.key["key"]})
    guest = await somebody.with_token()
    guest.cookies.update(member.cookies)
    session = (await guest.get("/v1/session")).json()
    headers = {"Rota-Namespace": "acme", "X-CSRF-Token": session["csrfToken"]}
    assert (await guest.delete("/v1/session", headers=headers)).status_code == 200
    assert await trail(api, "acme") == []
    assert [action for _, action, *_ in await trail(api, "theirs")] == ["sign_in", "sign_out"]


async def test_an_actor_without_any_role_is_recorded_outside_all_namespaces():
    stranger = Identity(name="stranger", kind="jwt", grants={})
    assert stranger.home_for("acme") == ""
    two = Identity(name="two", kind="jwt", grants={"b": Grant(Role.VIEWER), "a": Grant(Role.VIEWER)})
    assert [two.home_for(name) for name in ("a", "b", "c")] == ["a", "b", "a"]


async def test_a_thousand_refusals_are_two_entries(api, somebody, sql, refusals):
    viewer = await somebody("viewer", owner="vera")
    before = await sql.fetchval("SELECT count(*) FROM rota.audit")
    for number in range(300):
        await viewer.post(f"/v1/pools/pool-{number}/pause")
    await refusals.tick()
    assert await sql.fetchval("SELECT count(*) FROM rota.audit") == before + 1
    refusals.now += WINDOW_SECONDS
    await refusals.tick()
    assert await trail(api) == [
        ("vera", "pause_pool", None, 403),
        ("vera", "pause_pool", {"repeated": 299}, 403),
    ]


async def test_other_actions_and_actors_are_told_apart(api, somebody, refusals):
    for owner in ("vera", "victor"):
        viewer = await somebody("viewer", owner=owner)
        for action in ("pause", "resume", "pause"):
            await viewer.post(f"/v1/pools/default/{action}")
    assert [(actor, action) for actor, action, *_ in await trail(api)] == [
        ("vera", "pause_pool"),
        ("vera", "resume_pool"),
        ("victor", "pause_pool"),
        ("victor", "resume_pool"),
    ]


async def test_a_kind_that_does_not_come_again_is_forgotten_and_then_new(api, somebody, refusals):
    viewer = await somebody("viewer", owner="vera")
    for _ in range(2):
        await viewer.post("/v1/pools/default/pause")
        refusals.now += WINDOW_SECONDS
        await refusals.tick()
    assert await trail(api) == 2 * [("vera", "pause_pool", None, 403)]
    assert not refusals._repeats


async def test_what_was_counted_is_recorded_when_the_server_stops(api, somebody, refusals):
    viewer = await somebody("viewer", owner="vera")
    for _ in range(3):
        await viewer.post("/v1/pools/default/pause")
    await refusals.close()
    assert (await trail(api))[-1] == ("vera", "pause_pool", {"repeated": 2}, 403)


async def test_a_count_that_can_not_be_written_is_kept_and_one_that_is_rejected_stops_no_other(
    api, somebody, refusals, monkeypatch
):
    for owner in ("vera", "victor"):
        viewer = await somebody("viewer", owner=owner)
        for _ in range(2):
            await viewer.post("/v1/pools/default/pause")
    refusals.now += WINDOW_SECONDS
    add = api.services.auditor.trail.add

    async def away(_entry):
        raise DatabaseUnavailableError("away")

    async def reject_vera(entry):
        if entry.actor == "vera":
            raise DataRejectedError("odd")
        await add(entry)

    monkeypatch.setattr(api.services.auditor.trail, "add", away)
    with pytest.raises(DatabaseUnavailableError):
        await refusals.tick()
    monkeypatch.setattr(api.services.auditor.trail, "add", reject_vera)
    with capture_logs() as logs:
        await refusals.tick()
    assert [(entry["actor"], entry["count"]) for entry in logs if "could not record" in entry["event"]] == [("vera", 1)]
    assert (await trail(api))[-1] == ("victor", "pause_pool", {"repeated": 1}, 403)


async def test_a_refusal_that_can_not_be_recorded_is_tried_again_with_the_next(api, somebody, refusals, monkeypatch):
    viewer = await somebody("viewer", owner="vera")

    async def away(_entry):
        raise DatabaseUnavailableError("away")

    with monkeypatch.context() as patch:
        patch.setattr(api.services.auditor.trail, "add", away)
        assert (await viewer.post("/v1/pools/default/pause")).status_code == 503
    assert (await viewer.post("/v1/pools/default/pause")).status_code == 403
    assert await trail(api) == [("vera", "pause_pool", None, 403)]


async def test_no_more_kinds_are_remembered_than_there_is_room_for(api, somebody, refusals, monkeypatch):
    monkeypatch.setattr(refusal_trail, "MOST_KINDS", 1)
    viewer = await somebody("viewer", owner="vera")
    for action in ("pause", "resume"):
        assert (await viewer.post(f"/v1/pools/default/{action}")).status_code == 403
    assert [action for _, action, *_ in await trail(api)] == ["pause_pool"]
