"""What clients do with workflows during a chaos run: start, signal, approve, cancel and resume them."""

from __future__ import annotations

import asyncio
import random
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from flows import Story, part, random_story
from history import FlowRecord, Generation, History
from workload import Clients

from support import patience

AT_ONCE = 3
MOST_NODES = 20
MOST_GENERATIONS = 3
SETTLE_SECONDS = 120.0
MOST_SECONDS = 300.0  # of a generation, with faults all the time
_OPEN = ("running", "cancelling")


class FlowWorkload:
    """Clients that follow one workflow run after the other, each to its last generation, until `stop`."""

    def __init__(
        self, clients: Clients, history: History, seed: int, notes: Path, generations: int = MOST_GENERATIONS
    ) -> None:
        self._clients = clients
        self._history = history
        self._seed = seed
        self._notes = notes
        self._generations = generations
        self._stopped_at: float | None = None

    async def run(self) -> None:
        """Some workflow runs at a time, until `stop`."""
        await self.prepare()
        async with asyncio.TaskGroup() as group:
            for number in range(AT_ONCE):
                group.create_task(self._one_after_the_other(number))

    def stop(self) -> None:
        self._stopped_at = time.monotonic()

    async def prepare(self) -> None:
        await self._create(part())

    async def _one_after_the_other(self, client: int) -> None:
        chance = random.Random(self._seed + 1000 + client)
        number = 0
        while self._stopped_at is None:
            number += 1
            most = chance.choice((4, MOST_NODES))
            await self.follow(random_story(chance, f"flow-{client}-{number}", most, 0.05), chance)

    async def follow(self, story: Story, chance: random.Random) -> None:
        """Runs a workflow through its generations."""
        await self._create(story.definition)
        request = ("POST", f"/v1/workflows/{story.name}/run")
        answer = await self._clients.request(*request, json={}, headers={"Idempotency-Key": story.name})
        if answer.status_code != 202:
            raise AssertionError(f"{story.name} was refused: {answer.status_code} {answer.text}")
        record = FlowRecord(story, answer.json()["workflowRunId"])
        self._history.flows.append(record)
        again = await self._clients.request(*request, json={}, headers={"Idempotency-Key": story.name})
        record.answers.append(again.json().get("workflowRunId", again.text))
        if story.is_signalled_early:
            await self._signal_all(record)
        for number in range(1, self._generations + 1):
            generation = Generation(number, healed=number > 1)
            record.generations.append(generation)
            async with asyncio.TaskGroup() as group:
                if story.is_cancelled and number == 1:
                    group.create_task(self._cancel(record, generation, chance.uniform(0, 3)))
                if story.is_paused and number == 1:
                    group.create_task(self._pause(record, chance.uniform(0, 1), chance.uniform(0, 3)))
                group.create_task(self._until_ended(record, generation))
            if generation.outcome in (None, "success") or number == self._generations:
                return
            self._heal(story)
            if not await self._resume(record, number):
                return

    def _heal(self, story: Story) -> None:
        Path(f"{self._notes}.{story.name}.healed").touch()

    async def _create(self, definition: dict[str, Any]) -> None:
        answer = await self._clients.request("POST", "/v1/workflows", json=definition)
        # A repeat of a request whose answer was lost finds what that made.
        if answer.status_code not in (201, 409):
            raise AssertionError(f"{definition['name']} was refused: {answer.status_code} {answer.text}")

    async def _until_ended(self, record: FlowRecord, generation: Generation) -> None:
        """Looks at it again and again, and gives it what it waits for; gives up long after the last fault, or when it
        takes far longer than it could."""
        began = time.monotonic()
        while not self._is_too_late(began):
            shown = (await self._clients.request("GET", f"/v1/workflow-runs/{record.id}")).json()
            if shown["generation"] == generation.number and shown["status"] not in _OPEN:
                generation.outcome = shown["status"]
                generation.states = {key: _state_of(node) for key, node in shown["nodes"].items()}
                generation.ended = {key: _moment(it["endTime"]) for key, it in shown["nodes"].items()}
                generation.members = {key: it["members"] for key, it in shown["nodes"].items() if it.get("members")}
                return
            for key, node in shown["nodes"].items():
                await self._give(record, generation, key, node.get("waitingFor") or {})
            await asyncio.sleep(0.2)

    def _is_too_late(self, began: float) -> bool:
        now = time.monotonic()
        if self._stopped_at is not None and now > self._stopped_at + SETTLE_SECONDS * patience():
            return True
        return now > began + MOST_SECONDS * patience()

    async def _give(self, record: FlowRecord, generation: Generation, key: str, wanted: dict[str, str]) -> None:
        told = next(it for it in record.story.nodes if it.key == key)
        path = f"/v1/workflow-runs/{record.id}"
        if told.kind == "signal" and "signal" in wanted:
            await self._signal(record, key, f"{record.id}-{key}-{generation.number}")
        elif told.kind == "approval" and "approval" in wanted:
            word = "reject" if told.end(healed=generation.healed) == "failed" else "approve"
            await self._clients.request("POST", f"{path}/nodes/{key}/{word}", json={})

    async def _signal_all(self, record: FlowRecord) -> None:
        for told in record.story.nodes:
            if told.kind == "signal":
                await self._signal(record, told.key, f"{record.id}-{told.key}-early")

    async def _signal(self, record: FlowRecord, key: str, once: str) -> None:
        path = f"/v1/workflow-runs/{record.id}/signals/to-{key}"
        await self._clients.request("POST", path, json={"payload": key}, headers={"Idempotency-Key": once})

    async def _cancel(self, record: FlowRecord, generation: Generation, after_seconds: float) -> None:
        await asyncio.sleep(after_seconds)
        answer = await self._clients.request("POST", f"/v1/workflow-runs/{record.id}/cancel")
        if answer.status_code == 202:
            generation.cancelled_at = time.time()

    async def _pause(self, record: FlowRecord, after_seconds: float, seconds: float) -> None:
        path = f"/v1/workflows/{record.story.name}"
        await asyncio.sleep(after_seconds)
        await self._clients.request("POST", f"{path}/pause")
        began = time.time()
        await asyncio.sleep(seconds)
        record.paused = [began, time.time()]
        await self._clients.request("POST", f"{path}/resume")

    async def _resume(self, record: FlowRecord, seen: int) -> bool:
        """Two people resume at once, and name the generation that they saw. False: there was nothing to resume."""
        path = f"/v1/workflow-runs/{record.id}/resume"
        calls = [self._clients.request("POST", path, json={"generation": seen}) for _ in range(2)]
        codes = [answer.status_code for answer in await asyncio.gather(*calls)]
        record.resumed.append(codes)
        shown = (await self._clients.request("GET", f"/v1/workflow-runs/{record.id}")).json()
        return bool(shown["generation"] > seen)


def _state_of(node: dict[str, Any]) -> str:
    skipped = node.get("skippedBy")
    return f"skipped_by_{skipped}" if skipped else str(node["status"])


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
