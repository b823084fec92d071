"""Announced tasks in memory: what a job gets from its task, and whether its payload fits.

A namespace's tasks are read before its first submission, and followed from then on: when a worker joins (a wake-up
tells) and every few seconds. So submitting asks the database nothing more. A namespace without submissions for a
minute is forgotten.

What counts is decided by the database (rota.announcements_of): the newest release with a live worker, and while there
is none, the one that was seen last. What can't be read of an announcement is passed over: it concerns that task alone.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from rota.contract.jobs import JobIn
from rota.contract.tasks import TaskDefaults
from rota.domain.application import AnnouncedTask
from rota.errors import DatabaseUnavailableError
from rota.gateway.payload_check import PayloadCheck, check_of, refusal
from rota.service import Service
from rota.store.announce import AnnouncementKey, Announcements, Standing
from rota.telemetry import get_logger

_LISTENING_SECONDS = 4.5
_LEAST_SECONDS = 0.2  # between two readings: a whole fleet may join at once
_UNUSED_SECONDS = 60.0  # without a submission, then the namespace is forgotten
# Fields that mean something only beside another one, and are left out without it.
_BESIDE = (
    ("ordering_on_failure", "ordering_key"),
    ("unique_seconds", "unique_key"),
    ("on_duplicate", "unique_key"),
    ("concurrency_key", "concurrency_limit"),
)
_TYPES = {field.name: field.type for field in msgspec.structs.fields(TaskDefaults)}
_NAMES = {field.encode_name: field.name for field in msgspec.structs.fields(TaskDefaults)}
_raw_tasks = msgspec.json.Decoder(dict[str, msgspec.Raw])
_log = get_logger("tasks")


class _Described(msgspec.Struct):
    """An announced task whose parts are not read yet."""

    parameters: msgspec.Raw = msgspec.Raw(b"{}")
    defaults: dict[str, Any] = {}
    computed: tuple[str, ...] = ()


_described = msgspec.json.Decoder(_Described)


class KnownTask:
    """A task: the defaults in force, and the payloads that its live releases accept."""

    __slots__ = ("_beside", "_checks", "_defaults", "name")

    def __init__(
        self,
        name: str,
        defaults: Mapping[str, Any],
        computed: Sequence[str] = (),
        checks: Sequence[PayloadCheck] = (),
    ) -> None:
        """`checks`: of all live releases; none: any payload is accepted."""
        self.name = name
        self._defaults = tuple(read_defaults(defaults).items())
        # A limit of its own for each key is not one for the whole task.
        per_key = (("concurrency_limit", "concurrency_key"),) if "concurrencyKey" in computed else ()
        self._beside = tuple(pair for pair in (*_BESIDE, *per_key) if pair[0] in dict(self._defaults))
        self._checks = checks

    def completed(self, wanted: JobIn) -> JobIn:
        """The job with the task's defaults in the place of what it does not say."""
        missing = {name: value for name, value in self._defaults if getattr(wanted, name) is UNSET}
        for name, other in self._beside:
            value = missing.get(other, getattr(wanted, other))
            if name in missing and (value is UNSET or value is None):
                del missing[name]
        if not missing:
            return wanted
        made = copy(wanted)  # a fifth of what replace() takes
        for name, value in missing.items():
            setattr(made, name, value)
        return made

    def is_unique(self, wanted: JobIn) -> bool:
        """Whether the job gets a unique key that it does not give itself."""
        return wanted.unique_key is UNSET and any(name == "unique_key" for name, _ in self._defaults)

    def replaces(self, wanted: JobIn) -> bool:
        """Whether the job may replace another one because its task says so."""
        return wanted.on_duplicate is UNSET and ("on_duplicate", "replace") in self._defaults

    def check(self, payload: str | None) -> None:
        """Raises BadInputError, naming the parameters, if no live release accepts the payload."""
        for check in self._checks:
            if check.accepts(payload):
                return
        if self._checks:
            raise refusal(self._checks[0], self.name, payload)

    def accepts_all(self, payloads: Sequence[Any]) -> bool:
        """Whether one live release accepts all of these; quicker than one by one."""
        return not self._checks or any(check.accepts_all(payloads) for check in self._checks)


def read_defaults(given: Mapping[str, Any]) -> dict[str, Any]:
    """Defaults by the contract's names. One that this release does not know, or can't read, is left out."""
    found: dict[str, Any] = {}
    for wire, value in given.items():
        name = _NAMES.get(wire)
        try:
            if name is not None and value is not None:
                found[name] = msgspec.convert(value, _TYPES[name])
        except msgspec.ValidationError as error:
            _log.warning("a task's announced option can't be used", option=wire, error=str(error))
    return found


# Finds a task by namespace and name; None: nothing is known of it.
FindTask = Callable[[str, str], KnownTask | None]


class TaskRelease(NamedTuple):
    """A task in one release."""

    key: AnnouncementKey
    is_live: bool
    task: AnnouncedTask


class _Release(NamedTuple):
    """An announcement, read."""

    standing: Standing
    tasks: Mapping[str, msgspec.Raw]


