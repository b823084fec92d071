"""A function's parameters as a type: what a payload must hold, checked and decoded by the annotations.

The payload is a JSON object with a field for each parameter. The submitting program encodes the arguments with this,
the worker that runs the function decodes them: dataclasses, Structs, datetimes, enums, UUIDs and all else that msgspec
knows come back as what they were; so do models of Pydantic. A parameter annotated with Context is not part of it.
Annotations are looked at when they are first needed: some name what is defined only later in their module.
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

_CONTEXT = (Context, "Context", "rota.Context")
_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class ArgumentsError(BadInputError, TypeError):
    """Arguments that don't fit a task's parameters, or that JSON can't hold."""


class Arguments:
    """What a function wants to be called with."""

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
        """The parameter that gets the context, if there is one."""
        for name, hint in self._hints.items():
            if name != "return" and hint in _CONTEXT:
                return name
        return None

    @cached_property
    def returns(self) -> Any:
        """What the function returns."""
        return self._hints.get("return", Any)

    def encode(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> bytes:
        """The payload for a call like this; raises TypeError when it does not fit the parameters."""
        bound = self.bind(arguments, keywords)
        try:
            payload = encode(bound)
            self.decode(msgspec.json.decode(payload))  # what would fail later fails now, where it can be mended
        except ArgumentsError as error:
            raise ArgumentsError(f"{self._function.__qualname__}: {error}") from None
        return payload

    def bind(self, arguments: tuple[Any, ...], keywords: dict[str, Any], *, whole: bool = False) -> dict[str, Any]:
        """Arguments by name, without the context; `whole` with defaults. Raises ArgumentsError."""
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
            known: dict[str, Any] = convert(given, self._type)
        except (msgspec.ValidationError, TypeError) as error:
            raise ArgumentsError(_in_words(str(error))) from None
        if len(known) < len(given):
            known |= self._others({name: value for name, value in given.items() if name not in known})
        return known

    def _others(self, others: dict[str, Any]) -> dict[str, Any]:
        if not self._rest:
            raise ArgumentsError(f"there is no parameter {' or '.join(map(repr, others))}")
        try:
            checked: dict[str, Any] = convert(others, dict[str, self._hints.get(self._rest, Any)])  # type: ignore[misc]
        except (msgspec.ValidationError, TypeError) as error:
            raise ArgumentsError(_in_words(str(error))) from None
        return checked

    @cached_property
    def _signature(self) -> inspect.Signature:
        """As the submitting program sees it."""
        kept = [parameter for name, parameter in self._parameters.items() if name != self.context_name]
        return inspect.Signature(kept)

    @cached_property
    def _rest(self) -> str | None:
        return next((name for name, found in self._parameters.items() if found.kind is found.VAR_KEYWORD), None)

    @cached_property
    def _needs_nothing(self) -> bool:
        return not any(
            found.default is found.empty and found.kind not in _VARIABLE
            for name, found in self._parameters.items()
            if name != self.context_name
        )

    @cached_property
    def _hints(self) -> dict[str, Any]:
        try:
            return typing.get_type_hints(self._function, include_extras=True)
        except (NameError, TypeError):
            given = dict(getattr(self._function, "__annotations__", {}))
            return {name: hint if hint in _CONTEXT else self._hint(hint) for name, hint in given.items()}

    def _hint(self, written: Any) -> Any:
        """One annotation by itself; of a name that exists for type checkers only nothing is known."""
        holder = type("holder", (), {"__annotations__": {"it": written}})
        try:
            names = getattr(self._function, "__globals__", {})
            return typing.get_type_hints(holder, globalns=names, include_extras=True)["it"]
        except (NameError, TypeError, AttributeError):
            return Any

    @cached_property
    def _type(self) -> Any:
        fields: dict[str, Any] = {}
        for name, parameter in self._parameters.items():
            if name != self.context_name and parameter.kind not in _VARIABLE:
                hint = self._hints.get(name, Any)
                fields[name] = hint if parameter.default is parameter.empty else NotRequired[hint]
        return TypedDict(self._function.__name__, fields)  # type: ignore[operator]  # made of what is known only now


def encode(value: Any) -> bytes:
    """Anything a task takes or returns as JSON; raises ArgumentsError for what JSON can't hold."""
    try:
        return msgspec.json.encode(value, enc_hook=_encoded)
    except (TypeError, ValueError, RecursionError, UnicodeEncodeError) as error:
        raise ArgumentsError(f"can't be written as JSON: {error}") from None


def convert(value: Any, kind: Any) -> Any:
    """What was read from JSON as this type; raises msgspec.ValidationError."""
    return msgspec.convert(value, kind, str_keys=True, dec_hook=_decoded)


def _encoded(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"a {type(value).__qualname__} is nothing JSON knows")


def _decoded(kind: Any, value: Any) -> Any:
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)
    if isinstance(kind, type) and isinstance(value, kind):
        return value
    raise TypeError(f"JSON can't hold a {getattr(kind, '__qualname__', kind)}")


def _in_words(message: str) -> str:
    """What the decoder says, with parameters called so."""
    return message.replace("Object missing required field", "there is no value for the parameter").replace(
        " - at `$.", " - for `"
    )


def check_importable(name: str, function: Callable[..., Any]) -> None:
    """Raises SetupError for a function that another process can't find."""
    if function.__module__ == "__main__" or "<" in function.__qualname__:
        raise SetupError(
            f"The task {name!r} can't run in a process of its own: another process can't import it. "
            "Define it at the top level of a module."
        )
