"""All operations of the API, one module per kind of object."""

from __future__ import annotations

from rota.api.operations import Operation
from rota.api.routes import dead_letters, events, fleet, jobs, logs, pools, runs, schedules, submissions

OPERATIONS: tuple[Operation, ...] = (
    *submissions.OPERATIONS,
    *jobs.OPERATIONS,
    *runs.OPERATIONS,
    *logs.OPERATIONS,
    *dead_letters.OPERATIONS,
    *schedules.OPERATIONS,
    *pools.OPERATIONS,
    *events.OPERATIONS,
    *fleet.OPERATIONS,
)
