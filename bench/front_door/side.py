"""What the submitting programs of both sides share: the arguments of a job, loops that last some seconds, a main.

A side is a peer (`bench.peers.peer`) with works: methods that submit for some seconds and return what they did. It runs
as `python -m bench.front_door.<side> WORK SECONDS`, which works once for a moment, so that connections are open and
caches are warm, and then again each time that it is told to.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bench.peers.peer import Peer, run, say, when_told
from bench.peers.peer import main as peer_main
from rota.ops.bench_load import Spread

WIDTH = 32
WARM_UP_SECONDS = 0.3
TEXT = "the invoice of this month is ready, have a look at it"

Done = dict[str, Any]
Arguments = tuple[int, str, float]


class NotThereError(Exception):
    """What a work needs is not part of the library; the message is what the table says about it."""


def arguments(number: int) -> Arguments:
    """Of one job: about 100 bytes of JSON with their names."""
    return number, TEXT, number * 0.25


async def repeat(work: Callable[[], Awaitable[int]], seconds: float, width: int = 1) -> Done:
    """Works until the time is up, in so many coroutines; the work tells how many jobs it submitted."""
    ends = time.perf_counter() + seconds
    lengths: list[float] = []

    async def pull() -> int:
        count, began = 0, time.perf_counter()
        while began < ends:
            count += await work()
            now = time.perf_counter()
            lengths.append(now - began)
            began = now
        return count

    return _done(sum(await asyncio.gather(*(pull() for _ in range(width)))), lengths)


def repeat_in_threads(work: Callable[[], int], seconds: float, width: int = 1) -> Done:
    """The same in threads."""
    ends = time.perf_counter() + seconds
    lengths: list[float] = []

    def pull() -> int:
        count, began = 0, time.perf_counter()
        while began < ends:
            count += work()
            now = time.perf_counter()
            lengths.append(now - began)
            began = now
        return count

    with ThreadPoolExecutor(width) as threads:
        counts = [future.result() for future in [threads.submit(pull) for _ in range(width)]]
    return _done(sum(counts), lengths)


def main(side: Peer) -> None:
    """Runs a work, or a command that every peer has."""
    name, *rest = sys.argv[1:]
    work = getattr(side, f"work_{name}", None)
    if work is None:
        peer_main(side)
    else:
        run(_work(side, work, float(rest[0])))


async def _work(side: Peer, work: Callable[[float], Any], seconds: float) -> None:
    opened = side.open()
    if inspect.isawaitable(opened):
        await opened
    missing = ""
    try:
        done = work(WARM_UP_SECONDS)
        if inspect.isawaitable(done):
            await done
    except NotThereError as error:
        missing = str(error)
    say("ready")
    while await when_told(lambda _sent: {"missing": missing} if missing else work(seconds)):
        pass
    os._exit(0)  # as any peer does


def _done(count: int, lengths: list[float]) -> Done:
    spread = Spread.of(lengths)
    return {"count": count, "p50_ms": spread.p50, "p99_ms": spread.p99}
