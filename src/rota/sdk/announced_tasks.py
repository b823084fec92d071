"""Tasks as workers announce them, so that jobs which don't come from this code get their options too."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import msgspec

from rota.contract.fields import wire_name
from rota.domain.application import AnnouncedTask
from rota.sdk.options import contract_name, depends_on_arguments, fields_of
from rota.task.arguments import encode

if TYPE_CHECKING:
    from rota.sdk.task import Task

_MOST_WORDS = 200  # characters


def describe_task(task: Task[..., Any]) -> AnnouncedTask:
    """The task's parameters and options."""
    given = {name: value for name, value in task.defaults.items() if value is not None}
    fixed = {name: value for name, value in given.items() if not depends_on_arguments(value)}
    fields = {wire_name(name): value for name, value in fields_of(fixed, {}).items()}
    return AnnouncedTask(
        parameters=task.parameters.schema,
        defaults=msgspec.json.decode(encode(fields)),
        computed=tuple(sorted(wire_name(contract_name(name)) for name in given.keys() - fixed.keys())),
        description=_first_line(task.function),
    )


def _first_line(function: Any) -> str:
    return (inspect.getdoc(function) or "").partition("\n")[0][:_MOST_WORDS]
