"""References: how the payload, the items and the condition of a node get values that are known only when it starts.

A reference is an object with one of these names. It stands for a whole value, anywhere in a payload:

    {"$input": "day"}                       an input of the workflow run
    {"$nominal": "date"}                    its nominal time: date, time or timestamp
    {"$from": "extract", "path": "rows"}    the result of a node, or what is at a path in it
    {"$item": "path"}, {"$index": ""}       of a member of a map: its item, and the item's position from 0
    {"$trigger": "key"}                     the node whose end started this one, or its "result"
    {"$literal": …}                         the value as it is, with nothing in it looked at

A path names fields and positions with dots: `files.0.name`; "" is the whole. A value that isn't there is an error in a
payload, and makes every comparison of a condition false.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec

from rota.errors import BadInputError, RotaError

NAMES = ("$input", "$nominal", "$from", "$item", "$index", "$trigger", "$literal")
_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": lambda found, given: _same_kind(found, given) and found == given,
    "ne": lambda found, given: not (_same_kind(found, given) and found == given),
    "gt": lambda found, given: _are_ordered(found, given) and found > given,
    "ge": lambda found, given: _are_ordered(found, given) and found >= given,
    "lt": lambda found, given: _are_ordered(found, given) and found < given,
    "le": lambda found, given: _are_ordered(found, given) and found <= given,
    "in": lambda found, given: any(_same_kind(found, one) and found == one for one in given),
}
_JOINED = ("all", "any", "not")
_NOMINAL = ("date", "time", "timestamp")
_MOST_LEVELS = 20

MISSING: Any = object()


class MissingValueError(RotaError):
    """A reference names what isn't there."""


class Values(msgspec.Struct, frozen=True):
    """What references of a node can name."""

    inputs: Mapping[str, Any]
    nominal: datetime  # in the time zone of the schedule
    results: Callable[[str], Any]  # by the node's key; None for one without a result
    item: Any = None
    index: int | None = None
    triggered_by: str | None = None
    stored: Mapping[str, str] = {}  # the keys in object storage of results that are too large to be read here

    def of(self, reference: Mapping[str, Any]) -> Any:
        """The value; raises MissingValueError."""
        found = self.find(reference)
        if found is MISSING:
            raise MissingValueError(f"{_shown(reference)} is not there")
        return found

    def find(self, reference: Mapping[str, Any]) -> Any:
        """The value, or MISSING."""
        name = _name_of(reference) or ""
        given, path = reference[name], reference.get("path", "")
        found: Mapping[str, Callable[[], Any]] = {
            "$literal": lambda: given,
            "$input": lambda: _at(self.inputs, given),
            "$nominal": lambda: self._nominal(given),
            "$from": lambda: self._result(given, path),
            "$item": lambda: _at(self.item, given),
            "$index": lambda: self.index,
            "$trigger": lambda: self._trigger(given, path),
        }
        return found[name]()

    def _trigger(self, what: str, path: str) -> Any:
        if self.triggered_by is None or what == "key":
            return self.triggered_by
        return self._result(self.triggered_by, path)

    def _result(self, node: str, path: str) -> Any:
        if node in self.stored:
            raise MissingValueError(f"the result of {node!r} is too large to be looked at here")
        return _at(self.results(node), path)

    def _nominal(self, form: str) -> str:
        if form == "date":
            return self.nominal.date().isoformat()
        return self.nominal.time().isoformat("seconds") if form == "time" else self.nominal.isoformat()


def render(template: Any, values: Values) -> Any:
    """The template with values in place of references, and null where `stored_values` says so; raises
    MissingValueError."""
    if isinstance(template, dict):
        name = _name_of(template)
        if name:
            return None if name == "$from" and template[name] in values.stored else values.of(template)
        return {name: render(value, values) for name, value in template.items()}
    if isinstance(template, list):
        return [render(value, values) for value in template]
    return template


class StoredValue(msgspec.Struct, frozen=True):
    """A value of a payload that the worker reads from object storage: where it belongs, and what of which object."""

    at: tuple[str | int, ...]
    key: str
    path: str


def stored_values(template: Any, values: Values, at: tuple[str | int, ...] = ()) -> list[StoredValue]:
    """The values of a payload that are too large to be read here."""
    if isinstance(template, dict):
        name = _name_of(template)
        if name == "$from" and template["$from"] in values.stored:
            return [StoredValue(at, values.stored[template["$from"]], template.get("path", ""))]
        parts: Any = () if name else template.items()
    else:
        parts = enumerate(template) if isinstance(template, list) else ()
    return [found for place, value in parts for found in stored_values(value, values, (*at, place))]


class _NodeOptions(msgspec.Struct):
    stored: list[StoredValue] = []
    item: int | None = None


STORED_MARK = '"stored":'  # in the options of a run that has such values
_options = msgspec.json.Decoder(_NodeOptions)


def with_stored(options: str, stored: list[StoredValue]) -> str:
    """The options of a run whose payload has values in object storage."""
    return with_option(options, "stored", msgspec.json.encode(stored).decode()) if stored else options


def with_option(options: str, name: str, value: str) -> str:
    """Options (JSON) with one more."""
    separator = "" if options == "{}" else ","
    return f'{options[:-1]}{separator}"{name}":{value}}}'


def item_of(options: str) -> int | None:
    """The number of a member's item."""
    return _options.decode(options).item


def stored_in(options: str) -> list[StoredValue]:
    """The values in object storage that a run's options name."""
    return _options.decode(options).stored


