"""Namespaces that share a worker: by weight, within limits, and priority only within a namespace's share."""

from __future__ import annotations

import asyncio
import os
from collections import Counter

import pytest

from engine import report
from rota.domain.fleet import WorkerProfile
from rota.domain.run import Outcome
from support import eventually, in_time

SLOTS = 20


@pytest.fixture
def submit(engine):
    async def make(namespace, count=1, **fields):
        body = {"name": "n", "scheduleType": "immediate", "task": "rota.echo"} | fields
        headers = {"Rota-Namespace": namespace}
        answer = await engine.api.post("/v1/jobs/batch", json=[body] * count, headers=headers)
        assert answer.status_code == 200, answer.text

    return make


@pytest.fixture
def join(make_broker):
    async def make(*namespaces, slots=SLOTS, pools=("default",), weights=()):
        broker = await make_broker()
        tasks = ("rota.echo", "rota.sleep")
        profile = WorkerProfile("test", os.getpid(), namespaces, pools, tasks, slots, weights_of_namespaces=weights)
        await broker.join(profile)
        return broker

    return make


def by_namespace(claims):
    return Counter(claim.namespace for claim in claims)


async def test_namespaces_with_work_share_a_worker_equally_whatever_their_priority(join, submit):
    broker = await join("a", "b")
    await submit("a", 50, priority="critical")
    await submit("b", 50, priority="low")
    assert by_namespace(await broker.claim(SLOTS)) == {"a": 10, "b": 10}


async def test_namespaces_share_by_weight(join, submit):
    broker = await join("a", "b", weights=(3, 1))
    await submit("a", 50)
    await submit("b", 50)
    assert by_namespace(await broker.claim(SLOTS)) == {"a": 15, "b": 5}


async def test_what_one_does_not_use_others_get(join, submit):
    broker = await join("a", "b", "c")
    await submit("a", 2)
    await submit("b", 50)
    await submit("c", 50)
    assert by_namespace(await broker.claim(SLOTS)) == {"a": 2, "b": 9, "c": 9}


async def test_one_namespace_holds_four_fifths_at_most_and_another_starts_at_once(join, submit):
    broker = await join("a", "b")
    await submit("a", 50, priority="critical")
    held = await broker.claim(SLOTS)
    assert by_namespace(held) == {"a": 16}
    assert await broker.claim(SLOTS - 16) == []
    await submit("b", 50, priority="low")
    assert by_namespace(await broker.claim(SLOTS - 16)) == {"b": 4}
    # A place that is free again goes to the namespace that holds less.
    await broker.report([report(claim) for claim in held[:3]])
    assert by_namespace(await broker.claim(3)) == {"b": 3}


async def test_what_is_given_back_counts_no_longer(join, submit):
    broker = await join("a", "b")
    await submit("a", 50)
    held = await broker.claim(SLOTS)
    await broker.report([report(claim, Outcome.released) for claim in held])
    assert by_namespace(await broker.claim(SLOTS)) == {"a": 16}


async def test_claims_whose_answer_was_lost_count_no_longer_when_they_are_given_back(join, submit):
    broker = await join("a", "b")
    await submit("a", 16)
    held = await broker.claim(SLOTS)
    assert await broker.reconcile(frozenset(claim.number for claim in held[:4])) == 12
    assert by_namespace(await broker.claim(SLOTS - 4)) == {"a": 12}


@pytest.mark.parametrize(("slots", "most"), [(1, 1), (2, 1), (3, 2), (4, 3), (5, 4)])
async def test_a_small_worker_keeps_a_slot_for_others_if_it_has_more_than_one(join, submit, slots, most):
    broker = await join("a", "b", slots=slots)
    await submit("a", 10)
    assert len(await broker.claim(slots)) == most


async def test_a_worker_of_one_namespace_gives_it_everything(join, submit):
    broker = await join("a")
    await submit("a", 50)
    assert len(await broker.claim(SLOTS)) == SLOTS


async def test_within_a_namespace_priority_and_age_decide(join, submit):
    broker = await join("a", "b")
    await submit("a", 20, priority="low")
    await submit("a", 3, priority="critical")
    await submit("b", 20)
    claims = [claim for claim in await broker.claim(10) if claim.namespace == "a"]
    assert sorted(claim.priority for claim in claims) == [-1, -1, 2, 2, 2]


async def test_what_is_due_comes_before_another_namespaces_future(join, submit, sql):
    broker = await join("a", "b")
    await submit("a", 4)
    assert len(await broker.claim(SLOTS)) == 4
    await submit("a", 12)
    await submit("b", 12)
    await sql.execute("UPDATE rota.live_runs SET ready_at = now() + interval '0.9 s' WHERE namespace = 'b'")
    assert by_namespace(await broker.claim(SLOTS - 4)) == {"a": 12, "b": 4}


async def test_pools_and_namespaces_are_shared_at_once(join, submit):
    broker = await join("a", "b", pools=("default", "mail"))
    for namespace in ("a", "b"):
        await submit(namespace, 50)
        await submit(namespace, 50, pool="mail")
    claims = await broker.claim(SLOTS)
    assert Counter((claim.namespace, claim.pool) for claim in claims) == {
        ("a", "default"): 5,
        ("a", "mail"): 5,
        ("b", "default"): 5,
        ("b", "mail"): 5,
    }


async def test_six_hundred_sleeping_critical_jobs_do_not_keep_another_tenant_waiting(engine, submit):
    begun = asyncio.Event()

    async def hold():
        await asyncio.sleep(600)

    async def short():
        begun.set()

    await submit("a", 600, task="hold", priority="critical")
    worker = engine.worker({"hold": hold, "short": short}, slots=200, namespaces=("a", "b"), drain_seconds=0)
    async with engine.running(worker):
        await eventually(lambda: len(worker.slots.running) == 160)
        await submit("b", task="short", priority="low")
        await in_time(begun.wait(), 10)
