"""The process of isolated functions: `python -m rota.worker.runners.child FD MODULE…`.

The main thread runs one function at a time; another thread listens, so that a request to stop arrives meanwhile.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import queue
import socket
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from contextvars import copy_context
from typing import Any

import msgspec

from rota.clock import uptime
from rota.domain.job import decode_options
from rota.domain.run import Claim
from rota.gateway.child import ChildAnswer, ChildGateway, Questions, SyncChildGateway
from rota.task.arguments import encode
from rota.task.context import Context, Final, Snooze, says_final
from rota.task.middleware import surrounded
from rota.task.output import capture_output, current
from rota.task.retry_rule import kinds_of
from rota.worker.executor import describe
from rota.worker.runners.child_messages import (
    HEADER_BYTES,
    LARGEST_FRAME,
    Begin,
    FromChild,
    Output,
    Ready,
    RunDone,
    StartRun,
    Stop,
    Told,
    frame,
    to_child,
)
from rota.worker.runners.function import TaskEscapedError, TaskFunction

PIECE_CHARACTERS = 64 * 1024
LISTENER = "rota-listener"


class ChildProcess:
    """Runs the functions that the worker asks for over the socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._wanted: queue.SimpleQueue[StartRun] = queue.SimpleQueue()
        self._decisions: queue.SimpleQueue[Begin | Stop] = queue.SimpleQueue()
        self._sending = threading.Lock()
        self._buffering = threading.Lock()
        self._unended: dict[str, bytes] = {}
        self._context: Context | None = None
        self._task: asyncio.Task[Any] | None = None
        self._raised = _Raised()
        self._runner = asyncio.Runner()
        self._calls: dict[tuple[str, str], ChildCall] = {}
        self._stopped: int | None = None
        self._questions = Questions(self.send)
        self._lives = AsyncExitStack()
        self._alive: list[Any] = []

    def serve(self) -> None:
        """Runs functions until the worker hangs up."""
        threading.Thread(target=self._listen, name=LISTENER, daemon=True).start()
        while True:
            wanted = self._wanted.get()
            done = self._run(wanted)
            done.claim = wanted.claim.number
            done.spent |= _has_threads()
            for stream in (sys.stdout, sys.stderr):
                with suppress(Exception):
                    stream.flush()
            self._pass_on_rest()
            self.send(done)

    def send(self, message: FromChild) -> None:
        """Can be called from any thread."""
        with self._sending:
            self._connection.sendall(frame(message))

    # The context's host: the worker does the work, asked over the socket

    def begin(self, claim: Claim) -> float | None:
        """Returns the deadline; the worker enforces it."""
        timeout = decode_options(claim.options).timeout_seconds
        return None if timeout is None else time.time() + timeout

    def changed(self, context: Context) -> None:
        if said := context.take_said():
            self.send(Told(*said))

    def mask(self, text: str) -> str:
        return text

    def gateway(self, _claim: Claim) -> ChildGateway:
        return ChildGateway(self._questions)

    def sync_gateway(self, _claim: Claim) -> SyncChildGateway:
        return SyncChildGateway(self._questions)

    async def store_result(self, _claim: Claim, _value: Any) -> tuple[str | None, str | None]:
        return None, None

    def open_log(self, _claim: Claim) -> ChildProcess:
        return self

    def write(self, stream: str, text: str) -> None:
        for first in range(0, len(text), PIECE_CHARACTERS):
            piece = text[first : first + PIECE_CHARACTERS]
            self.send(Output(stream, piece.encode("utf-8", "replace"), whole=True))

    def feed(self, stream: str, data: bytes) -> None:
        """Passes on raw output line by line, so that output from below Python does not fall into a line."""
        with self._buffering:
            whole, end, rest = (self._unended.pop(stream, b"") + data).rpartition(b"\n")
            if len(rest) > PIECE_CHARACTERS:
                whole, end, rest = whole + end + rest, b"", b""
            if rest:
                self._unended[stream] = rest
            self._pass_on(stream, whole + end)

    def _pass_on(self, stream: str, data: bytes) -> None:
        for first in range(0, len(data), PIECE_CHARACTERS):
            self.send(Output(stream, data[first : first + PIECE_CHARACTERS], whole=False))

    def _pass_on_rest(self) -> None:
        with self._buffering:
            for stream, rest in self._unended.items():
                self._pass_on(stream, rest)
            self._unended.clear()

    def close(self) -> None:
        """The worker closes the log."""

    def _listen(self) -> None:
        try:
            while header := self._connection.recv(HEADER_BYTES, socket.MSG_WAITALL):
                size = int.from_bytes(header, "big")
                body = self._connection.recv(size, socket.MSG_WAITALL)
                message = to_child.decode(body)
                if isinstance(message, StartRun):
                    self._wanted.put(message)
                elif isinstance(message, ChildAnswer):
                    self._questions.answered(message)
                else:
                    if isinstance(message, Stop):
                        self._stop(message.claim)
                    self._decisions.put(message)
        finally:
            os._exit(0)  # the worker is gone

    def _stop(self, claim: int) -> None:
        self._stopped = claim  # first: a run that begins now sees this, or is found below
        context, task = self._context, self._task
        if context and context.claim.number == claim:
            context.ask_to_stop()
            if task:
                self._runner.get_loop().call_soon_threadsafe(task.cancel)

    def _run(self, wanted: StartRun) -> RunDone:
        context = _ChildContext(wanted.claim)
        context.host = self
        context.secrets = wanted.secrets
        self._context = context
        self._raised = _Raised()
        self.send(Ready(wanted.claim.number))
        if not self._may_begin(wanted.claim.number):
            return RunDone(begun=False)
        token = current.set(context)
        try:
            context.begin()
            call = self._call(wanted)
            payload = None if wanted.payload is None else msgspec.json.decode(wanted.payload)
            arguments = call.arguments(payload, context)
            if call.is_async:
                value = self._runner.run(self._awaited(call, arguments, context))
            else:
                value = self._called(call, arguments, context)
            return _done(value, noticed=context.noticed)
        except asyncio.CancelledError:
            return RunDone(stopped=True, noticed=True)
        except BaseException as problem:  # noqa: BLE001 - anything it raises is its outcome
            return _failed(problem, self._raised.kinds, noticed=context.noticed)
        finally:
            current.reset(token)
            self._context = self._task = None
            self.changed(context)

    def _may_begin(self, claim: int) -> bool:
        """Waits for the worker's decision."""
        while (decision := self._decisions.get()).claim != claim:
            pass  # an earlier run was asked to stop
        return isinstance(decision, Begin) and uptime() < decision.until

    def _called(self, call: ChildCall, arguments: dict[str, Any], context: Context) -> Any:
        """Calls it outside of the event loop, which it may need itself; middleware is entered in the loop."""
        if call.app is None:
            with self._raised:
                return call.function(**arguments)
        shared = copy_context()
        self._runner.run(self._bring_to_life(call), context=shared)
        around = surrounded(call.app.middleware, context)
        self._runner.run(around.__aenter__(), context=shared)
        try:
            with self._raised:
                value = shared.run(lambda: call.function(**arguments))
        except BaseException as problem:
            kind, trace = type(problem), problem.__traceback__
            if not self._runner.run(around.__aexit__(kind, problem, trace), context=shared):
                raise
            return None
        self._runner.run(around.__aexit__(None, None, None), context=shared)
        return value

    async def _bring_to_life(self, call: ChildCall) -> None:
        if call.app is not None and call.app not in self._alive:
            await self._lives.enter_async_context(call.app.living())  # until this process ends
            self._alive.append(call.app)

    async def _awaited(self, call: ChildCall, arguments: dict[str, Any], context: Context) -> Any:
        await self._bring_to_life(call)
        async with surrounded(call.app.middleware if call.app else (), context):
            self._task = asyncio.current_task()
            if self._stopped == context.claim.number:
                raise asyncio.CancelledError
            with self._raised:
                return await call.function(**arguments)

    def _call(self, wanted: StartRun) -> ChildCall:
        key = (wanted.module, wanted.name)
        if key not in self._calls:
            self._calls[key] = ChildCall(_find_function(*key))
        return self._calls[key]


