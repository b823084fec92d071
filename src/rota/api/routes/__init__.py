"""All operations of the API, one module per kind of object."""

from __future__ import annotations

from rota.api.operations import Operation
from rota.api.routes import (
    api_keys,
    audit,
    calendars,
    dead_letters,
    events,
    fleet,
    jobs,
    limits,
    logs,
    metrics,
    operations,
    pools,
    runs,
    schedules,
    sessions,
    submit,
    tasks,
    workflows,
)

_MODULES = (
    *(submit, jobs, runs, workflows, operations, logs, dead_letters, schedules, calendars, pools, limits, events),
    *(fleet, metrics, tasks, api_keys, sessions, audit),
)
OPERATIONS: tuple[Operation, ...] = tuple(operation for module in _MODULES for operation in module.OPERATIONS)
