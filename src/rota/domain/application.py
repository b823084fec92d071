"""Schedules declared in code, as workers register them and the database stores them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import msgspec

from rota.domain.job import Definition, Timetable

# Declared intervals are counted from here, so that a deployment does not restart them.
ANCHOR = datetime(1970, 1, 1, tzinfo=UTC)


class DeclaredSchedule(msgspec.Struct, frozen=True):
    """What to run and when."""

    definition: Definition
    timetable: Timetable

    @property
    def name(self) -> str:
        """The name, which identifies it across versions."""
        return self.definition.name


class DeclaredChange(msgspec.Struct, frozen=True):
    """A change of an existing job: its new state, and whether the declaration changed."""

    state: str
    is_new: bool


def judge_declared(
    declared: DeclaredSchedule, before: DeclaredSchedule | None, *, state: str, paused_by_app: bool
) -> DeclaredChange | None:
    """None: no change. A job that a person paused stays paused; one that the application paused resumes."""
    is_new = before != declared
    if paused_by_app or (is_new and state in ("cancelled", "completed")):
        return DeclaredChange("scheduled", is_new)
    return DeclaredChange(state, is_new) if is_new else None


class Application(msgspec.Struct, frozen=True):
    """The application that a worker runs, with its declared schedules."""

    namespace: str
    name: str
    version: str
    schedules: tuple[DeclaredSchedule, ...] = ()


_RELEASE = re.compile(r"v?(\d{1,15}(?:\.\d{1,15}){0,9})", re.ASCII)


def release_of(version: str) -> list[int] | None:
    """The numbers of a version such as 1.10 or v2026.11.3, for comparison; None if it has another form."""
    match = _RELEASE.fullmatch(version)
    return [int(part) for part in match[1].split(".")] if match else None


_decoder = msgspec.json.Decoder(tuple[DeclaredSchedule, ...])


def encode_schedules(schedules: tuple[DeclaredSchedule, ...]) -> str:
    """Encodes schedules for their column; equal schedules give equal text."""
    return msgspec.json.encode(sorted(schedules, key=lambda one: one.name)).decode()


def decode_schedules(text: str) -> tuple[DeclaredSchedule, ...]:
    return _decoder.decode(text)
