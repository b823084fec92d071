"""Subprocesses that leave nothing behind: each has a guardian (guardian.py), which can outlive the worker.

All output of a subprocess is read as it comes, so that it never blocks. It has ended when its guardian says so: then
everything it started has ended too, and all output has been read.
"""

from __future__ import annotations

import asyncio
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from rota.worker.runners import guardian

READ_BYTES = 64 * 1024
MOST_READS = 32  # a pipe holds 64 KiB, or up to a megabyte
READ_BY_US = 3
STARTERS = 2
FORCE_SECONDS = 8.0
OUT, ERR = "stdout", "stderr"
_GUARDIAN = [sys.executable, "-I", "-S", guardian.__file__]

Output = Callable[[str, bytes], None]


class Subprocesses:
    """The subprocesses of a worker, and the deadline that they share."""

    def __init__(self) -> None:
        self.deadline = math.inf
        self._running: set[Guarded] = set()
        # Starting takes milliseconds: many starts at once must not block the event loop.
        self._starters = ThreadPoolExecutor(max_workers=STARTERS, thread_name_prefix="rota-start")

    def extend_deadline(self, until: float) -> None:
        """Lets all subprocesses run until then, on the clock `rota.clock.uptime`."""
        self.deadline = until
        for process in self._running:
            process.extend_deadline(until)

    async def start(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        output: Output,
        given: bytes = b"",
        directory: Path | None = None,
        keep: Sequence[int] = (),
        memory_bytes: int = 0,
    ) -> Guarded:
        """Starts a command with `given` as its standard input; calls `output` with everything it writes."""
        process = Guarded(output, self._running.discard)
        starting = asyncio.ensure_future(
            process.start(self._starters, command, environment, given, directory, keep, memory_bytes, self.deadline)
        )
        self._running.add(process)
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            with suppress(OSError, subprocess.SubprocessError):
                await starting
                process.kill()
                await process.ended.wait()
            raise
        except BaseException:
            self._running.discard(process)
            raise
        process.extend_deadline(self.deadline)  # it may have been extended meanwhile
        return process


