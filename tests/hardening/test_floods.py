"""More of everything than can be served, against a real server process: it stays well, and its memory bounded."""

from __future__ import annotations

import asyncio
import resource
import time
from contextlib import asynccontextmanager, suppress

import httpx
import msgspec
import psutil
import pytest
from raw import read_all

import commands
from rota.client.http_messages import ExchangeError
from rota.client.retries import retry_after
from rota.ops.bench_load import Connections
from support import LONG, eventually, free_port, in_time, job, leave_out

pytestmark = [pytest.mark.alone, pytest.mark.scenario]
IDLE = 10_000
FILES = IDLE + 1000
# An idle connection costs some 10 KiB in the server; the rest is what the allocator keeps for next time.
BYTES_PER_IDLE = 25 * 1024
FLOOD_SECONDS = 30 if LONG else 5
FLOOD_CONNECTIONS = 150
CONNECTIONS = 50
# Bodies may hold 32 MiB at a time (budget.py), each once as it came and once as it was read, and what is being
# written as much again; a server that kept what it refuses would grow by gigabytes in the same time.
MOST_GROWTH_BYTES = 250 * 1024 * 1024


class Api:
    """A `rota api` process."""

    def __init__(self, process, port, token):
        self.process = process
        self.port = port
        self.token = token
        self.url = f"http://127.0.0.1:{port}"

    @property
    def memory(self):
        return psutil.Process(self.process.pid).memory_info().rss

    def client(self):
        return httpx.AsyncClient(base_url=self.url, headers={"Authorization": f"Bearer {self.token}"}, timeout=60)


@asynccontextmanager
async def api_process(database_url, home, **environment):
    port = free_port()
    given = {"ROTA_HOME": str(home), "ROTA_PORT": str(port), "ROTA_DATABASE_URL": database_url, "ROTA_TOKEN": "flood"}
    variables = commands.environment(**given | environment)
    process = await asyncio.create_subprocess_exec(*commands.ROTA, "api", env=variables)
    api = Api(process, port, "flood")

    async def ready():
        with suppress(httpx.TransportError):
            async with api.client() as client:
                return (await client.get("/readyz")).is_success
        return False

    try:
        await eventually(ready)
        yield api
    finally:
        process.terminate()
        await in_time(process.wait())


class _Silent(asyncio.Protocol):
    """A connection that costs the test as little as possible."""


@pytest.fixture
def many_files():
    """Lets this process open as many files as the test needs; both sides of the connections are on this machine."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < FILES:
        leave_out(f"only {hard} files may be open here, and {FILES} are needed (ulimit -n)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, FILES), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def hold(port, count):
    """So many connections that say nothing."""
    loop = asyncio.get_running_loop()
    held = []
    for _ in range(count // 100):
        opened = await asyncio.gather(*(loop.create_connection(_Silent, "127.0.0.1", port) for _ in range(100)))
        held += [transport for transport, _ in opened]
    return held


@pytest.mark.parametrize(
    "connections", [pytest.param("0", id="all of them kept"), pytest.param("2000", id="most of them giving way")]
)
async def test_ten_thousand_idle_connections_do_not_keep_a_healthy_client_from_being_served(
    many_files, database_url, tmp_path, connections
):
    async with api_process(database_url, tmp_path, ROTA_CONNECTIONS=connections) as api, api.client() as client:
        before = api.memory
        holding = asyncio.create_task(hold(api.port, IDLE))
        served = 0
        while not holding.done():
            assert (await client.post("/v1/jobs", json=job())).status_code == 201
            served += 1
        held = holding.result()
        async with api.client() as another:
            for one in (client, another):
                assert (await one.post("/v1/jobs", json=job())).status_code == 201
        grown = api.memory - before
        print(f"{served} submissions while {IDLE} connected; {grown // IDLE} bytes more per idle connection")
        assert served > 0
        assert grown < IDLE * BYTES_PER_IDLE
        for transport in held:
            transport.abort()


async def flood(connections, request, ends, seen):
    while time.monotonic() < ends:
        try:
            answer = await connections.send(request)
        except ExchangeError:
            seen["cut"] = seen.get("cut", 0) + 1
            continue
        seen[answer.status] = seen.get(answer.status, 0) + 1
        if answer.status in (429, 503):
            assert retry_after(answer)


async def test_a_flood_of_large_requests_is_refused_in_part_and_the_server_is_well_afterwards(database_url, tmp_path):
    async with api_process(database_url, tmp_path) as api, api.client() as client:
        assert (await client.post("/v1/jobs", json=job())).status_code == 201
        before, peak, seen = api.memory, 0, {}
        body = msgspec.json.encode([job(payload={"text": "x" * 20_000})] * 100)
        ends = time.monotonic() + FLOOD_SECONDS
        async with Connections(api.url, api.token, FLOOD_CONNECTIONS) as connections:
            request = connections.request("POST", "/v1/jobs/batch", body)
            flooding = [asyncio.create_task(flood(connections, request, ends, seen)) for _ in range(FLOOD_CONNECTIONS)]
            while not all(task.done() for task in flooding):
                peak = max(peak, api.memory)
                await asyncio.sleep(0.1)
            await asyncio.gather(*flooding)
        print(f"answers: {seen}; memory {before // 2**20} MiB, then at most {peak // 2**20} MiB")
        assert seen.get(200, 0) > 0
        assert seen.get(503, 0) > 0
        assert peak - before < MOST_GROWTH_BYTES
        assert (await client.post("/v1/jobs", json=job())).status_code == 201


async def test_a_flood_of_new_connections_is_served_or_refused_and_never_left_waiting(database_url, tmp_path):
    async with api_process(database_url, tmp_path, ROTA_CONNECTIONS=str(CONNECTIONS)) as api, api.client() as client:
        assert (await client.get("/healthz")).status_code == 200
        before = api.memory
        seen = await asyncio.gather(*(_come_and_go(api.port, 20) for _ in range(100)))
        told = [line for lines in seen for line in lines]
        answered = sum(line.startswith(b"HTTP/1.1 200") for line in told)
        print(f"{answered} of {len(told)} were served")
        # How many more are served than fit at once is a matter of how fast they go; those that fit always are.
        assert answered >= CONNECTIONS
        assert all(line.startswith((b"HTTP/1.1 200", b"HTTP/1.1 503")) or line == b"" for line in told)
        assert (await client.get("/healthz")).status_code == 200
        assert api.memory - before < MOST_GROWTH_BYTES


async def _come_and_go(port, times):
    answers = []
    for _ in range(times):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            with suppress(ConnectionError):
                writer.write(b"GET /healthz HTTP/1.1\r\nHost: rota\r\nConnection: close\r\n\r\n")
            answers.append((await in_time(read_all(reader)))[:12])
        finally:
            writer.close()
    return answers
