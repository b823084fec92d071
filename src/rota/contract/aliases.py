"""Words that people bring from elsewhere, and the fields of ours that they mean.

`WORDS`, `QUERY_WORDS` and the two functions for `schedule` and `command` are all there is; the reference page shows the
same table. Besides, every field is known by its snake_case name, and a time may be a number (seconds or milliseconds
since 1970).

A body in our own words never comes here: it is decoded at once. Only what that refuses is looked at again, field by
field, so that other words cost nothing to those who don't use them, and a refusal names everything that is wrong.
Payloads are passed on as they came; nothing looks for other words in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

import msgspec

from rota.contract.fields import In
from rota.contract.jobs import JobIn, JobPatch
from rota.contract.json_rules import bad_json, decoder_of, explain
from rota.contract.runs import RunSelection
from rota.domain.job import SCRIPT_TASK, SHELL_TASK
from rota.errors import BadInputError


def snake_case(name: str) -> str:
    """max_retries for maxRetries."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


# Other words of a job, each also in snake_case.
WORDS = {
    "jobType": "task",
    "taskId": "task",
    "executionTime": "scheduleTime",
    "parameters": "payload",
    "params": "payload",
    "retries": "maxRetries",
    "timeout": "timeoutSeconds",
}
# Other words of queries, and of what selects runs.
QUERY_WORDS = {"userId": "owner"}
SCHEDULE, COMMAND = "schedule", "command"  # words that mean several fields
_SEVERAL = {SCHEDULE: SCHEDULE, COMMAND: COMMAND}
# Fields of a job that follow from the others when they are missing.
FOLLOWING = ("name", "scheduleType")
# The types of schedules in other words.
TYPES = {"date": "future"} | {name: name for name in ("immediate", "future", "cron", "interval")}
_FIELD_OF_TYPE = {"cron": "cronExpression", "future": "scheduleTime", "interval": "everySeconds"}
_IN_SCHEDULE = (
    *("scheduleType", "scheduleTime", "delaySeconds", "cronExpression", "everySeconds", "timezone"),
    *("startTime", "endTime", "jitterSeconds", "dst", "misfire"),
    *("excludeCalendars", "excludeWeekends", "onExcludedDay"),
)
_OF_SCHEDULE = {"type": "type", "expression": "expression"}
# Refused, because they mean something slightly different elsewhere; the refusal says what to use.
_MEANT = {
    "args": "payload",
    "arguments": "payload",
    "countdown": "delaySeconds",
    "cron": "cronExpression",
    "data": "payload",
    "eta": "scheduleTime",
    "func": "task",
    "function": "task",
    "input": "payload",
    "interval": "everySeconds",
    "kwargs": "payload",
    "maxattempts": "maxRetries",
    "queue": "pool",
    "runat": "scheduleTime",
    "tz": "timezone",
}
_SAID = {
    "image": "containers can't be run; without it, the command runs in a shell of the worker's machine",
    "idempotencyKey": "send it as the header Idempotency-Key",
    "owner": "a job belongs to the caller who submits it",
    "userId": "a job belongs to the caller who submits it",
}
_SAID |= {snake_case(name): words for name, words in _SAID.items()}
_MOST_NAMED = 20  # wrong fields of one object
_UNSHOWN = ("", "")
_LONGEST_NAME = 100
_ALIKE = 0.6
_FIRST_MILLISECOND = 1e11  # seconds of the year 5138, milliseconds of 1973
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FieldProblems = list[tuple[str, str]]
_Fields = dict[str, msgspec.Raw]
_objects: msgspec.json.Decoder[_Fields] = msgspec.json.Decoder(_Fields)


class _FieldIn(NamedTuple):
    """A field of an object that comes in."""

    decoder: msgspec.json.Decoder[Any]
    inner: type[In] | None  # the object in it
    is_time: bool
    is_raw: bool
    required: bool


class _Given(NamedTuple):
    """A value in the place where we look for it, and where it was sent."""

    sent_as: str
    value: msgspec.Raw


def in_our_words(body: bytes | msgspec.Raw, kind: type[In]) -> Any:
    """An object that was not sent in our own words; raises BadInputError with all fields that are wrong."""
    wrong: _FieldProblems = []
    found = _read(_objects.decode(body), kind, "", wrong)
    if wrong:
        raise BadInputError.of(wrong)
    try:
        # What is passed on as it came stays a part of the body: it may be large.
        kept = {name: value for name, value in found.items() if _fields_of(kind)[name].is_raw}
        made = decoder_of(kind).decode(msgspec.json.encode({name: found[name] for name in found.keys() - kept.keys()}))
    except msgspec.ValidationError as error:  # of fields together; none of them is wrong by itself
        raise bad_json(error) from None
    for name, value in kept.items():
        setattr(made, _attributes_of(kind)[name], value)
    return made


def has_other_words(kind: Any) -> bool:
    """Whether an object of this type can be read by `in_our_words`."""
    return isinstance(kind, type) and issubclass(kind, In)


