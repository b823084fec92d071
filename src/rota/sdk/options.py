"""What may be said of a job besides its arguments, in words of Python."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict

from rota.contract.fields import Dst, MisfirePolicy, OnDuplicate, OnFailure, PriorityName
from rota.contract.jobs import Breaker, Misfire, RateLimit, Retry
from rota.domain.durations import Duration, seconds_of
from rota.domain.policies import Overlap
from rota.errors import BadInputError

# A key, or a function of the task's arguments that makes one.
Key = str | Callable[..., str]


class Defaults(TypedDict, total=False):
    """What a task may say of all its jobs."""

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
    """What may be said of one submission."""

    name: str
    idempotency_key: str


class Calendar(TypedDict, total=False):
    """What may be said of a schedule besides its times."""

    timezone: str
    start: datetime
    end: datetime
    jitter: Duration
    dst: Dst
    misfire: MisfirePolicy | Misfire
    overlap: Overlap


# What the contract calls it.
_NAMES = {
    "retries": "max_retries",
    "timeout": "timeout_seconds",
    "expires": "expires_seconds",
    "unique_for": "unique_seconds",
    "start": "start_time",
    "end": "end_time",
    "jitter": "jitter_seconds",
}
# What others call it.
_OTHER_NAMES = {"queue": "pool", "max_retries": "retries", "countdown": "timeout", "time_limit": "timeout"}
_DURATIONS = frozenset({"timeout", "expires", "unique_for", "jitter"})
_KEYS = frozenset({"ordering_key", "concurrency_key", "unique_key"})


def known_options(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options; raises BadInputError for one that does not exist."""
    for name in options:
        if name not in SubmitOptions.__annotations__:
            near = difflib.get_close_matches(_OTHER_NAMES.get(name, name), SubmitOptions.__annotations__, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise BadInputError(f"there is no option {name!r}{hint}", field=name)
    return options


def fields_of(options: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the contract behind options; keys that depend on the arguments are made of them, by name."""
    fields: dict[str, Any] = {}
    for name, value in options.items():
        if value is None:
            continue
        given = value
        if name in _DURATIONS:
            given = read_duration(value, name)
        elif name in _KEYS and callable(value):
            given = _made_of(value, arguments)
        elif name == "rate_limit" and isinstance(value, str):
            given = _read_rate(value)
        fields[_NAMES.get(name, name)] = given
    return fields


def _made_of(key: Callable[..., str], arguments: Mapping[str, Any]) -> str:
    """The key for these arguments; the function gets those it asks for."""
    wanted = inspect.signature(key).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in wanted):
        return key(**arguments)
    return key(**{parameter.name: arguments[parameter.name] for parameter in wanted if parameter.name in arguments})


def read_duration(duration: Duration, field: str) -> float:
    """Seconds; raises BadInputError naming the option."""
    try:
        return seconds_of(duration)
    except ValueError as error:
        raise BadInputError(str(error), field=field) from None


def _read_rate(words: str) -> RateLimit:
    """100/1m: so many starts per duration."""
    limit, _, per = words.partition("/")
    try:
        return RateLimit(limit=int(limit), per_seconds=seconds_of(per or "1s"))
    except ValueError:
        raise BadInputError(f"{words!r} is not a rate such as 100/1m", field="rate_limit") from None
