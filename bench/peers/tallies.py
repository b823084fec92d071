"""Counts of what tasks did, in files that every worker process maps into its memory.

A task must be counted without disturbing what is measured: no query, no system call. Each process has a file of its
own, so nobody waits for anybody; the benchmark looks into all of them.
"""

from __future__ import annotations

import mmap
import os
import struct
import threading
import time
from pathlib import Path

FOLDER = "BENCH_TALLIES"
SUFFIX = ".tally"
CAPACITY = 100_000
_COUNT = struct.Struct("<QQ")  # how many ran, and how many of them are recorded
_RECORD = struct.Struct("<qd")
_SIZE = _COUNT.size + CAPACITY * _RECORD.size


class Tally:
    """One worker process's file. Threads of a pool share it, hence the lock."""

    def __init__(self, folder: Path) -> None:
        path = folder / f"{os.getpid()}{SUFFIX}"
        with path.open("w+b") as file:
            file.truncate(_SIZE)
            self._map = mmap.mmap(file.fileno(), _SIZE)
        self.pid = os.getpid()
        self._count = 0
        self._recorded = 0
        self._lock = threading.Lock()

    def count(self) -> None:
        """One more task has run."""
        with self._lock:
            self._count += 1
            _COUNT.pack_into(self._map, 0, self._count, self._recorded)

    def record(self, index: int, seconds: float) -> None:
        """One more task has run: which, and when."""
        with self._lock:
            if self._recorded < CAPACITY:
                _RECORD.pack_into(self._map, _COUNT.size + self._recorded * _RECORD.size, index, seconds)
                self._recorded += 1
            self._count += 1
            _COUNT.pack_into(self._map, 0, self._count, self._recorded)


class _Own:
    tally: Tally | None = None
    lock = threading.Lock()


def _own() -> Tally:
    # Pools fork after the import, so the file is made at the first task, and again in a child of a process with one.
    tally = _Own.tally
    if tally is None or tally.pid != os.getpid():
        with _Own.lock:  # the first tasks of a pool of threads come at the same time
            if _Own.tally is None or _Own.tally.pid != os.getpid():
                _Own.tally = Tally(Path(os.environ[FOLDER]))
            tally = _Own.tally
    return tally


def count() -> None:
    """What a no-op task does."""
    _own().count()


def started(index: int, due: float) -> None:
    """What a task with a due time does: notes how late it is."""
    _own().record(index, time.time() - due)


def fired(index: int) -> None:
    """What a task of a schedule does: notes when it was."""
    _own().record(index, time.time())


class Tallies:
    """All files of one folder, read while they are written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._maps: dict[str, mmap.mmap] = {}

    def counts(self) -> list[int]:
        """How many tasks each process has run so far."""
        for name in os.listdir(self.folder):  # noqa: PTH208 - this is read a hundred times a second
            if name.endswith(SUFFIX) and name not in self._maps:
                self._open(name)
        return [_COUNT.unpack_from(file, 0)[0] for file in self._maps.values()]

    def total(self) -> int:
        """How many tasks have run so far."""
        return sum(self.counts())

    def records(self) -> list[tuple[int, float]]:
        """What was noted, in no order."""
        found: list[tuple[int, float]] = []
        self.counts()
        for file in self._maps.values():
            size = _COUNT.unpack_from(file, 0)[1] * _RECORD.size
            found.extend(_RECORD.iter_unpack(file[_COUNT.size : _COUNT.size + size]))
        return found

    def _open(self, name: str) -> None:
        path = self.folder / name
        if path.stat().st_size == _SIZE:
            with path.open("rb") as file:
                self._maps[name] = mmap.mmap(file.fileno(), _SIZE, access=mmap.ACCESS_READ)
