"""Which exceptions of a task are worth another attempt: `retry_on` and `final_on` of @app.task.

Exceptions are compared by the names of their classes and base classes, because a task in a process of its own raises
there, and only names cross over. A rule judges what the task itself raised: what failed around it (its process was
killed, its payload or its transaction could not be had) says nothing about the task, and is tried again.

A group of exceptions, as of asyncio.TaskGroup, is judged by those in it: another attempt has to get past all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rota.errors import SetupError

Failures = type[Exception] | tuple[type[Exception], ...]


class RetryRule:
    """`final_on` fails for good, whatever `retry_on` says; with `retry_on`, so does everything else."""

    __slots__ = ("_final_on", "_retry_on")

    def __init__(self, *, retry_on: Failures | None, final_on: Failures | None) -> None:
        self._retry_on = None if retry_on is None else _names("retry_on", retry_on)
        self._final_on = frozenset() if final_on is None else _names("final_on", final_on)

    def is_final(self, raised: Iterable[Sequence[str]]) -> bool:
        """Whether exceptions of these kinds (see `kinds_of`), raised together, must not be tried again."""
        return any(map(self._is_final, raised))

    def _is_final(self, kinds: Sequence[str]) -> bool:
        if not self._final_on.isdisjoint(kinds):
            return True
        return self._retry_on is not None and self._retry_on.isdisjoint(kinds)


def kinds_of(problem: Exception) -> Sequence[Sequence[str]]:
    """The full names of an exception's class and its base classes; of a group, once for each kind of member.

    A member has the names of its groups, too: a rule can be about groups as such.
    """
    return [sorted(map(_name, classes)) for classes in {classes for _, classes in members_of(problem)}]


def members_of(problem: BaseException) -> Iterator[tuple[BaseException, frozenset[type]]]:
    """An exception, or those in a group, however deep, in order; each with its classes and those of its groups."""
    # Not recursive: how deep groups are nested is up to the task.
    left: list[tuple[BaseException, frozenset[type]]] = [(problem, frozenset())]
    while left:
        one, around = left.pop()
        classes = around.union(type(one).__mro__)
        if isinstance(one, BaseExceptionGroup):
            left += [(member, classes) for member in reversed(one.exceptions)]
        else:
            yield one, classes


def _names(option: str, given: Failures) -> frozenset[str]:
    kinds = given if isinstance(given, tuple) else (given,)
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            raise SetupError(f"@app.task: {option} takes an exception class, or a tuple of them, not {kind!r}.")
    return frozenset(map(_name, kinds))


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
