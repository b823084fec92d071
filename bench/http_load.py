"""Load on an API: from wrk where it is installed, else from the generator that `rota bench` uses."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import count, cycle
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import psutil

from rota.ops.bench_load import OK, Connections, Spread, Submitter, UnexpectedAnswerError

CONNECTIONS = 32
JOB = {"name": "bench", "scheduleType": "immediate", "task": "noop"}
_UNITS = {"us": 1e-3, "ms": 1.0, "s": 1000.0, "m": 60_000.0}
_HERE = Path(__file__).parent


class Answers(msgspec.Struct):
    """Requests that were answered as they should be, and what one of them cost the server's process."""

    accepted_per_second: float
    p50_ms: float
    p99_ms: float
    server_cpu_us: float = 0.0


class Target(msgspec.Struct, frozen=True):
    """A server, its process and a token for it."""

    url: str
    token: str
    pid: int


def tool() -> str:
    """What makes the load."""
    return "wrk" if shutil.which("wrk") else "own"


async def post(target: Target, seconds: float, *, keyed: bool = False) -> Answers:
    """Single jobs on all connections, each with an idempotency key of its own if `keyed`."""
    prefix = uuid4().hex if keyed else None
    before = _cpu_seconds(target)
    if tool() == "wrk":
        arguments = (target.token, json.dumps(JOB), *([prefix] if prefix else []))
        load = _wrk("post.lua", f"{target.url}/v1/jobs", arguments, CONNECTIONS, seconds)
        requests, answers = await load
    else:
        requests, answers = await _own_posts(target, prefix, seconds)
    return _with_cost(answers, [target], [before], requests)


async def get(targets: Sequence[Target], paths: Sequence[str], seconds: float) -> Answers:
    """GETs of these paths in turn, from several servers at once, which share the connections."""
    before = [_cpu_seconds(target) for target in targets]
    each = CONNECTIONS // len(targets)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(paths))
        file.flush()
        if tool() == "wrk":
            loads = [_wrk("get.lua", one.url, (one.token, file.name), each, seconds) for one in targets]
        else:
            loads = [_own_gets(one, paths, each, seconds) for one in targets]
        found = await asyncio.gather(*loads)
    answers = Answers(
        sum(one.accepted_per_second for _, one in found),
        max(one.p50_ms for _, one in found),
        max(one.p99_ms for _, one in found),
    )
    return _with_cost(answers, targets, before, sum(requests for requests, _ in found))


def median(each: Sequence[Answers]) -> Answers:
    """The middle one by what a request cost, which other work on the machine disturbs least."""
    return sorted(each, key=lambda one: one.server_cpu_us)[len(each) // 2]


def _cpu_seconds(target: Target) -> float:
    times = psutil.Process(target.pid).cpu_times()
    return float(times.user + times.system)


def _with_cost(answers: Answers, targets: Sequence[Target], before: Sequence[float], requests: int) -> Answers:
    used = sum(_cpu_seconds(target) for target in targets) - sum(before)
    return msgspec.structs.replace(answers, server_cpu_us=used / max(1, requests) * 1e6)


async def _wrk(
    script: str, url: str, arguments: Sequence[str], connections: int, seconds: float
) -> tuple[int, Answers]:
    process = await asyncio.create_subprocess_exec(
        *("wrk", "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "--latency", "-s", str(_HERE / script)),
        *(url, "--", *arguments),
        stdout=asyncio.subprocess.PIPE,
    )
    output = (await process.communicate())[0].decode()
    if process.returncode or "Non-2xx" in output:
        raise RuntimeError(f"wrk did not go well:\n{output}")
    answers = Answers(
        float(_find(r"Requests/sec:\s+([\d.]+)", output)), _milliseconds("50%", output), _milliseconds("99%", output)
    )
    return int(_find(r"(\d+) requests in", output)), answers


async def _own_posts(target: Target, prefix: str | None, seconds: float) -> tuple[int, Answers]:
    async with Connections(target.url, target.token, CONNECTIONS) as connections:
        plain = connections.request("POST", "/v1/jobs", msgspec.json.encode(JOB))
        ends = time.perf_counter() + seconds

        def requests() -> Iterator[bytes]:
            for number in count():
                if time.perf_counter() >= ends:
                    return
                key = b"\r\nIdempotency-Key: %b-%d\r\n" % (prefix.encode(), number) if prefix else b"\r\n"
                yield plain.replace(b"\r\n", key, 1)

        done = await Submitter(connections, at_once=CONNECTIONS).send(requests())
    return done.accepted, _answers(done.latencies, done.seconds)


async def _own_gets(target: Target, paths: Sequence[str], connections: int, seconds: float) -> tuple[int, Answers]:
    latencies: list[float] = []
    coming = cycle(paths)
    async with Connections(target.url, target.token, connections) as made:
        began = time.perf_counter()

        async def one_after_the_other() -> None:
            while (sent := time.perf_counter()) < began + seconds:
                answer = await made.send(made.request("GET", next(coming)))
                if answer.status != OK:
                    raise UnexpectedAnswerError(f"a GET was answered with {answer.status}")
                latencies.append(time.perf_counter() - sent)

        await asyncio.gather(*(one_after_the_other() for _ in range(connections)))
        took = time.perf_counter() - began
    return len(latencies), _answers(latencies, took)


def _answers(latencies: Sequence[float], seconds: float) -> Answers:
    latency: Any = Spread.of(latencies)
    return Answers(len(latencies) / seconds, latency.p50, latency.p99)


def _milliseconds(share: str, output: str) -> float:
    number = _find(rf"\s{share}\s+([\d.]+)", output)
    return float(number) * _UNITS[_find(rf"\s{share}\s+[\d.]+(us|ms|s|m)\b", output)]


def _find(pattern: str, output: str) -> str:
    match = re.search(pattern, output)
    if match is None:
        raise RuntimeError(f"wrk said something unexpected:\n{output}")
    return match[1]
