"""Progress of scripts and commands: a line `::rota progress 50 half way` of their output.

A line, because every language can print one, also through `ssh` or `docker run`, where no file descriptor gets through.
Such lines are taken out of the output; everything else, also such a line with a mistake in it, goes on unchanged and in
order. Held back is only what may still become such a line. Of many that come together the last one counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_BEGINNING = b"::rota progress "
_LINE = re.compile(rb"::rota progress +([0-9]{1,3}(?:\.[0-9]{1,6})?)%?(?:[ \r](.*))?")
_LONGEST = 2000
_MOST = 100.0


class ProgressLines:
    """Finds the progress in one stream of output."""

    def __init__(self, told: Callable[[float, str | None], None]) -> None:
        self._told = told
        self._held = b""  # the beginning of a line that may tell progress
        self._within_line = False

    def feed(self, data: bytes) -> bytes:
        """Takes output in pieces; returns what goes on."""
        data = self._held + data
        self._held = b""
        kept: list[bytes] = []
        latest: tuple[float, str | None] | None = None
        position = 0
        while position < len(data):
            end = self._end_of_line(data, position)
            if end is None:
                self._held = data[position:]
                break
            piece = data[position:end]
            is_line = piece.endswith(b"\n") and not self._within_line
            if is_line and (found := _read(piece)):
                latest = found
            else:
                kept.append(piece)
            self._within_line = not piece.endswith(b"\n")
            position = end
        if latest:
            self._told(*latest)
        return b"".join(kept)

    def rest(self) -> bytes:
        """What was held back, at the end of the output."""
        held, self._held = self._held, b""
        if found := _read(held):
            self._told(*found)
            return b""
        return held

    def _end_of_line(self, data: bytes, position: int) -> int | None:
        """Where the next piece ends: a line that may tell progress, or all that surely doesn't; None: not known yet."""
        if self._within_line or not data.startswith(_BEGINNING[: len(data) - position], position):
            last = data.find(b"\n:", position)
            return last + 1 if last >= 0 else len(data)
        end = data.find(b"\n", position)
        if end >= 0:
            return end + 1
        return None if len(data) - position <= _LONGEST else len(data)


def _read(line: bytes) -> tuple[float, str | None] | None:
    """The share and the message that a line tells; None for any other line."""
    found = _LINE.fullmatch(line.removesuffix(b"\n")) if len(line) <= _LONGEST else None
    if not found or float(found[1]) > _MOST:
        return None
    return float(found[1]) / _MOST, (found[2] or b"").decode("utf-8", "replace").strip() or None
