"""Processes that the benchmark starts: their end, their processor time and their memory."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import psutil

from bench.peers.peer import Command

START_SECONDS = 40.0
TREE_TRIES = 10


class MeasureError(Exception):
    """A measure could not be taken; the message is what the table says about it."""


class Worker:
    """A process of a library, with all that it forks."""

    def __init__(self, command: Command, environment: dict[str, str], log: Path) -> None:
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.pid = self._popen.pid

    @property
    def is_running(self) -> bool:
        """Whether it is still there."""
        return self._popen.poll() is None

    def end(self) -> None:
        """Kills it and what it forked: what it held is thrown away with its database, so nothing need be drained."""
        children = tree(self.pid)[1:]
        self._popen.kill()
        self._popen.wait()
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()


class Submitter:
    """A peer's file as a process that waits for the word to go."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, command: Command, environment: dict[str, str], log: Path) -> Submitter:
        """Starts it and waits until it has connected."""
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *command,
                env=environment,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=output,
            )
        submitter = cls(process)
        if await submitter._answer(START_SECONDS) != "ready":
            raise MeasureError("the submitter did not start")
        return submitter

    async def go(self, **word: Any) -> None:
        """Lets it begin."""
        assert self._process.stdin is not None  # noqa: S101 - for the type checker
        self._process.stdin.write(json.dumps(word).encode() + b"\n")
        try:
            await self._process.stdin.drain()
        except ConnectionError:
            raise MeasureError("the submitter has ended") from None

    async def finish(self, seconds: float) -> dict[str, float]:
        """When it began and ended (monotonic) and what processor time it took; raises MeasureError after a while."""
        answer: dict[str, float] = await self._answer(seconds)
        return answer

    def end(self) -> None:
        """Kills it if it is still there."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def _answer(self, seconds: float) -> Any:
        assert self._process.stdout is not None  # noqa: S101 - for the type checker
        try:
            line = await asyncio.wait_for(self._process.stdout.readline(), seconds)
        except TimeoutError:
            raise MeasureError(f"submitting took more than {seconds:.0f} s") from None
        if not line:
            raise MeasureError("submitting failed")
        return json.loads(line)


async def run(command: Command, environment: dict[str, str], log: Path, seconds: float) -> bytes:
    """What a short command writes; raises MeasureError when it fails."""
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *command, env=environment, stdin=subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=output
        )
    try:
        written, _ = await asyncio.wait_for(process.communicate(), seconds)
    except TimeoutError:
        process.kill()
        raise MeasureError(f"{command[-1]} took more than {seconds:.0f} s") from None
    if process.returncode:
        raise MeasureError(f"{command[-1]} failed")
    return written


def tree(pid: int) -> list[psutil.Process]:
    """A process and its descendants."""
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def processor_seconds(pids: list[int]) -> float:
    """What these trees have used so far. A child that ended is in its parent's sum: none is lost or counted twice."""
    for _ in range(TREE_TRIES):
        processes, total = _trees(pids), 0.0
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                total += times.user + times.system + times.children_user + times.children_system
        # One that ended meanwhile may have been read neither by itself nor in its parent's sum.
        if set(_trees(pids)) == set(processes):
            break
    return total


def _trees(pids: list[int]) -> list[psutil.Process]:
    return [process for pid in pids for process in tree(pid)]


def elsewhere_seconds() -> float:
    """What the machine has used so far for anything but this process and what it started: who disturbs."""
    times = psutil.cpu_times()
    busy = sum(times) - times.idle - times.iowait - times.guest - times.guest_nice  # guests are part of user and nice
    return float(busy - processor_seconds([os.getpid()]))


def peak_megabytes(pids: list[int]) -> float:
    """The sum of each process's largest resident size."""
    total = 0
    for process in _trees(pids):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    total += int(line.split()[1])
    return total / 1024
