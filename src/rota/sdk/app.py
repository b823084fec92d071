"""An application: its tasks, schedules, middleware and gateways."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar, Unpack, overload

import msgspec

from rota.contract.fields import TaskName
from rota.domain.durations import Duration
from rota.domain.job import RESERVED_TASKS
from rota.domain.rights import Caller
from rota.errors import BadInputError, SetupError
from rota.gateway.protocol import JobGateway, SyncJobGateway
from rota.gateway.transaction import KnownFunctions
from rota.sdk.call import Call, carry_trace, check_options, recurring
from rota.sdk.declared_schedules import Declaration, Declarations, check_schedule
from rota.sdk.gateways import Gateways
from rota.sdk.middleware import Middleware
from rota.sdk.options import Calendar, Defaults, read_duration
from rota.sdk.task import AsyncTask, Isolation, PlainTask, Task
from rota.sdk.workflow import Workflow
from rota.task.context import Context
from rota.task.retry_rule import Failures, RetryRule

P = ParamSpec("P")
R = TypeVar("R")
AnyTask = TypeVar("AnyTask", bound=Task[..., Any])
Lifespan = Callable[[], AsyncIterator[None]]

_MEGABYTE = 1024 * 1024
_DEFAULT_NAMESPACE = "default"
_DEFAULT_OWNER = "admin"
_DEFAULT_NAME = "app"


class Register(Protocol):
    """The decorator of `@app.task(...)`; a leading Context parameter is not part of the submitted arguments."""

    # A coroutine function is also a function: the first match wins.
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...

    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R], /) -> PlainTask[P, R]: ...

    @overload
    def __call__(  # type: ignore[overload-overlap]  # as above
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> PlainTask[P, R]: ...


class App:
    """A registry of tasks. `rota worker --app module:app` serves them.

    `name` and `version` identify the application and its release for schedules declared in code; without a version, a
    hash of the declared schedules is used. `url`, `token` and `namespace` override ROTA_URL, ROTA_TOKEN and
    ROTA_NAMESPACE. With `database` ("postgresql://…") submissions go straight into that database, without a server; its
    role needs the rights of a server. `owner` owns jobs declared in code or submitted in a transaction or with
    `database`; jobs over HTTP belong to the token's owner. `patience` is how long a submission is retried while no
    server or database takes it: "10m", seconds or a timedelta (about 8 seconds if not given).
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        version: str | None = None,
        url: str | None = None,
        token: str | None = None,
        namespace: str | None = None,
        owner: str = _DEFAULT_OWNER,
        middleware: Sequence[Middleware] = (),
        patience: Duration | None = None,
        database: str | None = None,
    ) -> None:
        if database is not None and (url is not None or token is not None):
            raise SetupError("App() takes a database, or the url and token of a server, not both.")
        self.name = name or _DEFAULT_NAME
        self.has_name = name is not None
        self.state = SimpleNamespace()
        self.caller = Caller(namespace or _DEFAULT_NAMESPACE, owner)
        self.middleware = list(middleware)
        self.known_functions = KnownFunctions()
        self.now: Callable[[], datetime] = lambda: datetime.now(UTC)
        self._tasks: dict[str, Task[..., Any]] = {}
        self.gateways = Gateways(
            url,
            token,
            namespace,
            None if patience is None else read_duration(patience, "patience"),
            database=database,
            caller=self.caller,
        )
        self._declarations = Declarations(version)
        self._lifespan: Callable[[], Any] | None = None

    @property
    def tasks(self) -> dict[str, Task[..., Any]]:
        """The registered tasks by name."""
        return dict(self._tasks)

    @property
    def has_lifespan(self) -> bool:
        """Whether there is a lifespan."""
        return self._lifespan is not None

    @property
    def declarations(self) -> Declarations:
        """The schedules declared in code."""
        return self._declarations

    @overload
    def task(  # type: ignore[overload-overlap]  # as above
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...

    @overload
    def task(self, function: Callable[Concatenate[Context, P], R], /) -> PlainTask[P, R]: ...

    @overload
    def task(  # type: ignore[overload-overlap]  # as above
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...

    @overload
    def task(self, function: Callable[P, R], /) -> PlainTask[P, R]: ...

    @overload
    def task(
        self,
        /,
        *,
        name: str | None = None,
        isolation: Isolation | None = None,
        memory_mb: int | None = None,
        transactional: bool = False,
        retry_on: Failures | None = None,
        final_on: Failures | None = None,
        **defaults: Unpack[Defaults],
    ) -> Register: ...

    def task(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        isolation: Isolation | None = None,
        memory_mb: int | None = None,
        transactional: bool = False,
        retry_on: Failures | None = None,
        final_on: Failures | None = None,
        **defaults: Unpack[Defaults],
    ) -> Any:
        """Makes a function, async or not, a task named `name` (else `module.function`). It can still be called.

        The other options are defaults for its jobs; a submission can override them (`with_options`). With
        `isolation="process"` it runs in a separate process, which can be killed, can crash without affecting others and
        can have a memory limit. With `transactional=True` it gets `context.connection`, whose transaction also
        completes the run: its writes happen exactly once. Exceptions of `final_on` (a class or a tuple of them) fail
        for good; with `retry_on`, only those are tried again.
        """
        if isolation not in (None, "process"):
            raise SetupError(f'The isolation of a task must be "process" or left out, not {isolation!r}.')
        if memory_mb is not None and (isolation is None or memory_mb < 1):
            raise SetupError(
                'A memory limit (memory_mb) is in megabytes, at least 1, and only for a task with isolation="process".'
            )
        if transactional and isolation:
            raise SetupError(
                "A task with isolation can't be transactional: it has no access to the worker's database connection."
            )
        rule = None
        if retry_on is not None or final_on is not None:
            rule = RetryRule(retry_on=retry_on, final_on=final_on)
        try:
            check_options(defaults)
        except BadInputError as error:
            raise SetupError(f"@app.task: {error}") from error

        def register(function: Callable[..., Any]) -> Task[..., Any]:
            if not hasattr(function, "__qualname__"):
                raise SetupError(f"Only a named function can be a task; wrap {function!r} in one.")
            kind = AsyncTask if inspect.iscoroutinefunction(function) else PlainTask
            made: Task[..., Any] = kind(
                self,
                name or _name_of(function),
                function,
                defaults=defaults,
                isolation=isolation,
                memory_bytes=(memory_mb or 0) * _MEGABYTE,
                transactional=transactional,
                retry_rule=rule,
            )
            self._register(made)
            return made

        return register if function is None else register(function)

    def cron(
        self,
        expression: str,
        *,
        name: str | None = None,
        arguments: dict[str, Any] | None = None,
        **calendar: Unpack[Calendar],
    ) -> Callable[[AnyTask], AnyTask]:
        """Declares a cron schedule of the task below it: 5 fields, or 6 with seconds first. Workers make it a job.

        `name` distinguishes several schedules of a task; `arguments` are passed to each run.
        """
        return self._declare(name, recurring(calendar, cron=expression), arguments)

    def every(
        self,
        interval: Duration,
        *,
        name: str | None = None,
        arguments: dict[str, Any] | None = None,
        **calendar: Unpack[Calendar],
    ) -> Callable[[AnyTask], AnyTask]:
        """Declares an interval schedule of the task below it, as `cron`."""
        return self._declare(name, recurring(calendar, every=interval), arguments)

    def workflow(
        self,
        name: str,
        *,
        cron: str | None = None,
        every: Duration | None = None,
        inputs: Mapping[str, Any] | None = None,
        schedule_inputs: Mapping[str, Any] | None = None,
        fail_fast: bool = False,
        deadline: Duration | None = None,
        **calendar: Unpack[Calendar],
    ) -> Workflow:
        """Declares a workflow: `with app.workflow("nightly") as flow:` and, inside, `task.node(…)` and `task.map(…)`.

        `inputs` are what a run is given: a type for each (str, int, float, bool, dict, list), or a dict with its
        `type`, `default` and `description`. With `cron` or `every` it runs on a schedule, with `schedule_inputs`.
        `fail_fast`: the first failure stops everything but handlers. `deadline`: a run that takes longer has failed.
        """
        return Workflow(
            self,
            name,
            cron=cron,
            every=every,
            inputs=inputs,
            schedule_inputs=schedule_inputs,
            fail_fast=fail_fast,
            deadline=deadline,
            **calendar,
        )

    def lifespan(self, function: Lifespan) -> Lifespan:
        """Registers an async generator that opens resources (in `app.state`), yields once and closes them."""
        if not inspect.isasyncgenfunction(function):
            raise SetupError("A lifespan is an async function with one `yield`.")
        self._lifespan = asynccontextmanager(function)
        return function

    def add_middleware(self, middleware: Middleware) -> None:
        """Adds middleware to every submission and run; the first added is outermost."""
        self.middleware.append(middleware)

    @asynccontextmanager
    async def living(self) -> AsyncIterator[None]:
        """For workers: opens the lifespan."""
        async with AsyncExitStack() as stack:
            if self._lifespan:
                await stack.enter_async_context(self._lifespan())
            yield

    @contextmanager
    def submitting(self, calls: Sequence[Call[Any]]) -> Iterator[None]:
        """For senders: the middleware around a submission."""
        with ExitStack() as stack:
            for middleware in self.middleware:
                for call in calls:
                    stack.enter_context(middleware.submitting(call))
            carry_trace(calls)
            yield

    @contextmanager
    def using(
        self, gateway: JobGateway, sync_gateway: SyncJobGateway, now: Callable[[], datetime] | None = None
    ) -> Iterator[None]:
        """For tests: meanwhile submissions use these gateways and this clock."""
        before = self.now
        with self.gateways.replaced(gateway, sync_gateway):
            self.now = now or self.now
            try:
                yield
            finally:
                self.now = before

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_details: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes this event loop's connections to the API."""
        await self.gateways.close()

    def _register(self, task: Task[..., Any]) -> None:
        try:
            msgspec.convert(task.name, TaskName)
        except msgspec.ValidationError:
            if task.function.__module__ == "__main__":
                raise SetupError(
                    f"The task {task.function.__qualname__} is defined in the main program, where workers can't find "
                    "it: move it to a module and import that, or give it a name: @app.task(name=…)."
                ) from None
            raise SetupError(f"The task name {task.name!r} is invalid: use letters, digits and _ . : - only.") from None
        if task.name in RESERVED_TASKS or task.name.startswith("rota."):
            raise SetupError(f"The task name {task.name!r} is reserved; choose another.")
        if task.name in self._tasks:
            raise SetupError(f"Two tasks are called {task.name!r}; give one of them another name.")
        self._tasks[task.name] = task

    def _declare(self, name: str | None, when: Any, arguments: dict[str, Any] | None) -> Callable[[AnyTask], AnyTask]:
        def declare(task: AnyTask) -> AnyTask:
            if not isinstance(task, Task):
                raise SetupError("A schedule is declared for a task: put @app.cron above @app.task.")
            check_schedule(name or task.name, when)
            self._declarations.add(Declaration(name or task.name, task, when, arguments or {}))
            return task

        return declare


def _name_of(function: Callable[..., Any]) -> str:
    """Module and qualified name, without enclosing functions."""
    return f"{function.__module__}.{function.__qualname__.rpartition('<locals>.')[2]}"
