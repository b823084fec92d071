"""From requests to submissions: checks that JSON types can't express."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from rota.contract.fields import wire_name
from rota.contract.jobs import JobIn, JobPatch, Misfire, Retry, SchedulePreviewIn, Submitted
from rota.contract.json_rules import MOST_LEVELS, excess_of, has_repeated_name, is_too_deep
from rota.domain.application import ANCHOR, DeclaredSchedule
from rota.domain.business_days import Exclusion, check_reach, encode_exclusion
from rota.domain.ids import LOW_MASK, declared_id, ids_of, new_id, shard_of, show_job, show_one_shot
from rota.domain.job import (
    HTTP_TASK,
    LATE_SUBMISSION_SECONDS,
    RESERVED_TASKS,
    SCRIPT_TASK,
    Definition,
    MisfireRule,
    OneShot,
    PlainSet,
    Priority,
    Recurring,
    RunOptions,
    SingleJob,
    Timetable,
    Unique,
    check_script_name,
    decode_options,
    encode_options,
)
from rota.domain.retry import RetryPolicy
from rota.domain.rights import Caller
from rota.domain.runner_payloads import parse_http_call, parse_shell_call
from rota.domain.schedule import parse_cron, parse_every
from rota.domain.timezones import load_zone
from rota.errors import BadInputError, RotaError
from rota.gateway.known_tasks import FindTask, KnownTask
from rota.gateway.policy_fields import POLICY_FIELDS, FieldGroup, patched_policies, policies_of
from rota.tracing import TRACEPARENT

_FAR_FUTURE = datetime(9000, 1, 1, tzinfo=UTC)
_EARLIEST = datetime(1900, 1, 1, tzinfo=UTC)
_FIELDS_OF = {
    "immediate": (),
    "future": ("schedule_time",),
    "cron": ("cron_expression",),
    "interval": ("every_seconds",),
}
# Calendar fields that are stored unchanged, with their columns.
CALENDAR = {
    "timezone": "timezone",
    "start_time": "start_at",
    "end_time": "end_at",
    "jitter_seconds": "jitter_seconds",
    "dst": "dst",
}
_raws = msgspec.json.Decoder(list[msgspec.Raw])
_TWO_STARTS = "means startTime in a cron job, which is given too: give one of the two"
_PRIORITIES: dict[str | UnsetType, int] = {level.name: int(level) for level in Priority} | {UNSET: int(Priority.normal)}
_DEFAULT_POOL = "default"
_VARIED = frozenset({"headers", "retry"})  # objects, which can't be looked up
_MOST_KNOWN = 512
_DEFAULT_OPTIONS = encode_options(RunOptions())
_TIMES = FieldGroup("schedule_time", "delay_seconds", "cron_expression", "every_seconds")
_EXCLUSION = FieldGroup("exclude_calendars", "exclude_weekends", "on_excluded_day")
_CALENDAR = FieldGroup(*CALENDAR, "misfire", *_EXCLUSION.names)
_OPTIONS = FieldGroup(*(name for name in RunOptions.__struct_fields__ if name != "linked"))
_CHANGEABLE_OPTIONS = tuple(name for name in _OPTIONS.names if name in JobPatch.__struct_fields__)
_DEPENDENCIES = FieldGroup("dependencies", "dependency_window_seconds")
_UNIQUE = FieldGroup("unique_key", "on_duplicate", "unique_seconds")
# Most jobs have none of these, which one look at them all tells: bulk submissions spend their time here.
_UNCOMMON = FieldGroup(
    *(*_TIMES.names, *_CALENDAR.names, *_OPTIONS.names, *_UNIQUE.names, *POLICY_FIELDS.names, *_DEPENDENCIES.names)
)


class SetShape(NamedTuple):
    """What the jobs of a set have alike, and the status of all of them; `task` is None if payloads decide it; `known`:
    what workers have announced of it."""

    namespace: str
    definition: Definition
    run_at: datetime | None
    planned: datetime
    status: str
    shards: int
    task: str | None
    known: KnownTask | None = None

    def check(self, payload: str | None) -> None:
        """Raises BadInputError if the payload does not fit the task."""
        if self.known is not None:
            self.known.check(payload)
        elif self.task is None:
            _check_task(self.definition.task or None, payload)

    def accepts_all(self, payloads: Sequence[Any]) -> bool:
        """Whether all of these fit the task, as far as can be told without looking at each."""
        return self.task is not None if self.known is None else self.known.accepts_all(payloads)

    def ids(self, count: int) -> range:
        """New ids, as numbers, each greater than the one before by one."""
        return new_id.series(self.planned.timestamp(), count)

    def plain_set(self, payloads: Sequence[str | None]) -> PlainSet | None:
        """The jobs with these payloads, which were checked; None if they are not plain."""
        if self.task is None or self.run_at is not None or self.definition.policies is not None:
            return None
        return PlainSet(self.namespace, self.ids(len(payloads)), self.shards, self.definition, payloads)

    def jobs(self, payloads: Sequence[str | None]) -> list[OneShot]:
        """The jobs with these payloads, which were checked."""
        it, namespace, run_at, shards = self.definition, self.namespace, self.run_at, self.shards
        owner, name, pool, priority, tags = it.owner, it.name, it.pool, it.priority, it.tags
        options, policies = it.options, it.policies
        made = []
        for run_id, payload in zip(ids_of(self.ids(len(payloads))), payloads, strict=True):
            task = self.task or _check_task(it.task or None, payload)
            definition = Definition(owner, name, task, pool, priority, tags, payload, options, policies)
            made.append(OneShot(namespace, run_id, (run_id.int & LOW_MASK) % shards, definition, run_at))
        return made


class JobBuilder:
    """Makes submissions from requests."""

    def __init__(
        self,
        *,
        shards: int,
        payload_limit_bytes: int,
        now: Callable[[], datetime],
        find_task: FindTask = lambda _namespace, _task: None,
    ) -> None:
        """`find_task` gives what workers have announced of a task."""
        self._shards = shards
        self._payload_limit = payload_limit_bytes
        self._now = now
        self._find_task = find_task

    def find_task(self, wanted: JobIn, caller: Caller) -> KnownTask | None:
        """What is known of the job's task."""
        return self._find_task(caller.namespace, wanted.task) if wanted.task else None

    def prepare(
        self, wanted: JobIn, caller: Caller, now: datetime, known: KnownTask | None
    ) -> tuple[SingleJob, Submitted]:
        """The submission and the answer it will get; `known`: what `find_task` found. Raises BadInputError."""
        if known is not None:
            wanted = known.completed(wanted)
        plain = wanted.schedule_type == "immediate" and not _UNCOMMON.given(wanted)
        if not plain:
            wanted = _with_start(wanted)
            _check_timing_fields(wanted)
            _check_calendar(wanted)
            _check_dependencies(wanted)
            if wanted.schedule_type not in ("immediate", "future"):
                return self._recurring(wanted, caller, now, known)
        definition = self.definition(wanted, caller, plain=plain)
        if known is not None:
            known.check(definition.payload)
        return self._one_shot(wanted, definition, None if plain else _unique(wanted, caller), caller, now)

    def prepare_set(self, wanted: JobIn, caller: Caller, now: datetime) -> SetShape:
        """What the jobs of a set have alike; raises BadInputError naming the field."""
        check_template(wanted)
        known = self.find_task(wanted, caller)
        if known is not None:
            wanted = known.completed(wanted)
        if wanted.schedule_type != "immediate" or _UNCOMMON.given(wanted):
            _check_timing_fields(wanted)
            _check_calendar(wanted)
            if _unique(wanted, caller):
                raise _no_unique_key()
        run_at = _one_shot_time(wanted, now)
        planned = now if run_at is None else max(run_at, now)
        definition = self.template(wanted, caller)
        return SetShape(
            caller.namespace,
            definition,
            run_at,
            planned,
            _first_status(definition.policies, waits=planned is not now),
            self._shards,
            None if _needs_payload(wanted.task) else wanted.task,
            known,
        )

    def is_made_unique(self, wanted: JobIn, caller: Caller) -> bool:
        """Whether the job's task gives it a unique key: then it can't be part of a set."""
        known = self.find_task(wanted, caller)
        return known is not None and known.is_unique(wanted)

    def may_replace(self, wanted: JobIn, caller: Caller) -> bool:
        """Whether the job may replace another one, by its own words or by those of its task."""
        if wanted.on_duplicate is not UNSET:
            return wanted.on_duplicate == "replace"
        known = self.find_task(wanted, caller)
        return known is not None and known.replaces(wanted)

    def definition(
        self, wanted: JobIn, caller: Caller, job_id: UUID | None = None, *, plain: bool = False
    ) -> Definition:
        """What to run; `job_id` is that of a recurring job, and a plain job has only common fields."""
        payload = self.payload(wanted.payload)
        return Definition(
            owner=caller.owner,
            name=wanted.name,
            task=_check_task(wanted.task, payload),
            pool=wanted.pool or _DEFAULT_POOL,
            priority=_PRIORITIES[wanted.priority],
            tags=tuple(wanted.tags or ()),
            payload=payload,
            options=_DEFAULT_OPTIONS if plain else _options(wanted),
            policies=None if plain else policies_of(wanted, job_id),
        )

    def template(self, wanted: JobIn, caller: Caller) -> Definition:
        """What the jobs of a set, or the runs of a node, have alike: everything but the payload."""
        return Definition(
            owner=caller.owner,
            name=wanted.name,
            task=wanted.task or "",
            pool=wanted.pool or _DEFAULT_POOL,
            priority=_PRIORITIES[wanted.priority],
            tags=tuple(wanted.tags or ()),
            payload=None,
            options=_options(wanted),
            policies=policies_of(wanted, None),
        )

    def check_node(self, task: str, payload: str | None) -> None:
        """Raises BadInputError if a node's payload does not fit a task of the runners."""
        _check_task(task, payload)

    def payload(self, raw: Any) -> str | None:
        """The payload as it is stored: the JSON text of an object."""
        if raw is UNSET:
            return None
        data = bytes(raw)
        if data == b"null":
            return None
        if not data.startswith(b"{"):
            raise BadInputError("must be an object", field="payload")
        if len(data) > self._payload_limit:
            raise BadInputError(f"is {len(data)} bytes; the limit is {self._payload_limit}", field="payload")
        if excess := excess_of(data):
            raise BadInputError(excess, field="payload")
        try:
            fields = msgspec.json.decode(data)
            text = data.decode()
        except (UnicodeDecodeError, msgspec.MsgspecError, RecursionError):
            raise BadInputError("is not valid JSON", field="payload") from None
        if is_too_deep(data):
            raise BadInputError(f"is nested more than {MOST_LEVELS} levels deep", field="payload")
        if has_repeated_name(data, fields):
            raise BadInputError("has an object with two fields of the same name", field="payload")
        return text

    def payloads(self, array: bytes) -> list[str | RotaError | None]:
        """The payloads in a JSON array, each as `payload` gives it, or the error that it has.

        If the array as a whole passes a check, so does each payload of it, which takes a fraction of the time.
        """
        try:
            texts = _raws.decode(array)
        except (UnicodeDecodeError, msgspec.MsgspecError, RecursionError):
            raise BadInputError("must be an array of objects", field="payloads") from None
        if self._passes(array):
            return [None if text == b"null" else text.decode() for text in map(bytes, texts)]
        return [self._payload_or_error(text) for text in texts]

    def _passes(self, array: bytes) -> bool:
        if len(array) > self._payload_limit or excess_of(array) or is_too_deep(array):
            return False
        try:
            decoded = msgspec.json.decode(array)
        except (UnicodeDecodeError, msgspec.MsgspecError, RecursionError):
            return False
        return all(one is None or type(one) is dict for one in decoded) and not has_repeated_name(array, decoded)

    def _payload_or_error(self, raw: msgspec.Raw) -> str | RotaError | None:
        try:
            return self.payload(raw)
        except RotaError as error:
            error.__traceback__ = error.__context__ = None  # ten thousand of them would keep as many frames
            return error

    def patched(self, before: Definition, patch: JobPatch, namespace: str, job_id: UUID | None = None) -> Definition:
        """A definition with some fields changed. What it got from its task when it was submitted stays."""
        changes = {name: value for name in _CHANGEABLE_OPTIONS if (value := getattr(patch, name)) is not UNSET}
        options = msgspec.structs.replace(decode_options(before.options), **_stored_options(changes))
        payload = before.payload if patch.payload is UNSET else self.payload(patch.payload)
        # An unchanged payload in object storage was checked when it came.
        unseen = before.blob is not None and patch.payload is UNSET
        task = before.task if patch.task is UNSET else patch.task
        task = task if unseen else _check_task(task, payload)
        is_checked = not unseen and not (patch.payload is UNSET and patch.task is UNSET)
        if is_checked and (known := self._find_task(namespace, task)) is not None:
            known.check(payload)
        return Definition(
            owner=before.owner,
            name=before.name if patch.name is UNSET else patch.name,
            task=task,
            pool=before.pool if patch.pool is UNSET else patch.pool,
            priority=before.priority if patch.priority is UNSET else _PRIORITIES[patch.priority],
            tags=before.tags if patch.tags is UNSET else tuple(patch.tags),
            payload=payload,
            options=encode_options(options),
            policies=patched_policies(before.policies, patch, job_id, task),
        )

    def patched_timetable(
        self, before: Timetable, patch: JobPatch, job_id: UUID, exclusion: Exclusion | None = None
    ) -> Timetable:
        """A timetable with some fields changed; raises BadInputError if the result is not a schedule. `exclusion`: the
        calendars that the patch names, with their days."""
        patch = _patch_with_start(patch)
        _refuse(patch, ("schedule_time",), "is for future jobs; this one is recurring")
        if patch.cron_expression is not UNSET and patch.every_seconds is not UNSET:
            raise BadInputError("give this or cronExpression, not both", field="everySeconds")
        now = self._now()
        changes: dict[str, Any] = {}
        if patch.cron_expression is not UNSET:
            changes |= {"schedule_type": "cron", "cron_expression": patch.cron_expression, "every_seconds": None}
        if patch.every_seconds is not UNSET:
            changes |= {"schedule_type": "interval", "cron_expression": None, "every_seconds": patch.every_seconds}
            if patch.every_seconds != before.every_seconds:
                changes["anchor_at"] = now
            changes["dst"] = None
        for field, column in CALENDAR.items():
            if (value := getattr(patch, field)) is not UNSET:
                changes[column] = value
        if patch.jitter_seconds is None:
            changes["jitter_seconds"] = 0.0
        if patch.misfire is not UNSET:
            changes["misfire"] = _misfire(patch.misfire)
        changes["excluded"] = _patched_exclusion(before.exclusion, patch, exclusion)
        after = _timetable(msgspec.structs.replace(before, **changes), job_id, now)
        _check_type(patch, after.schedule_type)
        _check_end(after, now)
        if after != before:
            _first_fire(after, job_id, now)
        return after

    def patched_time(self, patch: JobPatch) -> datetime | None:
        """A one-shot's new time; None: unchanged."""
        fields = ("cron_expression", "every_seconds", *_CALENDAR.names)
        _refuse(patch, fields, "is for recurring jobs; this one runs once")
        _check_type(patch, "future")
        return None if patch.schedule_time is UNSET else _check_time(patch.schedule_time, self._now())

    def _one_shot(
        self, wanted: JobIn, definition: Definition, unique: Unique | None, caller: Caller, now: datetime
    ) -> tuple[OneShot, Submitted]:
        run_at = _one_shot_time(wanted, now)
        planned = now if run_at is None else max(run_at, now)
        run_id = new_id(planned.timestamp())
        shard, chosen_id = shard_of(run_id, self._shards), wanted.job_id
        item = OneShot(caller.namespace, run_id, shard, definition, run_at, None, unique, chosen_id)
        status = _first_status(definition.policies, waits=planned is not now)
        shown_job, shown_run = show_one_shot(run_id)
        return item, Submitted(job_id=chosen_id or shown_job, status=status, run_id=shown_run)

    def declared(self, wanted: JobIn, caller: Caller, app: str) -> DeclaredSchedule:
        """A schedule that an application declares; raises BadInputError naming the field."""
        if wanted.unique_key:
            raise BadInputError("a declared schedule is identified by its name: leave this out", field="uniqueKey")
        if wanted.job_id is not None:
            raise BadInputError("a declared schedule is identified by its name: leave this out", field="jobId")
        refuse_dependencies(wanted, "can't be declared in code: give them to the job, with PUT /v1/jobs/{jobId}")
        wanted = _with_start(wanted)
        _check_timing_fields(wanted)
        job_id = declared_id(caller.namespace, app, wanted.name)
        return DeclaredSchedule(
            self.definition(wanted, caller, job_id), self._timetable(wanted, job_id, ANCHOR, self._now())
        )

    def _recurring(
        self, wanted: JobIn, caller: Caller, now: datetime, known: KnownTask | None
    ) -> tuple[Recurring, Submitted]:
        job_id = new_id(now.timestamp())
        definition = self.definition(wanted, caller, job_id)
        if known is not None:
            known.check(definition.payload)
        timetable = self._timetable(wanted, job_id, now, now)
        _check_end(timetable, now)
        first = _first_fire(timetable, job_id, now)
        unique = _unique(wanted, caller)
        if unique and unique.on_duplicate == "replace":
            words = "'replace' is for jobs that run once; change a recurring job with PUT"
            raise BadInputError(words, field="onDuplicate")
        shard = shard_of(job_id, self._shards)
        item = Recurring(caller.namespace, job_id, shard, definition, timetable, first, None, unique, wanted.job_id)
        return item, Submitted(job_id=wanted.job_id or show_job(job_id), status="scheduled")

    def _timetable(self, wanted: JobIn, job_id: UUID, anchor: datetime, now: datetime) -> Timetable:
        timetable = Timetable(
            wanted.schedule_type,
            wanted.cron_expression,
            wanted.every_seconds,
            "UTC" if wanted.timezone is None else wanted.timezone,
            anchor,
            wanted.start_time,
            wanted.end_time,
            wanted.jitter_seconds or 0.0,
            wanted.dst,
            _misfire(wanted.misfire),
            exclusion_of(wanted),
        )
        return _timetable(timetable, job_id, now)


def check_template(wanted: JobIn) -> None:
    """Raises BadInputError for what the jobs of a set can't have alike, however they are submitted."""
    if wanted.payload is not UNSET:
        raise BadInputError("leave it out: each job of the set has its own", field="payload")
    if wanted.job_id is not None:
        raise BadInputError("the jobs of a set have generated ids: submit these one by one", field="jobId")
    if wanted.schedule_type not in ("immediate", "future"):
        raise BadInputError("a set is for jobs that run once: immediate or future", field="scheduleType")
    if wanted.unique_key:
        raise _no_unique_key()
    refuse_dependencies(wanted, "a set is for jobs without them: submit these one by one")


def refuse_dependencies(wanted: JobIn, why: str) -> None:
    """Raises BadInputError for a job that depends on others."""
    for field in _DEPENDENCIES.given(wanted):
        raise BadInputError(why, field=wire_name(field))


def refuse_exclusions(wanted: JobIn, why: str) -> None:
    """Raises BadInputError for a schedule that leaves out days."""
    for field in _EXCLUSION.given(wanted):
        raise BadInputError(why, field=wire_name(field))


def exclusion_of(wanted: JobIn | SchedulePreviewIn) -> str | None:
    """The days that a schedule leaves out, as stored; those of calendars are not looked up yet."""
    names = wanted.exclude_calendars or []
    exclusion = Exclusion(dict.fromkeys(names, ""), bool(wanted.exclude_weekends), wanted.on_excluded_day or "skip")
    return _stored_exclusion(exclusion, is_ruled=wanted.on_excluded_day is not None)


