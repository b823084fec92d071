"""Observability: what metrics, StatsD and traces cost, against the same fleet without them, in turns."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from statistics import median

import msgspec

from bench.lab import Lab, free_port
from bench.progress import Progress
from bench.throughput import sustain
from rota.ops.bench_load import OK, Connections

SAMPLED = "0.01"
SCRAPE_SECONDS = 1.0


class Shown(msgspec.Struct):
    """A fleet with something switched on against the plain one: medians of the turns."""

    per_second: float
    throughput_ratio: float
    cpu_ms_per_1000: float
    cpu_ratio: float


class Observability(msgspec.Struct):
    """Jobs a second and CPU time (Rota and PostgreSQL) per 1,000 jobs."""

    plain_per_second: float
    plain_cpu_ms_per_1000: float
    metrics: Shown  # scraped each second, label task, StatsD
    sampled: Shown  # the same, OTLP metrics, and traces of one in a hundred
    traced: Shown  # the same with every trace


async def measure_observability(progress: Progress, *, seconds: float, turns: int) -> Observability:
    """The same load on fleets side by side, one after the other in each turn."""
    with _sinks() as (statsd, collector):
        metrics = {"ROTA_METRICS_TASK_LABEL": "on", "ROTA_STATSD": statsd}
        otel = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector,
            "OTEL_METRIC_EXPORT_INTERVAL": "5000",
            "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
        }
        kinds = {
            "plain": {},
            "metrics": metrics,
            "sampled": metrics | otel | {"OTEL_TRACES_SAMPLER_ARG": SAMPLED},
            "traced": metrics | otel | {"OTEL_TRACES_SAMPLER_ARG": "1"},
        }
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in kinds}
        async with AsyncExitStack() as stack:
            labs = {name: await stack.enter_async_context(Lab(workers=2, **more)) for name, more in kinds.items()}
            for lab in labs.values():
                await sustain(lab, seconds / 2, progress)
            scraping = asyncio.create_task(_scrape([lab for name, lab in labs.items() if name != "plain"]))
            for turn in range(turns):
                progress.say(f"turn {turn + 1}: {seconds:g} s on each of {', '.join(labs)}")
                # In another order each time: the machine is never quite the same.
                order = list(labs)[turn % len(labs) :] + list(labs)[: turn % len(labs)]
                for name in order:
                    done = await sustain(labs[name], seconds, progress)
                    cpu = done.rota_cpu_ms_per_1000 + done.postgres_cpu_ms_per_1000
                    found[name].append((done.per_second, cpu))
                latest = {name: some[-1] for name, some in found.items()}
                progress.figure(
                    ", ".join(f"{name} {rate:,.0f}/s ({cpu:.0f} µs)" for name, (rate, cpu) in latest.items())
                )
            scraping.cancel()
            await asyncio.gather(scraping, return_exceptions=True)
    return Observability(
        median(rate for rate, _ in found["plain"]),
        median(cpu for _, cpu in found["plain"]),
        **{name: _against(found["plain"], found[name]) for name in ("metrics", "sampled", "traced")},
    )


def _against(plain: list[tuple[float, float]], shown: list[tuple[float, float]]) -> Shown:
    pairs = list(zip(plain, shown, strict=True))
    return Shown(
        median(rate for rate, _ in shown),
        median(mine[0] / other[0] for other, mine in pairs),
        median(cpu for _, cpu in shown),
        median(mine[1] / other[1] for other, mine in pairs),
    )


async def _scrape(labs: list[Lab]) -> None:
    """Reads /metrics of each fleet, as Prometheus does, only more often."""
    async with AsyncExitStack() as stack:
        connected = [await stack.enter_async_context(lab.connect(1)) for lab in labs]
        while True:
            for connections in connected:
                await _read(connections)
            await asyncio.sleep(SCRAPE_SECONDS)


async def _read(connections: Connections) -> None:
    answer = await connections.send(connections.request("GET", "/metrics"))
    if answer.status != OK:
        raise AssertionError(f"/metrics was answered with {answer.status}")


@contextmanager
def _sinks() -> Iterator[tuple[str, str]]:
    """A StatsD server and an OpenTelemetry collector that take everything and keep nothing."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_words: object) -> None:
            """Nothing is kept."""

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as statsd:
        statsd.bind(("127.0.0.1", 0))  # what is not read is dropped by the kernel
        server = ThreadingHTTPServer(("127.0.0.1", free_port()), Handler)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{statsd.getsockname()[1]}", f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            server.server_close()
