"""A workflow written in code: nodes are made inside `with app.workflow(…) as flow:`, and workers create it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

import msgspec

from rota.contract.fields import wire_name
from rota.contract.json_rules import bad_json
from rota.contract.workflows import WorkflowIn
from rota.domain.durations import Duration
from rota.domain.job import STORED_BYTES
from rota.errors import BadInputError, SetupError
from rota.gateway.job_builder import JobBuilder
from rota.gateway.workflow_plans import check_inputs, plan_of
from rota.sdk.nodes import Node, StoredObject, entered, keys_of, left, node_options
from rota.sdk.options import Calendar, Defaults, fields_of, read_duration
from rota.sdk.placeholders import Value, placeholders_in, plain
from rota.sdk.workflow_runs import WorkflowStarter
from rota.sdk.workflow_runs_sync import SyncWorkflowStarter

if TYPE_CHECKING:
    from rota.sdk.app import App

InputType = Literal["string", "integer", "number", "boolean", "object", "array"]
OnTimeout = Literal["fail", "skip", "succeed"]
_TYPES: Mapping[Any, InputType] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    dict: "object",
    list: "array",
}
_NOT_GIVEN: Any = object()


class Workflow(WorkflowStarter):
    """A graph of tasks. Declared in code, it is created and changed by the workers that run the code."""

    def __init__(
        self,
        app: App,
        name: str,
        *,
        cron: str | None = None,
        every: Duration | None = None,
        inputs: Mapping[str, Any] | None = None,
        schedule_inputs: Mapping[str, Any] | None = None,
        fail_fast: bool = False,
        deadline: Duration | None = None,
        **calendar: Unpack[Calendar],
    ) -> None:
        super().__init__(app, name)
        self._nodes: list[Node[Any]] = []
        self._inputs: dict[str, dict[str, Any]] = {}
        self._keys: dict[int, str] | None = None
        self._token: Any = None
        self._is_made = False
        self._fields: dict[str, Any] = {}
        if fail_fast:
            self._fields["failFast"] = True
        if deadline is not None:
            self._fields["deadlineSeconds"] = read_duration(deadline, "deadline")
        for input_name, kind in (inputs or {}).items():
            self._declare_input(input_name, kind)
        self._schedule = _schedule_of(name, cron, every, calendar, schedule_inputs)

    def __repr__(self) -> str:
        return f"<Workflow {self.name}>"

    @property
    def sync(self) -> SyncWorkflowStarter:
        """The same for code that can't await."""
        return SyncWorkflowStarter(self.app, self.name)

    def __enter__(self) -> Self:
        if self._is_made or self._token is not None:
            raise SetupError(f"The workflow {self.name!r} has its nodes already; make another with app.workflow(…).")
        self._token = entered(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, _error: object, _trace: TracebackType | None) -> None:
        left(self._token)
        self._token = None
        if kind is None:
            self.contract()
            self._is_made = True
            self.app.declarations.add_workflow(self)

    # Values

    def input(self, name: str, *, type: Any = None, default: Any = _NOT_GIVEN, description: str | None = None) -> Value:  # noqa: A002 - what it is
        """An input of the workflow, declared here or in `inputs`. `type`: str, int, float, bool, dict or list."""
        if name not in self._inputs or type is not None or default is not _NOT_GIVEN or description is not None:
            given = {} if default is _NOT_GIVEN else {"default": default}
            self._declare_input(name, {"type": type, "description": description, **given})
        return Value(lambda: {"$input": name}, f"input {name}", field="$input")

    @property
    def nominal_date(self) -> Value:
        """The date of the time that a run stands for, in the schedule's time zone: "2027-01-31"."""
        return _nominal("date")

    @property
    def nominal_time(self) -> Value:
        """The time of day that a run stands for: "02:00:00"."""
        return _nominal("time")

    @property
    def nominal(self) -> Value:
        """The moment that a run stands for, with its offset."""
        return _nominal("timestamp")

    def object(self, name: str) -> StoredObject:
        """An object in storage with one item per line (NDJSON), as the items of a map."""
        return StoredObject(name)

    # Nodes that are no tasks of this application

    def task(self, task: str, payload: Mapping[str, Any] | None = None, **options: Unpack[Defaults]) -> Node[Any]:
        """A node that runs a task by its name: one of another application, or `http`, `shell`, `script`."""
        given = dict(payload or {})
        content = {"task": task, **({"payload": given} if given else {}), **node_options(task, options, {})}
        return Node(self, task, content, placeholders_in(given))

    def wait(
        self,
        *,
        seconds: Duration | None = None,
        until: datetime | Value | None = None,
        signal: str | None = None,
        timeout: Duration | None = None,
        on_timeout: OnTimeout | None = None,
    ) -> Node[Any]:
        """A node that waits for some time, until a moment, or for a signal, whose payload is its result.

        `timeout` is for a signal; without one it waits until the signal comes.
        """
        if sum(one is not None for one in (seconds, until, signal)) != 1:
            raise SetupError("flow.wait() takes one of seconds, until and signal.")
        if (timeout is not None or on_timeout is not None) and signal is None:
            raise SetupError("flow.wait(): timeout and on_timeout are for a signal.")
        given = {
            "seconds": None if seconds is None else read_duration(seconds, "seconds"),
            "until": until,
            "signal": signal,
            "timeoutSeconds": None if timeout is None else read_duration(timeout, "timeout"),
            "onTimeout": on_timeout,
        }
        wanted = {name: value for name, value in given.items() if value is not None}
        return Node(self, signal or "wait", {"wait": wanted}, placeholders_in(wanted))

    def approval(
        self,
        *,
        approvers: Sequence[str] | None = None,
        timeout: Duration | None = None,
        on_timeout: OnTimeout | None = None,
    ) -> Node[Any]:
        """A node that waits until someone approves, and fails if they reject. `approvers`: who may."""
        given = {
            "approval": True,
            "approvers": None if approvers is None else list(approvers),
            "timeoutSeconds": None if timeout is None else read_duration(timeout, "timeout"),
            "onTimeout": on_timeout,
        }
        return Node(self, "approval", {"wait": {name: one for name, one in given.items() if one is not None}}, ())

    def workflow(self, child: str | Workflow, /, **inputs: Any) -> Node[Any]:
        """A node that runs another workflow with these inputs."""
        name = child if isinstance(child, str) else child.name
        content = {"workflow": name, **({"payload": inputs} if inputs else {})}
        return Node(self, name, content, placeholders_in(inputs))

    # What it is

    @property
    def nodes(self) -> Mapping[str, Node[Any]]:
        """Its nodes by their keys."""
        return {self.key_of(node): node for node in self._nodes}

    def definition(self) -> dict[str, Any]:
        """The definition as JSON, as `POST /v1/workflows` and `rota workflow apply` take it."""
        inputs = {"inputs": self._inputs} if self._inputs else {}
        schedule = {"schedule": self._schedule} if self._schedule else {}
        nodes = {self.key_of(node): node.definition() for node in self._nodes}
        return {"name": self.name, **inputs, **schedule, **self._fields, "nodes": nodes}

    def contract(self) -> WorkflowIn:
        """For the SDK: the definition, checked as the server checks it; raises SetupError that names the node."""
        try:
            wanted = msgspec.convert(self.definition(), WorkflowIn)
            builder = JobBuilder(shards=1, payload_limit_bytes=STORED_BYTES, now=lambda: datetime.now(UTC))
            plan_of(wanted, self.app.caller, builder)
            if wanted.schedule is not None:
                check_inputs(wanted.schedule.inputs, wanted.inputs)
        except msgspec.ValidationError as error:
            raise SetupError(f"The workflow {self.name!r}: {_in_words(bad_json(error))}") from None
        except BadInputError as error:
            raise SetupError(f"The workflow {self.name!r}: {_in_words(error)}") from error
        return wanted

    def add(self, node: Node[Any]) -> None:
        """For the SDK: takes a new node."""
        if self._is_made:
            raise SetupError(f"The workflow {self.name!r} is complete: make its nodes inside its `with` block.")
        self._nodes.append(node)
        self.forget_keys()

    def forget_keys(self) -> None:
        """For the SDK: a node is new, or got another key, so those without one of their own may get another."""
        self._keys = None

    def key_of(self, node: Node[Any]) -> str:
        """For the SDK: the key of one of its nodes."""
        if self._keys is None:
            self._keys = keys_of(self._nodes)
        return self._keys[id(node)]

    def _declare_input(self, name: str, kind: Any) -> None:
        given: dict[str, Any] = dict(kind) if isinstance(kind, Mapping) else {"type": kind}
        wanted = {field: value for field, value in given.items() if field == "default" or value is not None}
        if "type" in wanted:
            with suppress(TypeError):
                wanted["type"] = _TYPES.get(wanted["type"], wanted["type"])
            if not isinstance(wanted["type"], str):
                raise SetupError(f"The input {name!r}: its type is one of str, int, float, bool, dict and list.")
        if "default" in wanted:
            wanted["default"] = plain(wanted["default"])
        self._inputs[name] = wanted


def _nominal(form: str) -> Value:
    return Value(lambda: {"$nominal": form}, f"nominal {form}")


def _schedule_of(
    name: str,
    cron: str | None,
    every: Duration | None,
    calendar: Calendar,
    inputs: Mapping[str, Any] | None,
) -> dict[str, Any] | None:
    if cron is None and every is None:
        if calendar or inputs:
            raise SetupError(f"The workflow {name!r} has no schedule: give cron or every as well.")
        return None
    if cron is not None and every is not None:
        raise SetupError(f"The workflow {name!r}: give cron or every, not both.")
    times = {"cron_expression": cron, "every_seconds": None if every is None else read_duration(every, "every")}
    fields = {**times, **fields_of(calendar, {}), "inputs": dict(inputs) if inputs else None}
    return {wire_name(field): plain(value) for field, value in fields.items() if value is not None}


def _in_words(error: BadInputError) -> str:
    return "; ".join(f"{field}: {message}" for field, message in error.fields) or str(error)