class Guarded:
    """A command under a guardian."""

    def __init__(self, output: Output, on_end: Callable[[Guarded], None]) -> None:
        self.ended = asyncio.Event()
        self.code: int | None = None
        self.problem: str | None = None
        self.start_errno: int | None = None  # why it could not be started
        self._loop = asyncio.get_running_loop()
        self._output = output
        self._on_end = on_end
        self._swept: asyncio.Future[None] | None = None
        self._streams: dict[int, str] = {}
        self._heard = b""
        self._pid: int | None = None
        self._control = -1
        self._forcing: asyncio.TimerHandle | None = None

    async def start(
        self,
        starters: ThreadPoolExecutor,
        command: Sequence[str],
        environment: Mapping[str, str],
        given: bytes,
        directory: Path | None,
        keep: Sequence[int],
        memory_bytes: int,
        until: float,
    ) -> None:
        """Starts the guardian and begins to read the pipes."""
        theirs: list[int] = []
        ours: list[int] = []
        try:
            for number in range(5):
                reads, writes = os.pipe()
                # We read status and output, and write control and input.
                ours.append(reads if number < READ_BY_US else writes)
                theirs.append(writes if number < READ_BY_US else reads)
            status, out, err, control, standard_input = theirs
            fixed = (control, status, ",".join(map(str, keep)), memory_bytes, until)
            self._process = await self._loop.run_in_executor(
                starters,
                lambda: subprocess.Popen(
                    [*_GUARDIAN, *map(str, fixed), *command],
                    stdin=standard_input,
                    stdout=out,
                    stderr=err,
                    pass_fds=(control, status, *keep),
                    cwd=directory,
                    env=dict(environment),
                    start_new_session=True,
                ),
            )
        except BaseException:
            for number in ours:
                os.close(number)
            raise
        finally:
            for number in theirs:
                os.close(number)
        self._status, out_read, err_read, self._control, self._input = ours
        self._streams = {out_read: OUT, err_read: ERR}
        for number in ours:
            os.set_blocking(number, False)
        for number in self._streams:
            self._loop.add_reader(number, self._read, number)
        self._loop.add_reader(self._status, self._hear)
        self._left_to_give = memoryview(given)
        self._loop.add_writer(self._input, self._give)

    def extend_deadline(self, until: float) -> None:
        self._tell(f"until {until}")

    def kill(self) -> None:
        """Kills it and everything it started. A guardian that does not obey (it was stopped) is killed too."""
        self._tell("kill")
        if self._forcing is None:
            self._forcing = self._loop.call_later(FORCE_SECONDS, self._force)

    async def stop(self, grace_seconds: float) -> None:
        """Sends SIGTERM, waits, kills; returns when nothing of it is left."""
        self._tell("term")
        try:
            await asyncio.wait_for(self.ended.wait(), grace_seconds)
        except TimeoutError:
            self.kill()
            await self.ended.wait()

    async def sweep(self) -> None:
        """Kills the processes it left running; returns when they, or the command, have ended."""
        if self.ended.is_set():
            return
        self._swept = self._loop.create_future()
        self._tell("sweep")
        await self._swept

    def read_all(self) -> None:
        """Reads what is in the pipes now, which is limited."""
        for number in list(self._streams):
            for _ in range(MOST_READS):
                if not self._read(number):
                    break

    def _tell(self, words: str) -> None:
        # Full or broken: the guardian has ended, or has not run for a very long time.
        with suppress(BrokenPipeError, BlockingIOError):
            if not self.ended.is_set() and self._control >= 0:
                os.write(self._control, words.encode() + b"\n")

    def _give(self) -> None:
        try:
            if self._left_to_give:
                written = os.write(self._input, self._left_to_give[:READ_BYTES])
                self._left_to_give = self._left_to_give[written:]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._left_to_give = memoryview(b"")  # it does not read its input
        if not self._left_to_give:
            self._close_input()

    def _close_input(self) -> None:
        if self._input >= 0:
            self._loop.remove_writer(self._input)
            os.close(self._input)
            self._input = -1

    def _read(self, number: int) -> bool:
        """Reads once; returns whether there may be more."""
        try:
            data = os.read(number, READ_BYTES)
        except BlockingIOError:
            return False
        if data:
            self._output(self._streams[number], data)
            return True
        self._close_stream(number)
        return False

    def _close_stream(self, number: int) -> None:
        self._loop.remove_reader(number)
        os.close(number)
        del self._streams[number]

    def _hear(self) -> None:
        data = os.read(self._status, READ_BYTES)
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            word, _, value = line.decode("utf-8", "replace").partition(" ")
            if word == "pid":
                self._pid = int(value)
            elif word == "errno":
                self.start_errno = int(value)
            elif word == "failed":
                self.problem = value
            elif word == "swept" and self._swept and not self._swept.done():
                self._swept.set_result(None)
            elif word == "exit":
                self.code = int(value)
        if not data:
            self._end()

    def _force(self) -> None:
        if not self.ended.is_set():
            self._process.kill()  # its command dies with it

    def _end(self) -> None:
        """The guardian is gone: everything has ended, or it was killed and we clean up as well as we can."""
        if self.code is None:
            self.code = -signal.SIGKILL
            self.problem = "its guardian was killed"
            if self._pid:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._pid, signal.SIGKILL)
        self.read_all()
        for number in list(self._streams):
            self._close_stream(number)
        self._loop.remove_reader(self._status)
        self._close_input()
        os.close(self._status)
        os.close(self._control)
        if self._forcing:
            self._forcing.cancel()
        self._process.wait()  # it has closed its pipes, so it is exiting
        self.ended.set()
        self._on_end(self)
        if self._swept and not self._swept.done():
            self._swept.set_result(None)


def clean_environment(more: Mapping[str, str]) -> dict[str, str]:
    """Passes on paths and locale from the worker's environment, never its settings or secrets."""
    passed_on = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "USER")
    return {name: os.environ[name] for name in passed_on if name in os.environ} | dict(more)


def describe_end(what: str, process: Guarded, words: str) -> str:
    """How a command failed, with its last words."""
    code = process.code or 0
    if process.problem:
        how = process.problem if process.start_errno is None else f"could not be started: {process.problem}"
    elif code < 0:
        how = f"was killed by {_signal_name(-code)}"
    else:
        how = f"ended with exit code {code}"
    return f"{what} {how}" + (f": {words.strip()[-2000:]}" if words.strip() else "")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
