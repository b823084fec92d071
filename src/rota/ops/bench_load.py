"""A load generator with cheap keep-alive connections, each with one request at a time."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Self

import msgspec

from rota.client.async_http import AsyncHttpConnections
from rota.client.http_messages import HttpAnswer
from rota.client.http_routes import find_route
from rota.client.retries import retry_after
from rota.client.server_address import time_limits, trust
from rota.domain.lag_histogram import exact_quantile
from rota.errors import RotaError

_LIMITS = time_limits(60.0)
_TRY_AGAIN_SECONDS = 1.0
_OVERLOADED = (429, 503)
CREATED = 201
OK = 200


class UnexpectedAnswerError(RotaError):
    """The server rejected a valid request."""


class Connections:
    """Connections to one server, one for each simultaneous request."""

    def __init__(self, url: str, token: str | None, count: int) -> None:
        self._http = AsyncHttpConnections(find_route(url, trust(url)), {"Authorization": f"Bearer {token}"}, most=count)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_details: object) -> None:
        await self._http.aclose()

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        """The bytes of a request, to be reused."""
        return self._http.heads.head(method, path, None, {}, len(body)) + body

    async def send(self, request: bytes) -> HttpAnswer:
        """Sends a request and waits for the answer."""
        return await self._http.send("", request, b"", _LIMITS)

    async def get(self, path: str) -> Any:
        """The decoded answer to a GET; raises UnexpectedAnswerError."""
        answer = await self.send(self.request("GET", path))
        if answer.status != OK:
            raise UnexpectedAnswerError(f"GET {path} was answered with {answer.status}: {answer.content[:500]!r}")
        return msgspec.json.decode(answer.content)


class BenchReceipt(msgspec.Struct):
    """The result of a stream of submissions."""

    accepted: int = 0
    refused: int = 0
    seconds: float = 0.0
    latencies: list[float] = msgspec.field(default_factory=list)

    @property
    def per_second(self) -> float:
        """Accepted jobs per second."""
        return self.accepted / self.seconds if self.seconds else 0.0


class Submitter:
    """Submits batches of jobs as fast as possible, with a few requests at the same time."""

    def __init__(
        self, connections: Connections, *, at_once: int, before_each: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self._connections = connections
        self._at_once = at_once
        self._before_each = before_each

    async def submit(self, batches: Iterator[Sequence[dict[str, Any]]]) -> BenchReceipt:
        """Submits every batch; batches rejected for overload are sent again when the server allows."""
        made = (self._connections.request("POST", "/v1/jobs/batch", msgspec.json.encode(batch)) for batch in batches)
        return await self.send(made)

    async def send(self, requests: Iterator[bytes]) -> BenchReceipt:
        """Sends finished requests."""
        done = BenchReceipt()
        began = time.perf_counter()

        async def one_after_the_other() -> None:
            for request in requests:
                if self._before_each:
                    await self._before_each()
                await self._send(request, done)

        await asyncio.gather(*(one_after_the_other() for _ in range(self._at_once)))
        done.seconds = time.perf_counter() - began
        return done

    async def _send(self, request: bytes, done: BenchReceipt) -> None:
        while True:
            sent = time.perf_counter()
            answer = await self._connections.send(request)
            if answer.status in _OVERLOADED:
                done.refused += 1
                await asyncio.sleep(retry_after(answer) or _TRY_AGAIN_SECONDS)
                continue
            done.latencies.append(time.perf_counter() - sent)
            accepted, problem = _read(answer)
            done.accepted += accepted
            if problem:
                raise UnexpectedAnswerError(f"a submission was rejected: {problem}")
            return


class _Result(msgspec.Struct, rename="camel"):
    job_id: str | None = None
    error: Any = None


class _Results(msgspec.Struct):
    results: list[_Result]


_results = msgspec.json.Decoder(_Results)


def _read(answer: HttpAnswer) -> tuple[int, str | None]:
    """The number of accepted jobs, and the first problem."""
    if answer.status == CREATED:
        return 1, None
    if answer.status != OK:
        return 0, f"{answer.status} {answer.content[:500].decode(errors='replace')}"
    results = _results.decode(answer.content).results
    problems = [result.error for result in results if result.error]
    return len(results) - len(problems), str(problems[0]) if problems else None


class Spread(msgspec.Struct):
    """Percentiles of a measurement in milliseconds."""

    count: int
    p50: float
    p99: float
    p999: float
    highest: float
    negative: int = 0

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Spread:
        """From values in seconds; `negative` counts those below zero (early starts)."""
        ordered = sorted(seconds)
        p50, p99, p999, highest = (percentile(ordered, share) * 1000 for share in (0.5, 0.99, 0.999, 1.0))
        return cls(len(ordered), p50, p99, p999, highest, negative=sum(value < 0 for value in ordered))


def percentile(ordered: Sequence[float], share: float) -> float:
    """The nearest-rank percentile of ordered values; nan if there are none."""
    found = exact_quantile(ordered, share)
    return math.nan if found is None else found