class _NamespaceTasks:
    """The tasks of one namespace."""

    def __init__(self, releases: Sequence[_Release], unannounced: frozenset[str], *, checks: bool) -> None:
        self.state = ([release.standing for release in releases], unannounced)
        self.releases = releases
        self.is_used = True
        self.used_at = time.monotonic()
        self._unannounced = unannounced
        self._checks = checks
        self._found: dict[str, KnownTask] = {}

    def find(self, name: str) -> KnownTask | None:
        self.is_used = True
        return self._found.get(name) or self._read(name)

    def _read(self, name: str) -> KnownTask | None:
        described = [(standing, _read_task(name, raw)) for standing, raw in self._of(name)]
        ruling = next((read for _, read in described if read is not None), None)
        if ruling is None:
            return None
        checks: list[PayloadCheck] = []
        if self._checks and name not in self._unannounced:
            live = [
                None if read is None else check_of(bytes(read.parameters)) for one, read in described if one.is_live
            ]
            # A release of which nothing can be said may accept anything.
            checks = [] if None in live else [check for check in live if check is not None]
        self._found[name] = made = KnownTask(name, ruling.defaults, ruling.computed, checks)
        return made

    def _of(self, name: str) -> Iterator[tuple[Standing, msgspec.Raw]]:
        for release in self.releases:
            if (raw := release.tasks.get(name)) is not None:
                yield release.standing, raw


def _read_task(name: str, raw: msgspec.Raw) -> _Described | None:
    try:
        return _described.decode(raw)
    except msgspec.MsgspecError as error:
        _log.warning("an announced task can't be read", task=name, error=str(error))
        return None


class KnownTasks(Service):
    """The announced tasks of the namespaces that jobs are submitted to."""

    interval_seconds = 2.0

    def __init__(
        self, announcements: Announcements, *, checks: bool = True, is_listening: Callable[[], bool] = lambda: False
    ) -> None:
        """`checks`: whether payloads are compared with the parameters."""
        super().__init__()
        self._announcements = announcements
        self._checks = checks
        self._is_listening = is_listening
        self._namespaces: dict[str, _NamespaceTasks] = {}
        self._read: dict[AnnouncementKey, Mapping[str, msgspec.Raw]] = {}
        self._reading = asyncio.Lock()
        self._refreshed_at = -math.inf

    @property
    def pause_seconds(self) -> float:
        """Longer where a wake-up tells of a worker that joins."""
        return _LISTENING_SECONDS if self._is_listening() else self.interval_seconds

    async def tick(self) -> int:
        """Reads what has changed in the namespaces in use."""
        if not self._namespaces:
            return 0
        await asyncio.sleep(max(0.0, self._refreshed_at + _LEAST_SECONDS - time.monotonic()))
        async with self._reading:
            self._forget_unused()
            return await self._refresh([*self._namespaces]) if self._namespaces else 0

    def _forget_unused(self) -> None:
        now = time.monotonic()
        for name, tasks in [*self._namespaces.items()]:
            if tasks.is_used:
                tasks.is_used, tasks.used_at = False, now
            elif now > tasks.used_at + _UNUSED_SECONDS:
                del self._namespaces[name]

    async def load(self, namespace: str) -> None:
        """Reads a namespace's tasks at the first call. Jobs are accepted without them if they can't be read."""
        if (tasks := self._namespaces.get(namespace)) is not None:
            tasks.is_used = True
            return
        async with self._reading:
            if namespace not in self._namespaces:
                try:
                    await self._refresh([namespace])
                except DatabaseUnavailableError:
                    raise
                except Exception:  # noqa: BLE001 - logged; the service tries again
                    _log.exception("announced tasks could not be read", namespace=namespace)
                    self._namespaces[namespace] = _NamespaceTasks((), frozenset(), checks=self._checks)

    def find(self, namespace: str, task: str) -> KnownTask | None:
        """What is known of a task; None: nothing."""
        tasks = self._namespaces.get(namespace)
        return None if tasks is None else tasks.find(task)

    async def releases(self, namespace: str) -> dict[str, list[TaskRelease]]:
        """The tasks of a namespace as the database has them now, each in the releases that have it, in force first."""
        async with self._reading:
            await self._refresh([namespace])
        found: dict[str, list[TaskRelease]] = {}
        for release in self._namespaces[namespace].releases:
            for name, raw in release.tasks.items():
                try:
                    task = msgspec.json.decode(raw, type=AnnouncedTask)
                except msgspec.MsgspecError:
                    task = AnnouncedTask()
                found.setdefault(name, []).append(TaskRelease(release.standing.key, release.standing.is_live, task))
        return found

    async def _refresh(self, namespaces: Sequence[str]) -> int:
        """Returns how many namespaces have changed."""
        self._refreshed_at = time.monotonic()
        standing = await self._announcements.standing(namespaces)
        unannounced = await self._announcements.unannounced(namespaces)
        new = {one.key for some in standing.values() for one in some} - self._read.keys()
        if new:
            for key, text in (await self._announcements.read(new)).items():
                self._read[key] = _read_tasks(key, text)
        changed = 0
        for namespace in namespaces:
            releases = [
                _Release(one, self._read[one.key]) for one in standing.get(namespace, ()) if one.key in self._read
            ]
            made = _NamespaceTasks(releases, unannounced.get(namespace, frozenset()), checks=self._checks)
            before = self._namespaces.get(namespace)
            if before is None or before.state != made.state:
                if before is not None:
                    made.is_used, made.used_at = before.is_used, before.used_at
                self._namespaces[namespace] = made
                changed += 1
        used = {release.standing.key for tasks in self._namespaces.values() for release in tasks.releases}
        self._read = {key: tasks for key, tasks in self._read.items() if key in used}
        return changed


def _read_tasks(key: AnnouncementKey, text: str) -> Mapping[str, msgspec.Raw]:
    try:
        return {name: raw.copy() for name, raw in _raw_tasks.decode(text).items()}
    except msgspec.MsgspecError as error:
        _log.warning("an announcement can't be read", app=key.app, version=key.version, error=str(error))
        return {}
