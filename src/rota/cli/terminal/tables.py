"""Tables that fit: columns give way one after another, ids are never cut, and what goes into a pipe is whole.

On a terminal a table that is too wide first shows times briefly, then leaves columns out (those with the highest
`drop` first), then cuts names and messages down to `least`. Without a terminal nothing is shortened.
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
    """What a column shows, and how it gives way: `brief` text, cut to `least` characters, left out by `drop`."""

    heading: str
    show: _Show
    brief: _Show | None = None
    least: int | None = None
    drop: int = 0
    colour: bool = False


def text(heading: str, name: str, *, drop: int = 0, least: int | None = None) -> Column:
    """A column with a field as it is."""
    return Column(heading=heading, show=lambda item: _word(item.get(name)), drop=drop, least=least)


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
    return Column(heading="STATUS", show=lambda item: _word(item.get("status")), colour=True)


def console(*, stderr: bool = False) -> Console:
    """Made anew each time, so that it follows redirections.

    With NO_COLOR there is no escape sequence at all: the library would leave out colours, but send bold and dim.
    """
    return Console(stderr=stderr, highlight=False, emoji=False, color_system=None if wants_no_colour() else "auto")


def wants_no_colour() -> bool:
    """Whether NO_COLOR is set, to anything."""
    return bool(os.environ.get("NO_COLOR"))


def terminal_width() -> int | None:
    """How wide standard output is; None when it is no terminal and may be as wide as it likes."""
    # The library takes every dumb terminal to have 80 columns.
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def print_table(items: Sequence[Item], columns: Sequence[Column], *, none: str) -> None:
    """For people; says so when there is nothing."""
    if not items:
        console().print(Text(none, "dim"), soft_wrap=True)
        return
    for line in table_lines(items, columns, terminal_width()):
        console().print(line, soft_wrap=True)


def table_lines(items: Sequence[Item], columns: Sequence[Column], width: int | None) -> list[Text]:
    """The same as lines, the headings first."""
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
    """The columns that are shown, and the lines (the first is the headings) with every cell padded to its column."""
    kept = list(columns)
    cells = [[column.heading, *(column.show(item) for item in items)] for column in kept]
    if width is not None and _total(_widths(cells)) > width:
        cells = [[column.heading, *(_brief(column, item) for item in items)] for column in kept]
        while _total(_least(kept, cells)) > width and any(column.drop for column in kept):
            index = max(range(len(kept)), key=lambda index: kept[index].drop)
            del kept[index], cells[index]
    widths = _shrink(kept, cells, width)
    rows = [[_fit(cell, room) for cell, room in zip(line, widths, strict=True)] for line in zip(*cells, strict=True)]
    return kept, rows


def print_fields(value: Item) -> None:
    """One object, a line per field; what is empty is left out."""
    shown = {name: content for name, content in value.items() if content is not None and content != []}
    indent = max((len(name) for name in shown), default=0) + len(_GAP)
    width = terminal_width()
    for name, content in shown.items():
        lines = _field_lines(content, None if width is None else max(20, width - indent))
        for number, line in enumerate(lines):
            label = name if number == 0 else ""
            console().print(Text.assemble((label.ljust(indent), "bold"), line), soft_wrap=True)


def clean(content: str) -> str:
    """Text that can't move the cursor or change colours: control characters become visible."""
    return strip_control(content)


def _word(content: Any) -> str:
    """One line, whatever it holds."""
    return "" if content is None else clean(" ".join(str(content).split()))


def _brief(column: Column, item: Item) -> str:
    return (column.brief or column.show)(item)


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
    """Takes room from the widest column that can give some, until all fit or none can."""
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
        return [_word(part) for part in content]
    line = clean(json.dumps(content, ensure_ascii=False))
    if room is not None and cell_len(line) > room:
        return clean(json.dumps(content, ensure_ascii=False, indent=2)).split("\n")
    return [line]


def _wrap(content: str, room: int | None) -> list[str]:
    """Lines broken between words; a word that is too long is left whole, the terminal breaks it."""
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
