"""How far a long command has come: a bar on a terminal, a plain line now and then elsewhere, or nothing.

All of it is on standard error: what a command puts out can be piped on meanwhile.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Protocol, Self

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from rota.cli.terminal.tables import clean, console, wants_no_colour

PLAIN_SECONDS = 5.0  # between two lines where there is no bar


class Meter(Protocol):
    """Shows how far it has come, from `with` to its end."""

    def __enter__(self) -> Self:
        """It begins."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """It is over."""
        ...

    def show(self, position: int, count: int) -> None:
        """So many bytes of the file, and so many jobs, are done."""
        ...

    def tell(self, words: str) -> None:
        """Something worth a line, such as why nothing moves."""
        ...

    def warn(self, words: str) -> None:
        """What must be seen even by those who want no progress."""
        ...


class SilentMeter:
    """Shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_details: object) -> None:
        pass

    def show(self, position: int, count: int) -> None:
        """Nothing."""

    def tell(self, words: str) -> None:
        """Nothing."""

    def warn(self, words: str) -> None:
        """A line of its own."""
        console(stderr=True).print(Text(clean(words)), soft_wrap=True)


class PlainMeter(SilentMeter):
    """A line every few seconds, without anything that only a terminal understands."""

    def __init__(self, total: int | None) -> None:
        self._total = total
        self._began = self._told = time.monotonic()

    def show(self, position: int, count: int) -> None:
        """Says so, unless it did a moment ago."""
        now = time.monotonic()
        if now - self._told < PLAIN_SECONDS:
            return
        self._told = now
        part = f" ({position / self._total:.0%})" if self._total else ""
        self.tell(f"{count:,} jobs{part}, {count / (now - self._began):,.0f} a second")

    def tell(self, words: str) -> None:
        """A line of its own."""
        self.warn(words)


class BarMeter:
    """A bar of bytes, with jobs, jobs a second and the time that is left; it is gone when it is over."""

    def __init__(self, total: int | None) -> None:
        self._began = time.monotonic()
        self._progress = Progress(
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            TextColumn("{task.fields[count]:,} jobs"),
            TextColumn("{task.fields[rate]:,.0f}/s"),
            TimeRemainingColumn(compact=True),
            console=console(stderr=True),
            transient=True,
            expand=True,
        )
        self._task = self._progress.add_task("", total=total or None, count=0, rate=0.0)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_details: object) -> None:
        self._progress.stop()

    def show(self, position: int, count: int) -> None:
        """Moves the bar."""
        rate = count / max(time.monotonic() - self._began, 1e-6)
        self._progress.update(self._task, completed=position, count=count, rate=rate)

    def tell(self, words: str) -> None:
        """A line above the bar."""
        self._progress.console.print(Text(clean(words), "dim"), soft_wrap=True)

    def warn(self, words: str) -> None:
        """The same, for all to see."""
        self._progress.console.print(Text(clean(words)), soft_wrap=True)


def open_meter(total: int | None, *, quiet: bool) -> Meter:
    """What fits where standard error goes; `total` is the size of the file, None where nobody knows."""
    if quiet:
        return SilentMeter()
    screen = console(stderr=True)
    if not screen.is_terminal or screen.is_dumb_terminal or wants_no_colour():
        return PlainMeter(total)
    return BarMeter(total)
