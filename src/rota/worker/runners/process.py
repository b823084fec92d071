"""Functions in their own processes: they can be killed, and a crash does not affect the worker.

A few processes are kept warm; each runs one function at a time. One that was killed, crashed or ran out of memory is
replaced. Processes that a function leaves behind are killed at the end of its run. Memory can be limited.
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

from rota.gateway.child import ChildQuestion, answer
from rota.task.arguments import check_importable
from rota.task.context import Context, NotBegunError, PlainError, Said, Snooze
from rota.task.retry_rule import RetryRule
from rota.telemetry import get_logger
from rota.time_limits import time_limit
from rota.worker.executor import RemoteError
from rota.worker.runners.child_messages import (
    HEADER_BYTES,
    LARGEST_FRAME,
    Begin,
    FromChild,
    Ready,
    RunDone,
    StartRun,
    Stop,
    Told,
    frame,
    from_child,
)
from rota.worker.runners.guarded_process import Guarded, Subprocesses, describe_end

BEGIN_SECONDS = 120.0
_log = get_logger("process")


class Isolated(msgspec.Struct, frozen=True):
    """A function that runs in its own process; 0 bytes: no limit."""

    function: Callable[..., Any]
    memory_bytes: int = 0
    rule: RetryRule | None = None


class ProcessError(PlainError):
    """The process of a function died."""


class _NeverBeganError(ProcessError):
    """The process died before it began the run."""


class ProcessRunner:
    """Runs isolated functions in a pool of processes."""

    def __init__(
        self,
        functions: Mapping[str, Isolated],
        subprocesses: Subprocesses,
        *,
        processes: int,
        grace_seconds: float,
    ) -> None:
        for name, isolated in functions.items():
            check_importable(name, isolated.function)
        self._functions = functions
        self._subprocesses = subprocesses
        self._grace = grace_seconds
        self._most = processes
        self._permits = asyncio.Semaphore(processes)
        self._idle: list[_Process] = []
        self._busy: set[_Process] = set()
        self._closed = False
        self._starting: set[asyncio.Task[None]] = set()

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(self._functions)

    def warm_up(self) -> None:
        """Starts a process for each memory limit in use, so that the first run need not wait."""
        limits = {isolated.memory_bytes for isolated in self._functions.values()}
        for memory in sorted(limits)[: self._most]:
            self._start_spare(memory)

    async def run(self, task: str, payload: Any, context: Context) -> Any:
        """Calls the function in a process that does nothing else meanwhile."""
        isolated = self._functions[task]
        async with self._permits:
            try:
                done = await self._run(isolated, payload, context)
            except _NeverBeganError:
                if self._closed:
                    raise
                done = await self._run(isolated, payload, context)  # the process died while idle
        # Nothing was raised if there are no kinds: it was stopped, say.
        context.is_final = done.final or bool(isolated.rule and isolated.rule.is_final(done.kinds))
        return _outcome(done, context)

    async def _run(self, isolated: Isolated, payload: Any, context: Context) -> RunDone:
        process = await self._take(isolated.memory_bytes)
        self._busy.add(process)
        try:
            return await process.run(isolated.function, payload, context, grace_seconds=self._grace)
        finally:
            self._busy.discard(process)
            await self._give_back(process)

    async def close(self) -> None:
        """Ends all processes, including those of abandoned runs."""
        self._closed = True
        for starting in self._starting:
            starting.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)
        await asyncio.gather(*(process.end() for process in (*self._idle, *self._busy)))
        self._idle.clear()

    async def _take(self, memory: int) -> _Process:
        dead = [process for process in self._idle if not process.usable]
        self._idle = [process for process in self._idle if process.usable]
        for process in dead:
            await process.end()
        for process in self._idle:
            if process.memory_bytes == memory:
                self._idle.remove(process)
                return process
        if len(self._idle) >= self._most:
            await self._idle.pop(0).end()  # it has another memory limit
        return await self._start(memory)

    async def _give_back(self, process: _Process) -> None:
        if process.usable and not self._closed:
            self._idle.append(process)
            return
        await process.end()
        if not self._closed and len(self._idle) + len(self._starting) < self._most:
            self._start_spare(process.memory_bytes)

    def _start_spare(self, memory: int) -> None:
        async def start() -> None:
            try:
                self._idle.append(await self._start(memory))
            except OSError as error:
                _log.warning("a spare process could not be started", error=str(error))

        task = asyncio.get_running_loop().create_task(start())
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def _start(self, memory: int) -> _Process:
        modules = sorted({isolated.function.__module__ for isolated in self._functions.values()})
        return await _Process.start(self._subprocesses, modules, memory)


class _Process:
    """One process of the pool, on the worker's side."""

    def __init__(self, subprocesses: Subprocesses, memory_bytes: int) -> None:
        self.memory_bytes = memory_bytes
        self._subprocesses = subprocesses
        self._in_step = True
        self._ready = False
        self._size: int | None = None
        self._context: Context | None = None
        self._last_words = b""
        self._answering: set[asyncio.Task[None]] = set()
        self._guarded: Guarded
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    @classmethod
    async def start(cls, subprocesses: Subprocesses, modules: list[str], memory_bytes: int) -> _Process:
        process = cls(subprocesses, memory_bytes)
        ours, theirs = socket.socketpair()
        try:
            process._guarded = await subprocesses.start(
                [sys.executable, "-m", "rota.worker.runners.child", str(theirs.fileno()), *modules],
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
        try:
            process._reader, process._writer = await asyncio.open_connection(sock=ours)
        except BaseException:
            ours.close()
            process._guarded.kill()
            raise
        return process

    @property
    def usable(self) -> bool:
        return self._in_step and not self._guarded.ended.is_set()

    async def run(
        self, function: Callable[..., Any], payload: Any, context: Context, *, grace_seconds: float
    ) -> RunDone:
        self._context = context
        self._ready = False
        wanted = StartRun(
            function.__module__,
            function.__qualname__,
            None if payload is None else msgspec.json.encode(payload),
            context.claim,
            dict(context.secrets),
        )
        try:
            self._writer.write(frame(wanted))
            done = await self._until_done(context)
            self._in_step = not done.spent
        except asyncio.CancelledError:
            await self._stop(context, min(grace_seconds, context.stop_within))
            raise
        finally:
            await self._tidy_up()
        return done

    async def end(self) -> None:
        """Kills it."""
        self._in_step = False
        self._writer.close()
        self._guarded.kill()
        await self._guarded.ended.wait()

    async def _tidy_up(self) -> None:
        """Kills processes it left running, and reads its remaining output."""
        try:
            if self.usable:
                await self._guarded.sweep()
                self._guarded.read_all()
        except asyncio.CancelledError:
            self._in_step = False
            raise
        finally:
            self._context = None

    async def _stop(self, context: Context, grace_seconds: float) -> None:
        """Asks it to stop, and kills it after the grace period."""
        try:
            self._writer.write(frame(Stop(context.claim.number)))
            async with time_limit(grace_seconds if grace_seconds < math.inf else None):
                done = await self._until_done(context, begin=False)
            context.noticed |= done.noticed
            self._in_step = not done.spent
        except (TimeoutError, ProcessError):
            await self.end()

    async def _until_done(self, context: Context, *, begin: bool = True) -> RunDone:
        while True:
            message = await (self._receive() if self._ready else self._first_message())
            if not self._ready and not (isinstance(message, Ready | RunDone) and message.claim == context.claim.number):
                await self.end()
                raise _NeverBeganError("the process answered for another run")
            if isinstance(message, RunDone):
                return message
            if isinstance(message, Ready):
                self._ready = True
                if begin:
                    context.begin()  # the timeout counts from here, not from the start of the process
                    self._writer.write(frame(Begin(context.claim.number, self._subprocesses.deadline)))
            elif isinstance(message, ChildQuestion):
                self._answer(message, context)
            elif isinstance(message, Told):
                await self._take_in(message, context)
            elif message.whole:
                context.write(message.stream, message.data.decode("utf-8", "replace"))
            else:
                context.feed(message.stream, message.data)

    async def _take_in(self, told: Told, context: Context) -> None:
        try:
            context.take_in(Said(told.progress, told.message, told.checkpoint))
        except ValueError as error:
            await self.end()
            raise ProcessError(f"the task's process sent an invalid message ({error}) and was killed") from None

    def _answer(self, asked: ChildQuestion, context: Context) -> None:
        async def answer_it() -> None:
            self._writer.write(frame(await answer(asked, context.gateway)))

        task = asyncio.get_running_loop().create_task(answer_it())
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _first_message(self) -> FromChild:
        try:
            return await asyncio.wait_for(self._receive(), BEGIN_SECONDS)
        except TimeoutError:
            await self.end()
            raise ProcessError(
                f"the task's process did not begin within {BEGIN_SECONDS:g} s; is its import slow?"
            ) from None

    async def _receive(self) -> FromChild:
        """The next message. A partly read one is kept if this call is cancelled."""
        try:
            if self._size is None:
                self._size = int.from_bytes(await self._reader.readexactly(HEADER_BYTES), "big")
            if self._size > LARGEST_FRAME:
                raise ValueError("too large a message")  # noqa: TRY301 - handled like any other invalid message
            body = await self._reader.readexactly(self._size)
            self._size = None
            message: FromChild = from_child.decode(body)
        except (asyncio.IncompleteReadError, ConnectionError):
            self._in_step = False
            await self._guarded.ended.wait()
            kind = ProcessError if self._ready else _NeverBeganError
            words = self._last_words.decode("utf-8", "replace")
            raise kind(describe_end("the task's process", self._guarded, words)) from None
        except (ValueError, msgspec.MsgspecError):
            await self.end()
            raise ProcessError("the task's process sent an invalid message and was killed") from None
        return message

    def _output(self, stream: str, data: bytes) -> None:
        """Takes output from below Python: libraries, subprocesses, a dying interpreter."""
        self._last_words = (self._last_words + data)[-2000:]
        if self._context:
            self._context.feed(stream, data)


def _outcome(done: RunDone, context: Context) -> Any:
    context.noticed |= done.noticed
    if not done.begun:
        raise NotBegunError
    if done.snooze is not None:
        return Snooze(done.snooze)  # raises for an invalid time
    if done.error is not None:
        raise RemoteError(done.error, done.trace)
    if done.stopped:
        raise RemoteError("CancelledError: the task cancelled itself", "")
    return None if done.result is None else msgspec.Raw(done.result)


def _environment() -> dict[str, str]:
    # The worker's own settings and the password of its database are not passed on.
    own = {name for name in os.environ if name.startswith("ROTA_")} | {"PGPASSWORD"}
    passed_on = {name: value for name, value in os.environ.items() if name not in own}
    return passed_on | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "PYTHONUNBUFFERED": "1"}
