"""Progress of a long command on standard error: a bar on a terminal, elsewhere a line every few seconds."""

from __future__ import annotations

import time
from typing import Self

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from rota.cli.terminal.tables import clean, console, wants_no_colour

PLAIN_SECONDS = 5.0  # between two lines without a bar


class Meter:
    """Shows how many jobs of a file are done; `total` is the file's size in bytes."""

    def __init__(self, total: int | None, *, quiet: bool) -> None:
        self._console = console(stderr=True)
        self._total = total
        self._quiet = quiet
        can_draw = self._console.is_terminal and not self._console.is_dumb_terminal
        self._has_bar = can_draw and not quiet and not wants_no_colour()
        self._began = self._told = time.monotonic()
        self._progress = Progress(
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            TextColumn("{task.fields[count]:,} jobs"),
            TextColumn("{task.fields[rate]:,.0f}/s"),
            TimeRemainingColumn(compact=True),
            console=self._console,
            transient=True,
            expand=True,
        )
        self._task = self._progress.add_task("", total=total or None, count=0, rate=0.0)

    def __enter__(self) -> Self:
        if self._has_bar:
            self._progress.start()
        return self

    def __exit__(self, *_details: object) -> None:
        if self._has_bar:
            self._progress.stop()

    def show(self, position: int, count: int) -> None:
        """Moves the bar; without one, prints a line every few seconds."""
        now = time.monotonic()
        rate = count / max(now - self._began, 1e-6)
        if self._has_bar:
            self._progress.update(self._task, completed=position, count=count, rate=rate)
        elif now - self._told >= PLAIN_SECONDS:
            self._told = now
            part = f" ({position / self._total:.0%})" if self._total else ""
            self.tell(f"{count:,} jobs{part}, {rate:,.0f} a second")

    def tell(self, words: str) -> None:
        """Prints a line about the progress, unless quiet."""
        if not self._quiet:
            self._console.print(Text(clean(words), "dim" if self._has_bar else ""), soft_wrap=True)

    def warn(self, words: str) -> None:
        """Prints a line, even when quiet."""
        self._console.print(Text(clean(words)), soft_wrap=True)