@cache
def known_names(kind: type[In]) -> Mapping[str, str]:
    """Every name by which a field of this type is known, and the field's own."""
    fields = msgspec.structs.fields(kind)
    found = {name: field.encode_name for field in fields for name in (field.name, field.encode_name)}
    ours = set(found.values())
    words = WORDS if issubclass(kind, (JobIn, JobPatch)) else QUERY_WORDS if kind is RunSelection else {}
    return found | {name: field for name, field in _both_cases(words) if field in ours and name not in found}


def known_parameters(names: Iterable[str]) -> dict[str, str]:
    """Every name by which these parameters of a query are known, and the parameter's own."""
    own = {name: name for name in names}
    snake = {snake_case(name): name for name in own}
    return {name: parameter for name, parameter in _both_cases(QUERY_WORDS) if parameter in own} | snake | own


def unknown(what: str, name: str, known: Mapping[str, str]) -> tuple[str, str]:
    """The refusal of a name that is not known, with the nearest that is."""
    nearest = _nearest(name, known)
    hint = f"; did you mean {nearest}?" if nearest else ""
    return name[:_LONGEST_NAME], f"unknown {what}{hint}"


def moment_of(number: float) -> datetime | None:
    """A time in seconds or milliseconds since 1970; None if it is too far away."""
    unit = "milliseconds" if abs(number) >= _FIRST_MILLISECOND else "seconds"
    try:
        return _EPOCH + timedelta(**{unit: number})
    except OverflowError:
        return None


def _both_cases(words: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(spelled, field) for word, field in words.items() for spelled in (word, snake_case(word))]


@cache
def _attributes_of(kind: type[In]) -> Mapping[str, str]:
    """The attribute behind each field."""
    return {field.encode_name: field.name for field in msgspec.structs.fields(kind)}


@cache
def _fields_of(kind: type[In]) -> Mapping[str, _FieldIn]:
    """The fields by their names on the wire."""
    return {field.encode_name: _field(field) for field in msgspec.structs.fields(kind)}


def _field(field: msgspec.structs.FieldInfo) -> _FieldIn:
    parts = list(_parts_of(field.type))
    inner = [part for part in parts if isinstance(part, type) and issubclass(part, In)]
    return _FieldIn(
        msgspec.json.Decoder(field.type),
        inner[0] if inner else None,
        datetime in parts,
        msgspec.Raw in parts,
        field.required,
    )


def _parts_of(kind: Any) -> Iterable[Any]:
    """A type and those it is made of; not those of lists and mappings."""
    yield kind
    if get_origin(kind) in (Annotated, Union, UnionType):
        for part in get_args(kind):
            yield from _parts_of(part)


def _read(given: _Fields, kind: type[In], path: str, wrong: _FieldProblems) -> _Fields:
    """The fields of an object under our names, each checked by itself; adds what is wrong with them."""
    fields = _fields_of(kind)
    found = _renamed(given, kind, path, wrong)
    read: _Fields = {}
    for name, (sent_as, value) in found.items():
        read[name] = _checked(fields[name], value, f"{path}{name}", sent_as, wrong)
    if issubclass(kind, JobIn):
        _add_following(read)
    wrong += [
        (f"{path}{name}", "required, but missing")
        for name, field in fields.items()
        if field.required and name not in read
    ]
    if len(wrong) > _MOST_NAMED:
        (field, words), more = wrong[_MOST_NAMED - 1], len(wrong) - _MOST_NAMED
        wrong[_MOST_NAMED - 1 :] = [(field, f"{words} (and {more} more are wrong)")]
    return read


def _renamed(given: _Fields, kind: type[In], path: str, wrong: _FieldProblems) -> dict[str, _Given]:
    """The values under our names; adds what is unknown or given twice."""
    known, is_job = known_names(kind), issubclass(kind, (JobIn, JobPatch))
    found: dict[str, _Given] = {}
    for name, value in given.items():
        if name in known:
            _put(found, known[name], _Given(f"{path}{name}", value), wrong)
        elif is_job and name == SCHEDULE:
            for field, part in _of_schedule(value, kind, wrong).items():
                _put(found, field, part, wrong)
        elif is_job and name == COMMAND:
            _put(found, "task", _Given(name, _raw(SHELL_TASK)), wrong)
            _put(found, "payload", _Given(name, _raw({COMMAND: value})), wrong)
        elif is_job and name in _SAID:
            wrong.append((name, _SAID[name]))
        else:
            _refuse(name, {**known, **_SEVERAL} if is_job else known, path, wrong)
    return found


def _refuse(name: str, known: Mapping[str, str], path: str, wrong: _FieldProblems) -> None:
    """Adds an unknown field; of very many, those that are not shown are only counted."""
    if len(wrong) >= _MOST_NAMED:
        wrong.append(_UNSHOWN)
        return
    field, words = unknown("field", name, known)
    wrong.append((f"{path}{field}", words))


