"""What each field means: the text below it, or what its name means everywhere.

The OpenAPI document and the reference pages take the descriptions of fields from here.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from types import ModuleType

import msgspec

from rota.contract import (
    access,
    alerts,
    calendars,
    destinations,
    fields,
    figures,
    fleet,
    jobs,
    operations,
    problems,
    retention,
    runs,
    tasks,
    workflows,
)

_MODULES = (
    access,
    alerts,
    calendars,
    destinations,
    fields,
    figures,
    fleet,
    jobs,
    operations,
    problems,
    retention,
    runs,
    tasks,
    workflows,
)
# Names that mean the same wherever they occur.
_EVERYWHERE = {
    "actor": "who did it",
    "actor_kind": "what identified them: a key, a session, a JWT or the admin token",
    "app": "the application that it serves",
    "app_version": "the version of that application",
    "attempt": "the number of the attempt, 1 for the first",
    "busy": "how many runs it executes",
    "cancel_requested": "whether its cancellation was requested",
    "concurrency_key": "what `concurrencyLimit` counts",
    "count": "how many there are",
    "created_by": "who created it",
    "cron_expression": "five fields, or six with seconds first",
    "dead_letters": "failed runs that wait for a decision",
    "declared_by": "the application that declares it, and its version",
    "description": "the schedule in words",
    "duplicate": "whether nothing was created, because another job has the same uniqueKey",
    "epoch": "grows whenever the owner changes",
    "every_seconds": "the interval, one second or more",
    "exclude_calendars": "calendars whose days it leaves out",
    "exclude_weekends": "whether it leaves out Saturdays and Sundays",
    "executor_id": "the worker that runs it, or ran it last",
    "expires_time": "when it ends to be valid",
    "failed": "attempts that failed for good",
    "fire_times": "the next times",
    "headers": "for middleware",
    "host": "the machine it runs on",
    "idempotency_key": "a repeat with the same key and content makes no second job, for 24 hours",
    "items": "what was found",
    "job_burst": "how many jobs may come at once after a pause",
    "job_id": "the job's id",
    "jobs_per_second": "how many jobs may be submitted in a second",
    "key_id": "the key's id",
    "largest_batch": "how many jobs one request may submit",
    "largest_payload_bytes": "how large a payload may be",
    "last_beat": "when it was last heard of",
    "most_fan_out": "how many jobs one run may submit",
    "most_waiting": "the backlog limit: how many runs may wait",
    "name": "a name for people",
    "namespace": "the namespace",
    "next_cursor": "give it as `cursor` to get the next page; null: there is none",
    "nominal_time": "the time it was planned for",
    "note": "what its owner should know",
    "oldest_queued_seconds": "how long the oldest run that could start has waited",
    "owner": "whose it is",
    "per_second": "attempts per second",
    "pid": "the number of its process",
    "pool": "which workers may take it",
    "pools": "the pools, by name",
    "position": "where in the set the first of these jobs is, from 0",
    "on_excluded_day": "what becomes of times on days that are left out: `skip`, or `next` business day",
    "priority": "a level is worth five minutes of waiting",
    "progress": "how far it is, in per cent, if it tells",
    "queued": "runs that could start and wait for a worker",
    "replayed": "whether this is the answer to an earlier request with the same idempotency key",
    "request_burst": "how many requests may come at once after a pause",
    "requests_per_second": "how many requests may be sent in a second",
    "retried": "attempts that failed and are to be retried",
    "role": "the role, which decides what may be done",
    "run_id": "the run's id",
    "running": "runs that workers execute",
    "scopes": "the rights of the role that are granted; null: all of them",
    "sees": "whether only the own jobs can be seen, or `all` of the namespace",
    "slots": "how many runs it can execute at a time",
    "start_lag": "how late attempts started",
    "started": "attempts that started",
    "status": "its status",
    "storage_error": "why a payload or result could not be read from object storage",
    "succeeded": "attempts that succeeded",
    "tags": "to find it by",
    "task": "what is run: a registered task, or `script`, `shell`, `http`",
    "time": "when it happened",
    "timeline": "what happened, in order",
    "timezone": "the IANA zone of the cron expression",
    "traceback": "the Python traceback of the error",
    "workers": "how many workers there are",
}


@cache
def meanings_of(kind: type[msgspec.Struct]) -> Mapping[str, str]:
    """What each field of a type means, by its name on the wire; with links as the reference pages have them."""
    own: dict[str, str] = {}
    if "Job" in kind.__name__ or kind in (
        tasks.TaskDefaults,
        workflows.NodeIn,
    ):  # a job's fields mean the same everywhere
        own |= _written().get("JobIn", {})
    for base in reversed(kind.__mro__):
        own |= _written().get(base.__name__, {})
    found = {}
    for field in msgspec.structs.fields(kind):
        if text := own.get(field.name) or _EVERYWHERE.get(field.name):
            found[field.encode_name] = text
    return found


def structs_by_name() -> Mapping[str, type[msgspec.Struct]]:
    """The types of the contract, as the schemas of the OpenAPI document are called."""
    named = [value for module in _MODULES for value in vars(module).values() if isinstance(value, type)]
    return {kind.__name__: kind for kind in named if issubclass(kind, msgspec.Struct)}


@cache
def _written() -> Mapping[str, Mapping[str, str]]:
    """What stands below the fields of each class."""
    return {name: texts for module in _MODULES for name, texts in _classes_of(module)}


def _classes_of(module: ModuleType) -> Iterator[tuple[str, dict[str, str]]]:
    try:
        source = inspect.getsource(module)
    except OSError:  # installed without its source: the document then lacks these descriptions, and nothing else
        return
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            yield node.name, dict(texts_below(node))


def texts_below(made: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """The fields of a class that have a text below them, and that."""
    for declared, below in pairwise(made.body):
        if not (isinstance(declared, ast.AnnAssign) and isinstance(declared.target, ast.Name)):
            continue
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            yield declared.target.id, inspect.cleandoc(str(below.value.value))
