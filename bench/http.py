"""HTTP: single jobs and questions for their status, one request each, beside a bare route that decodes the same body.

Everything that is compared is measured in turns, several times over. What a layer of the API costs is the CPU time of a
server that has it, less that of one without it (layers.py).
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import msgspec

from bench.http_load import Answers, Target, get, median, post, tool
from bench.lab import ROOT, Lab, free_port
from bench.layers import AMPLE, LAYERS
from bench.progress import Progress
from rota.access.credential_cache import KEY_PREFIX
from rota.ops.bench_load import CREATED, OK, Connections

STATUSES = 1000  # jobs that are asked for
_OWNER = "bench"


class Layer(msgspec.Struct):
    """The CPU time of a request to a server that has this layer and those before it."""

    name: str
    server_cpu_us: float


class Http(msgspec.Struct):
    """Rota's routes, and the bare route in the same turns."""

    tool: str
    rota: Answers
    rota_with_workers: Answers
    bare: Answers
    share_of_bare: float
    limited: Answers | None = None
    keyed: Answers | None = None
    statuses: Answers | None = None
    layers: list[Layer] = []


async def measure_http(progress: Progress, *, seconds: float, turns: int) -> Http:
    """All servers at once, each under load in its turn."""
    async with AsyncExitStack() as stack:
        lab = await stack.enter_async_context(Lab())
        servers = {name: await stack.enter_async_context(_layer(name, lab.token)) for name in LAYERS}
        admin, second = lab.target(), await stack.enter_async_context(lab.second_api())
        limited = msgspec.structs.replace(admin, token=await _limited_key(lab))
        paths = [f"/v1/jobs/{job_id}/status" for job_id in await _jobs(lab)]
        steps: dict[str, Callable[[], Awaitable[Answers]]] = {
            **{name: _posting(server, seconds) for name, server in servers.items()},
            "admin": _posting(admin, seconds),
            "limited": _posting(limited, seconds),
            "keyed": lambda: post(admin, seconds, keyed=True),
            "statuses": lambda: get([admin, second], paths, seconds),
        }
        found = await _in_turns(steps, turns, progress)
        await lab.start_workers(2)
        await lab.drained()
        progress.say("single POSTs while two workers run what is submitted")
        busy = await post(admin, seconds)
        progress.figure(_words(busy))
        await lab.drained()
    layers = [*LAYERS, "limited"]
    return Http(
        tool(),
        found["admin"],
        busy,
        found["starlette"],
        share_of_bare=found["admin"].accepted_per_second / found["starlette"].accepted_per_second,
        limited=found["limited"],
        keyed=found["keyed"],
        statuses=found["statuses"],
        layers=[Layer(_NAMES[name], found[name].server_cpu_us) for name in layers],
    )


_NAMES = {
    "bare": "uvicorn and a bare ASGI application",
    "starlette": "instead: a Starlette route that decodes the body with msgspec",
    "connection": "the connection's guards and headers",
    "operation": "operation: route, body weighed and read, answer",
    "identity": "identity and rights (admin)",
    "checks": "the job decoded and checked",
    "limits": "a key with rate limits",
    "limited": "gateway and database: the whole",
}


async def _in_turns(
    steps: dict[str, Callable[[], Awaitable[Answers]]], turns: int, progress: Progress
) -> dict[str, Answers]:
    found: dict[str, list[Answers]] = {name: [] for name in steps}
    for turn in range(turns):
        progress.say(f"single POSTs and GETs with {tool()}, turn {turn + 1} of {turns}")
        for name, step in steps.items():
            found[name].append(await step())
            progress.figure(f"{name}: {_words(found[name][-1])}")
    return {name: median(each) for name, each in found.items()}


def _posting(target: Target, seconds: float) -> Callable[[], Awaitable[Answers]]:
    return lambda: post(target, seconds)


def _words(answers: Answers) -> str:
    rate = f"{answers.accepted_per_second:,.0f}/s, p50 {answers.p50_ms:.1f} ms, p99 {answers.p99_ms:.1f} ms"
    return f"{rate}, {answers.server_cpu_us:.0f} µs of the server's CPU each"


async def _limited_key(lab: Lab) -> str:
    """A key whose limits are never reached."""
    limits = {"requestsPerSecond": AMPLE.requests_per_second, "jobsPerSecond": AMPLE.jobs_per_second}
    async with lab.connect(1) as connections:
        await _send(connections, "PUT", f"/v1/limits/{_OWNER}", limits, OK)
        key = {"name": "bench", "role": "submitter", "owner": _OWNER}
        return str((await _send(connections, "POST", "/v1/keys", key, CREATED))["key"])


async def _jobs(lab: Lab) -> list[str]:
    """Jobs that wait, and are asked for."""
    async with lab.connect(1) as connections:
        jobs = [{"name": "asked for", "scheduleType": "immediate", "task": "noop"}] * STATUSES
        answer = await _send(connections, "POST", "/v1/jobs/batch", jobs, OK)
    return [result["jobId"] for result in answer["results"]]


async def _send(connections: Connections, method: str, path: str, body: Any, status: int) -> Any:
    answer = await connections.send(connections.request(method, path, msgspec.json.encode(body)))
    if answer.status != status:
        raise RuntimeError(f"{method} {path} was answered with {answer.status}: {answer.content!r}")
    return msgspec.json.decode(answer.content)


@asynccontextmanager
async def _layer(name: str, token: str) -> AsyncIterator[Target]:
    """A server of layers.py."""
    url = f"http://127.0.0.1:{free_port()}"
    port = str(urlsplit(url).port)
    server = await asyncio.create_subprocess_exec(sys.executable, "-m", "bench.layers", name, port, token, cwd=ROOT)
    try:
        await until_open(url)
        yield Target(url, KEY_PREFIX + token if name == "limits" else token, server.pid)
    finally:
        server.terminate()
        await server.wait()


async def until_open(url: str) -> None:
    """Waits until a server accepts connections."""
    address = urlsplit(url)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with suppress(OSError):
            _, writer = await asyncio.open_connection(address.hostname, address.port)
            writer.close()
            return
        await asyncio.sleep(0.05)
    raise TimeoutError(f"there was no server at {url} in time")
