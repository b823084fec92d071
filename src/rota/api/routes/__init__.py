"""All operations of the API, one module per kind of object."""

from __future__ import annotations

from rota.api.operations import Operation
from rota.api.routes import (
    api_keys,
    audit,
    dead_letters,
    events,
    fleet,
    jobs,
    limits,
    logs,
    pools,
    runs,
    schedules,
    sessions,
    submit,
)

OPERATIONS: tuple[Operation, ...] = (
    *submit.OPERATIONS,
    *jobs.OPERATIONS,
    *runs.OPERATIONS,
    *logs.OPERATIONS,
    *dead_letters.OPERATIONS,
    *schedules.OPERATIONS,
    *pools.OPERATIONS,
    *limits.OPERATIONS,
    *events.OPERATIONS,
    *fleet.OPERATIONS,
    *api_keys.OPERATIONS,
    *sessions.OPERATIONS,
    *audit.OPERATIONS,
)
