"""Functions in processes of their own: what can't be asked to stop can be killed, and what crashes takes only itself.

A few processes are kept warm; each runs one function at a time. One that was killed, crashed or ran out of memory is
replaced; what a function starts and leaves behind ends with its run. A process may have a limit of memory.
"""

from __future__ import annotations

import asyncio
import math
import os
import socket
import sys
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from rota.errors import SetupError
from rota.worker.context import Context, Final, PlainError, Said, Snooze
from rota.worker.executing import RemoteError
from rota.worker.messages import HEADER_BYTES, Done, FromChild, Run, Stop, Told, frame, from_child
from rota.worker.subprocesses import Guarded, Subprocesses, describe_end

GRACE_SECONDS = 10.0
LEAVE_SECONDS = 2.0
# Not of the function's business, and not to be found by it: the worker's own settings.
_WITHHELD = "ROTA_"


class Isolated(msgspec.Struct, frozen=True):
    """A function that runs in a process of its own; 0 bytes: no limit."""

    function: Callable[..., Any]
    memory_bytes: int = 0


class ProcessError(PlainError):
    """The process of a function died."""


class ProcessRunner:
    """Runs isolated functions in a pool of processes."""

    def __init__(
        self,
        functions: Mapping[str, Isolated],
        subprocesses: Subprocesses,
        *,
        processes: int,
        grace_seconds: float = GRACE_SECONDS,
    ) -> None:
        for name, isolated in functions.items():
            _check(name, isolated.function)
        self._functions = functions
        self._subprocesses = subprocesses
        self._grace = grace_seconds
        self._most = processes
        self._permits = asyncio.Semaphore(processes)
        self._idle: list[_Process] = []
        self._starting: set[asyncio.Task[None]] = set()

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names this runner knows."""
        return tuple(self._functions)

    def warm_up(self) -> None:
        """Starts a process for each limit of memory that occurs, so that the first run need not wait for one."""
        for memory in {isolated.memory_bytes for isolated in self._functions.values()}:
            self._start_spare(memory)

    async def run(self, task: str, payload: Any, context: Context) -> Any:
        """One call in a process that does nothing else meanwhile."""
        isolated = self._functions[task]
        async with self._permits:
            process = await self._take(isolated.memory_bytes)
            context.begin()
            try:
                done = await process.run(isolated.function, payload, context, grace_seconds=self._grace)
            finally:
                await self._give_back(process)
        return _outcome(done, context)

    async def close(self) -> None:
        """Ends the pool."""
        for starting in self._starting:
            starting.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)
        await asyncio.gather(*(process.end() for process in self._idle))
        self._idle.clear()

    async def _take(self, memory: int) -> _Process:
        self._idle = [process for process in self._idle if process.usable]
        for process in self._idle:
            if process.memory_bytes == memory:
                self._idle.remove(process)
                return process
        if len(self._idle) >= self._most:
            await self._idle.pop(0).end()  # it has another limit
        return await self._start(memory)

    async def _give_back(self, process: _Process) -> None:
        if process.usable:
            self._idle.append(process)
            return
        await process.end()
        self._start_spare(process.memory_bytes)

    def _start_spare(self, memory: int) -> None:
        async def start() -> None:
            self._idle.append(await self._start(memory))

        task = asyncio.get_running_loop().create_task(start())
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def _start(self, memory: int) -> _Process:
        modules = sorted({isolated.function.__module__ for isolated in self._functions.values()})
        return await _Process.start(self._subprocesses, modules, memory)


class _Process:
    """One process of the pool, seen from the worker."""

    def __init__(self, memory_bytes: int) -> None:
        self.memory_bytes = memory_bytes
        self.usable = True
        self._context: Context | None = None
        self._last_words = b""
        self._guarded: Guarded
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    @classmethod
    async def start(cls, subprocesses: Subprocesses, modules: list[str], memory_bytes: int) -> _Process:
        process = cls(memory_bytes)
        ours, theirs = socket.socketpair()
        try:
            process._guarded = await subprocesses.start(
                [sys.executable, "-m", "rota.worker.child", str(theirs.fileno()), *modules],
                environment=_environment(),
                output=process._output,
                keep=[theirs.fileno()],
                memory_bytes=memory_bytes,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        process._reader, process._writer = await asyncio.open_connection(sock=ours)
        return process

    async def run(self, function: Callable[..., Any], payload: Any, context: Context, *, grace_seconds: float) -> Done:
        """One function from start to end."""
        self._context = context
        deadline = context.deadline
        wanted = Run(
            function.__module__,
            function.__qualname__,
            None if payload is None else msgspec.json.encode(payload),
            context.claim,
            None if deadline is None else deadline.timestamp(),
            dict(context.secrets),
        )
        try:
            self._writer.write(frame(wanted))
            done = await self._until_done(context)
        except asyncio.CancelledError:
            await self._stop(context, min(grace_seconds, context.stop_within))
            raise
        finally:
            if self.usable:
                await self._guarded.sweep()
                self._guarded.read_all()
            self.usable = self.usable and not self._guarded.ended.is_set()
            self._context = None
        self.usable = self.usable and not done.spent
        return done

    async def end(self) -> None:
        """Ends it, whatever it does."""
        self.usable = False
        self._writer.close()
        self._guarded.kill()
        await self._guarded.ended.wait()

    async def _stop(self, context: Context, grace_seconds: float) -> None:
        """Asks; kills when the grace period is over. What it ended with does not matter any more."""
        try:
            self._writer.write(frame(Stop()))
            async with asyncio.timeout(grace_seconds if grace_seconds < math.inf else None):
                done = await self._until_done(context)
            context.noticed |= done.noticed
            self.usable = not done.spent
        except (TimeoutError, ProcessError):
            await self.end()

    async def _until_done(self, context: Context) -> Done:
        while True:
            message = await self._receive()
            if isinstance(message, Done):
                return message
            if isinstance(message, Told):
                context.take_in(Said(message.progress, message.message, message.checkpoint))
            elif message.whole:
                context.write(message.stream, message.data.decode("utf-8", "replace"))
            else:
                context.feed(message.stream, message.data)

    async def _receive(self) -> FromChild:
        try:
            size = int.from_bytes(await self._reader.readexactly(HEADER_BYTES), "big")
            body = await self._reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.usable = False
            await self._guarded.ended.wait()
            words = self._last_words.decode("utf-8", "replace")
            raise ProcessError(describe_end("the task's process", self._guarded, words)) from None
        message: FromChild = from_child.decode(body)
        return message

    def _output(self, stream: str, data: bytes) -> None:
        """What comes out below Python: from libraries, from what it started, from an interpreter that dies."""
        self._last_words = (self._last_words + data)[-2000:]
        if self._context:
            self._context.feed(stream, data)


def _outcome(done: Done, context: Context) -> Any:
    context.noticed |= done.noticed
    if done.snooze is not None:
        return Snooze(done.snooze)
    if done.error is not None:
        raise Final(done.error) if done.final else RemoteError(done.error, done.trace)
    if done.stopped:
        raise RemoteError("CancelledError: the task cancelled itself", "")
    return None if done.result is None else msgspec.Raw(done.result)


def _check(name: str, function: Callable[..., Any]) -> None:
    if function.__module__ == "__main__" or "<" in function.__qualname__:
        raise SetupError(
            f"The task {name!r} can't run in a process of its own: another process can't import it. "
            "Define it at the top level of a module."
        )


def _environment() -> dict[str, str]:
    passed_on = {name: value for name, value in os.environ.items() if not name.startswith(_WITHHELD)}
    return passed_on | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "PYTHONUNBUFFERED": "1"}
