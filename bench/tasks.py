"""The tasks that the benchmark runs: they do nothing, and leave a count where it costs nothing.

Each worker process counts in a slot of its own in a file that all of them map: no lock, no system call.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from pathlib import Path

import rota

MANY_TASKS = 16
SLOTS = 512
SLOT = struct.Struct("<qq")  # process id, runs done

app = rota.App()


class Counter:
    """The runs that all workers have executed so far."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("r+b")
        self._map = mmap.mmap(self._file.fileno(), SLOTS * SLOT.size)

    @staticmethod
    def make(path: Path) -> Counter:
        """A new file of zeros."""
        path.write_bytes(bytes(SLOTS * SLOT.size))
        path.chmod(0o600)
        return Counter(path)

    def close(self) -> None:
        """No more counting here."""
        self._map.close()
        self._file.close()

    @property
    def total(self) -> int:
        """The sum over all processes."""
        return sum(SLOT.unpack_from(self._map, slot * SLOT.size)[1] for slot in range(SLOTS))

    def slot(self) -> memoryview:
        """This process's own number; the first free slot is taken."""
        fcntl.flock(self._file, fcntl.LOCK_EX)
        slot = next(slot for slot in range(SLOTS) if not SLOT.unpack_from(self._map, slot * SLOT.size)[0])
        SLOT.pack_into(self._map, slot * SLOT.size, os.getpid(), 0)
        fcntl.flock(self._file, fcntl.LOCK_UN)
        return memoryview(self._map)[slot * SLOT.size + 8 : (slot + 1) * SLOT.size].cast("q")


_done: memoryview | None = None


async def noop() -> None:
    """Nothing, counted."""
    global _done  # noqa: PLW0603 - once per process
    if _done is None:
        _done = Counter(Path(os.environ["ROTA_BENCH_COUNTER"])).slot()
    _done[0] += 1


async def touch(context: rota.Context) -> None:
    """Nothing but a transaction that also carries the run's completion."""
    await context.connection.execute("SELECT 1")


app.task(name="touch", transactional=True)(touch)
app.task(name="noop")(noop)
for number in range(MANY_TASKS):
    app.task(name=f"noop.{number}")(noop)
