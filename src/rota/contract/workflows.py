"""Workflows: what is created, run and shown."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from rota.contract.fields import (
    CalendarNames,
    Dst,
    Headers,
    In,
    Jitter,
    Key,
    Limit,
    MisfirePolicy,
    Moment,
    Name,
    OnFailure,
    Out,
    PoolName,
    PriorityName,
    Retries,
    Seconds,
    Tag,
    TaskName,
)
from rota.contract.jobs import Breaker, Misfire, RateLimit, Retry
from rota.domain.business_days import OnExcludedDay
from rota.domain.policies import Overlap
from rota.domain.workflows.graph import Trigger

NodeKey = Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_.-]+(?!\n)$")]
InputName = Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[A-Za-z_][A-Za-z0-9_]*(?!\n)$")]
SignalName = Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_.-]+(?!\n)$")]
MOST_WAIT_SECONDS = 366 * 86_400
NodeStatus = Literal["waiting", "queued", "running", "blocked", "success", "failed", "stopped", "skipped"]
WorkflowRunStatus = Literal["running", "cancelling", "success", "failed", "cancelled"]


class MapIn(In, kw_only=True, omit_defaults=True):
    """Runs a node once per item."""

    items: list[Any] | dict[str, Any]
    """the items: a list, a reference to one, or `{"$object": "orders.ndjson"}`, an object in storage with one item per
    line"""
    max_concurrency: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    """how many members may wait and run at a time; some thousand if not given"""
    tolerate_failures: Annotated[int, Meta(ge=0)] | Annotated[str, Meta(pattern=r"^[0-9]{1,3}(\.[0-9]{1,3})?%$")] = 0
    """how many members may fail, or which share of them: `"1%"`"""
    stop_on_failure: bool = False
    """whether the first failure stops what runs"""


class WaitIn(In, kw_only=True, omit_defaults=True):
    """Waits for a time, a signal or a decision; no worker is needed for it. One of `seconds`, `until`, `signal` and
    `approval`."""

    seconds: Annotated[float, Meta(ge=0, le=MOST_WAIT_SECONDS)] | dict[str, Any] | None = None
    """for so long; a number, or a reference to one"""
    until: Moment | dict[str, Any] | None = None
    """until then; a time, or a reference to one"""
    signal: SignalName | None = None
    """for a signal of this name; its payload is the node's result"""
    approval: bool = False
    """until a person approves, or rejects: then the node fails"""
    approvers: Annotated[list[str], Meta(max_length=100)] = msgspec.field(default_factory=list)
    """who may decide; all who have the right if not given"""
    timeout_seconds: Annotated[float, Meta(gt=0, le=MOST_WAIT_SECONDS)] | None = None
    """how long it waits for a signal or a decision; for ever if not given"""
    on_timeout: Literal["fail", "skip", "succeed"] = "fail"
    """how it ends then"""


class NodeIn(In, kw_only=True, omit_defaults=True):
    """A node of a workflow: a job, and when it runs. One of `task`, `wait` and `workflow`."""

    task: TaskName | None = None
    """a registered task, or `script`, `shell`, `http`"""
    wait: WaitIn | None = None
    """waits instead of running a task"""
    workflow: Name | None = None
    """runs another workflow, by its name; the payload has its inputs"""
    payload: dict[str, Any] | UnsetType = UNSET
    """the task's parameters; values may be references, such as `{"$from": "extract", "path": "rows"}`"""
    after: Annotated[list[NodeKey], Meta(max_length=10_000)] = msgspec.field(default_factory=list)
    """the nodes before it"""
    trigger: Trigger = "all_succeeded"
    """which ends of the nodes before it start it"""
    when: dict[str, Any] | None = None
    """a condition, asked when the trigger says that it runs: if it does not hold, the node is skipped"""
    map: MapIn | None = None
    """runs it once per item; its payload and condition may name the item: `{"$item": "path"}`"""
    allow_failure: bool = False
    """whether what comes after goes on as if it had succeeded"""
    max_retries: Retries = 3
    """how many times it is retried if it fails"""
    retry: Retry | None = None
    """how long it waits before a retry"""
    timeout_seconds: Seconds | None = None
    """an attempt that takes longer is stopped and fails"""
    expires_seconds: Seconds | None = None
    """skipped, and failed, if it has not started so long after its release"""
    priority: PriorityName = "normal"
    """a level is worth five minutes of waiting"""
    pool: PoolName = "default"
    """which workers may take it"""
    tags: Annotated[list[Tag], Meta(max_length=50)] = msgspec.field(default_factory=list)
    """labels to find it by"""
    ordering_key: Key | None = None
    """runs with the same key run one after the other"""
    ordering_on_failure: OnFailure | None = None
    """what a failure does to those behind it"""
    concurrency_key: Key | None = None
    """what `concurrencyLimit` counts"""
    concurrency_limit: Limit | None = None
    """how many with its key run at a time"""
    rate_limit: RateLimit | None = None
    """how many with its key start in a time"""
    breaker: Breaker | None = None
    """stops starting a task that fails again and again"""
    headers: Headers | None = None
    """for middleware"""


