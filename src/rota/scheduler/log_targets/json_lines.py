"""JSON lines for a log shipper: in a file, or on standard output."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from rota.scheduler.log_targets import ExportedLine, LogTarget, RefusedLine, TargetError

_OURS_ALONE = 0o640


class LineFile(LogTarget):
    """Appends to a file. It is opened for each portion: a rotated file is left alone."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def send(self, lines: Sequence[ExportedLine]) -> list[RefusedLine]:
        body = b"".join(line.encoded() + b"\n" for line in lines)
        try:
            await asyncio.to_thread(self._append, body)
        except OSError as error:
            raise TargetError(f"{self._path} can't be written: {error.strerror or error}") from error
        return []

    def _append(self, body: bytes) -> None:
        with os.fdopen(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, _OURS_ALONE), "rb+") as file:
            # A process that was killed may have left half a line, which is sent again as a whole.
            if file.seek(0, os.SEEK_END) and os.pread(file.fileno(), 1, file.tell() - 1) != b"\n":
                body = b"\n" + body
            file.write(body)
            file.flush()
            os.fsync(file.fileno())


class LineStream(LogTarget):
    """Writes to standard output."""

    async def send(self, lines: Sequence[ExportedLine]) -> list[RefusedLine]:
        body = b"".join(line.encoded() + b"\n" for line in lines)
        try:
            await asyncio.to_thread(_print, body)
        except OSError as error:
            raise TargetError(f"standard output can't be written: {error.strerror or error}") from error
        return []


def _print(body: bytes) -> None:
    sys.stdout.buffer.write(body)
    sys.stdout.buffer.flush()
