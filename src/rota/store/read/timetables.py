"""Timetables in rows of jobs."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from rota.domain.job import Timetable

Row = TypeVar("Row", bound=msgspec.Struct)


def timetable_of(row: Any) -> Timetable:
    """The timetable in a row of jobs."""
    return Timetable(*(row[name] for name in Timetable.__struct_fields__))


def read_with_timetable(kind: type[Row], row: Any) -> Row:
    """A row with the timetable of a job, as a struct of this kind, whose fields are named like the columns."""
    return kind(*(timetable_of(row) if name == "timetable" else row[name] for name in kind.__struct_fields__))
