"""A task: a function that can still be called, and submitted."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeVar

from rota.sdk.sender import Sender
from rota.task.arguments import Arguments
from rota.task.context import Context, current_context
from rota.task.retry_rule import RetryRule

if TYPE_CHECKING:
    from rota.sdk.app import App

P = ParamSpec("P")
R = TypeVar("R")
Isolation = Literal["process"]


class Task(Sender[P, R]):
    """A registered function, async or not; `.sync` is for code that can't await."""

    def __init__(
        self,
        app: App,
        name: str,
        function: Callable[..., Any],
        *,
        defaults: Mapping[str, Any],
        isolation: Isolation | None = None,
        memory_bytes: int = 0,
        transactional: bool = False,
        retry_rule: RetryRule | None = None,
    ) -> None:
        super().__init__(self)
        self.app = app
        self.name = name
        self.function = function
        self.defaults = defaults
        self.isolation = isolation
        self.memory_bytes = memory_bytes
        self.transactional = transactional
        self.retry_rule = retry_rule
        self.parameters = Arguments(function)
        for attribute in functools.WRAPPER_ASSIGNMENTS:
            setattr(self, attribute, getattr(function, attribute, None))
        self.__wrapped__ = function

    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    def _called(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Adds the context if the task wants one: of the current run, or one without a run."""
        name = self.parameters.context_name
        if name is None or name in keywords or any(isinstance(given, Context) for given in arguments):
            return self.function(*arguments, **keywords)
        mine = current_context() or Context.outside(self.name)
        return self.function(**{**self.parameters.bind(arguments, keywords), name: mine})


class AsyncTask(Task[P, R], Generic[P, R]):
    """A task that is an async function."""

    def __call__(self, *arguments: P.args, **keywords: P.kwargs) -> Coroutine[Any, Any, R]:
        """Calls the function directly."""
        called: Coroutine[Any, Any, R] = self._called(arguments, keywords)
        return called


class PlainTask(Task[P, R], Generic[P, R]):
    """A task that is a plain function."""

    def __call__(self, *arguments: P.args, **keywords: P.kwargs) -> R:
        """Calls the function directly."""
        returned: R = self._called(arguments, keywords)
        return returned
