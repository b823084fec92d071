"""JSON schemas of a task's parameters, made from the types of its function.

A schema never refuses what the function would take: where a type has rules of its own (Pydantic models, enums that
look up missing values, unions that can't be told apart), it says less. It has no references; a type that contains
itself is described once.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import inspect as types

Schema = dict[str, Any]

_PLAIN: dict[type, Schema] = {
    types.NoneType: {"type": "null"},
    types.BoolType: {"type": "boolean"},
    types.BytesType: {"type": "string", "contentEncoding": "base64"},
    types.ByteArrayType: {"type": "string", "contentEncoding": "base64"},
    types.MemoryViewType: {"type": "string", "contentEncoding": "base64"},
    types.DateTimeType: {"type": "string", "format": "date-time"},
    types.TimeType: {"type": "string", "format": "time"},
    types.DateType: {"type": "string", "format": "date"},
    types.TimeDeltaType: {"type": "string", "format": "duration"},
    types.UUIDType: {"type": "string", "format": "uuid"},
    types.DecimalType: {"anyOf": [{"type": "string", "format": "decimal"}, {"type": "number"}]},
}
_NUMBER_BOUNDS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}
_TEXT_BOUNDS = {"min_length": "minLength", "max_length": "maxLength", "pattern": "pattern"}
_LIST_BOUNDS = {"min_length": "minItems", "max_length": "maxItems"}
# Defaults that are shown. Texts are not: one may be a secret that the program read when it started.
_SHOWN_DEFAULTS = (bool, int, float, type(None))


def schema_of(parameters: Iterable[inspect.Parameter], hints: Mapping[str, Any]) -> Schema:
    """The schema of the payload of a function with these parameters, without the context."""
    properties: dict[str, Schema] = {}
    required: list[str] = []
    others: Any = False
    for parameter in parameters:
        schema = _of_hint(hints.get(parameter.name, Any))
        if parameter.kind is parameter.VAR_KEYWORD:
            others = schema or True
            continue
        if parameter.default is parameter.empty:
            required.append(parameter.name)
        elif type(parameter.default) in _SHOWN_DEFAULTS:
            schema = {**schema, "default": parameter.default}
        properties[parameter.name] = schema
    return _object(properties, required, others)


def _of_hint(hint: Any) -> Schema:
    try:
        return _of(types.type_info(hint), ())
    except Exception:  # noqa: BLE001 - annotations can be anything; what can't be described is not checked
        return {}


def _of(kind: types.Type, above: tuple[type, ...]) -> Schema:
    if (plain := _PLAIN.get(type(kind))) is not None:
        return dict(plain)
    if isinstance(kind, types.Metadata):
        return _of(kind.type, above)
    return _of_value(kind) or _of_collection(kind, above)


def _of_value(kind: types.Type) -> Schema:  # noqa: PLR0911 - a line for each
    match kind:
        case types.IntType():
            return {"type": "integer"} | _bounds(kind, _NUMBER_BOUNDS)
        case types.FloatType():
            return {"type": "number"} | _bounds(kind, _NUMBER_BOUNDS)
        case types.StrType():
            return {"type": "string"} | _bounds(kind, _TEXT_BOUNDS)
        case types.LiteralType():
            return {"enum": list(kind.values)}
        case types.EnumType():
            return _enum(kind)
        case types.NamedTupleType():
            return {"type": "array", "title": kind.cls.__name__}
        case types.CustomType():
            return {"title": kind.cls.__name__}
    return {}


def _of_collection(kind: types.Type, above: tuple[type, ...]) -> Schema:  # noqa: PLR0911 - a line for each
    match kind:
        case types.UnionType():
            return {"anyOf": [_of(one, above) for one in kind.types]}
        case types.ListType() | types.VarTupleType():
            return {"type": "array", "items": _of(kind.item_type, above)} | _bounds(kind, _LIST_BOUNDS)
        case types.SetType() | types.FrozenSetType():
            return {"type": "array", "items": _of(kind.item_type, above)}
        case types.TupleType():
            items = [_of(one, above) for one in kind.item_types]
            return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
        case types.DictType():
            return {"type": "object", "additionalProperties": _of(kind.value_type, above) or True}
        case types.TypedDictType() | types.DataclassType() | types.StructType():
            return _fields(kind, above)
    return {}


def _bounds(kind: Any, names: Mapping[str, str]) -> Schema:
    found = {word: getattr(kind, name) for name, word in names.items()}
    return {word: value for word, value in found.items() if value is not None}


def _enum(kind: types.EnumType) -> Schema:
    if issubclass(kind.cls, enum.Flag):  # several of its members together are a value too
        return {"title": kind.cls.__name__, "type": "integer"}
    values = [member.value for member in kind.cls]
    looks_up = any("_missing_" in vars(base) for base in kind.cls.__mro__ if base.__module__ != "enum")
    return {"title": kind.cls.__name__} | ({} if looks_up else {"enum": values})


def _fields(kind: types.TypedDictType | types.DataclassType | types.StructType, above: tuple[type, ...]) -> Schema:
    title = {"title": kind.cls.__name__}
    if kind.cls in above:
        return title | {"type": "object"}
    above = (*above, kind.cls)
    if isinstance(kind, types.StructType) and kind.array_like:
        return title | {"type": "array"}
    properties = {field.encode_name: _of(field.type, above) for field in kind.fields}
    required = [field.encode_name for field in kind.fields if field.required]
    others = True
    if isinstance(kind, types.StructType):
        others = not kind.forbid_unknown_fields
        if kind.tag_field is not None:
            properties = {kind.tag_field: {"enum": [kind.tag]}, **properties}
    return title | _object(properties, required, others)


def _object(properties: dict[str, Schema], required: list[str], others: Any) -> Schema:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": others}
