"""Tasks: what workers announce of them."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from rota.contract.fields import (
    Headers,
    Key,
    Limit,
    OnDuplicate,
    OnFailure,
    Out,
    PoolName,
    PriorityName,
    Retries,
    Seconds,
    Tags,
)
from rota.contract.jobs import Breaker, RateLimit, Retry


class TaskDefaults(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Fields that the jobs of a task have unless they say otherwise."""

    max_retries: Retries | UnsetType = UNSET
    retry: Retry | UnsetType = UNSET
    timeout_seconds: Seconds | UnsetType = UNSET
    expires_seconds: Seconds | UnsetType = UNSET
    priority: PriorityName | UnsetType = UNSET
    pool: PoolName | UnsetType = UNSET
    tags: Tags | UnsetType = UNSET
    ordering_key: Key | UnsetType = UNSET
    ordering_on_failure: OnFailure | UnsetType = UNSET
    concurrency_key: Key | UnsetType = UNSET
    concurrency_limit: Limit | UnsetType = UNSET
    rate_limit: RateLimit | UnsetType = UNSET
    breaker: Breaker | UnsetType = UNSET
    unique_key: Key | UnsetType = UNSET
    unique_seconds: Seconds | UnsetType = UNSET
    on_duplicate: OnDuplicate | UnsetType = UNSET
    headers: Headers | UnsetType = UNSET


class TaskVersionOut(Out, kw_only=True):
    """A release that has the task, and how many of its workers are live."""

    app: str
    """the application"""
    version: str
    """its version"""
    workers: int
    """how many live workers run it"""
    in_force: bool = False
    """whether its parameters and defaults are those shown"""


class TaskOut(Out, kw_only=True):
    """A task. `parameters` (a JSON schema) and `defaults` are those of the version in force; if they are missing, no
    worker has described it. `computed`: fields that the application computes from the arguments; a job that does not
    come from the application lacks these unless it gives them. `workers`: how many live ones know it."""

    task: str
    """its name"""
    workers: int
    """how many live workers know it"""
    description: str | None = None
    """the first line of its docstring"""
    parameters: dict[str, Any] | None = None
    """the JSON schema of its payloads"""
    defaults: TaskDefaults | None = None
    """fields that its jobs have unless they say otherwise"""
    computed: list[str] | None = None
    """fields that the application computes from the arguments"""
    pools: list[str]
    """the pools that these workers serve"""
    versions: list[TaskVersionOut]
    """the releases that have it, the one in force first"""


class TaskList(Out, kw_only=True):
    """Tasks by name."""

    items: list[TaskOut]
    next_cursor: str | None