def _put(found: dict[str, _Given], field: str, given: _Given, wrong: _FieldProblems) -> None:
    other = found.setdefault(field, given)
    if other is not given:
        alias, beside = (other, given) if given.sent_as.endswith(field) else (given, other)
        wrong.append(
            (alias.sent_as, f"is another name of {field}, which is given as {beside.sent_as}: give one of them")
        )


def _of_schedule(value: msgspec.Raw, kind: type[In], wrong: _FieldProblems) -> dict[str, _Given]:
    """What `schedule` means: a cron expression; or an object with a type and its expression, or with our fields."""
    if _begins(value, b'"'):
        return {"cronExpression": _Given(SCHEDULE, value)}
    if not _begins(value, b"{"):
        wrong.append((SCHEDULE, "must be a cron expression, or an object such as {type: CRON, expression: 0 9 * * *}"))
        return {}
    given = _objects.decode(value)
    if all(_begins(part, b"n") for part in given.values()):  # null is nothing, and nothing is not: now
        wrong.append((SCHEDULE, "is empty: leave it out for a job that runs now"))
        return {}
    own = {name: field for name, field in known_names(kind).items() if field in _IN_SCHEDULE}
    found: dict[str, _Given] = {}
    named = given.pop("type", None)
    schedule_type = "cron"
    if named is not None:
        word = msgspec.json.decode(named)
        schedule_type = TYPES.get(word.lower(), "") if isinstance(word, str) else ""
        if schedule_type:
            found["scheduleType"] = _Given(f"{SCHEDULE}.type", _raw(schedule_type))
        else:
            wrong.append((f"{SCHEDULE}.type", f"must be one of {', '.join(name.upper() for name in TYPES)}"))
    for name, part in given.items():
        field = _FIELD_OF_TYPE.get(schedule_type) if name == "expression" else own.get(name)
        sent_as = f"{SCHEDULE}.{name}"
        if field is not None:
            _put(found, field, _Given(sent_as, part), wrong)
        elif name != "expression":
            _refuse(name, own | _OF_SCHEDULE, f"{SCHEDULE}.", wrong)
        elif schedule_type:
            wrong.append((sent_as, f"can't be used with the type {schedule_type}"))
    return found


def _checked(field: _FieldIn, value: msgspec.Raw, path: str, sent_as: str, wrong: _FieldProblems) -> msgspec.Raw:
    """The value as our field has it; adds what is wrong with it."""
    if field.is_raw:
        return value
    if field.inner and _begins(value, b"{"):
        return _raw(_read(_objects.decode(value), field.inner, f"{path}.", wrong))
    if field.is_time and (moment := _moment(value)):
        value = _raw(moment)
    try:
        field.decoder.decode(value)
    except msgspec.ValidationError as error:
        place, words = explain(error, path, field.decoder.type)
        wrong.append((place, words if sent_as == path else f"{words} (sent as {sent_as[:_LONGEST_NAME]})"))
    return value


def _moment(value: msgspec.Raw) -> datetime | None:
    """The time that a number means."""
    number = msgspec.json.decode(value)
    return moment_of(number) if isinstance(number, (int, float)) and not isinstance(number, bool) else None


def _add_following(job: _Fields) -> None:
    """Adds what follows from the rest: the type of its schedule, and its name."""
    given = {name for name, value in job.items() if not _begins(value, b"n")}  # null is nothing
    if "scheduleType" not in job:
        job["scheduleType"] = _raw(_type_of(given))
    if "name" not in job:
        job["name"] = job["task"] if "task" in given else _raw(SCRIPT_TASK)


def _type_of(given: set[str]) -> str:
    if "cronExpression" in given:
        return "cron"
    if "everySeconds" in given:
        return "interval"
    return "future" if {"scheduleTime", "delaySeconds"} & given else "immediate"


def _begins(value: msgspec.Raw, sign: bytes) -> bool:
    return bytes(memoryview(value)[:1]) == sign


def _raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def _nearest(name: str, known: Mapping[str, str]) -> str | None:
    """The field or parameter whose name is most like this one; None if none is."""
    plain = _plain(name[:_LONGEST_NAME])
    spelled = _spelled(tuple(known.items()))
    if not spelled:
        return None
    if plain in spelled:
        return spelled[plain][0]
    if (meant := _MEANT.get(plain)) in known.values():
        return meant
    pairs = _pairs(plain)
    likeness, nearest = max((_likeness(pairs, theirs), field) for field, theirs in spelled.values())
    return nearest if likeness >= _ALIKE else None


@cache
def _spelled(known: tuple[tuple[str, str], ...]) -> Mapping[str, tuple[str, frozenset[str]]]:
    """Names without case and underscores, with the field that each means and what it is made of."""
    return {_plain(name): (field, _pairs(_plain(name))) for name, field in known}


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def _pairs(name: str) -> frozenset[str]:
    """The letters of a name, alone and with their neighbours."""
    return frozenset(name) | {name[at : at + 2] for at in range(len(name) - 1)}


def _likeness(some: frozenset[str], others: frozenset[str]) -> float:
    """How much two names share, from 0 to 1."""
    both = len(some) + len(others)
    return 2 * len(some & others) / both if both else 0.0
