"""An application's tasks: plain functions, registered by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from rota.errors import SetupError

Function = TypeVar("Function", bound=Callable[..., Any])

# Names that mean a runner, not a registered function.
RESERVED_TASKS = frozenset({"script", "shell", "http"})


class App:
    """A registry of tasks. `rota worker --app module:app` serves them."""

    def __init__(self) -> None:
        self._tasks: dict[str, Callable[..., Any]] = {}

    @property
    def tasks(self) -> dict[str, Callable[..., Any]]:
        """The registered functions by name."""
        return dict(self._tasks)

    @overload
    def task(self, function: Function, /) -> Function: ...

    @overload
    def task(self, /, *, name: str | None = None) -> Callable[[Function], Function]: ...

    def task(
        self, function: Function | None = None, /, *, name: str | None = None
    ) -> Function | Callable[[Function], Function]:
        """Registers a function, async or not, under `name` (else `module.function`). It stays callable as it is."""

        def register(function: Function) -> Function:
            self._register(name or f"{function.__module__}.{function.__qualname__}", function)
            return function

        return register if function is None else register(function)

    def _register(self, name: str, function: Callable[..., Any]) -> None:
        if name in RESERVED_TASKS or name.startswith("rota."):
            raise SetupError(f"{name!r} is reserved; choose another name for the task.")
        if name in self._tasks:
            raise SetupError(f"Two tasks are called {name!r}; give one of them another name.")
        self._tasks[name] = function
