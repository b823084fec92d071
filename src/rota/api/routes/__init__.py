"""All operations of the API, one module per kind of object."""

from __future__ import annotations

from rota.api.operations import Operation
from rota.api.routes import (
    alerts,
    api_keys,
    audit,
    calendars,
    dead_letters,
    destinations,
    events,
    fleet,
    jobs,
    limits,
    logs,
    metrics,
    operations,
    pools,
    retention,
    runs,
    schedules,
    sessions,
    submit,
    tasks,
    workflows,
)

_MODULES = (
    *(submit, jobs, runs, workflows, operations, logs, dead_letters, schedules, calendars, pools, limits, events),
    *(destinations, fleet, metrics, tasks, alerts, api_keys, sessions, audit, retention),
)
OPERATIONS: tuple[Operation, ...] = tuple(operation for module in _MODULES for operation in module.OPERATIONS)
