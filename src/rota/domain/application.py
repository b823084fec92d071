"""What workers say of their application when they join: its schedules and its tasks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha256
from typing import Any

import msgspec

from rota.domain.job import Definition, Timetable
from rota.domain.text import clean_text

# Declared intervals are counted from here, so that a deployment does not restart them.
ANCHOR = datetime(1970, 1, 1, tzinfo=UTC)
_DIGEST_DIGITS = 32
# PostgreSQL stores it in JSON, and then can't look into any part of that: one task would spoil its whole release.
_NUL = rb"\u0000"
_encoder = msgspec.json.Encoder(order="deterministic")


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


class AnnouncedTask(msgspec.Struct, frozen=True, omit_defaults=True):
    """A task as its worker describes it: the JSON schema of its payloads, and the fields that its jobs have by default.

    `computed`: fields that the application computes from the arguments, which nothing else can.
    """

    parameters: Mapping[str, Any] = {}
    defaults: Mapping[str, Any] = {}
    computed: tuple[str, ...] = ()
    description: str = ""


class Announcement:
    """The tasks of one release, as they are stored: in one text, known by its digest.

    Schemas and descriptions help, defaults must be there: the former are left out where they are too large.
    """

    MOST_BYTES = 2 * 1024 * 1024
    MOST_SCHEMA_BYTES = 16 * 1024

    def __init__(self, tasks: Mapping[str, AnnouncedTask]) -> None:
        tasks = {name: _bounded(task) for name, task in tasks.items()}
        self.text = _encode_tasks(tasks)
        if len(self.text.encode()) > self.MOST_BYTES:
            bare = {name: AnnouncedTask({}, task.defaults, task.computed) for name, task in tasks.items()}
            self.text = _encode_tasks(bare)

    @cached_property
    def digest(self) -> str:
        """Equal tasks have equal digests."""
        return sha256(self.text.encode()).hexdigest()[:_DIGEST_DIGITS]

    @property
    def fits(self) -> bool:
        """Whether the database takes it."""
        return len(self.text.encode()) <= self.MOST_BYTES


def _bounded(task: AnnouncedTask) -> AnnouncedTask:
    schema = task.parameters
    if not _fits(schema):
        names = {**schema, "properties": {name: {} for name in schema.get("properties", ())}}
        schema = names if _fits(names) else {"type": "object"}
    return AnnouncedTask(
        schema,
        {name: value for name, value in task.defaults.items() if _NUL not in _encoder.encode(value)},
        task.computed,
        clean_text(task.description),
    )


def _fits(schema: Mapping[str, Any]) -> bool:
    try:
        text = _encoder.encode(schema)
    except (TypeError, ValueError, OverflowError):  # a default or choice that JSON can't hold
        return False
    return len(text) <= Announcement.MOST_SCHEMA_BYTES and _NUL not in text


def _encode_tasks(tasks: Mapping[str, AnnouncedTask]) -> str:
    return _encoder.encode(tasks).decode()


class Application(msgspec.Struct, frozen=True):
    """The application that a worker runs, with its declared schedules and workflows (JSON; None: none) and its
    tasks."""

    namespace: str
    name: str
    version: str
    schedules: tuple[DeclaredSchedule, ...] = ()
    tasks: Mapping[str, AnnouncedTask] = {}
    workflows: str | None = None


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
