"""Which runner runs which task of a worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from rota.domain.job import HTTP_TASK, SCRIPT_TASK, SHELL_TASK
from rota.http_addresses import AddressGuard
from rota.settings import Settings
from rota.task.middleware import Around, Transactions
from rota.task.retry_rule import RetryRule
from rota.worker.runners import Runner
from rota.worker.runners.examples import EXAMPLES
from rota.worker.runners.function import FunctionRunner
from rota.worker.runners.guarded_process import Subprocesses
from rota.worker.runners.http import HttpRunner
from rota.worker.runners.process import Isolated, ProcessRunner
from rota.worker.runners.script import ScriptRunner
from rota.worker.runners.shell import ShellRunner


class DeclaredTask(Protocol):
    """What a worker needs to know of an application's task."""

    function: Callable[..., Any]
    memory_bytes: int
    transactional: bool
    retry_rule: RetryRule | None

    @property
    def isolation(self) -> str | None: ...


class DeclaredApp(Protocol):
    """What a worker needs to know of an application."""

    @property
    def tasks(self) -> Mapping[str, DeclaredTask]: ...

    @property
    def middleware(self) -> Sequence[Around]: ...


class Runners:
    """All runners of a worker, and which one runs each task."""

    def __init__(self, settings: Settings, app: DeclaredApp | None, transactions: Transactions | None = None) -> None:
        tasks = app.tasks if app else {}
        grace = settings.grace_seconds
        self.subprocesses = Subprocesses()
        self.examples = FunctionRunner(EXAMPLES, threads=1)
        self.functions = FunctionRunner(
            {name: task.function for name, task in tasks.items() if task.isolation is None},
            threads=settings.threads,
            around=app.middleware if app else (),
            transactional=[name for name, task in tasks.items() if task.transactional],
            transactions=transactions,
            rules={name: task.retry_rule for name, task in tasks.items()},
        )
        isolated = {
            name: Isolated(task.function, task.memory_bytes, task.retry_rule)
            for name, task in tasks.items()
            if task.isolation
        }
        self.processes = ProcessRunner(isolated, self.subprocesses, processes=settings.processes, grace_seconds=grace)
        self.http = HttpRunner(AddressGuard(settings.http_allow))
        self.by_task: dict[str, Runner] = {
            **dict.fromkeys(self.examples.tasks, self.examples),
            **dict.fromkeys(self.functions.tasks, self.functions),
            **dict.fromkeys(self.processes.tasks, self.processes),
            SCRIPT_TASK: ScriptRunner(settings.scripts, self.subprocesses, grace_seconds=grace),
            HTTP_TASK: self.http,
        }
        if settings.allow_shell:
            self.by_task[SHELL_TASK] = ShellRunner(self.subprocesses, grace_seconds=grace)

    async def close(self) -> None:
        await self.processes.close()
        await self.http.close()
