"""Placeholders in a workflow: values that are known only when a node starts, and conditions on them.

A placeholder can be given to a node as an argument, or inside a list or dict. It stands for a whole value: it can't be
formatted, added or tested here, because there is nothing yet. Type checkers take it for any type, so that a node can be
passed where a task wants its result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NoReturn, Self

import msgspec

from rota.domain.workflows.references import NAMES
from rota.errors import SetupError
from rota.task.arguments import encode

Reference = dict[str, Any]


class Condition:
    """Whether a node runs, decided when it would start. Join conditions with `&`, `|` and `~`."""

    def __init__(self, make: Callable[[], Reference], reads: Iterable[Value]) -> None:
        self._make = make
        self.reads = tuple(reads)

    def written(self) -> Reference:
        """The condition as the definition has it."""
        return self._make()

    def __and__(self, other: Condition) -> Condition:
        return self._joined("all", other)

    def __or__(self, other: Condition) -> Condition:
        return self._joined("any", other)

    def __invert__(self) -> Condition:
        return Condition(lambda: {"not": self.written()}, self.reads)

    def __bool__(self) -> NoReturn:
        raise SetupError("A condition is decided when the workflow runs: join conditions with &, | and ~, in brackets.")

    def _joined(self, word: str, other: Condition) -> Condition:
        if not isinstance(other, Condition):
            raise SetupError(f"{other!r} is not a condition; a condition is a comparison, such as rows['count'] > 0.")
        return Condition(lambda: {word: [self.written(), other.written()]}, (*self.reads, *other.reads))


class Value(Any):  # type: ignore[misc]  # so that it can stand for the value of any type
    """A value that is known when the workflow runs. `value["path"]` is a part of it."""

    def __new__(cls, *_given: Any, **_fields: Any) -> Self:
        return object.__new__(cls)  # Any's own takes no arguments

    def __init__(self, reference: Callable[[], Reference], words: str, *, field: str = "path", path: str = "") -> None:
        """`field`: where in the reference a path belongs."""
        self._reference = reference
        self._words = words
        self._field = field
        self._path = path

    def __repr__(self) -> str:
        return f"<{self._words}{f'[{self._path!r}]' if self._path else ''}>"

    @property
    def source(self) -> Value:
        """For the SDK: what it is a part of; itself, unless it has a path."""
        return self

    def written(self) -> Reference:
        """For the SDK: the reference as the definition has it."""
        reference = self._reference()
        if not self._path:
            return reference
        before = reference.get(self._field, "")
        return {**reference, self._field: f"{before}.{self._path}" if before else self._path}

    def __getitem__(self, key: str | int) -> Value:
        path = f"{self._path}.{key}" if self._path else str(key)
        return _Part(self.source, self._reference, self._words, field=self._field, path=path)

    def __gt__(self, other: Any) -> Condition:
        return self._compared("gt", other)

    def __ge__(self, other: Any) -> Condition:
        return self._compared("ge", other)

    def __lt__(self, other: Any) -> Condition:
        return self._compared("lt", other)

    def __le__(self, other: Any) -> Condition:
        return self._compared("le", other)

    def __eq__(self, other: object) -> Condition:  # type: ignore[override]  # what it is worth is not known yet
        return self._compared("eq", other)

    def __ne__(self, other: object) -> Condition:  # type: ignore[override]  # as above
        return self._compared("ne", other)

    __hash__ = object.__hash__

    def is_in(self, values: Iterable[Any]) -> Condition:
        """Whether it is one of these."""
        return self._compared("in", list(values))

    def exists(self) -> Condition:
        """Whether it is there at all."""
        return self._compared("exists", True)

    def _compared(self, word: str, other: Any) -> Condition:
        if not is_known(other):
            raise SetupError("A condition compares a value of the workflow with a constant, not with another value.")
        constant = plain(other)
        return Condition(lambda: {**self.written(), word: constant}, (self,))

    def _refuse(self, *_given: Any) -> NoReturn:
        raise SetupError(
            f"{self!r} is known only when the workflow runs: pass it to a node as an argument, as it is, or compare it "
            "in .when(…)."
        )

    __bool__ = __str__ = __iter__ = __len__ = __int__ = __float__ = __contains__ = _refuse
    __format__ = __add__ = __radd__ = _refuse


class _Part(Value):
    """A part of a value."""

    def __init__(self, source: Value, reference: Callable[[], Reference], words: str, *, field: str, path: str) -> None:
        super().__init__(reference, words, field=field, path=path)
        self._source = source

    @property
    def source(self) -> Value:
        return self._source


class Item(Value):
    """The item of a map's member, among the arguments of `task.map(…)`: `rota.item`, or a part of it,
    `rota.item["path"]`."""

    def __init__(self) -> None:
        super().__init__(lambda: {"$item": ""}, "item", field="$item")


class Index(Value):
    """The position of a member's item, from 0, among the arguments of `task.map(…)`."""

    def __init__(self) -> None:
        super().__init__(lambda: {"$index": ""}, "index")


item = Item()
index = Index()


def template_of(value: Any) -> Any:
    """An argument as JSON, with references in place of placeholders."""
    if isinstance(value, Value):
        return value.written()
    if is_known(value):
        return _escaped(plain(value))
    if not isinstance(value, Mapping):
        return [template_of(one) for one in value]
    if clashing := [name for name in NAMES if name in value]:
        raise SetupError(f"{clashing[0]!r} can't be a name beside placeholders: it marks a reference.")
    return {str(name): template_of(one) for name, one in value.items()}


def plain(value: Any) -> Any:
    """A value as JSON has it; raises ArgumentsError if it can't."""
    return msgspec.json.decode(encode(value))


def is_known(value: Any) -> bool:
    """Whether there is no placeholder in it."""
    return next(placeholders_in(value), None) is None


def placeholders_in(value: Any) -> Iterator[Value]:
    """The placeholders in an argument."""
    if isinstance(value, Value):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from placeholders_in(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from placeholders_in(one)


def _escaped(value: Any) -> Any:
    """Plain JSON in which nothing is taken for a reference."""
    if isinstance(value, dict):
        if any(name in value for name in NAMES):
            return {"$literal": value}
        return {name: _escaped(one) for name, one in value.items()}
    return [_escaped(one) for one in value] if isinstance(value, list) else value
