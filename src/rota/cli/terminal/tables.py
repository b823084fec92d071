"""Tables that fit the terminal. Ids are never cut, and output to a pipe is never shortened.

A table that is too wide first shortens times, then drops columns (highest `drop` first), then cuts names and messages
down to `least`.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from rota.cli.terminal.times import show_time, show_time_briefly
from rota.domain.text import strip_control

Item = Mapping[str, Any]
_Show = Callable[[Item], str]
_GAP = "  "
_FORMER_NAMES = {"createdTime": "createdAt"}
_STYLES = {
    "success": "green",
    "live": "green",
    "failed": "red",
    "running": "cyan",
    "retrying": "yellow",
    "silent": "yellow",
    "draining": "yellow",
    "paused": "yellow",
    "cancelled": "dim",
    "skipped": "dim",
    "gone": "dim",
}


@dataclass(frozen=True, kw_only=True)
class Column:
    """What a column shows, and how it shrinks: `brief` text, cut to `least` characters, dropped in order of `drop`."""

    heading: str
    show: _Show
    brief: _Show | None = None
    least: int | None = None
    drop: int = 0
    colour: bool = False


def text(heading: str, name: str, *, drop: int = 0, least: int | None = None) -> Column:
    """A column with a field."""
    return Column(heading=heading, show=lambda item: one_line(item.get(name)), drop=drop, least=least)


def time(heading: str, name: str, *, drop: int = 0) -> Column:
    """A column with a time."""
    return Column(
        heading=heading,
        show=lambda item: show_time(item.get(name)),
        brief=lambda item: show_time_briefly(item.get(name)),
        drop=drop,
    )


def status() -> Column:
    """A column with the status in its colour."""
    return Column(heading="STATUS", show=lambda item: one_line(item.get("status")), colour=True)


def console(*, stderr: bool = False) -> Console:
    """A new console each time, to follow redirections. With NO_COLOR it sends no bold or dim either."""
    return Console(stderr=stderr, highlight=False, emoji=False, color_system=None if wants_no_colour() else "auto")


def wants_no_colour() -> bool:
    """Whether NO_COLOR is set."""
    return bool(os.environ.get("NO_COLOR"))


def terminal_width() -> int | None:
    """The width of standard output; None if it is not a terminal. Rich would say 80 for a dumb terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def print_line(words: str) -> None:
    """Prints one line, without markup and without wrapping."""
    console().print(words, soft_wrap=True, markup=False)


def print_table(items: Sequence[Item], columns: Sequence[Column], *, none: str) -> None:
    """Prints a table, or `none` if there are no items."""
    if not items:
        console().print(Text(none, "dim"), soft_wrap=True)
        return
    for line in table_lines(items, columns, terminal_width()):
        console().print(line, soft_wrap=True)


def table_lines(items: Sequence[Item], columns: Sequence[Column], width: int | None) -> list[Text]:
    """The table as lines, headings first."""
    kept, rows = lay_out(items, columns, width)
    lines = [_join([Text(cell, "bold") for cell in rows[0]])]
    for row in rows[1:]:
        styles = (
            _STYLES.get(cell.strip(), "") if column.colour else "" for column, cell in zip(kept, row, strict=True)
        )
        lines.append(_join([Text(cell, style) for cell, style in zip(row, styles, strict=True)]))
    return lines


def lay_out(
    items: Sequence[Item], columns: Sequence[Column], width: int | None
) -> tuple[list[Column], list[list[str]]]:
    """The columns shown, and the rows (headings first) with every cell padded to its column."""
    kept = list(columns)
    cells = [[column.heading, *map(column.show, items)] for column in kept]
    if width is not None and _total(_widths(cells)) > width:
        cells = [[column.heading, *map(column.brief or column.show, items)] for column in kept]
        while _total(_least(kept, cells)) > width and any(column.drop for column in kept):
            index = max(range(len(kept)), key=lambda index: kept[index].drop)
            del kept[index], cells[index]
    widths = _shrink(kept, cells, width)
    rows = [[_fit(cell, room) for cell, room in zip(line, widths, strict=True)] for line in zip(*cells, strict=True)]
    return kept, rows


def print_fields(value: Item) -> None:
    """Prints an object, a line per field. Empty fields are left out, and those that repeat others by former names."""
    repeated = {former for former, name in _FORMER_NAMES.items() if name in value}
    shown = {
        name: content
        for name, content in value.items()
        if content is not None and content != [] and name not in repeated
    }
    indent = max((len(name) for name in shown), default=0) + len(_GAP)
    width = terminal_width()
    for name, content in shown.items():
        lines = _field_lines(content, None if width is None else max(20, width - indent))
        for number, line in enumerate(lines):
            label = name if number == 0 else ""
            console().print(Text.assemble((label.ljust(indent), "bold"), line), soft_wrap=True)


def clean(content: str) -> str:
    """Makes control characters visible, so text can't move the cursor or change colours."""
    return strip_control(content)


def hanging(content: str) -> str:
    """Text of several lines, all but the first indented: no line of a task's error can pass for one of ours."""
    return "\n    ".join(clean(content).splitlines())


def one_line(content: Any) -> str:
    """Any value on one line."""
    return "" if content is None else clean(" ".join(str(content).split()))


def _widths(cells: Sequence[Sequence[str]]) -> list[int]:
    return [max(cell_len(cell) for cell in column) for column in cells]


def _least(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> list[int]:
    widths = _widths(cells)
    return [
        width if column.least is None else min(width, column.least)
        for column, width in zip(columns, widths, strict=True)
    ]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _shrink(columns: Sequence[Column], cells: Sequence[Sequence[str]], width: int | None) -> list[int]:
    """Narrows the widest column that can shrink, until all fit or none can."""
    widths, least = _widths(cells), _least(columns, cells)
    while width is not None and _total(widths) > width:
        giving = [index for index in range(len(widths)) if widths[index] > least[index]]
        if not giving:
            break
        widths[max(giving, key=lambda index: widths[index])] -= 1
    return widths


def _fit(cell: str, room: int) -> str:
    fitted = Text(cell)
    fitted.truncate(room, overflow="ellipsis", pad=True)
    return fitted.plain


def _join(parts: Sequence[Text]) -> Text:
    line = Text(_GAP).join(parts)
    line.rstrip()
    return line


def _field_lines(content: Any, room: int | None) -> list[str]:
    if isinstance(content, str):
        return _wrap(clean(content), room)
    if isinstance(content, list) and all(isinstance(part, str) for part in content):
        return [one_line(part) for part in content]
    line = clean(json.dumps(content, ensure_ascii=False))
    if room is not None and cell_len(line) > room:
        return clean(json.dumps(content, ensure_ascii=False, indent=2)).split("\n")
    return [line]


def _wrap(content: str, room: int | None) -> list[str]:
    """Lines broken between words; the terminal breaks words that are too long."""
    lines = content.splitlines() or [""]
    return lines if room is None else [short for line in lines for short in _wrap_line(line, room)]


def _wrap_line(line: str, room: int) -> list[str]:
    if cell_len(line) <= room:
        return [line]
    lines = [""]
    for word in line.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if lines[-1] and cell_len(longer) > room:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines
