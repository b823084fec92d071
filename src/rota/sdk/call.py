"""A call: a task with its arguments and options, checked but not submitted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
from msgspec import UNSET

from rota.contract.fields import Headers, wire_name
from rota.contract.jobs import BatchJobIn
from rota.contract.json_rules import bad_json
from rota.domain.durations import Duration
from rota.errors import BadInputError, RotaError
from rota.sdk.options import Calendar, fields_of, known_options, read_duration
from rota.task.arguments import encode

if TYPE_CHECKING:
    from rota.sdk.task import Task

R = TypeVar("R")

# The contract's fields for the schedule.
When = Mapping[str, Any]
NOW: When = {"schedule_type": "immediate"}
NOTHING: Mapping[str, Any] = {}


class Call(Generic[R]):
    """A task with arguments, made by `task.call(...)`, for `submit_many`."""

    __slots__ = ("arguments", "headers", "is_sealed", "job", "patience_seconds", "task")

    def __init__(
        self,
        task: Task[..., R],
        when: When,
        options: Mapping[str, Any],
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
    ) -> None:
        self.task = task
        payload = task.parameters.encode(arguments, keywords)
        named = task.parameters.bind(arguments, keywords, whole=True)
        given = {**task.defaults, **options}
        patience = given.pop("patience", None)
        self.patience_seconds = None if patience is None else read_duration(patience, "patience")
        fields = {"name": task.name, **fields_of(given, named), **when}
        self.headers: dict[str, str] = dict(fields.pop("headers", {}))
        self.arguments: Any = msgspec.json.decode(payload)
        self.job = _read_job({**fields, "task": task.name}, payload)
        self.is_sealed = False

    def finished(self) -> BatchJobIn:
        """The job with the headers from middleware; raises BadInputError for a bad header."""
        if self.is_sealed or not self.headers:
            return self.job
        try:
            return msgspec.structs.replace(self.job, headers=msgspec.convert(self.headers, Headers))
        except msgspec.ValidationError as error:
            raise BadInputError(f"headers: {error}", field="headers") from None

    def sealed(self, job: BatchJobIn) -> Call[R]:
        """This call as it was sent, with its key: middleware no longer changes it, so that it is the same request."""
        made = copy(self)
        made.job, made.headers, made.is_sealed = job, dict(job.headers or {}), True
        return made


def seal(calls: Sequence[Call[Any]], error: RotaError) -> None:
    """Gives the caller, instead of the jobs that can be sent again, the calls that they are."""
    if error.to_repeat:
        error.to_repeat = [call.sealed(job) for call, job in zip(calls, error.to_repeat, strict=True)]


def longest_patience(calls: Iterable[Call[Any]], given: Duration | None) -> float | None:
    """How long a submission is tried: the longest time that an option says; None: as the application does."""
    times = [] if given is None else [read_duration(given, "patience")]
    times += [call.patience_seconds for call in calls if call.patience_seconds is not None]
    return max(times, default=None)


def check_calls(calls: Sequence[Any]) -> None:
    """Raises BadInputError for anything but calls."""
    for one in calls:
        if not isinstance(one, Call):
            raise BadInputError(f"submit_many takes calls, such as task.call(…), not {one!r}"[:200])


def at_time(moment: datetime) -> When:
    """Once, at a time."""
    if not isinstance(moment, datetime):
        raise BadInputError(f"must be a datetime, not {moment!r}", field="at")
    if moment.tzinfo is None:
        raise BadInputError("the time has no time zone: use datetime.now(UTC), or .astimezone()", field="at")
    return {"schedule_type": "future", "schedule_time": moment}


def after_delay(delay: Duration) -> When:
    """Once, after a delay by the server's clock."""
    return {"schedule_type": "future", "delay_seconds": read_duration(delay, "after")}


def recurring(calendar: Calendar, *, cron: str | None = None, every: Duration | None = None) -> When:
    """On a cron expression or at an interval."""
    return {
        "schedule_type": "interval" if cron is None else "cron",
        "cron_expression": cron,
        "every_seconds": None if every is None else read_duration(every, "every"),
        **fields_of(calendar, {}),
    }


def check_options(options: Mapping[str, Any]) -> None:
    """Raises BadInputError for invalid options; keys that depend on arguments are checked later."""
    fixed = {name: value for name, value in known_options(options).items() if not callable(value)}
    fields = fields_of(fixed, {})
    for name in ("ordering_on_failure", "concurrency_limit", "unique_seconds", "on_duplicate"):
        fields.pop(name, None)  # they can belong to such a key
    _read_job({**fields, **NOW, "name": "check", "task": "check"}, b"{}")


def _read_job(fields: Mapping[str, Any], payload: bytes) -> BatchJobIn:
    """A job from its fields; raises BadInputError that names the bad one."""
    given = {wire_name(name): value for name, value in fields.items() if value is not None}
    try:
        job = msgspec.convert(msgspec.json.decode(encode(given)), BatchJobIn)
    except msgspec.ValidationError as error:
        bad = bad_json(error)
        field, message = bad.fields[0] if bad.fields else (None, str(bad))
        raise BadInputError(f"{field}: {message}" if field else message, field=field) from None
    return msgspec.structs.replace(job, payload=msgspec.Raw(payload) if payload != b"{}" else UNSET)
