"""JSON decoders for the types of tasks, whatever their fields are called.

msgspec looks for the fields of dataclasses and TypedDicts, and for tags, by the UTF-8 form that Python keeps with a
name. For a name that is not ASCII there is none until the name was encoded once in this process: a program that submits
has done that, a worker has not, and would find no such field, or quietly take its default. So the names are encoded
first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import inspect

_encoder = msgspec.json.Encoder()


def decoder_of(kind: Any) -> msgspec.json.Decoder[Any]:
    """A decoder of this type; raises TypeError for one that JSON can't hold."""
    decoder = msgspec.json.Decoder(kind, dec_hook=_decoded)
    for name in _names_in(inspect.type_info(kind), set()):
        _encoder.encode(name)
    return decoder


def _names_in(part: Any, seen: set[int]) -> Iterator[str]:
    """The names of fields and tags in a type and the types it is made of; a type can contain itself."""
    if isinstance(part, tuple):
        for one in part:
            yield from _names_in(one, seen)
    elif isinstance(part, inspect.Type | inspect.Field) and id(part) not in seen:
        seen.add(id(part))
        for attribute in part.__struct_fields__:
            value = getattr(part, attribute)
            if attribute in ("encode_name", "tag_field") and value is not None:
                yield value
            else:
                yield from _names_in(value, seen)


def _decoded(kind: Any, value: Any) -> Any:
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)
    if isinstance(kind, type) and isinstance(value, kind):
        return value
    raise TypeError(f"JSON can't hold a {getattr(kind, '__qualname__', kind)}")