class InputIn(In, kw_only=True, omit_defaults=True):
    """An input of a workflow."""

    type: Literal["string", "integer", "number", "boolean", "object", "array"] | None = None
    """what its value must be; anything if not given"""
    default: Any = UNSET
    """its value if none is given"""
    description: Annotated[str, Meta(max_length=1000)] | None = None
    """what it is, for people"""


class WorkflowScheduleIn(In, kw_only=True, omit_defaults=True):
    """When a workflow runs by itself."""

    cron_expression: str | None = None
    """five fields, or six with seconds first"""
    every_seconds: float | None = None
    """an interval instead, one second or more"""
    timezone: str | None = None
    """the IANA zone; UTC if not given"""
    start_time: Moment | None = None
    """it does not fire before"""
    end_time: Moment | None = None
    """it does not fire after"""
    jitter_seconds: Jitter | None = None
    """starts each run up to this much later"""
    dst: Dst | None = None
    """the rule at a clock change; `shift` if not given"""
    misfire: MisfirePolicy | Misfire | None = None
    """which missed times still run; `latest` within an hour if not given"""
    exclude_calendars: CalendarNames | None = None
    """[calendars](schedules.md#business-days) whose days it leaves out"""
    exclude_weekends: bool | None = None
    """whether it leaves out Saturdays and Sundays"""
    on_excluded_day: OnExcludedDay | None = None
    """`skip`: a time on such a day does not fire; `next`: it moves to the next business day. `skip` if not given"""
    overlap: Overlap | None = None
    """what to do if the previous run has not ended; `allow` if not given"""
    inputs: dict[str, Any] = msgspec.field(default_factory=dict)
    """values of the workflow's inputs"""


class WorkflowIn(In, kw_only=True, omit_defaults=True):
    """A workflow: nodes that run in dependency order."""

    name: Name
    """its name, unique in the namespace"""
    nodes: dict[NodeKey, NodeIn]
    """the nodes by their keys"""
    inputs: dict[InputName, InputIn] = msgspec.field(default_factory=dict)
    """what a run of it is given"""
    schedule: WorkflowScheduleIn | None = None
    """when it runs by itself; only when it is asked to if not given"""
    fail_fast: bool = False
    """whether the first failure stops everything but handlers (`any_failed`, `all_ended`)"""
    deadline_seconds: Seconds | None = None
    """a run of it that takes longer is stopped and has failed"""


class RunWorkflowIn(In, kw_only=True):
    """Starts a run of a workflow."""

    inputs: dict[str, Any] = msgspec.field(default_factory=dict)
    """values of its inputs"""


class WorkflowOut(Out, kw_only=True):
    """A workflow."""

    workflow_id: str
    """the workflow's id"""
    name: str
    """its name, unique in the namespace"""
    owner: str
    status: Literal["active", "paused", "deleted"]
    """`active`; `paused`: nothing of it starts; `deleted`"""
    version: str
    """the hash of its definition"""
    revision: int
    """grows with each change: give it as `If-Match`"""
    nodes: dict[str, NodeIn]
    """the nodes by their keys"""
    inputs: dict[str, InputIn]
    """what a run of it is given"""
    schedule: WorkflowScheduleIn | None
    """when it runs by itself"""
    fail_fast: bool
    """whether the first failure stops everything but handlers"""
    deadline_seconds: float | None
    """a run of it that takes longer is stopped and has failed"""
    created_at: datetime
    """when it was created"""
    changed_at: datetime
    """when it was changed last"""


class MembersOut(Out, kw_only=True):
    """The members of a map."""

    total: int | None
    """how many items there are; null while they are being read"""
    success: int
    """members that succeeded"""
    failed: int
    """members that failed"""
    skipped: int
    """items whose condition does not hold"""
    running: int
    """members that wait or run"""


