"""Options of jobs and schedules."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict

import msgspec

from rota.contract.fields import Dst, MisfirePolicy, OnDuplicate, OnFailure, PriorityName
from rota.contract.jobs import Breaker, Misfire, RateLimit, Retry
from rota.domain.business_days import OnExcludedDay
from rota.domain.durations import Duration, seconds_of
from rota.domain.policies import Overlap
from rota.errors import BadInputError

# A key, or a function of the task's arguments that makes one.
Key = str | Callable[..., str]
# Options with a key of their own, which can be a function as well.
Keyed = RateLimit | Breaker


class Defaults(TypedDict, total=False):
    """Options of all jobs of a task."""

    retries: int
    retry: Retry
    timeout: Duration
    expires: Duration
    priority: PriorityName
    pool: str
    tags: Sequence[str]
    ordering_key: Key
    ordering_on_failure: OnFailure
    concurrency_key: Key
    concurrency_limit: int
    rate_limit: RateLimit | str
    breaker: Breaker
    unique_key: Key
    unique_for: Duration
    on_duplicate: OnDuplicate
    headers: Mapping[str, str]


class SubmitOptions(Defaults, total=False):
    """Options of one submission."""

    name: str
    job_id: str
    dependencies: Sequence[str]
    idempotency_key: str
    patience: Duration


class Calendar(TypedDict, total=False):
    """Options of a schedule."""

    timezone: str
    start: datetime
    end: datetime
    jitter: Duration
    dst: Dst
    misfire: MisfirePolicy | Misfire
    exclude_calendars: Sequence[str]
    exclude_weekends: bool
    on_excluded_day: OnExcludedDay
    overlap: Overlap
    dependency_window: Duration


# Names in the contract.
_NAMES = {
    "retries": "max_retries",
    "timeout": "timeout_seconds",
    "expires": "expires_seconds",
    "unique_for": "unique_seconds",
    "start": "start_time",
    "end": "end_time",
    "jitter": "jitter_seconds",
    "dependency_window": "dependency_window_seconds",
}
# Names in other libraries.
_OTHER_NAMES = {"queue": "pool", "max_retries": "retries", "countdown": "timeout", "time_limit": "timeout"}
_DURATIONS = frozenset({"timeout", "expires", "unique_for", "jitter", "dependency_window"})
_KEYS = frozenset({"ordering_key", "concurrency_key", "unique_key"})
# Options of the function, not of its jobs.
_OF_TASKS = frozenset({"isolation", "memory_mb", "transactional", "retry_on", "final_on"})


def known_options(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options; raises BadInputError for an unknown one."""
    for name in options:
        if name in _OF_TASKS:
            raise BadInputError(f"{name} is for the task: @app.task({name}=…)", field=name)
        if name not in SubmitOptions.__annotations__:
            near = difflib.get_close_matches(_OTHER_NAMES.get(name, name), SubmitOptions.__annotations__, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise BadInputError(f"there is no option {name!r}{hint}", field=name)
    return options


def fields_of(options: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The contract's fields for these options; keys that are functions are called with the arguments."""
    given = {name: value for name, value in options.items() if value is not None}
    return {contract_name(name): _field_value(name, value, arguments) for name, value in given.items()}


def contract_name(option: str) -> str:
    """The contract's name of an option."""
    return _NAMES.get(option, option)


def _field_value(name: str, value: Any, arguments: Mapping[str, Any]) -> Any:
    if name in _DURATIONS:
        return read_duration(value, name)
    if name in _KEYS and callable(value):
        return _made_of(value, arguments)
    if isinstance(value, Keyed) and callable(value.key):
        return msgspec.structs.replace(value, key=_made_of(value.key, arguments))
    return _read_rate(value) if name == "rate_limit" and isinstance(value, str) else value


def depends_on_arguments(value: Any) -> bool:
    """Whether an option is, or has, a key that is a function of the task's arguments."""
    return callable(value) or (isinstance(value, Keyed) and callable(value.key))


def without_function(value: Any) -> Any:
    """What can be said of an option without arguments; None for a key that is a function."""
    if not depends_on_arguments(value):
        return value
    return None if callable(value) else msgspec.structs.replace(value, key=None)


def _made_of(key: Callable[..., str], arguments: Mapping[str, Any]) -> str:
    """Calls a key function with the arguments it has parameters for."""
    wanted = inspect.signature(key).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in wanted):
        return key(**arguments)
    return key(**{parameter.name: arguments[parameter.name] for parameter in wanted if parameter.name in arguments})


def read_duration(duration: Duration, field: str) -> float:
    """Seconds; raises BadInputError that names the option."""
    try:
        return seconds_of(duration)
    except ValueError as error:
        raise BadInputError(str(error), field=field) from None


def _read_rate(words: str) -> RateLimit:
    """Reads 100/1m."""
    limit, _, per = words.partition("/")
    try:
        return RateLimit(limit=int(limit), per_seconds=seconds_of(per or "1s"))
    except ValueError:
        raise BadInputError(f"{words!r} is not a rate such as 100/1m", field="rate_limit") from None
