"""HTTP: single jobs, one request each, on 64 connections; beside the same route without a database.

The load comes from wrk where it is installed, else from the generator that `rota bench` uses, in a process of its own
either way: this one.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from bench.lab import ROOT, Lab, free_port
from bench.progress import Progress
from rota.ops.bench_load import Connections, Spread, Submitter

CONNECTIONS = 64
JOB = {"name": "bench", "scheduleType": "immediate", "task": "noop"}
_UNITS = {"us": 1e-3, "ms": 1.0, "s": 1000.0, "m": 60_000.0}


class Posts(msgspec.Struct):
    """Single submissions on many connections."""

    accepted_per_second: float
    p50_ms: float
    p99_ms: float


class Http(msgspec.Struct):
    """With the database, and the same route without it."""

    tool: str
    rota: Posts
    rota_with_workers: Posts
    bare: Posts
    share_of_bare: float


async def measure_http(progress: Progress, *, seconds: float) -> Http:
    """The bare route, then Rota's with no workers running, then with workers that run what is submitted."""
    tool = "wrk" if shutil.which("wrk") else "own"
    async with Lab() as lab:
        progress.say(f"single POSTs on {CONNECTIONS} connections ({tool}), without a database")
        bare = await _bare(lab.token, seconds, progress)
        progress.say("the same with the database")
        rota = await _posts(lab.url, lab.token, seconds, progress)
        await lab.start_workers(2)
        await lab.drained()
        progress.say("the same while two workers run what is submitted")
        busy = await _posts(lab.url, lab.token, seconds, progress)
        await lab.drained()
    return Http(tool, rota, busy, bare, share_of_bare=rota.accepted_per_second / bare.accepted_per_second)


async def _bare(token: str, seconds: float, progress: Progress) -> Posts:
    port = free_port()
    server = await asyncio.create_subprocess_exec(sys.executable, "-m", "bench.bare", str(port), token, cwd=ROOT)
    try:
        await _until_open(port)
        return await _posts(f"http://127.0.0.1:{port}", token, seconds, progress)
    finally:
        server.terminate()
        await server.wait()


async def _until_open(port: int) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        await asyncio.sleep(0.05)
    raise TimeoutError("the server without a database did not start")


async def _posts(url: str, token: str, seconds: float, progress: Progress) -> Posts:
    measure = _with_wrk if shutil.which("wrk") else _with_own
    posts = await measure(url, token, seconds)
    progress.figure(f"{posts.accepted_per_second:,.0f}/s, p50 {posts.p50_ms:.1f} ms, p99 {posts.p99_ms:.1f} ms")
    return posts


async def _with_own(url: str, token: str, seconds: float) -> Posts:
    async with Connections(url, token, CONNECTIONS) as connections:
        request = connections.request("POST", "/v1/jobs", msgspec.json.encode(JOB))
        ends = time.perf_counter() + seconds

        def requests() -> object:
            while time.perf_counter() < ends:
                yield request

        done = await Submitter(connections, at_once=CONNECTIONS).send(requests())  # type: ignore[arg-type]
    latency = Spread.of(done.latencies)
    return Posts(done.per_second, latency.p50, latency.p99)


async def _with_wrk(url: str, token: str, seconds: float) -> Posts:
    script = Path(__file__).with_name("post.lua")
    process = await asyncio.create_subprocess_exec(
        *("wrk", "-t1", f"-c{CONNECTIONS}", f"-d{max(1, round(seconds))}s", "--latency", "-s", str(script)),
        *(f"{url}/v1/jobs", "--", token, json.dumps(JOB)),
        stdout=asyncio.subprocess.PIPE,
    )
    output = (await process.communicate())[0].decode()
    if process.returncode or "Non-2xx" in output:
        raise RuntimeError(f"wrk did not go well:\n{output}")
    return Posts(
        float(_find(r"Requests/sec:\s+([\d.]+)", output)), _milliseconds("50%", output), _milliseconds("99%", output)
    )


def _milliseconds(share: str, output: str) -> float:
    number = _find(rf"\s{share}\s+([\d.]+)", output)
    return float(number) * _UNITS[_find(rf"\s{share}\s+[\d.]+(us|ms|s|m)\b", output)]


def _find(pattern: str, output: str) -> str:
    match = re.search(pattern, output)
    if match is None:
        raise RuntimeError(f"wrk said something unexpected:\n{output}")
    return match[1]
