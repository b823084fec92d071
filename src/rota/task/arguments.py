"""A task's parameters as a type: payloads are checked and decoded by the function's annotations.

The payload is a JSON object with a field for each parameter, except one annotated with Context. The submitting program
encodes the arguments and the worker decodes them: dataclasses, Structs, datetimes, enums, UUIDs, everything else that
msgspec knows, and Pydantic models come back as they were. Annotations are resolved when first needed, because some name
things that are defined later in their module.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NotRequired, TypedDict

import msgspec

from rota.errors import BadInputError, SetupError
from rota.task.context import Context
from rota.task.decoders import decoder_of
from rota.task.parameter_schema import Schema, schema_of

_CONTEXT = (Context, "Context", "rota.Context")
_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class ArgumentsError(BadInputError, TypeError):
    """Arguments that don't fit a task's parameters, or can't be written as JSON."""


class Arguments:
    """A function's parameters."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        parameters = inspect.signature(function).parameters
        for parameter in parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
                raise SetupError(
                    f"The task {function.__qualname__} has a parameter without a name ({parameter}); "
                    "a job's payload has a field for each parameter, so each must have one."
                )
        self._parameters = parameters

    @cached_property
    def context_name(self) -> str | None:
        """The parameter that gets the context, if any."""
        return next((name for name, hint in self._hints.items() if name != "return" and hint in _CONTEXT), None)

    @property
    def schema(self) -> Schema:
        """The JSON schema of payloads."""
        return schema_of(self._signature.parameters.values(), self._hints)

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters that a payload has a field for."""
        return tuple(name for name, one in self._signature.parameters.items() if one.kind not in _VARIABLE)

    def needs(self, name: str) -> bool:
        """Whether a parameter must be given."""
        return self._signature.parameters[name].default is inspect.Parameter.empty

    def result_of(self, value: Any) -> Any:
        """The function's result behind decoded JSON; raises msgspec.ValidationError if it is not of its type."""
        return self._result_decoder.decode(encode(value))

    def encode(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> bytes:
        """The payload for such a call; raises TypeError if it does not fit the parameters."""
        bound = self._bind_quickly(arguments, keywords)
        if bound is None:
            bound = self.bind(arguments, keywords)
        try:
            payload = encode(bound)
            self._check(payload)
        except ArgumentsError as error:
            raise ArgumentsError(f"{self._function.__qualname__}: {error}") from None
        return payload

    def _check(self, payload: bytes) -> None:
        """Decodes it as a worker will: fail here, not there."""
        if self._rest:
            self.decode(msgspec.json.decode(payload))
            return
        try:
            self._decoder.decode(payload)
        except (msgspec.ValidationError, TypeError) as error:
            raise ArgumentsError(_in_words(str(error))) from None

    def _bind_quickly(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> dict[str, Any] | None:
        """As `bind` for a call that clearly fits; None for any other."""
        positional, names, required, needs = self._quick
        if len(arguments) > len(positional):
            return None
        bound = dict(zip(positional, arguments, strict=False))
        if keywords:
            before = len(bound)
            bound |= keywords
            if len(bound) != before + len(keywords) or not names.issuperset(keywords):
                return None
        return bound if len(bound) >= needs and required.issubset(bound) else None

    def check_some(self, given: Mapping[str, Any]) -> None:
        """Raises ArgumentsError if one of these arguments does not fit; the others are not known yet."""
        try:
            self._lenient_decoder.decode(encode(given))
        except (msgspec.ValidationError, TypeError) as error:
            raise ArgumentsError(f"{self._function.__qualname__}: {_in_words(str(error))}") from None

    def bind(self, arguments: tuple[Any, ...], keywords: dict[str, Any], *, whole: bool = False) -> dict[str, Any]:
        """Arguments by name, without the context; `whole`: with defaults. Raises ArgumentsError."""
        try:
            found = self._signature.bind(*arguments, **keywords)
        except TypeError as error:
            unknown = [repr(name) for name in keywords if name not in self._signature.parameters]
            words = f"there is no parameter {' or '.join(unknown)}" if unknown and not self._rest else str(error)
            raise ArgumentsError(f"{self._function.__qualname__}: {words}") from None
        if whole:
            found.apply_defaults()
        bound = found.arguments
        if self._rest:
            bound |= bound.pop(self._rest, {})
        return bound

    def decode(self, payload: Mapping[str, Any] | None) -> dict[str, Any]:
        """The keyword arguments behind a payload, without the context; raises ArgumentsError."""
        if not payload and self._needs_nothing:
            return {}
        given = payload or {}
        try:
            known: dict[str, Any] = self._decoder.decode(encode(given))
        except (msgspec.ValidationError, TypeError) as error:
            raise ArgumentsError(_in_words(str(error))) from None
        if len(known) < len(given):
            known |= self._others({name: value for name, value in given.items() if name not in known})
        return known

    def _others(self, others: dict[str, Any]) -> dict[str, Any]:
        if not self._rest:
            raise ArgumentsError(f"there is no parameter {' or '.join(map(repr, others))}")
        try:
            checked: dict[str, Any] = self._rest_decoder.decode(encode(others))
        except (msgspec.ValidationError, TypeError) as error:
            raise ArgumentsError(_in_words(str(error))) from None
        return checked

    @cached_property
    def _signature(self) -> inspect.Signature:
        """The signature for submitters, without the context."""
        return inspect.Signature([found for name, found in self._parameters.items() if name != self.context_name])

    @cached_property
    def _quick(self) -> tuple[tuple[str, ...], frozenset[str], frozenset[str], int]:
        """Parameters that can be given by position, all, those that must be given, and their number."""
        found = self._signature.parameters
        by_position = tuple(name for name, one in found.items() if one.kind is one.POSITIONAL_OR_KEYWORD)
        required = frozenset(name for name, one in found.items() if one.default is one.empty)
        if self._rest:  # names that are not known here may be given: never quick
            return (), frozenset(), frozenset({self._rest}), 1
        return by_position, frozenset(found), required, len(required)

    @cached_property
    def _decoder(self) -> msgspec.json.Decoder[Any]:
        return decoder_of(self._type)

    @cached_property
    def _lenient_decoder(self) -> msgspec.json.Decoder[Any]:
        """For a part of the arguments."""
        fields = {name: hint for name, hint in self._hints.items() if name in self.names}
        return decoder_of(TypedDict(self._function.__name__, fields, total=False))  # type: ignore[operator]  # as _type

    @cached_property
    def _rest_decoder(self) -> msgspec.json.Decoder[Any]:
        return decoder_of(dict[str, self._hints.get(self._rest or "", Any)])  # type: ignore[misc]

    @cached_property
    def _result_decoder(self) -> msgspec.json.Decoder[Any]:
        return decoder_of(self._hints.get("return", Any))

    @cached_property
    def _rest(self) -> str | None:
        return next((name for name, found in self._parameters.items() if found.kind is found.VAR_KEYWORD), None)

    @cached_property
    def _needs_nothing(self) -> bool:
        found = self._signature.parameters.values()
        return not any(one.default is one.empty and one.kind not in _VARIABLE for one in found)

    @cached_property
    def _hints(self) -> dict[str, Any]:
        try:
            return typing.get_type_hints(self._function, include_extras=True)
        except (NameError, TypeError):
            given = dict(getattr(self._function, "__annotations__", {}))
            return {name: hint if hint in _CONTEXT else self._hint(hint) for name, hint in given.items()}

    def _hint(self, written: Any) -> Any:
        """Resolves one annotation alone; Any for names that exist only for type checkers."""
        holder = type("holder", (), {"__annotations__": {"it": written}})
        try:
            names = getattr(self._function, "__globals__", {})
            return typing.get_type_hints(holder, globalns=names, include_extras=True)["it"]
        except (NameError, TypeError, AttributeError):
            return Any

    @cached_property
    def _type(self) -> Any:
        fields: dict[str, Any] = {}
        for name, parameter in self._signature.parameters.items():
            if parameter.kind not in _VARIABLE:
                hint = self._hints.get(name, Any)
                fields[name] = hint if parameter.default is parameter.empty else NotRequired[hint]
        return TypedDict(self._function.__name__, fields)  # type: ignore[operator]  # known only at run time


def _encoded(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__qualname__} is not a supported type")


_encoder = msgspec.json.Encoder(enc_hook=_encoded)


def encode(value: Any) -> bytes:
    """Encodes what a task takes or returns as JSON; raises ArgumentsError if JSON can't hold it."""
    try:
        return _encoder.encode(value)
    except (TypeError, ValueError, RecursionError, UnicodeEncodeError) as error:
        raise ArgumentsError(f"can't be written as JSON: {error}") from None


def _in_words(message: str) -> str:
    """The decoder's message, in terms of parameters."""
    return message.replace("Object missing required field", "there is no value for the parameter").replace(
        " - at `$.", " - for `"
    )


def check_importable(name: str, function: Callable[..., Any]) -> None:
    """Raises SetupError for a function that another process can't import."""
    if function.__module__ == "__main__" or "<" in function.__qualname__:
        raise SetupError(
            f"The task {name!r} can't run in a process of its own: another process can't import it. "
            "Define it at the top level of a module."
        )
