"""Takes one turn and tells what it cost."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from bench.front_door import echo
from bench.front_door.measures import Turn
from bench.peers.measuring import Figures, PeerBench, Sizes, Trial, microseconds
from bench.peers.peer import Variant
from bench.peers.processes import MeasureError
from bench.peers.servers import PostgresServer

FINISH_SECONDS = 60.0
WORKERS = 2
TEXT_LENGTH = 80
_COMMENT = re.compile(r"--[^\n]*")
_LOGGED = re.compile(r"LOG:  (?:statement|execute [^:]*): (.*)")


@dataclass(frozen=True, kw_only=True)
class Amounts:
    """How much of everything in one turn."""

    seconds: float = 2.5
    backlog: int = 30_000
    end_to_end: int = 50_000


SHORT = Amounts(seconds=0.4, backlog=300, end_to_end=300)


class Side:
    """One library on a server of its own, for as long as the benchmark runs. Use as an async context manager."""

    def __init__(self, name: str, *, python: str, folder: Path, amounts: Amounts, tell: Callable[[str], None]) -> None:
        folder.mkdir()
        work = folder / "work"
        work.mkdir()
        self._server = PostgresServer(folder)
        self._python = python
        self._amounts = amounts
        self._bench = PeerBench(
            python=python,
            module=f"bench.front_door.{name}_side",
            server=self._server,
            folder=work,
            sizes=Sizes(),
            tell=tell,
        )
        self.version = ""

    async def __aenter__(self) -> Self:
        self.version = await self._server.start()
        self._bench.peer = await self._bench.describe()
        return self

    async def __aexit__(self, *_details: object) -> None:
        await self._server.stop()

    @property
    def versions(self) -> dict[str, str]:
        """The library's."""
        return self._bench.peer.versions

    @property
    def log(self) -> Path:
        """What its processes wrote."""
        return self._bench.log

    async def take(self, turn: Turn) -> Figures:
        """A turn's figures, with the load that it began at."""
        load = os.getloadavg()[0]
        return await self._measure(turn) | {"load": load}

    async def _measure(self, turn: Turn) -> Figures:
        if turn.work == "drain":
            return await self._bench.drain(self._variant(turn), self._amounts.backlog)
        if turn.work == "end_to_end":
            return await self._bench.end_to_end(self._variant(turn), self._amounts.end_to_end)
        async with AsyncExitStack() as stack:
            if turn.logged:
                await self._server.log_statements(wanted=True)
                stack.push_async_callback(self._server.log_statements, wanted=False)
            trial = await stack.enter_async_context(self._bench.trial())
            return await self._submit(turn, trial)

    async def _submit(self, turn: Turn, trial: Trial) -> Figures:
        if turn.workers:
            trial.start(self._variant(turn).commands)
            await trial.warm_up(self._variant(turn))
        if turn.bare:
            trial.start([echo.command(self._python)])
        program = await trial.submitter(turn.work, self._amounts.seconds)
        await trial.settle()
        position = self._server.log_file.stat().st_size
        written, used = await self._server.written(), trial.used()
        await program.go()
        done: dict[str, Any] = await program.finish(self._amounts.seconds + FINISH_SECONDS)
        after = await self._server.written()
        if "missing" in done:
            raise MeasureError(done["missing"])
        count, seconds = done["count"], done["ended"] - done["began"]
        found = {
            "rate": count / seconds,
            "count": count,
            "p50_ms": done["p50_ms"],
            "p99_ms": done["p99_ms"],
            "microseconds": microseconds(used, trial.used(), count) | {"client": done["processor"] / count * 1e6},
            "wal_bytes_per_job": None if written is None or after is None else (after - written) / count,
        }
        if turn.logged:
            found["statements"] = _statements(self._server.log_file, position, count)
        return found

    def _variant(self, turn: Turn) -> Variant:
        """Two worker processes."""
        two = [variant for variant in self._bench.peer.variants if variant.processes == WORKERS]
        return next(variant for variant in two if turn.variant in variant.label)


def _statements(log: Path, position: int, count: int) -> dict[str, float]:
    """How often statements were executed for each job, by how they begin; those of other services are too few."""
    with log.open("rb") as file:
        file.seek(position)
        lines = file.read().decode(errors="replace").splitlines()
    texts: list[str] = []
    for line in lines:
        if line.startswith("\t") and texts:
            texts[-1] += line.replace("\t", "\n")
        elif found := _LOGGED.search(line):
            texts.append(found[1])
        else:
            texts.append("")
    often = {text: times for text, times in Counter(texts).items() if text and times > count / 2}
    return {_beginning(text): times / count for text, times in often.items()}


def _beginning(text: str) -> str:
    """Of a statement, without the comments above it."""
    return " ".join(_COMMENT.sub("", text).split())[:TEXT_LENGTH]