def _patched_exclusion(before: Exclusion, patch: JobPatch, named: Exclusion | None) -> str | None:
    after = before
    if patch.exclude_calendars is not UNSET:
        after = msgspec.structs.replace(
            after, revisions=named.revisions if named else {}, days=named.days if named else ()
        )
    if patch.exclude_weekends is not UNSET:
        after = msgspec.structs.replace(after, weekends=bool(patch.exclude_weekends))
    if patch.on_excluded_day is not UNSET:
        after = msgspec.structs.replace(after, rule=patch.on_excluded_day or "skip")
    return _stored_exclusion(after, is_ruled=patch.on_excluded_day not in (UNSET, None))


def _stored_exclusion(exclusion: Exclusion, *, is_ruled: bool) -> str | None:
    text = encode_exclusion(exclusion)
    if text is None and is_ruled:
        raise BadInputError("needs excludeCalendars or excludeWeekends", field="onExcludedDay")
    return text


def _check_dependencies(wanted: JobIn) -> None:
    if wanted.dependency_window_seconds is None:
        return
    if not wanted.dependencies:
        raise BadInputError("needs dependencies", field="dependencyWindowSeconds")
    if wanted.schedule_type in ("immediate", "future"):
        raise BadInputError("is for schedules; this job runs once", field="dependencyWindowSeconds")