def fill(payload: Any, stored: Iterable[StoredValue], objects: Mapping[str, Any]) -> Any:
    """The payload with the values that were left out when it was rendered; raises MissingValueError."""
    for one in stored:
        value = _at(objects[one.key], one.path)
        if value is MISSING:
            raise MissingValueError(f"there is nothing at {one.path!r} in the result")
        if not one.at:
            return value
        inside = payload
        for part in one.at[:-1]:
            inside = inside[part]
        inside[one.at[-1]] = value
    return payload


def is_reference(value: Any) -> bool:
    return isinstance(value, dict) and _name_of(value) is not None


def holds(condition: Mapping[str, Any], values: Values) -> bool:
    """Whether a condition is true: {"all": […]}, {"any": […]}, {"not": …}, or a reference with comparisons."""
    if "all" in condition:
        return all(holds(one, values) for one in condition["all"])
    if "any" in condition:
        return any(holds(one, values) for one in condition["any"])
    if "not" in condition:
        return not holds(condition["not"], values)
    found = values.find(condition)
    if "exists" in condition and (found is not MISSING) != condition["exists"]:
        return False
    compared = [(name, given) for name, given in condition.items() if name in _COMPARISONS]
    return all(found is not MISSING and _COMPARISONS[name](found, given) for name, given in compared)


def references_in(template: Any) -> Iterator[Mapping[str, Any]]:
    """All references of a template."""
    if isinstance(template, dict):
        name = _name_of(template)
        if name:
            yield template
        if name != "$literal":
            for value in template.values():
                yield from references_in(value)
    elif isinstance(template, list):
        for value in template:
            yield from references_in(value)


def check_template(template: Any, field: str, *, in_map: bool, inputs: Mapping[str, Any]) -> None:
    """Raises BadInputError for a reference that can never have a value."""
    for reference in references_in(template):
        _check_reference(reference, field, in_map=in_map, inputs=inputs, more={"path"})
    if _has_zero_in_names(template):
        raise BadInputError("has a name or a path with a zero character (\\u0000)", field=field)


def check_condition(condition: Any, field: str, *, in_map: bool, inputs: Mapping[str, Any], level: int = 0) -> None:
    """Raises BadInputError for what is no condition."""
    if not isinstance(condition, dict) or not condition or level > _MOST_LEVELS:
        raise BadInputError('must be a condition such as {"$from": "extract", "path": "rows", "gt": 0}', field=field)
    joined = [name for name in _JOINED if name in condition]
    if joined:
        if len(condition) > 1:
            raise BadInputError(f"has something beside {joined[0]!r}", field=field)
        inside = condition[joined[0]]
        parts = [inside] if joined[0] == "not" else inside
        if not isinstance(parts, list) or not parts:
            raise BadInputError(f"{joined[0]!r} needs a list of conditions", field=field)
        for part in parts:
            check_condition(part, field, in_map=in_map, inputs=inputs, level=level + 1)
        return
    _check_reference(condition, field, in_map=in_map, inputs=inputs, more={"path", "exists", *_COMPARISONS})
    if not any(name == "exists" or name in _COMPARISONS for name in condition):
        raise BadInputError(f"needs one of {', '.join(('exists', *_COMPARISONS))}", field=field)
    if not isinstance(condition.get("exists", True), bool):
        raise BadInputError("'exists' must be true or false", field=field)
    if not isinstance(condition.get("in", []), list):
        raise BadInputError("'in' needs a list", field=field)


def _check_reference(
    reference: Mapping[str, Any], field: str, *, in_map: bool, inputs: Mapping[str, Any], more: set[str]
) -> None:
    name = _name_of(reference)
    if name is None:
        raise BadInputError(f"names no value: one of {', '.join(NAMES)}", field=field)
    given = reference[name]
    if unknown := {*reference} - {name} - more:
        raise BadInputError(f"{name} has {min(unknown)!r} beside it, which is not known", field=field)
    if name == "$literal":
        return
    if not isinstance(given, str) or not isinstance(reference.get("path", ""), str):
        raise BadInputError(f"{name} needs a text", field=field)
    if name == "$input" and given.partition(".")[0] not in inputs:
        raise BadInputError(f"{given.partition('.')[0]!r} is no input of the workflow", field=field)
    if name == "$nominal" and given not in _NOMINAL:
        raise BadInputError(f"$nominal is one of {', '.join(_NOMINAL)}", field=field)
    if name == "$trigger" and given not in ("key", "result"):
        raise BadInputError("$trigger is key or result", field=field)
    if name in ("$item", "$index") and not in_map:
        raise BadInputError(f"{name} is for the members of a map", field=field)


def _has_zero_in_names(template: Any) -> bool:
    """Whether a name or path has a character that no text of the database may have: they come into options of runs."""
    if isinstance(template, dict):
        name = _name_of(template)
        if name:
            return name != "$literal" and any("\0" in str(value) for value in template.values())
        return any("\0" in key or _has_zero_in_names(value) for key, value in template.items())
    return isinstance(template, list) and any(_has_zero_in_names(value) for value in template)


def _name_of(value: Mapping[str, Any]) -> str | None:
    """Which reference it is, if it is one."""
    return next((name for name in NAMES if name in value), None)


def _at(value: Any, path: str) -> Any:
    for part in path.split(".") if path else ():
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and part.isascii() and int(part) < len(value):
            value = value[int(part)]
        else:
            return MISSING
    return value


def _same_kind(one: Any, other: Any) -> bool:
    """1 and true are equal in Python, and not in JSON."""
    return isinstance(one, bool) == isinstance(other, bool)


def _are_ordered(one: Any, other: Any) -> bool:
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (one, other))
    return numbers or (isinstance(one, str) and isinstance(other, str))


def _shown(reference: Mapping[str, Any]) -> str:
    name = _name_of(reference) or ""
    path = reference.get("path")
    return f"{name} {reference[name]!r}" + (f" at {path!r}" if path else "")