class ChildCall(TaskFunction):
    """A function, and the application around it if it is a task."""

    def __init__(self, found: Any) -> None:
        super().__init__(getattr(found, "function", found))
        app = getattr(found, "app", None)
        self.app = app if app is not None and (app.middleware or app.has_lifespan) else None


class _Raised:
    """Keeps which kinds of exception a function raised, whatever the middleware around it makes of that."""

    kinds: Sequence[Sequence[str]] = ()

    def __enter__(self) -> None:
        """Called just before the function."""

    def __exit__(self, _kind: object, problem: BaseException | None, _trace: object) -> None:
        if isinstance(problem, Exception) and not isinstance(problem, StopIteration):
            self.kinds = kinds_of(problem)


class _ChildContext(Context):
    """Like the worker's, but progress goes over the socket at once."""

    __slots__ = ()

    def progress(self, share: float, message: str | None = None) -> None:
        super().progress(share, message)
        if self.host:
            self.host.changed(self)


def _has_threads() -> bool:
    """Whether a function left threads behind, which would write into the log of the next run."""
    ours = (threading.main_thread().name, LISTENER)
    return any(thread.name not in ours and not thread.name.startswith("asyncio_") for thread in threading.enumerate())


def _find_function(module: str, name: str) -> Any:
    """The function with this module and qualified name."""
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _done(value: Any, *, noticed: bool) -> RunDone:
    if isinstance(value, Snooze):
        return RunDone(snooze=value.seconds, noticed=noticed)
    result = None if value is None else encode(value)
    if result and len(result) > LARGEST_FRAME - 1024:
        raise Final(f"the result is too large: {len(result)} bytes")
    return RunDone(result=result, noticed=noticed)


def _failed(problem: BaseException, kinds: Sequence[Sequence[str]], *, noticed: bool) -> RunDone:
    spent = isinstance(problem, MemoryError)
    if not isinstance(problem, Exception) or isinstance(problem, StopIteration):
        problem = TaskEscapedError(f"{type(problem).__name__}: {problem}")
    error, trace = describe(problem)
    return RunDone(error=error, trace=trace, final=says_final(problem), noticed=noticed, spent=spent, kinds=kinds)


def main(arguments: list[str]) -> None:
    """Serves the worker on the socket with this file descriptor."""
    connection = socket.socket(fileno=int(arguments[0]))
    connection.set_inheritable(False)
    child = ChildProcess(connection)
    capture_output()
    for module in arguments[1:]:
        with suppress(Exception):  # reported with the first function that needs it
            importlib.import_module(module)
    child.serve()


if __name__ == "__main__":
    main(sys.argv[1:])
