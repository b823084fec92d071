"""What a peer's file defines, and the commands it understands.

A file `peer_<name>.py` holds a subclass of Peer, the library's tasks, and ends with `main(...)`. It runs in the
environment of its library as `python -m bench.peers.peer_<name> COMMAND`, so this module needs the standard library
alone. Tasks have names of their own because the file is `__main__` here and a module in the library's worker.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import inspect
import json
import os
import platform
import resource
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

Item = TypeVar("Item")

SCHEDULES = "BENCH_SCHEDULES"
PORT = "BENCH_PORT"
SERVER_URL = "BENCH_SERVER"
BATCH = 1000

Command = list[str]
Due = tuple[int, float]


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way to run the workers; `processes` is how many of them run tasks. In commands, {home} is a folder."""

    label: str
    processes: int
    commands: list[Command]


@dataclass(frozen=True, kw_only=True)
class Description:
    """What the benchmark must know of a peer, and what its readers want to know."""

    title: str
    versions: dict[str, str]
    python: str
    server: str
    keeps: str
    settings: str
    variants: list[Variant]
    timed: Variant | None = None
    beside: list[Command] = field(default_factory=list)
    for_delayed: list[Command] = field(default_factory=list)
    for_schedules: list[Command] = field(default_factory=list)
    bulk: bool = False
    delayed: bool = True
    schedules: bool = True
    aligned: bool = True
    environment: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, text: bytes) -> Self:
        """From what `describe` wrote."""
        values = json.loads(text)
        values["variants"] = [Variant(**variant) for variant in values["variants"]]
        values["timed"] = Variant(**values["timed"]) if values["timed"] else None
        return cls(**values)


class Peer:
    """A library under test. Methods may be coroutines; `open` runs before the clock starts."""

    title: str
    packages: tuple[str, ...]
    server: str  # "redis" or "postgres"
    keeps: str  # what is left of a job that succeeded
    settings: str  # what was set, for the report
    bulk = False  # whether the library has a call that submits many at once
    delayed = True  # whether a job can be submitted for a time
    schedules = True  # whether a job can repeat each second
    aligned = True  # whether schedules fire at whole seconds; else at an interval from some start
    environment: ClassVar[
        dict[str, str]
    ] = {}  # variables for all its processes; {server}, {port}, {home} are filled in
    notes: ClassVar[dict[str, str]] = {}  # footnotes by measure

    def variants(self) -> list[Variant]:
        """The ways to run workers that are tried."""
        raise NotImplementedError

    def timed(self) -> Variant | None:
        """How to run workers for due times and schedules, where the fastest way is not the most punctual."""
        return None

    def beside(self) -> list[Command]:
        """Processes that must run besides the workers, always."""
        return []

    def for_delayed(self) -> list[Command]:
        """Processes that must also run for jobs with a due time."""
        return []

    def for_schedules(self) -> list[Command]:
        """Processes that must also run for schedules."""
        return []

    def prepare(self) -> Awaitable[None] | None:
        """Makes what the library needs in an empty database or Redis."""
        return None

    def open(self) -> Awaitable[None] | None:
        """Connects."""
        return None

    def submit(self, count: int) -> Awaitable[None] | None:
        """Submits that many no-op jobs as fast as the library can, and returns when all are accepted."""
        raise NotImplementedError

    def submit_at(self, dues: Sequence[Due]) -> Awaitable[None] | None:
        """Submits jobs for their times."""
        raise NotImplementedError

    def schedule(self, count: int) -> Awaitable[None] | None:  # noqa: ARG002 - for those who override it
        """Makes that many schedules that fire each second, if they are stored and not part of the worker's code."""
        return None

    def work(self) -> Awaitable[None] | None:
        """Runs a worker, where the library has no command for it."""
        raise NotImplementedError

    def describe(self) -> Description:
        """All of this as data."""
        return Description(
            title=self.title,
            versions={name: importlib.metadata.version(name) for name in self.packages},
            python=platform.python_version(),
            server=self.server,
            keeps=self.keeps,
            settings=self.settings,
            variants=self.variants(),
            timed=self.timed(),
            beside=self.beside(),
            for_delayed=self.for_delayed(),
            for_schedules=self.for_schedules(),
            bulk=self.bulk,
            delayed=self.delayed,
            schedules=self.schedules,
            aligned=self.aligned,
            environment=self.environment,
            notes=self.notes,
        )