def _no_unique_key() -> BadInputError:
    return BadInputError("a set is for jobs without one: submit these one by one", field="uniqueKey")


def _one_shot_time(wanted: JobIn, now: datetime) -> datetime | None:
    """When a job that runs once is due; None: now."""
    if wanted.schedule_type != "future":
        return None
    delay = wanted.delay_seconds
    return _check_time(wanted.schedule_time if delay is None else now + timedelta(seconds=delay), now)


def _first_status(policies: str | None, *, waits: bool) -> str:
    """The status of a run that was just submitted."""
    if waits:
        return "scheduled"
    return "queued" if policies is None else "blocked"


def _needs_payload(task: str | None) -> bool:
    """Whether only the payload tells whether the task fits."""
    return task is None or task in RESERVED_TASKS


def _check_task(task: str | None, payload: str | None) -> str:
    """The task's name; a payload with a script and no task means a script."""
    if task is not None and task not in RESERVED_TASKS:
        return task
    fields = msgspec.json.decode(payload) if payload else {}
    if task is None:
        if "script" not in fields:
            raise BadInputError("required, but missing (or give payload.script)", field="task")
        task = SCRIPT_TASK
    if task == SCRIPT_TASK:
        check_script_name(fields.get("script"))
    elif task == HTTP_TASK:
        parse_http_call(payload)
    else:
        parse_shell_call(fields)
    return task


