"""Schedules declared in code.

A worker reports its application, version and declared schedules. The scheduler reconciles them with the database for
the version in force.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rota.contract.jobs import BatchJobIn
from rota.contract.workflows import WorkflowIn
from rota.domain.application import Application, DeclaredSchedule
from rota.domain.job import STORED_BYTES
from rota.domain.schedule import parse_cron, parse_every
from rota.errors import BadInputError, RotaError, SetupError
from rota.gateway.job_builder import JobBuilder
from rota.gateway.workflow_declarations import encode_workflows
from rota.sdk.announced_tasks import describe_task
from rota.sdk.call import Call, Plan, When
from rota.task.arguments import check_importable

if TYPE_CHECKING:
    from rota.sdk.app import App
    from rota.sdk.task import Task
    from rota.sdk.workflow import Workflow

_VERSION_DIGITS = 12


class Declaration(NamedTuple):
    """A schedule of a task."""

    name: str
    task: Task[..., Any]
    when: When
    arguments: Mapping[str, Any]

    def job(self) -> BatchJobIn:
        """Its job; raises SetupError if it is invalid."""
        try:
            plan = Plan(self.task, self.when, {"name": self.name})
            return Call[Any](plan, (), dict(self.arguments)).finished().job
        except RotaError as error:
            raise SetupError(f"The schedule {self.name!r}: {error}") from error


def check_schedule(name: str, when: When) -> None:
    """Raises SetupError for invalid times, when the schedule is declared."""
    now = datetime.now(UTC)
    try:
        if when["cron_expression"] is not None:
            parse_cron(when["cron_expression"], when.get("timezone", "UTC"), now, dst=when.get("dst", "shift"))
        else:
            parse_every(when["every_seconds"], now)
    except BadInputError as error:
        raise SetupError(f"The schedule {name!r}: {error}") from error


class Declarations:
    """All schedules of an application."""

    def __init__(self, version: str | None) -> None:
        self._version = version
        self._declared: dict[str, Declaration] = {}
        self._workflows: dict[str, Workflow] = {}

    def add(self, declaration: Declaration) -> None:
        """Adds a schedule with a new name."""
        if declaration.name in self._declared:
            raise SetupError(f"Two schedules are called {declaration.name!r}; give one of them another name.")
        self._declared[declaration.name] = declaration

    def add_workflow(self, workflow: Workflow) -> None:
        """Adds a workflow with a new name."""
        if workflow.name in self._workflows:
            raise SetupError(f"Two workflows are called {workflow.name!r}; give one of them another name.")
        self._workflows[workflow.name] = workflow

    @property
    def are_any(self) -> bool:
        """Whether anything is declared."""
        return bool(self._declared or self._workflows)

    def workflows(self) -> list[WorkflowIn]:
        """The declared workflows, sorted by name."""
        return [self._workflows[name].contract() for name in sorted(self._workflows)]

    def jobs(self) -> list[BatchJobIn]:
        """Their jobs, sorted by name."""
        return [self._declared[name].job() for name in sorted(self._declared)]

    @property
    def version(self) -> str:
        """The given version, or a hash of the declarations."""
        if self._version is not None:
            return self._version
        declared: Any = [self.jobs(), self.workflows()] if self._workflows else self.jobs()
        return sha256(msgspec.json.encode(declared, order="sorted")).hexdigest()[:_VERSION_DIGITS]


def check_app(app: App) -> None:
    """Raises SetupError if a worker could not start."""
    describe_app(app, (app.caller.namespace,))
    for name, task in app.tasks.items():
        if task.isolation:
            check_importable(name, task.function)


def describe_app(app: App, namespaces: Sequence[str]) -> Application:
    """A worker's description of its application; raises SetupError for an invalid schedule."""
    caller, declared = app.caller, app.declarations.jobs()
    workflows = app.declarations.workflows()
    what = "schedules" if declared else "workflows"
    if (declared or workflows) and not app.has_name:
        raise SetupError(f'An application that declares {what} needs a name: rota.App("shop").')
    if (declared or workflows) and caller.namespace not in namespaces:
        raise SetupError(
            f"The {what} of {app.name} belong to namespace {caller.namespace!r}, which this worker does not serve. "
            "Add it to ROTA_NAMESPACES, or change rota.App(namespace=…)."
        )
    builder = JobBuilder(shards=1, payload_limit_bytes=STORED_BYTES, now=lambda: datetime.now(UTC))
    schedules: list[DeclaredSchedule] = []
    for job in declared:
        try:
            schedules.append(builder.declared(job, caller, app.name))
        except BadInputError as error:
            raise SetupError(f"The schedule {job.name!r}: {error}") from error
    tasks = {name: describe_task(task) for name, task in app.tasks.items()}
    text = encode_workflows(caller.owner, workflows) if workflows else None
    return Application(caller.namespace, app.name, app.declarations.version, tuple(schedules), tasks, text)
