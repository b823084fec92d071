"""An application's tasks: plain functions, registered by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeVar, overload

from rota.errors import SetupError

Function = TypeVar("Function", bound=Callable[..., Any])
Isolation = Literal["process"]

MEGABYTE = 1024 * 1024


class Task(NamedTuple):
    """A registered function and how it wants to be run. 0 bytes: no limit of memory."""

    function: Callable[..., Any]
    isolation: Isolation | None = None
    memory_bytes: int = 0


class App:
    """A registry of tasks. `rota worker --app module:app` serves them."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}

    @property
    def tasks(self) -> dict[str, Task]:
        """The registered functions by name."""
        return dict(self._tasks)

    @overload
    def task(self, function: Function, /) -> Function: ...

    @overload
    def task(
        self, /, *, name: str | None = None, isolation: Isolation | None = None, memory_mb: int | None = None
    ) -> Callable[[Function], Function]: ...

    def task(
        self,
        function: Function | None = None,
        /,
        *,
        name: str | None = None,
        isolation: Isolation | None = None,
        memory_mb: int | None = None,
    ) -> Function | Callable[[Function], Function]:
        """Registers a function, async or not, under `name` (else `module.function`). It stays callable as it is.

        With `isolation="process"` it runs in a process of its own, which can be killed, may crash without harm to
        others, and may be given a limit of memory.
        """
        if isolation not in (None, "process"):
            raise SetupError(f'isolation must be "process", or left out, not {isolation!r}')
        if memory_mb is not None and (isolation is None or memory_mb < 1):
            raise SetupError('memory_mb is a number of megabytes, for a task with isolation="process"')

        def register(function: Function) -> Function:
            task = Task(function, isolation, (memory_mb or 0) * MEGABYTE)
            self._register(name or f"{function.__module__}.{function.__qualname__}", task)
            return function

        return register if function is None else register(function)

    def _register(self, name: str, task: Task) -> None:
        if name in RESERVED_TASKS or name.startswith("rota."):
            raise SetupError(f"{name!r} is reserved; choose another name for the task.")
        if name in self._tasks:
            raise SetupError(f"Two tasks are called {name!r}; give one of them another name.")
        self._tasks[name] = task
