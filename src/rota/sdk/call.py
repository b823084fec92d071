"""A call: a task with its arguments and options, checked but not submitted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from rota.contract.fields import Headers, wire_name
from rota.contract.jobs import BatchJobIn
from rota.contract.json_rules import bad_json
from rota.domain.durations import Duration
from rota.errors import BadInputError, RotaError
from rota.gateway.protocol import JobTemplate, OutgoingJob
from rota.sdk.options import (
    Calendar,
    Defaults,
    contract_name,
    depends_on_arguments,
    fields_of,
    known_options,
    read_duration,
    without_function,
)
from rota.task.arguments import encode
from rota.tracing import TRACEPARENT, current_trace

if TYPE_CHECKING:
    from rota.sdk.task import Task

R = TypeVar("R")

# The contract's fields for the schedule.
When = Mapping[str, Any]
NOW: When = {"schedule_type": "immediate"}
NOTHING: Mapping[str, Any] = {}
# Fields that always have a value: this one, unless the job or its task says otherwise.
_GLOBAL = {"max_retries": 3, "priority": "normal", "pool": "default", "tags": []}
_OPTIONAL = frozenset(map(contract_name, Defaults.__annotations__)) - _GLOBAL.keys()


class Plan:
    """When and with which options a task is submitted. The template is made once, unless a key depends on arguments."""

    __slots__ = ("_given", "_when", "patience_seconds", "task", "template")

    def __init__(self, task: Task[..., Any], when: When, options: Mapping[str, Any]) -> None:
        self.task = task
        given = {**task.defaults, **options}
        patience = given.pop("patience", None)
        self.patience_seconds = None if patience is None else read_duration(patience, "patience")
        self._when = when
        self._given = given
        self.template = None if any(map(depends_on_arguments, given.values())) else self._make({})

    def template_for(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> JobTemplate:
        """For a call with these arguments."""
        return self.template or self._make(self.task.parameters.bind(arguments, keywords, whole=True))

    def _make(self, arguments: Mapping[str, Any]) -> JobTemplate:
        name = self.task.name
        fields = {"name": name, **fields_of(self._given, arguments), **self._when, "task": name}
        # Said to be none: else the server would take what workers announce.
        lifted = [contract_name(option) for option, value in self._given.items() if value is None]
        fields |= {option: _GLOBAL[option] for option in lifted if option in _GLOBAL}
        return JobTemplate(_read_job(fields, [option for option in lifted if option in _OPTIONAL]))


class Call(Generic[R]):
    """A task with arguments, made by `task.call(...)`, for `submit_many`."""

    __slots__ = ("_headers", "_is_sealed", "_outgoing", "patience_seconds", "task")

    def __init__(self, plan: Plan, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        self.task: Task[..., R] = plan.task
        self.patience_seconds = plan.patience_seconds
        payload = plan.task.parameters.encode(arguments, keywords)
        template = plan.template or plan.template_for(arguments, keywords)
        self._outgoing = OutgoingJob(template, payload if payload != b"{}" else b"")
        self._headers: dict[str, str] | None = None
        self._is_sealed = False

    @property
    def arguments(self) -> Any:
        """The arguments by name, as JSON."""
        return msgspec.json.decode(self._outgoing.payload or b"{}")

    @property
    def headers(self) -> dict[str, str]:
        """The headers that travel with the run; middleware may change them."""
        if self._headers is None:
            self._headers = dict(self._outgoing.template.job.headers or {})
        return self._headers

    def finished(self) -> OutgoingJob:
        """The job with the headers from middleware; raises BadInputError for a bad header."""
        outgoing = self._outgoing
        job = outgoing.template.job
        if self._is_sealed or self._headers is None or self._headers == (job.headers or {}):
            return outgoing
        try:
            changed = msgspec.structs.replace(job, headers=msgspec.convert(self._headers, Headers))
        except msgspec.ValidationError as error:
            raise BadInputError(f"headers: {error}", field="headers") from None
        return outgoing._replace(template=JobTemplate(changed))

    def sealed(self, outgoing: OutgoingJob) -> Call[R]:
        """This call as it was sent, with its key: middleware no longer changes it, so that it is the same request."""
        made: Call[R] = copy(self)
        for name, value in (("_outgoing", outgoing), ("_headers", None), ("_is_sealed", True)):
            setattr(made, name, value)
        return made


def carry_trace(calls: Iterable[Call[Any]]) -> None:
    """Puts the caller's trace into the headers of calls that have none."""
    trace = current_trace()
    if trace is None:
        return
    for call in calls:
        if TRACEPARENT not in call.headers:
            call.headers.update(trace)


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
    fixed = {name: without_function(value) for name, value in known_options(options).items()}
    fields = fields_of(fixed, {})
    for name in ("ordering_on_failure", "concurrency_limit", "unique_seconds", "on_duplicate"):
        fields.pop(name, None)  # they can belong to such a key
    _read_job({**fields, **NOW, "name": "check", "task": "check"})


def _read_job(fields: Mapping[str, Any], lifted: Iterable[str] = ()) -> BatchJobIn:
    """A job from its fields; `lifted` are explicitly none. Raises BadInputError that names the bad one."""
    given = {wire_name(name): value for name, value in fields.items() if value is not None}
    given |= {wire_name(name): None for name in lifted}
    try:
        return msgspec.convert(msgspec.json.decode(encode(given)), BatchJobIn)
    except msgspec.ValidationError as error:
        bad = bad_json(error)
        field, message = bad.fields[0] if bad.fields else (None, str(bad))
        raise BadInputError(f"{field}: {message}" if field else message, field=field) from None