class NodeOut(Out, kw_only=True):
    """A node of a workflow run."""

    status: NodeStatus
    """`waiting` for nodes before it, or for what it waits for; then that of its run"""
    run_id: str | None = None
    """its run"""
    start_time: datetime | None = None
    """when it was started"""
    end_time: datetime | None = None
    """when it ended"""
    reason: str | None = None
    """why it failed, or was skipped"""
    skipped_by: Literal["condition", "failure"] | None = None
    """`failure`: because of a failure before it"""
    culprit: str | None = None
    """the node that it was skipped for"""
    waiting_for: dict[str, str] | None = None
    """the nodes that it waits for and how they are, or its signal, decision or time"""
    generation: int | None = None
    """the generation of the workflow run in which it ran last"""
    members: MembersOut | None = None
    """of a map"""
    workflow_run_id: str | None = None
    """of a sub-workflow"""


class WorkflowRunOut(Out, kw_only=True):
    """A run of a workflow."""

    workflow_run_id: str
    """the workflow run's id"""
    workflow_id: str
    """its workflow"""
    name: str
    """its workflow's name"""
    owner: str
    status: WorkflowRunStatus
    """`cancelling`: what runs is being stopped"""
    version: str
    """the version of the workflow that it follows"""
    generation: int
    """1, and one more after each resume"""
    start_time: datetime
    """when it was opened"""
    end_time: datetime | None
    """when it ended"""
    deadline: datetime | None
    """when it is stopped"""
    culprit: str | None
    """the node that failed first"""
    nominal_time: datetime
    """the time it was planned for"""
    cause: str
    """why it exists: manual, schedule, node (of another workflow run), backfill"""
    started_by: str | None
    """who ran it, if it was not its schedule or a node"""
    stopped_by: str | None
    """who cancelled it"""
    parent: str | None
    """the workflow run that it is a part of"""
    paused: bool
    """whether its nodes are held, because its workflow is paused"""
    result: dict[str, Any] | None
    """the results of its last nodes, by their keys"""
    inputs: dict[str, Any] | None = None
    """the values of its inputs"""
    nodes: dict[str, NodeOut] | None = None
    """its nodes by their keys; only given for a single one"""


class WorkflowList(Out, kw_only=True):
    """A page of workflows."""

    items: list[WorkflowOut]
    next_cursor: str | None


class VersionOut(Out, kw_only=True):
    """A version of a workflow."""

    version: str
    """the hash of the definition"""
    number: int
    """1 for the first"""
    created_by: str
    created_at: datetime
    """when it was created"""
    nodes: dict[str, NodeIn]
    """the nodes by their keys"""


class VersionList(Out, kw_only=True):
    """The versions of a workflow, newest first."""

    items: list[VersionOut]


class WorkflowRunList(Out, kw_only=True):
    """A page of workflow runs, newest first."""

    items: list[WorkflowRunOut]
    next_cursor: str | None


class ResumeIn(In, kw_only=True):
    """Which generation was seen, and which nodes run again; failed ones if not given."""

    generation: int | None = None
    """the one that was seen: refused (409) if another resume came first"""
    nodes: list[NodeKey] | None = None
    """the nodes that run again; those that failed if not given"""
    items: Annotated[list[Annotated[int, Meta(ge=0)]], Meta(max_length=100_000)] | None = None
    """with one map in `nodes`: the numbers of the items whose failed members run again; all if not given"""
    version: str | None = None
    """the version of the workflow that it goes on with, or `latest`; its own if not given"""


class SignalIn(In, kw_only=True):
    """A signal to a workflow run."""

    payload: Any = None
    """any JSON: the result of the wait that takes it"""


class SignalSent(Out, kw_only=True):
    """The answer to a signal."""

    workflow_run_id: str
    """the workflow run that it was sent to"""
    signal: str
    """the signal's name"""


class DecisionIn(In, kw_only=True):
    """What a person says to an approval."""

    comment: Annotated[str, Meta(max_length=10_000)] | None = None
    """what is shown as the reason"""


class MemberOut(Out, kw_only=True):
    """A member of a map."""

    index: int
    """the number of its item, from 0"""
    run_id: str | None
    """its run; null: none could be made"""
    status: str
    """`failed`, or the status of its run"""
    reason: str | None = None
    """why it failed"""


class MemberList(Out, kw_only=True):
    """A page of members."""

    items: list[MemberOut]
    next_cursor: str | None


class MemberResult(Out, kw_only=True):
    """What a member returned."""

    index: int
    """the number of its item, from 0"""
    result: Any = None
    """what it returned"""


class MemberResults(Out, kw_only=True):
    """A page of what members returned; those that returned nothing are left out."""

    items: list[MemberResult]
    next_cursor: str | None


class WorkflowRunStarted(Out, kw_only=True):
    """The answer to a request to run a workflow."""

    workflow_run_id: str
    """the workflow run's id"""
    status: WorkflowRunStatus
    """its status"""