def _options(wanted: JobIn) -> str:
    given = _OPTIONS.given(wanted)
    if not given:
        return _DEFAULT_OPTIONS
    if wanted.schedule_type != "immediate" and wanted.headers and TRACEPARENT in wanted.headers:
        given["linked"] = True
    return _encode_few(**given) if _VARIED.isdisjoint(given) else _encode(given)


def _encode(given: Mapping[str, Any]) -> str:
    return encode_options(RunOptions(**_stored_options(given)))


@lru_cache(_MOST_KNOWN)
def _encode_few(**given: Any) -> str:
    """The jobs of a task mostly have the same."""
    return _encode(given)


def _stored_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Options in the domain's types; empty headers are stored as none."""
    stored = {name: None if value == {} else value for name, value in given.items()}
    if isinstance(retry := stored.get("retry"), Retry):
        stored["retry"] = RetryPolicy(**msgspec.structs.asdict(retry))
    return stored


def _timetable(wanted: Timetable, job_id: UUID, now: datetime) -> Timetable:
    """Checks a timetable."""
    load_zone(wanted.timezone)
    for moment, field in ((wanted.start_at, "startTime"), (wanted.end_at, "endTime")):
        if moment is not None and not _EARLIEST <= moment <= _FAR_FUTURE:
            raise BadInputError("must be a time of the years 1900 to 8999", field=field)
    if wanted.cron_expression is not None:
        parse_cron(wanted.cron_expression, wanted.timezone, now, dst=wanted.dst or "shift", seed=job_id)
    elif wanted.every_seconds is None or not math.isfinite(wanted.every_seconds):
        raise BadInputError("required, but missing", field="everySeconds")
    else:
        parse_every(wanted.every_seconds, wanted.anchor_at)
        if wanted.dst is not None:
            raise BadInputError("is for cron schedules; an interval is elapsed time", field="dst")
    if wanted.excluded is not None:
        check_reach(wanted.schedule(job_id), now)
    return wanted


