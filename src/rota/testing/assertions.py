"""Compares submissions with what a test expects, and shows the differences."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import json

from rota.sdk.task import Task
from rota.task.arguments import ArgumentsError, encode
from rota.testing.records import RunRecord, Submission, show_arguments

_MOST_SHOWN = 20
_MISSING = object()


def name_of(task: Task[..., Any] | str) -> str:
    """The name of a task or its name."""
    return task if isinstance(task, str) else task.name


def matches(one: Submission, task: Task[..., Any] | str, arguments: dict[str, Any]) -> bool:
    """Whether this is a submission of the task with at least these arguments."""
    return one.task == name_of(task) and not _differences(one, task, arguments)


def tell_missing(
    task: Task[..., Any] | str,
    arguments: dict[str, Any],
    everything: Sequence[Submission],
    *,
    count: int | None = None,
    found: int = 0,
) -> str:
    """The expected submission, and the actual ones."""
    wanted = f"{name_of(task)}({show_arguments(arguments)})"
    said = f"{wanted} was not submitted." if count is None else f"{wanted} was submitted {_times(found)}, not {count}."
    of_task = [one for one in everything if one.task == name_of(task)]
    others = [one for one in everything if one.task != name_of(task)]
    lines = [said]
    if of_task:
        lines += ["Of this task:", *_shown(of_task, lambda one: _differences(one, task, arguments))]
    if others:
        lines += ["Of other tasks:", *_shown(others, lambda _one: [])]
    if not everything:
        lines.append("Nothing was submitted at all.")
    return "\n".join(lines)


def tell_found(task: Task[..., Any] | str, arguments: dict[str, Any], found: Sequence[Submission]) -> str:
    """The submissions that should not exist."""
    wanted = f"{name_of(task)}({show_arguments(arguments)})"
    return "\n".join([f"{wanted} was submitted {_times(len(found))}:", *_shown(found, lambda _one: [])])


def tell_failures(failures: Sequence[RunRecord]) -> str:
    """The failed runs with their tracebacks."""
    lines = [f"{len(failures)} {'run' if len(failures) == 1 else 'runs'} failed:"]
    for run in failures[:_MOST_SHOWN]:
        again = f", retry at {run.due.isoformat()}" if run.status == "retrying" else ""
        lines.append(f"{run.task}({show_arguments(run.arguments)}), attempt {run.attempt}{again}: {run.error}")
        lines += [f"    {line}" for line in (run.traceback or "").splitlines()]
    return "\n".join(lines)


def _shown(some: Sequence[Submission], differences: Callable[[Submission], list[str]]) -> list[str]:
    lines = []
    for number, one in enumerate(some[:_MOST_SHOWN], 1):
        lines.append(f"  {number}. {one}")
        lines += [f"       {difference}" for difference in differences(one)]
    if len(some) > _MOST_SHOWN:
        lines.append(f"  … and {len(some) - _MOST_SHOWN} more")
    return lines


def _differences(one: Submission, task: Task[..., Any] | str, arguments: dict[str, Any]) -> list[str]:
    found = {**_defaults(task), **one.arguments}
    return [
        f"{name}: expected {expected!r}, was {repr(found[name]) if name in found else 'not given'}"
        for name, expected in arguments.items()
        if not _is_same(expected, found.get(name, _MISSING))
    ]


def _defaults(task: Task[..., Any] | str) -> dict[str, Any]:
    """The task's default arguments."""
    if isinstance(task, str):
        return {}
    parameters = inspect.signature(task.function).parameters.values()
    return {parameter.name: parameter.default for parameter in parameters if parameter.default is not parameter.empty}


def _is_same(expected: Any, found: Any) -> bool:
    """Compares as JSON (datetimes, UUIDs and models), or by == (unittest.mock.ANY)."""
    if found is _MISSING:
        return False
    try:
        return bool(expected == found) or json.decode(encode(expected)) == json.decode(encode(found))
    except ArgumentsError:
        return False


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")
