"""What one tenant asks for does not keep another waiting: connections, writes and places are shared by namespace."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise

import pytest

from rota import fair_turns, service
from rota.api.http.shares import Shares
from rota.errors import DatabaseUnavailableError, OverloadedError
from rota.fair_turns import FairTurns, act_for
from rota.gateway import group_commit
from rota.service import LONGEST_STRETCH_SECONDS, costly_step
from rota.store.postgres import connections
from support import eventually, in_time, job


async def ask(turns, tenant, notes, let_go=None):
    act_for(tenant)
    await turns.take(60)
    notes.append(tenant)
    if let_go:
        await let_go.wait()
    turns.give_back()


async def test_tenants_take_turns_however_many_of_them_wait():
    turns, notes, let_go = FairTurns(2), [], asyncio.Event()
    asked = [asyncio.create_task(ask(turns, "first", notes, let_go)) for _ in range(2)]
    await eventually(lambda: len(notes) == 2)
    asked += [asyncio.create_task(ask(turns, "greedy", notes)) for _ in range(100)]
    asked += [asyncio.create_task(ask(turns, "modest", notes)) for _ in range(2)]
    await asyncio.sleep(0)
    let_go.set()
    await in_time(asyncio.gather(*asked))
    assert [place for place, tenant in enumerate(notes) if tenant == "modest"] == [3, 5]
    assert turns._free == 2


@pytest.mark.parametrize("moment", range(4))
async def test_a_turn_whose_asker_gave_up_is_not_lost(moment):
    turns, notes = FairTurns(1), []
    await turns.take(60)
    gives_up = asyncio.create_task(ask(turns, "a", notes))
    stays = asyncio.create_task(ask(turns, "a", notes))
    await asyncio.sleep(0)
    if moment < 2:
        gives_up.cancel()
    if moment % 2:
        await asyncio.sleep(0)
    turns.give_back()
    if moment >= 2:
        gives_up.cancel()
    await in_time(asyncio.gather(gives_up, stays, return_exceptions=True))
    assert notes[-1] == "a"
    assert (turns._free, turns._lines) == (1, {})


async def test_who_waits_too_long_for_a_connection_is_told_so(database, monkeypatch):
    monkeypatch.setattr(connections, "WAIT_SECONDS", 0.05)
    turns = database._connections._turns
    for _ in range(8):
        await turns.take(60)
    with pytest.raises(DatabaseUnavailableError):
        await database.time()
    for _ in range(8):
        turns.give_back()
    assert await database.time()


async def test_another_tenants_request_waits_for_a_few_statements_and_not_for_all(api, somebody, database, monkeypatch):
    """A thousand statements of one tenant wait for connections; the other's few get theirs in between."""
    greedy = await somebody("viewer", owner="greedy", namespace="one")
    modest = await somebody("viewer", owner="modest", namespace="two")
    for client in (greedy, modest):
        assert (await client.get("/v1/jobs")).status_code == 200
    given, waited = [], []
    take = FairTurns.take

    async def noted(turns, seconds):
        tenant, before = fair_turns._tenant.get(), len(given)
        await take(turns, seconds)
        if tenant == "namespace two":
            waited.append(len(given) - before)
        given.append(tenant)

    monkeypatch.setattr(FairTurns, "take", noted)
    flood = [asyncio.create_task(greedy.get("/v1/jobs")) for _ in range(300)]
    await eventually(lambda: len(database._connections._turns._lines.get("namespace one", ())) > 200, every=0)
    assert (await modest.get("/v1/jobs")).status_code == 200
    assert len(waited) >= 2, "it asked for jobs and for one-shots"
    assert max(waited) < 20, "as many turns were given to others before each of its own"
    await asyncio.gather(*flood)


async def test_wake_ups_are_not_sent_in_the_line_of_the_tenant_that_asked_first(api, somebody, database, monkeypatch):
    owner = await somebody("submitter", owner="olga", namespace="one")
    run_id = (await owner.post("/v1/jobs", json=job())).json()["runId"]
    senders = []

    async def noted(_channel, _payloads):
        senders.append(fair_turns._tenant.get())

    monkeypatch.setattr(database.wake, "_notify", noted)
    assert (await owner.post(f"/v1/runs/{run_id}/cancel")).status_code == 202
    await eventually(lambda: senders)
    assert set(senders) == {fair_turns.OURSELVES}


