"""What clients do during a chaos run: jobs of every kind and policy, cancels, pauses, reads and schedules.

Every submission carries an idempotency key and is repeated until it is answered, as the SDK does it: what is accepted
is known exactly. The choices depend on the seed alone; when things happen depends on the machine.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
from history import Accepted, Answer, History

KEYS = 6
LIMIT = 3
SCHEDULES = 12
MOST_OPEN = 400
_QUICK_RETRY = {"strategy": "fixed", "baseSeconds": 0.2, "jitter": 0}
_REPEATED = (408, 425, 429, 500, 502, 503, 504)


class Clients:
    """Calls the API servers in turn; whatever fails for a reason of the fault is repeated."""

    def __init__(self, urls: list[str], token: str, history: History, chance: random.Random) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        self._clients = [httpx.AsyncClient(base_url=url, headers=headers, timeout=15) for url in urls]
        self._history = history
        self._chance = chance
        self.stopping = False

    async def close(self) -> None:
        for client in self._clients:
            await client.aclose()

    async def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """The first answer that is not about an outage."""
        while True:
            client = self._chance.choice(self._clients)
            with suppress(httpx.TransportError):
                answer = await client.request(method, path, **options)
                if answer.status_code not in _REPEATED:
                    return answer
            await asyncio.sleep(0.1)

    async def submit(self, kind: str, name: str, number: int, **fields: Any) -> Accepted | None:
        """Submits under the name as its key; None if it is refused as a duplicate. Now and then it is sent twice."""
        body = {"name": name, "scheduleType": "immediate", "payload": {}, "retry": _QUICK_RETRY} | fields
        sent = time.time()
        answer = await self.request("POST", "/v1/jobs", json=body, headers={"Idempotency-Key": name})
        if answer.status_code == 409 and "uniqueKey" in fields:
            return None
        if not answer.is_success:
            raise AssertionError(f"{kind} {name} was refused: {answer.status_code} {answer.text}")
        made = answer.json()
        one = Accepted(kind, name, made["jobId"], made.get("runId"), sent, time.time(), fields, number)
        self._history.accepted.append(one)
        if self._chance.random() < 0.05:
            again = await self.request("POST", "/v1/jobs", json=body, headers={"Idempotency-Key": name})
            one.answers.append(again.json().get("jobId", again.text))
        return one

    async def submit_batch(self, kind: str, names: list[str], **fields: Any) -> None:
        """Several in one request; those that an outage hit are sent again under their keys."""
        sent, left = time.time(), list(names)
        while left:
            body = [{"name": name, "idempotencyKey": name, "scheduleType": "immediate"} | fields for name in left]
            answers = (await self.request("POST", "/v1/jobs/batch", json=body)).json()["results"]
            for name, made in zip(list(left), answers, strict=True):
                if "error" not in made:
                    one = Accepted(kind, name, made["jobId"], made.get("runId"), sent, time.time(), fields)
                    self._history.accepted.append(one)
                    left.remove(name)
                elif made["error"]["status"] not in _REPEATED:
                    raise AssertionError(f"{name} was refused: {made['error']}")

    async def run_now(self, schedule: Accepted) -> None:
        sent = time.time()
        answer = await self.call("run", "POST", f"/v1/jobs/{schedule.job_id}/run", schedule.job_id)
        if answer.code < 300:
            made = Accepted("manual", schedule.name, schedule.job_id, answer.body["runId"], sent, answer.answered)
            made.fields = {"maxRetries": 20}
            self._history.accepted.append(made)

    async def call(self, what: str, method: str, path: str, target: str, json: Any = None) -> Answer:
        """A call about a job or run, recorded with its answer."""
        sent = time.time()
        answer = await self.request(method, path, json=json)
        body = answer.json() if answer.headers.get("content-type", "").startswith("application/") else {}
        recorded = Answer(what, target, sent, time.time(), answer.status_code, body)
        self._history.answers.append(recorded)
        return recorded


class Workload:
    """Producers that go on until they are told to stop."""

    def __init__(self, clients: Clients, history: History, seed: int) -> None:
        self._clients = clients
        self._history = history
        self._seed = seed
        self._number = 0
        self._stop = asyncio.Event()
        self._recent: list[Accepted] = []

    async def run(self) -> None:
        """Everything at once, until `stop`."""
        makers = [self._plain, self._failing, self._gated, self._unique, self._slow]
        async with asyncio.TaskGroup() as group:
            for place, make in enumerate(makers):
                group.create_task(self._producer(random.Random(self._seed + place), make))
            for key in range(KEYS):
                group.create_task(self._ordered(random.Random(self._seed + 100 + key), f"order-{key}"))
            group.create_task(self._meddle(random.Random(self._seed + 200)))
            group.create_task(self._read(random.Random(self._seed + 300)))
            group.create_task(self._schedules(random.Random(self._seed + 400)))

    def stop(self) -> None:
        self._stop.set()

    async def _submit(self, kind: str, **fields: Any) -> Accepted | None:
        self._number += 1
        number = self._number
        one = await self._clients.submit(kind, f"{kind}-{number}", number, **fields)
        if one is not None:
            self._recent = [*self._recent[-MOST_OPEN:], one]
        return one

    async def _producer(self, chance: random.Random, make: Callable[[random.Random], Any]) -> None:
        while not self._stop.is_set():
            await make(chance)
            await asyncio.sleep(chance.uniform(0, 0.05))

    async def _plain(self, chance: random.Random) -> None:
        kind = chance.choice(["plain", "plain", "batch", "thread", "future", "charge", "once"])
        where = {"priority": chance.choice(["low", "normal", "high"]), "pool": chance.choice(["default", "side"])}
        if kind == "plain":
            seconds = chance.choice([0, 0, 0.05])
            await self._submit(kind, task="brief", payload={"seconds": seconds}, maxRetries=20, **where)
        elif kind == "batch":
            self._number += 1
            names = [f"batch-{self._number}-{place}" for place in range(chance.randint(1, 8))]
            await self._clients.submit_batch(kind, names, task="brief", maxRetries=20, **where)
        elif kind == "thread":
            await self._submit(kind, task="thread", payload={"seconds": 0.05}, maxRetries=20)
        elif kind == "charge":
            await self._submit(kind, task="charge", maxRetries=100)
        elif kind == "once":
            await self._submit(kind, task="brief", payload={"seconds": 0.05}, maxRetries=0)
        else:
            moment = datetime.now(UTC) + timedelta(seconds=chance.uniform(0.5, 8))
            timing = {"scheduleType": "future", "scheduleTime": moment.isoformat()}
            await self._submit(kind, task="brief", maxRetries=20, **timing)

    async def _failing(self, chance: random.Random) -> None:
        kind = chance.choice(["flaky", "hopeless", "snoozer"])
        if kind == "flaky":
            await self._submit(kind, task="flaky", payload={"fails": chance.randint(1, 3)}, maxRetries=20)
        elif kind == "hopeless":
            await self._submit(kind, task="flaky", payload={"fails": 1000}, maxRetries=chance.randint(0, 2))
        else:
            await self._submit(kind, task="snoozer", maxRetries=20)

    async def _gated(self, chance: random.Random) -> None:
        kind = chance.choice(["limited", "rated", "broken"])
        if kind == "limited":
            limit = {"concurrencyKey": f"limit-{chance.randint(1, 3)}", "concurrencyLimit": LIMIT}
            await self._submit(kind, task="brief", payload={"seconds": 0.1}, maxRetries=20, **limit)
        elif kind == "rated":
            rate = {"limit": 5, "perSeconds": 1, "burst": 5, "key": "rate"}
            await self._submit(kind, task="brief", maxRetries=20, rateLimit=rate)
        else:
            breaker = {"failures": 3, "cooldownSeconds": 1, "key": "breaker"}
            fails = chance.choice([0, 0, 1])
            await self._submit(kind, task="flaky", payload={"fails": fails}, maxRetries=20, breaker=breaker)
        await asyncio.sleep(chance.uniform(0.1, 0.3))

    async def _unique(self, chance: random.Random) -> None:
        kind, rule = chance.choice([("unique-reject", "reject"), ("unique-replace", "replace")])
        unique = {"uniqueKey": f"{kind}-{chance.randint(1, 4)}", "onDuplicate": rule}
        moment = datetime.now(UTC) + timedelta(seconds=chance.uniform(0, 2))
        timing = {"scheduleType": "future", "scheduleTime": moment.isoformat()}
        await self._submit(kind, task="brief", maxRetries=20, **unique, **timing)
        await asyncio.sleep(chance.uniform(0, 0.3))

    async def _slow(self, chance: random.Random) -> None:
        kind = chance.choice(["isolated", "slow-first", "expiring", "paused"])
        if kind == "isolated":
            await self._submit(kind, task="isolated", payload={"seconds": 0.1}, maxRetries=20)
        elif kind == "slow-first":
            await self._submit(kind, task="slow_first", timeoutSeconds=1, maxRetries=20)
        elif kind == "expiring":
            await self._submit(kind, task="brief", expiresSeconds=3, maxRetries=20)
        else:
            moment = datetime.now(UTC) + timedelta(seconds=3)
            timing = {"scheduleType": "future", "scheduleTime": moment.isoformat()}
            one = await self._submit(kind, task="brief", maxRetries=20, **timing)
            if one is not None:
                await self._clients.call("pause", "POST", f"/v1/jobs/{one.job_id}/pause", one.job_id)
                await asyncio.sleep(chance.uniform(0, 3))
                await self._clients.call("resume", "POST", f"/v1/jobs/{one.job_id}/resume", one.job_id)
        await asyncio.sleep(chance.uniform(0.1, 0.4))

    async def _ordered(self, chance: random.Random, key: str) -> None:
        """One submission after the other, so that their order is known; some fail and keep their key meanwhile."""
        while not self._stop.is_set():
            fails = chance.choice([0, 0, 0, 1, 2])
            options = {"task": "flaky", "payload": {"fails": fails}, "maxRetries": 20, "orderingKey": key}
            await self._submit("ordered", **options)
            await asyncio.sleep(chance.uniform(0.1, 0.6))

    async def _meddle(self, chance: random.Random) -> None:
        """Cancels jobs and runs at any moment of their lives."""
        while not self._stop.is_set():
            await asyncio.sleep(chance.uniform(0.05, 0.4))
            able = [one for one in self._recent[-30:] if one.kind in ("plain", "thread", "future", "flaky", "limited")]
            if not able:
                continue
            one = chance.choice(able)
            if chance.random() < 0.5:
                await self._clients.call("cancel", "DELETE", f"/v1/jobs/{one.job_id}", one.job_id)
            else:
                await self._clients.call("cancel", "POST", f"/v1/runs/{one.run_id}/cancel", one.run_id or "")

    async def _read(self, chance: random.Random) -> None:
        while not self._stop.is_set():
            await asyncio.sleep(chance.uniform(0.01, 0.2))
            if self._recent:
                run_id = chance.choice(self._recent).run_id
                await self._clients.call("read", "GET", f"/v1/runs/{run_id}", run_id or "")

    async def _schedules(self, chance: random.Random) -> None:
        """Schedules of each second, run now, changed, paused and resumed; cancelled at the end."""
        made = []
        for number in range(SCHEDULES):
            fields: dict[str, Any] = {"scheduleType": "cron", "cronExpression": "* * * * * *", "maxRetries": 20}
            fields |= {"task": "brief", "payload": {"seconds": chance.choice([0, 0, 1.5])}}
            fields |= chance.choice([{}, {"jitterSeconds": 2}, {"misfire": "all"}])
            fields |= chance.choice([{}, {"overlap": "skip"}, {"overlap": "queue"}, {"overlap": "replace"}])
            if one := await self._clients.submit("schedule", f"schedule-{number}", number, **fields):
                made.append(one)
        while not self._stop.is_set():
            one = chance.choice(made)
            await self._clients.run_now(chance.choice(made))
            changed = {"payload": {"seconds": chance.choice([0, 1])}}  # what is claimed is recalled
            await self._clients.call("change", "PUT", f"/v1/jobs/{one.job_id}", one.job_id, changed)
            await self._clients.call("pause", "POST", f"/v1/jobs/{one.job_id}/pause", one.job_id)
            await asyncio.sleep(chance.uniform(0, 4))
            await self._clients.call("resume", "POST", f"/v1/jobs/{one.job_id}/resume", one.job_id)
            await asyncio.sleep(chance.uniform(0, 3))
        for one in made:
            await self._clients.call("cancel", "DELETE", f"/v1/jobs/{one.job_id}", one.job_id)