def _check_end(timetable: Timetable, now: datetime) -> None:
    if timetable.end_at is not None and timetable.end_at <= now:
        raise BadInputError("is in the past", field="endTime")


def with_days(item: Recurring, exclusion: Exclusion, now: datetime) -> Recurring:
    """A schedule with the days of its calendars; raises BadInputError if they leave it no time."""
    timetable = msgspec.structs.replace(item.timetable, excluded=encode_exclusion(exclusion))
    check_reach(timetable.schedule(item.id), now)
    return msgspec.structs.replace(item, timetable=timetable, next_fire_at=_first_fire(timetable, item.id, now))


def _first_fire(timetable: Timetable, job_id: UUID, now: datetime) -> datetime:
    """When it fires first; raises BadInputError if it never does."""
    first = timetable.schedule(job_id).next_after(now)
    if first is None:
        field = "endTime" if timetable.end_at is not None else "startTime"
        raise BadInputError("with this value, the schedule never fires", field=field)
    return first


def _unique(wanted: JobIn, caller: Caller) -> Unique | None:
    if not (given := _UNIQUE.given(wanted)):
        return None
    if not wanted.unique_key:
        raise BadInputError("needs a uniqueKey", field=wire_name(next(iter(given))))
    return Unique(caller.own(wanted.unique_key), wanted.unique_seconds or None, wanted.on_duplicate or "reject")


