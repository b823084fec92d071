"""Rota through its SDK, as a program that submits is written."""

from __future__ import annotations

import inspect
import itertools
import os
from pathlib import Path
from typing import Any

import asyncpg

import rota
from bench.front_door import echo
from bench.front_door.side import WIDTH, Done, NotThereError, arguments, main, repeat, repeat_in_threads
from bench.peers import tallies
from bench.peers.peer import BATCH, SERVER_URL, at_once, batch_sizes, setting
from bench.peers.peer_rota import IN_FLIGHT, RotaPeer

app = rota.App()


async def noted(user_id: int, text: str, amount: float) -> None:  # noqa: ARG001 - they are decoded, nothing more
    """The task of every job: counted."""
    tallies.count()


note = app.task(name="noted")(noted)


class RotaSide(RotaPeer):
    """Over HTTP unless the name of a work says otherwise."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._connection: asyncpg.Connection

    async def open(self) -> None:
        """The program's own connection to the database, besides waiting for the server."""
        await super().open()
        self._connection = await asyncpg.connect(setting(SERVER_URL))

    async def submit(self, count: int) -> None:
        """For drain and end to end: in batches, a few in flight."""
        await at_once((self._submit_many(note, size) for size in batch_sizes(count)), IN_FLIGHT)

    async def work_one(self, seconds: float, task: Any = note, width: int = 1) -> Done:
        """One by one."""

        async def one() -> int:
            await task.submit(*arguments(next(self._numbers)))
            return 1

        return await repeat(one, seconds, width)

    async def work_coroutines(self, seconds: float) -> Done:
        """Each one by one."""
        return await self.work_one(seconds, width=WIDTH)

    def work_thread(self, seconds: float, width: int = 1) -> Done:
        """One by one, for code that can't await."""

        def one() -> int:
            note.sync.submit(*arguments(next(self._numbers)))
            return 1

        return repeat_in_threads(one, seconds, width)

    def work_threads(self, seconds: float) -> Done:
        """Each one by one."""
        return self.work_thread(seconds, WIDTH)

    async def work_bulk(self, seconds: float, task: Any = note, width: int = 1) -> Done:
        """Batches, one after the other."""

        async def batch() -> int:
            return await self._submit_many(task, BATCH)

        return await repeat(batch, seconds, width)

    async def work_bulk_in_flight(self, seconds: float) -> Done:
        """Batches, a few in flight."""
        return await self.work_bulk(seconds, width=IN_FLIGHT)

    async def work_direct(self, seconds: float) -> Done:
        """One by one, without the API."""
        return await self.work_one(seconds, _direct())

    async def work_direct_coroutines(self, seconds: float) -> Done:
        """Each one by one, without the API."""
        return await self.work_one(seconds, _direct(), WIDTH)

    async def work_direct_bulk(self, seconds: float) -> Done:
        """Batches one after the other, without the API."""
        return await self.work_bulk(seconds, _direct())

    async def work_within(self, seconds: float) -> Done:
        """One by one, each in a transaction of the program's own."""

        async def one() -> int:
            async with self._connection.transaction():
                await note.within(self._connection).submit(*arguments(next(self._numbers)))
            return 1

        return await repeat(one, seconds)

    async def work_within_bulk(self, seconds: float) -> Done:
        """Batches, each in a transaction of the program's own."""

        async def batch() -> int:
            async with self._connection.transaction():
                return await self._submit_many(note.within(self._connection), BATCH)

        return await repeat(batch, seconds)

    async def work_call(self, seconds: float) -> Done:
        """Calls that are made and not submitted."""

        async def calls() -> int:
            return len([note.call(*arguments(number)) for number in range(BATCH)])

        return await repeat(calls, seconds)

    async def work_round_trip(self, seconds: float) -> Done:
        """From the submission to the result, one after the other."""

        async def one() -> int:
            await (await note.submit(*arguments(next(self._numbers)))).result(timeout=60)
            return 1

        return await repeat(one, seconds)

    async def work_bare(self, seconds: float) -> Done:
        """One by one, to a server that only answers."""
        return await self.work_one(seconds, _bare())

    async def work_bare_coroutines(self, seconds: float) -> Done:
        """Each one by one, to a server that only answers."""
        return await self.work_one(seconds, _bare(), WIDTH)

    async def _submit_many(self, task: Any, count: int) -> int:
        await task.submit_many([task.call(*arguments(next(self._numbers))) for _ in range(count)])
        return count


class _Apps:
    """Made once, by the warm-up: an application is opened once in a program."""

    direct: Any = None
    bare: Any = None


def _direct() -> Any:
    """The task of an application that has the database's address instead of the API's."""
    if "database" not in inspect.signature(rota.App).parameters:
        raise NotThereError("rota.App has no parameter `database`")
    if _Apps.direct is None:
        options: dict[str, Any] = {"database": setting(SERVER_URL)}
        _Apps.direct = rota.App("direct", **options).task(name="noted")(noted)
    return _Apps.direct


def _bare() -> Any:
    """The task of an application whose server is the bare one."""
    if _Apps.bare is None:
        url = echo.address(Path(os.environ["ROTA_HOME"]))
        _Apps.bare = rota.App("bare", url=url, token=os.environ["ROTA_TOKEN"]).task(name="noted")(noted)
    return _Apps.bare


if __name__ == "__main__":
    main(RotaSide())