async def test_one_namespace_takes_half_of_the_places_and_one_owner_a_fifth():
    shares = Shares(10, what="are being handled")
    with shares.place("a", "x"), shares.place("a", "x"):
        with pytest.raises(OverloadedError, match="2 of your requests"):
            shares.check("a", "x")
        shares.check("a", "y")
        with shares.place("a", "y"), shares.place("a", "y"), shares.place("a", "z"):
            with pytest.raises(OverloadedError, match="namespace 'a'"):
                shares.check("a", "z")
            shares.check("b", "z")
    assert shares.taken == 0
    assert not shares._taken


async def test_an_owner_with_too_many_requests_at_once_is_told_to_come_back_and_an_admin_never(api, somebody):
    viewer = await somebody("viewer", owner="vera")
    other = await somebody("viewer", owner="victor")
    shares = api.services.requests
    shares.most = 5
    with shares.place("default", "vera"):
        refused = await viewer.get("/v1/jobs")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert (await other.get("/v1/jobs")).status_code == 200
    shares.most = 0
    assert (await api.get("/v1/jobs")).status_code == 200
    assert (await api.get("/healthz")).status_code == 200
    assert (await viewer.get("/v1/jobs")).status_code == 503


async def test_namespaces_take_turns_in_being_written(api, sql, monkeypatch):
    """The first batch of another namespace is written before the last of a namespace that came first."""
    monkeypatch.setattr(group_commit, "_MOST_PER_BATCH", 50)
    written = []
    submit = api.services.gateway._submissions.submit

    async def noted(items, **options):
        written.extend({item.namespace for item in items})
        return await submit(items, **options)

    monkeypatch.setattr(api.services.gateway._submissions, "submit", noted)

    async def submit_later():
        await eventually(lambda: written, every=0)
        return await api.post("/v1/jobs", json=job(), headers={"Rota-Namespace": "modest"})

    many = api.post("/v1/jobs/batch", json=[job() for _ in range(2000)])
    answers = await asyncio.gather(many, submit_later())
    assert [answer.status_code for answer in answers] == [200, 201]
    assert len(written) == 41
    assert written.index("modest") < 20


async def test_one_namespace_leaves_room_for_the_submissions_of_others(api, monkeypatch):
    monkeypatch.setattr(group_commit, "_MOST_OF_A_NAMESPACE", 3)
    monkeypatch.setattr(group_commit, "_MOST_WAITING", 4)
    refused = await api.post("/v1/jobs/batch", json=[job() for _ in range(4)])
    assert (refused.status_code, "namespace 'default'" in refused.json()["detail"]) == (503, True)
    assert (await api.post("/v1/jobs/batch", json=[job() for _ in range(3)])).status_code == 200
    assert not api.services.gateway._committer._counts


HEAD = b'{"name": "a", "scheduleType": "immediate", "task": "rota.echo", '
COSTLY = [
    pytest.param("/v1/jobs", HEAD + b'"payload": {"a": [' + b"[]," * 90_000 + b"1]}}", {}, id="one large payload"),
    pytest.param("/v1/jobs/batch", b'{"a": 1}\n' * 9_999, {"Content-Type": "application/x-ndjson"}, id="many errors"),
]


@pytest.mark.parametrize(("path", "body", "headers"), COSTLY)
async def test_a_costly_body_waits_for_its_turn_and_others_do_not(api, somebody, path, body, headers):
    greedy = await somebody("submitter", owner="greedy", namespace="one")
    modest = await somebody("submitter", owner="modest", namespace="two")
    turns = await service._take_turn()
    costly = asyncio.create_task(greedy.post(path, content=body, headers=headers))
    await eventually(lambda: "namespace one" in turns._lines)
    assert (await modest.post("/v1/jobs", json=job())).status_code == 201
    assert not costly.done()
    turns.give_back()
    assert (await in_time(costly)).status_code in (200, 201)


async def test_costly_steps_take_turns_by_tenant_and_leave_time_between_them():
    passes, steps = [], []

    async def others():
        while True:
            passes.append(None)
            await asyncio.sleep(0)

    async def costly(tenant):
        act_for(tenant)
        async with costly_step(10**6):
            steps.append((tenant, len(passes)))
            time.sleep(2 * LONGEST_STRETCH_SECONDS)  # noqa: ASYNC251 - it holds the loop, as reading does

    beside = asyncio.create_task(others())
    await in_time(asyncio.gather(*[costly("greedy") for _ in range(10)], costly("modest")))
    beside.cancel()
    assert [tenant for tenant, _ in steps].index("modest") <= 2
    assert all(before < after for (_, before), (_, after) in pairwise(steps)), "the others go on between any two"
