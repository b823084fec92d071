"""Writing many items in one statement without letting one bad item spoil it for the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

from rota.errors import DataRejectedError

Item = TypeVar("Item")
Result = TypeVar("Result")


async def write_each(
    items: Sequence[Item],
    write: Callable[[Sequence[Item]], Awaitable[list[Result]]],
    reject: Callable[[Item, DataRejectedError], Awaitable[None]],
) -> list[Result]:
    """Writes all items in one go; when the data is refused, halves until the guilty items stand alone.

    `write` must be one transaction. The guilty are handed to `reject`, the others are written.
    """
    if not items:
        return []
    try:
        return await write(items)
    except DataRejectedError as error:
        if len(items) == 1:
            await reject(items[0], error)
            return []
    middle = len(items) // 2
    return [
        *await write_each(items[:middle], write, reject),
        *await write_each(items[middle:], write, reject),
    ]


def columns(rows: Iterable[tuple[Any, ...]], names: str) -> dict[str, Any]:
    """Rows as the columns that a statement takes, by the names of these (separated by blanks)."""
    wanted = names.split()
    found = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in wanted]
    return dict(zip(wanted, found, strict=True))


def or_nothing(column: Sequence[Item]) -> Sequence[Item]:
    """A column of a batch that is often empty throughout: then none of it is sent. What is missing of it is null."""
    return column if any(value is not None for value in column) else ()
