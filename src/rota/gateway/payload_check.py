"""Checks payloads against the parameters that workers announce.

A schema becomes a type that msgspec decodes, so that a check costs about as much as reading the payload. Only what
workers write into schemas (task/parameter_schema.py) is understood, and anything else is not checked: a schema may come
from another release, or from a hostile worker. Patterns are not checked, since one can take forever.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from itertools import islice
from typing import Annotated, Any, Literal, Union
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from rota.contract.json_rules import bad_json
from rota.domain.text import nearest
from rota.errors import BadInputError

_MOST_KNOWN = 2048  # schemas whose types are kept
_MOST_NESTED = 8
_MOST_ERRORS = 20
_AT_ONCE_CHARACTERS = 1024 * 1024  # take some two milliseconds
_FORMATS: dict[str, Any] = {
    "date-time": datetime,
    "date": date,
    "time": time,
    "duration": timedelta,
    "uuid": UUID,
}
_PLAIN: dict[str, Any] = {"string": str, "integer": int, "number": float, "boolean": bool, "null": None}
_BOUNDS = {
    "minimum": "ge",
    "exclusiveMinimum": "gt",
    "maximum": "le",
    "exclusiveMaximum": "lt",
    "multipleOf": "multiple_of",
    "minLength": "min_length",
    "maxLength": "max_length",
    "minItems": "min_length",
    "maxItems": "max_length",
}


class PayloadCheck:
    """Whether payloads fit the parameters of one version of a task."""

    __slots__ = ("_decoder", "_is_open", "_list_decoder", "_needed", "_types")

    def __init__(self, schema: Mapping[str, Any]) -> None:
        given = schema.get("properties")
        properties = given if isinstance(given, dict) else {}
        required = schema.get("required")
        needed = {name for name in required if name in properties} if isinstance(required, list) else set()
        self._types = {name: _type_of(one) for name, one in properties.items()}
        self._needed = needed
        self._is_open = schema.get("additionalProperties") is not False
        whole = _struct(self._types, needed, is_open=self._is_open)
        self._decoder = msgspec.json.Decoder(whole)
        self._list_decoder = msgspec.json.Decoder(list[whole])  # type: ignore[valid-type]

    def accepts(self, payload: str | None) -> bool:
        """Whether it fits; the payload is valid JSON, and an object."""
        if payload is None:
            return not self._needed
        try:
            self._decoder.decode(payload)
        except msgspec.ValidationError:
            return False
        return True

    def accepts_all(self, payloads: Sequence[Any]) -> bool:
        """Whether all of these fit. Not known, and so false, if they are large or any of them is not a text."""
        try:
            if sum(map(len, payloads)) > _AT_ONCE_CHARACTERS:
                return False  # others wait meanwhile
            self._list_decoder.decode(f"[{','.join(payloads)}]")
        except (msgspec.ValidationError, TypeError):
            return False
        return True

    def errors(self, payload: str | None) -> list[tuple[str, str]]:
        """What is wrong with which field of a payload that does not fit."""
        # Of very many only those that are shown are looked for: each takes longer than reading it did.
        return [(f"payload.{name}", words) for name, words in islice(self._found_in(payload), _MOST_ERRORS)]

    def _found_in(self, payload: str | None) -> Iterator[tuple[str, str]]:
        given: dict[str, Any] = msgspec.json.decode(payload) if payload else {}
        for name in self._types:
            if name in self._needed and name not in given:
                yield name, "required, but missing"
        for name, value in given.items():
            if name in self._types:
                yield from _errors_of(name, value, self._types[name])
            elif not self._is_open:
                near = nearest(name, self._types)
                yield name, "the task has no such parameter" + (f"; did you mean {near}?" if near else "")


def _errors_of(name: str, value: Any, kind: Any) -> list[tuple[str, str]]:
    try:
        msgspec.convert(value, kind, str_keys=True)
    except msgspec.ValidationError as error:
        bad = bad_json(error)
        if bad.fields:
            return [(f"{name}.{field}", words) for field, words in bad.fields]
        return [(name, _words(str(error)))]
    return []


def _words(message: str) -> str:
    """The decoder's message, as the rest of a sentence about the field."""
    if message.startswith("Expected `"):
        return f"must be {message[len('Expected ') :].replace(', got', ', not')}"
    return message


def refusal(check: PayloadCheck, task: str, payload: str | None) -> BadInputError:
    """The error for a payload that does not fit."""
    error = BadInputError(f"the payload does not fit the parameters of task {task}")
    error.fields = check.errors(payload) or [("payload", "does not fit the task's parameters")]
    return error


@lru_cache(_MOST_KNOWN)
def check_of(schema: bytes) -> PayloadCheck | None:
    """The check for a schema (JSON); None for one that can't be understood: then nothing is checked."""
    try:
        return PayloadCheck(msgspec.json.decode(schema, type=dict[str, Any]))
    except Exception:  # noqa: BLE001 - whatever a worker wrote, it must not stop submissions
        return None


def _type_of(schema: Any, level: int = 0) -> Any:
    """The type that accepts what the schema does, or more."""
    if not isinstance(schema, dict) or level > _MOST_NESTED:
        return Any
    made = _understood(schema, level)
    try:
        msgspec.json.Decoder(made)
    except TypeError:  # such as a union of two objects
        return Any
    return made


def _understood(schema: Mapping[str, Any], level: int) -> Any:
    if isinstance(values := schema.get("enum"), list):
        plain = all(type(value) in (str, int, type(None)) for value in values)
        return Literal[tuple(values)] if values and plain else Any
    if isinstance(choices := schema.get("anyOf"), list):
        kinds = [_type_of(one, level + 1) for one in choices]
        return Union[tuple(kinds)] if kinds and Any not in kinds else Any  # noqa: UP007 - known only at run time
    kind = schema.get("type")
    if kind == "array":
        return _array(schema, level)
    if kind == "object":
        return _object(schema, level)
    if kind == "string" and "format" in schema:
        return _FORMATS.get(schema["format"], str)
    return _bounded(_PLAIN[kind], schema) if isinstance(kind, str) and kind in _PLAIN else Any


def _array(schema: Mapping[str, Any], level: int) -> Any:
    if isinstance(items := schema.get("prefixItems"), list) and items:
        return tuple[tuple(_type_of(one, level + 1) for one in items)]  # type: ignore[misc]
    return _bounded(list[_type_of(schema.get("items"), level + 1)], schema)  # type: ignore[misc]


def _object(schema: Mapping[str, Any], level: int) -> Any:
    others, properties = schema.get("additionalProperties", True), schema.get("properties")
    if not isinstance(properties, dict):
        return dict[str, _type_of(others, level + 1)]  # type: ignore[misc]
    types = {name: _type_of(one, level + 1) for name, one in properties.items()}
    required = schema.get("required")
    return _struct(types, {*required} if isinstance(required, list) else set(), is_open=others is not False)


def _struct(types: Mapping[str, Any], needed: set[str], *, is_open: bool) -> Any:
    """An object with these fields. They have names of their own: a worker chose those on the wire."""
    fields: list[Any] = [
        (f"field_{number}", kind) if name in needed else (f"field_{number}", Union[kind, UnsetType], UNSET)  # noqa: UP007 - known only at run time
        for number, (name, kind) in enumerate(types.items())
    ]
    names = {f"field_{number}": name for number, name in enumerate(types)}
    return msgspec.defstruct("Payload", fields, rename=names, kw_only=True, forbid_unknown_fields=not is_open, gc=False)


def _bounded(kind: Any, schema: Mapping[str, Any]) -> Any:
    bounds = {_BOUNDS[word]: value for word, value in schema.items() if word in _BOUNDS}
    if not bounds:
        return kind
    try:
        bounded = Annotated[kind, Meta(**bounds)]
        msgspec.json.Decoder(bounded)
    except (TypeError, ValueError):  # no bounds of ours
        return kind
    return bounded
