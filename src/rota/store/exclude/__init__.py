"""Calendars: days that schedules leave out.

The days are written with each schedule that names a calendar (domain/business_days.py): firing looks nothing up.
Two locks keep both the same. Whoever writes a schedule with days of calendars holds the calendars of the namespace
shared, and looks whether they are still those that the days are from. Whoever changes a calendar holds them alone, and
changes the schedules that name it in the same transaction. Both take the lock before any row of a job.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from typing import Any
from uuid import UUID

import msgspec

from rota.domain.business_days import Exclusion
from rota.domain.job import Recurring, Submission
from rota.errors import ConflictError, RotaError
from rota.store.postgres.database import Database, Statements

KnownCalendars = Mapping[str, tuple[str, tuple[date, ...]]]  # by name: revision and days
_days = msgspec.json.Decoder(tuple[date, ...])


async def read_calendars(statements: Statements | Database, namespace: str, names: Collection[str]) -> KnownCalendars:
    """The revisions and days of those of these calendars that there are."""
    if not names:
        return {}
    rows = await find_calendars(statements, namespace, names)
    return {row["name"]: (row["revision"].hex, decode_days(row["days"])) for row in rows}


async def find_calendars(statements: Statements | Database, namespace: str, names: Iterable[str]) -> list[Any]:
    return await statements.fetch("calendars_named", namespace=namespace, names=list(names))


def decode_days(text: str) -> tuple[date, ...]:
    return _days.decode(text)


async def lock_calendars(statements: Statements, namespaces: Iterable[str], *, changes: bool = False) -> None:
    """Keeps the calendars of these namespaces as they are until the transaction ends."""
    await statements.fetch("lock_calendars", namespaces=sorted(namespaces), changes=changes)


async def hold_calendars(statements: Statements, namespace: str, exclusion: Exclusion) -> None:
    """Before a schedule with these days is written: keeps its calendars as they are. Raises ConflictError if they are
    no longer those that the days are from."""
    if exclusion.revisions:
        await lock_calendars(statements, [namespace])
        if problem := _changed(exclusion, await read_calendars(statements, namespace, exclusion.revisions)):
            raise problem


class NewExclusions:
    """The calendars of schedules that are submitted."""

    def __init__(self, items: Sequence[Submission]) -> None:
        self._items = [item for item in items if isinstance(item, Recurring) and item.timetable.exclusion.revisions]
        self.refused: dict[UUID, RotaError] = {}

    async def look(self, statements: Statements) -> set[UUID]:
        """Keeps the calendars as they are; returns the items whose calendars were changed since they were read."""
        self.refused = {}
        if not self._items:
            return set()
        namespaces = {item.namespace for item in self._items}
        await lock_calendars(statements, namespaces)
        for namespace in namespaces:
            items = [item for item in self._items if item.namespace == namespace]
            names = {name for item in items for name in item.timetable.exclusion.revisions}
            known = await read_calendars(statements, namespace, names)
            for item in items:
                if problem := _changed(item.timetable.exclusion, known):
                    self.refused[item.id] = problem
        return set(self.refused)


def _changed(exclusion: Exclusion, known: KnownCalendars) -> ConflictError | None:
    for name, revision in exclusion.revisions.items():
        if name not in known or known[name][0] != revision:
            return ConflictError(f"the calendar {name!r} was changed or deleted at this moment; try again")
    return None
