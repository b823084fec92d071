"""Large workflows on real processes, which are killed and paused and lose their database several times in each run."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from contextlib import suppress

import pytest
from flow_workload import FlowWorkload
from flows import random_story
from ground import Ground, Member
from history import History
from records import flows_in_words, judge, read_records, until_drained
from workload import Clients

from support import examples

pytestmark = [pytest.mark.scenario, pytest.mark.alone]

SEED = int(os.environ.get("ROTA_CHAOS_SEED") or random.SystemRandom().randrange(1_000_000))
FLOWS = examples(3)
NODES = 200
PAUSE_SECONDS = 9.0  # longer than any lease


async def test_large_workflows_lose_and_double_nothing_whatever_dies_meanwhile():
    print(f"\nseed {SEED}")
    history, chance, rounds = History(), random.Random(SEED), 0
    async with Ground(history) as ground:
        clients = Clients(ground.api_urls, ground.token, history, random.Random(SEED + 1))
        flows = FlowWorkload(clients, history, SEED, ground.notes, generations=2)
        await flows.prepare()
        async with asyncio.TaskGroup() as group:
            over = asyncio.Event()
            striking = group.create_task(strike(ground, random.Random(SEED + 2), over))
            for number in range(FLOWS):
                story = random_story(chance, f"large-{number}", NODES, 0.3, least=NODES // 2)
                await flows.follow(story, chance)
            over.set()
            rounds = await striking
        flows.stop()
        history.drained = await until_drained(ground.url)
        await read_records(ground, history)
        await clients.close()
    print(f"{flows_in_words(history)}; {rounds} rounds of faults")
    judge(ground, history, SEED)


async def strike(ground: Ground, chance: random.Random, over: asyncio.Event) -> int:
    """One fault after the other, in turn, and whatever stopped goes on at the end; returns how many rounds it made."""
    rounds = 0
    while not over.is_set():
        rounds += 1
        await _one(ground, chance, "scheduler").kill()
        await asyncio.sleep(chance.uniform(1, 2))
        await _one(ground, chance, "worker").kill()
        await asyncio.sleep(chance.uniform(1, 2))
        await pause(_one(ground, chance, chance.choice(("scheduler", "worker"))))
        await ground.restart_database(chance.uniform(0, 1), crash=chance.random() < 0.5)
        await asyncio.sleep(chance.uniform(1, 2))
    return rounds


def _one(ground: Ground, chance: random.Random, name: str) -> Member:
    return chance.choice([member for member in ground.members if member.name == name])


async def pause(member: Member) -> None:
    with suppress(ProcessLookupError):
        member.send(signal.SIGSTOP)
        try:
            await asyncio.sleep(PAUSE_SECONDS)
        finally:
            member.send(signal.SIGCONT)
