"""Takes turns and tells what they cost."""

from __future__ import annotations

import asyncio
import os
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from bench.front_door import echo
from bench.front_door.measures import DRAIN, Turn
from bench.peers.measuring import Figures, PeerBench, Sizes, Trial, microseconds
from bench.peers.peer import Variant
from bench.peers.processes import MeasureError, Submitter
from bench.peers.servers import PostgresServer

FINISH_SECONDS = 60.0
TEXT_LENGTH = 80
LOG_LINES = 15
_COMMENT = re.compile(r"--[^\n]*")
_LOGGED = re.compile(r"LOG:  (?:statement|execute [^:]*): (.*)")


@dataclass(frozen=True, kw_only=True)
class Amounts:
    """How much of everything in one turn."""

    seconds: float = 0.8
    backlog: int = 30_000
    end_to_end: int = 50_000


SHORT = Amounts(seconds=0.2, backlog=300, end_to_end=300)


class Side:
    """One library on a server of its own, for as long as the benchmark runs. Use as an async context manager."""

    def __init__(self, name: str, *, python: str, folder: Path, amounts: Amounts, tell: Callable[[str], None]) -> None:
        folder.mkdir()
        work = folder / "work"
        work.mkdir()
        self._server = PostgresServer(folder)
        self._python = python
        self._amounts = amounts
        self._tell = tell
        self._bench = PeerBench(
            python=python,
            module=f"bench.front_door.{name}_side",
            server=self._server,
            folder=work,
            sizes=Sizes(),
            tell=tell,
        )
        self.server_version = ""

    async def __aenter__(self) -> Self:
        self.server_version = await self._server.start()
        try:
            self._bench.peer = await self._bench.describe()
        except BaseException:
            await self._server.stop()
            raise
        return self

    async def __aexit__(self, *_details: object) -> None:
        await self._server.stop()

    @property
    def versions(self) -> dict[str, str]:
        """The library's."""
        return self._bench.peer.versions

    async def take_whole(self, turn: Turn) -> Figures:
        """Drain or end to end, each time on an empty database."""
        load = os.getloadavg()[0]
        if turn.work == DRAIN:
            found = await self._bench.drain(self._variant(turn), self._amounts.backlog)
        else:
            found = await self._bench.end_to_end(self._variant(turn), self._amounts.end_to_end)
        return found | {"load": load}

    @asynccontextmanager
    async def started(self, turns: Sequence[Turn]) -> AsyncIterator[list[Program]]:
        """The programs of these turns, ready to submit to one empty database."""
        async with AsyncExitStack() as stack:
            if any(turn.logged for turn in turns):
                await self._server.log_statements(wanted=True)
                stack.push_async_callback(self._server.log_statements, wanted=False)
            trial = await stack.enter_async_context(self._bench.trial())
            if any(turn.bare for turn in turns):
                trial.start([echo.command(self._python)])
            for turn in turns:
                if turn.workers:
                    trial.start(self._variant(turn).commands)
                    await trial.warm_up(self._variant(turn))
            programs = [Program(turn, trial, self._server, await self._submitter(turn, trial)) for turn in turns]
            await trial.settle()
            yield programs

    async def _submitter(self, turn: Turn, trial: Trial) -> Submitter | MeasureError:
        """One that is ready, or why there is none: the other turns are taken nevertheless."""
        try:
            return await trial.submitter(turn.work, self._amounts.seconds)
        except MeasureError as error:
            self.tell_end()
            return error

    def tell_end(self) -> None:
        """The end of what its processes wrote."""
        for line in self._bench.log.read_text(errors="replace").splitlines()[-LOG_LINES:]:
            self._tell(f"  | {line}")

    def _variant(self, turn: Turn) -> Variant:
        return next(variant for variant in self._bench.peer.variants if variant.label.startswith(turn.variant))


class Program:
    """A turn's program, which submits for a moment each time that it is told to."""

    def __init__(self, turn: Turn, trial: Trial, server: PostgresServer, submitter: Submitter | MeasureError) -> None:
        self.turn = turn
        self._trial = trial
        self._server = server
        self._submitter = submitter

    async def take(self) -> Figures:
        """What it did and what that cost; raises MeasureError if it can't."""
        if isinstance(self._submitter, MeasureError):
            raise self._submitter
        load, position = os.getloadavg()[0], self._server.log_file.stat().st_size
        written, used = await self._server.written(), self._trial.used()
        await self._submitter.go()
        done: dict[str, Any] = await self._submitter.finish(FINISH_SECONDS)
        if "missing" in done:
            raise MeasureError(done["missing"])
        count, after = done["count"], self._trial.used()
        cost = microseconds(used, after, count) | {"client": done["processor"] / count * 1e6}
        found = {
            "rate": count / (done["ended"] - done["began"]),
            "count": count,
            "p50_ms": done["p50_ms"],
            "p99_ms": done["p99_ms"],
            "microseconds": cost,
            "wal_bytes_per_job": (await self._server.written() - written) / count,
            "load": load,
        }
        if self.turn.logged:
            text = await asyncio.to_thread(_read_from, self._server.log_file, position)
            found["statements"] = statements_of(text, count)
        return found


def statements_of(log: str, count: int) -> dict[str, float]:
    """How often statements of a server's log were executed for each job, by how they begin.

    Left out are those that were executed less often than for every second job: what background services do.
    """
    texts: list[str] = []
    for line in log.splitlines():
        if line.startswith("\t") and texts:
            texts[-1] += line.replace("\t", "\n")
        elif found := _LOGGED.search(line):
            texts.append(found[1])
        else:
            texts.append("")
    often = {text: times for text, times in Counter(texts).items() if text and times > count / 2}
    return {_beginning(text): times / count for text, times in often.items()}


def _read_from(file: Path, position: int) -> str:
    with file.open("rb") as log:
        log.seek(position)
        return log.read().decode(errors="replace")


def _beginning(text: str) -> str:
    """Of a statement, without the comments above it."""
    return " ".join(_COMMENT.sub("", text).split())[:TEXT_LENGTH]