def _misfire(given: str | Misfire | None) -> str | None:
    """The rule as stored; None for the default."""
    if given is None:
        return None
    rule = MisfireRule(**({"policy": given} if isinstance(given, str) else msgspec.structs.asdict(given)))
    return None if rule == MisfireRule() else msgspec.json.encode(rule).decode()


def _with_start(wanted: JobIn) -> JobIn:
    """A cron job whose time, if it has one, is its start."""
    if wanted.schedule_type != "cron" or wanted.schedule_time is None:
        return wanted
    if wanted.start_time is not None:
        raise BadInputError(_TWO_STARTS, field="scheduleTime")
    return msgspec.structs.replace(wanted, start_time=wanted.schedule_time, schedule_time=None)


def _patch_with_start(patch: JobPatch) -> JobPatch:
    """A change of a cron expression whose time, if it has one, is its start."""
    if patch.cron_expression is UNSET or patch.schedule_time is UNSET:
        return patch
    if patch.start_time is not UNSET:
        raise BadInputError(_TWO_STARTS, field="scheduleTime")
    return msgspec.structs.replace(patch, start_time=patch.schedule_time, schedule_time=UNSET)


def _check_type(patch: JobPatch, schedule_type: str) -> None:
    """Raises BadInputError if a change names another type of schedule than the job has after it."""
    if patch.schedule_type not in (UNSET, schedule_type):
        words = f"can't be changed to this: with the other fields, the job is {schedule_type!r}"
        raise BadInputError(words, field="scheduleType")


def _check_timing_fields(wanted: JobIn) -> None:
    needed = _FIELDS_OF[wanted.schedule_type]
    given = _TIMES.given(wanted)
    if not needed and not given:
        return
    if wanted.delay_seconds is not None and wanted.schedule_type == "future":
        needed = ("delay_seconds",)
    for field in _TIMES.names:
        if field in needed and field not in given:
            raise BadInputError(f"required for scheduleType {wanted.schedule_type!r}", field=wire_name(field))
        if field in given and field not in needed:
            raise BadInputError(f"can't be used with scheduleType {wanted.schedule_type!r}", field=wire_name(field))


def _check_calendar(wanted: JobIn) -> None:
    """Refuses fields of recurring jobs in others."""
    if wanted.schedule_type not in ("cron", "interval"):
        for field in _CALENDAR.given(wanted):
            raise BadInputError(f"can't be used with scheduleType {wanted.schedule_type!r}", field=wire_name(field))


def _check_time(moment: datetime | None, now: datetime) -> datetime:
    if moment is None:
        raise BadInputError("required, but missing", field="scheduleTime")
    if moment < now - timedelta(seconds=LATE_SUBMISSION_SECONDS):
        words = f"is in the past by more than {LATE_SUBMISSION_SECONDS:g} seconds: {moment.isoformat()}"
        raise BadInputError(words, field="scheduleTime")
    if moment > _FAR_FUTURE:
        raise BadInputError("is too far in the future", field="scheduleTime")
    return moment


def _refuse(patch: JobPatch, fields: tuple[str, ...], why: str) -> None:
    for field in fields:
        if getattr(patch, field) is not UNSET:
            raise BadInputError(why, field=wire_name(field))