def main(peer: Peer) -> None:
    """Runs the command named on the command line."""
    command, *arguments = sys.argv[1:]
    if command == "describe":
        say(asdict(peer.describe()))
    elif command == "worker":
        run(_maybe(peer.work()))
    elif command == "prepare":
        run(_maybe(peer.prepare()))
    else:
        run(_submit(peer, command, arguments))


def run(work: Coroutine[Any, Any, None]) -> None:
    """Runs a coroutine, on uvloop where it is installed."""
    try:
        import uvloop  # noqa: PLC0415 - not part of every environment
    except ImportError:
        asyncio.run(work)
    else:
        uvloop.run(work)


def say(answer: Any) -> None:
    """A line for the benchmark; everything else that is written goes to the log."""
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def in_batches(items: Sequence[Item], size: int = BATCH) -> Iterator[Sequence[Item]]:
    """The items in pieces."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def batch_sizes(count: int) -> list[int]:
    """The sizes of the pieces that so many items come in."""
    return [min(BATCH, count - start) for start in range(0, count, BATCH)]


async def at_once(coroutines: Iterator[Awaitable[Any]], width: int) -> None:
    """Awaits all, so many at a time: for libraries whose submissions are single round trips."""

    async def pull() -> None:
        for coroutine in coroutines:
            await coroutine

    await asyncio.gather(*(pull() for _ in range(width)))


def program(name: str) -> str:
    """A command of the environment that this process runs in."""
    return str(Path(sys.executable).parent / name)


def module(peer: Peer) -> str:
    """The importable name of the peer's file, which here is `__main__`."""
    spec = sys.modules[type(peer).__module__].__spec__
    return spec.name if spec else type(peer).__module__


def own_worker(peer: Peer, *arguments: str) -> Command:
    """The command for a worker that is started by the peer's file."""
    return [sys.executable, "-m", module(peer), "worker", *arguments]


def setting(name: str) -> str:
    """What the benchmark told this process; empty when it only asks for a description."""
    return os.environ.get(name, "")


def schedules_wanted() -> int:
    """How many schedules a worker's code must declare."""
    return int(setting(SCHEDULES) or 0)


def socket_path() -> str:
    """The Unix socket of Redis."""
    return setting(SERVER_URL).removeprefix("unix://") or "/nowhere"


async def _maybe(result: Awaitable[None] | None) -> None:
    if inspect.isawaitable(result):
        await result


async def _submit(peer: Peer, command: str, arguments: list[str]) -> None:
    await _maybe(peer.open())
    count = int(arguments[0])

    def submit(sent: dict[str, float]) -> Awaitable[None] | None:
        if command == "submit":
            return peer.submit(count)
        if command == "submit-at":
            return peer.submit_at([(index, sent["first"] + index * sent["step"]) for index in range(count)])
        if command == "schedule":
            return peer.schedule(count)
        raise SystemExit(f"no such command: {command}")

    say("ready")
    await when_told(submit)
    # Pools and background threads of a library need not be closed in order: what it submitted is acknowledged.
    os._exit(0)


async def when_told(work: Callable[[dict[str, float]], Any]) -> bool:
    """Waits for the word, works, tells when it was and what it used; False: there will be no more words."""
    # In another thread: meanwhile connections are looked after.
    line = await asyncio.to_thread(sys.stdin.readline)
    if not line:
        return False
    began, used = time.monotonic(), _processor_seconds()
    found = work(json.loads(line))
    if inspect.isawaitable(found):
        found = await found
    ended, used = time.monotonic(), _processor_seconds() - used
    say({"began": began, "ended": ended, "processor": used, **(found or {})})
    return True


def _processor_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
