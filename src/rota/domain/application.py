"""Schedules declared in code, as a worker brings them along and the database keeps them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import msgspec

from rota.domain.job import Definition, Timetable

# An interval that is declared is counted from here, so that it does not begin anew with each deployment.
ANCHOR = datetime(1970, 1, 1, tzinfo=UTC)


class DeclaredSchedule(msgspec.Struct, frozen=True):
    """A schedule: what to run and when."""

    definition: Definition
    timetable: Timetable

    @property
    def name(self) -> str:
        """Its name, by which it is known from one version to the next."""
        return self.definition.name


class DeclaredChange(msgspec.Struct, frozen=True):
    """What a declaration makes of a job that is there: its state, and whether the code says something new."""

    state: str
    is_new: bool


def judge_declared(
    declared: DeclaredSchedule, before: DeclaredSchedule | None, *, state: str, paused_by_app: bool
) -> DeclaredChange | None:
    """None: the job stays as it is. What a person paused stays paused; what the application paused goes on."""
    is_new = before != declared
    if paused_by_app or (is_new and state in ("cancelled", "completed")):
        return DeclaredChange("scheduled", is_new)
    return DeclaredChange(state, is_new) if is_new else None


class Application(msgspec.Struct, frozen=True):
    """What a worker says of the application it runs: where its schedules belong, its name and version, and what it
    declares."""

    namespace: str
    name: str
    version: str
    schedules: tuple[DeclaredSchedule, ...] = ()


_RELEASE = re.compile(r"v?(\d{1,15}(?:\.\d{1,15}){0,9})", re.ASCII)


def release_of(version: str) -> list[int] | None:
    """The numbers of a version such as 1.10 or v2026.11.3, which say which of two is newer; None when it is none."""
    match = _RELEASE.fullmatch(version)
    return [int(part) for part in match[1].split(".")] if match else None


_decoder = msgspec.json.Decoder(tuple[DeclaredSchedule, ...])


def encode_schedules(schedules: tuple[DeclaredSchedule, ...]) -> str:
    """Schedules for their column; the same ones give the same text."""
    return msgspec.json.encode(sorted(schedules, key=lambda one: one.name)).decode()


def decode_schedules(text: str) -> tuple[DeclaredSchedule, ...]:
    """Schedules from their column."""
    return _decoder.decode(text)
