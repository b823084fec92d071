"""The OpenAPI 3.1 document, made from the operations and their types."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import UnionType
from typing import Any, get_args

import msgspec

from rota.access.authorization import NAMESPACE_HEADER, PUBLIC
from rota.api.operations import Operation
from rota.contract.access import KeyId
from rota.contract.alerts import AlertRuleName
from rota.contract.aliases import FOLLOWING
from rota.contract.destinations import DestinationName
from rota.contract.fields import CalendarName, In, JobId, PoolName, RunId, StoredName
from rota.contract.jobs import JobIn
from rota.contract.meanings import meanings_of, structs_by_name
from rota.contract.problems import Problem

_Schemas = dict[Any, dict[str, Any]]
_REF = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"\{(\w+)\}")
_KINDS: dict[str, dict[str, Any]] = {
    "limit": {"type": "integer", "minimum": 1, "maximum": 500},
    "waitSeconds": {"type": "number", "minimum": 0, "maximum": 60},
    "follow": {"type": "boolean"},
    "url": {"type": "boolean"},
    "force": {"type": "boolean"},
    "startTime": {"type": "string", "format": "date-time"},
    "endTime": {"type": "string", "format": "date-time"},
    "targetLagSeconds": {"type": "number", "minimum": 0.1, "maximum": 3600},
    "slotsPerWorker": {"type": "integer", "minimum": 1, "maximum": 10_000},
    "min": {"type": "integer", "minimum": 0, "maximum": 10_000},
    "max": {"type": "integer", "minimum": 0, "maximum": 10_000},
    "holdSeconds": {"type": "number", "minimum": 0, "maximum": 600},
}
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
# The defaults of these are for answers of other releases.
_ALWAYS_GIVEN = ("createdAt", "createdTime")
_TAGS = {
    "jobs": "What to run, and when: submit, read, change, pause, cancel",
    "runs": "Each execution of a job: its status, attempts, result and log",
    "operations": "Backfills, replays and other acts on many runs",
    "dead-letters": "Runs that failed for good and wait for a decision",
    "workflows": "Graphs of jobs that run in dependency order, and their runs",
    "schedules": "When schedules fire, and calendars of days that they leave out",
    "fleet": "Workers, tasks, pools, shards and events",
    "destinations": "Where events are sent, and what was sent there",
    "alerts": "Rules that watch the installation, what they fire, and silences",
    "retention": "How long things stay, and days in the archive",
    "access": "Keys, sessions, limits and the audit trail",
    "server": "Whether this server is well, and its pages",
}
_TAG_OF = {
    **{part: part for part in ("jobs", "runs", "dead-letters", "schedules", "destinations", "alerts")},
    "calendars": "schedules",
    "logs": "runs",
    **dict.fromkeys(("workflows", "workflow-runs"), "workflows"),
    **dict.fromkeys(("backfills", "replays", "operations"), "operations"),
    **dict.fromkeys(("workers", "tasks", "pools", "shards", "events", "stats"), "fleet"),
    **dict.fromkeys(("retention", "archive"), "retention"),
    **dict.fromkeys(("keys", "session", "limits", "audit"), "access"),
}
_IN_PATHS_MEAN = {
    "task": "the name of a task",
    "jobId": "the job's id",
    "runId": "the run's id",
    "operationId": "the operation's id",
    "keyId": "the key's id",
    "calendar": "the name of a calendar",
    "destination": "the name of a destination",
    "day": "the day, such as 20261118",
    "workflowId": "the workflow's id or name",
    "workflowRunId": "the workflow run's id",
    "node": "the key of a node",
    "signal": "the signal's name",
    "pool": "the pool's name",
    "subject": "whose limits: an owner",
    "rule": "the name of a rule",
    "silenceId": "the silence's id",
}
_JOB = {"name": "greet", "task": "rota.echo", "payload": {"hello": "world"}}
_NIGHTLY = {
    "name": "nightly",
    "task": "reports.build",
    "scheduleType": "cron",
    "cronExpression": "0 2 * * *",
    "timezone": "Europe/Berlin",
    "maxRetries": 5,
}
_JOB_ID, _RUN_ID = f"job_{'0198f2c4d5e67a8b' * 2}", f"run_{'0198f2c4d5e67a8b' * 2}"
# By the names of schemas.
_EXAMPLES: dict[str, list[dict[str, Any]]] = {
    "JobIn": [_JOB | {"scheduleType": "immediate"}, _NIGHTLY],
    "BatchJobIn": [_JOB | {"scheduleType": "immediate", "idempotencyKey": "order-7"}],
    "JobSetIn": [{"job": {"name": "greet", "task": "rota.echo"}, "payloads": [{"to": "ada"}, {"to": "grace"}]}],
    "JobPatch": [{"cronExpression": "0 3 * * *", "maxRetries": 2}],
    "Submitted": [{"jobId": _JOB_ID, "status": "queued", "runId": _RUN_ID}],
    "JobStatusOut": [
        {
            "jobId": _JOB_ID,
            "runId": _RUN_ID,
            "status": "running",
            "startTime": "2030-01-31T09:30:00Z",
            "endTime": None,
            "progress": "50%",
            "executorId": "0198f2c4-d5e6-7a8b-9c0d-1e2f3a4b5c6d",
            "attempt": 1,
            "error": None,
        }
    ],
    "DestinationIn": [{"url": "https://example.com/hooks/rota", "kinds": ["alert.", "worker.lost", "run.buried"]}],
    "WorkflowIn": [
        {
            "name": "nightly",
            "schedule": {"cronExpression": "0 2 * * *", "timezone": "Europe/Berlin"},
            "nodes": {
                "extract": {"task": "etl.extract", "payload": {"day": {"$nominal": "date"}}},
                "load": {"task": "etl.load", "after": ["extract"], "payload": {"rows": {"$from": "extract"}}},
            },
        }
    ],
    "RunWorkflowIn": [{"inputs": {"day": "2030-01-31"}}],
    "ResumeIn": [{"generation": 1, "nodes": ["load"]}],
    "SignalIn": [{"payload": {"rows": 7}}],
    "DecisionIn": [{"comment": "looks right"}],
    "RunSelection": [{"task": "rota.echo", "status": "queued"}],
    "DeadLetterSelection": [{"task": "rota.echo", "most": 100}],
    "BackfillIn": [
        {"job": "nightly", "from": "2030-01-01T00:00:00Z", "to": "2030-01-31T00:00:00Z", "concurrency": 4},
        {"job": _JOB_ID, "from": "2030-01-01T00:00:00Z", "existing": "failed", "preview": True},
    ],
    "ReplayIn": [{"task": "reports.build", "status": "failed", "startTime": "2030-01-31T00:00:00Z", "most": 500}],
    "OperationIn": [{"kind": "redrive", "task": "reports.build", "ratePerSecond": 20}],
    "SchedulePreviewIn": [{"cronExpression": "30 9 * * MON-FRI", "timezone": "Europe/Berlin", "count": 3}],
    "CalendarIn": [{"days": ["2030-01-01", "2030-12-25"]}],
    "CalendarOut": [
        {
            "name": "holidays",
            "days": ["2030-01-01", "2030-12-25"],
            "changedBy": "alice",
            "schedules": 2,
            "createdAt": "2029-11-01T10:00:00Z",
            "changedTime": "2029-11-01T10:00:00Z",
        }
    ],
    "KeyIn": [{"name": "deploy", "role": "submitter", "expiresSeconds": 86400}],
    "RetentionIn": [{"history": {"success": 30, "failed": 90, "cancelled": 30, "skipped": 7}, "logs": 30}],
    "RestoreIn": [{"days": 7}],
    "LimitsIn": [{"jobsPerSecond": 100, "mostWaiting": 10000}],
    "PoolIn": [{"mostWaiting": 1000}],
    "AlertRuleIn": [
        {"kind": "oldest_queued", "threshold": 120, "pool": "mail", "severity": "critical", "forSeconds": 60},
        {"kind": "job_failures", "threshold": 2, "job": _JOB_ID, "destinations": ["pager"]},
    ],
    "SilenceIn": [{"rule": "no-worker", "key": "pool:gpu", "until": "2030-01-31T12:00:00Z", "reason": "maintenance"}],
    "SessionIn": [{"token": "rota_…"}],
    "Problem": [
        {
            "type": "urn:rota:bad-input",
            "title": "Bad input",
            "status": 400,
            "detail": "maxRetrys: unknown field; did you mean maxRetries?",
            "errors": [{"field": "maxRetrys", "message": "unknown field; did you mean maxRetries?"}],
        }
    ],
}
_NAMESPACE = {NAMESPACE_HEADER: "the namespace; if not given, the caller's only one, or default"}
_IN_PATHS: dict[str, Any] = {
    "jobId": JobId,
    "runId": RunId,
    "keyId": KeyId,
    "pool": PoolName,
    "subject": StoredName,
    "calendar": CalendarName,
    "destination": DestinationName,
    "rule": AlertRuleName,
}
_BEARER = {
    "type": "http",
    "scheme": "bearer",
    "description": "an API key, a JWT of your identity provider, or the admin token",
}
_ERRORS = {
    400: "Bad input: the wrong fields are named",
    401: "The token is missing or not valid",
    403: "The role or the key does not allow this",
    404: "There is no such object",
    409: "The object's state does not allow this",
    412: "The version in If-Match is not the current one",
    413: "The body is too large, or has more jobs than fit a limit",
    429: "Backlog limit or rate limit reached; Retry-After says when to try again",
    422: "The idempotency key was used with another body",
    503: "Overloaded, or the database does not answer; see Retry-After",
}


def document(operations: Sequence[Operation], version: str) -> dict[str, Any]:
    schemas, components = _schemas(operations)
    paths: dict[str, Any] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _describe(operation, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Rota",
            "summary": "A distributed job scheduler on PostgreSQL",
            "version": version,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "tags": [{"name": name, "description": description} for name, description in _TAGS.items()],
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"bearer": _BEARER}},
        "security": [{"bearer": []}],
    }


def _schemas(operations: Sequence[Operation]) -> tuple[_Schemas, dict[str, Any]]:
    """The schema of each type, and the components they refer to; made in one call, since each call is slow."""
    types = {kind for operation in operations for kind in (operation.answer, operation.body) if kind}
    parts = {part for kind in types for part in _alternatives(kind)}
    ordered = [*sorted(parts, key=str), Problem, str, *_IN_PATHS.values()]
    schemas, components = msgspec.json.schema_components(ordered, ref_template=_REF)
    found = dict(zip(ordered, schemas, strict=True))
    for name, component in components.items():
        _complete(name, component)
        _name_items(component)
    for kind in types - parts:
        found[kind] = {"anyOf": [found[part] for part in _alternatives(kind)]}
    return found, components


def _name_items(schema: Any) -> None:
    """Generators of clients want to know what is in each list, also if it is anything."""
    if isinstance(schema, dict):
        if schema.get("type") == "array":
            schema.setdefault("items", {})
        for name, inner in schema.items():
            if name not in ("examples", "default", "enum"):
                _name_items(inner)
    elif isinstance(schema, list):
        for inner in schema:
            _name_items(inner)


def _complete(name: str, component: dict[str, Any]) -> None:
    """Adds what msgspec doesn't know: what the fields mean, which are given, and examples."""
    kind = structs_by_name().get(name)
    if kind is None:
        return
    properties = component["properties"]
    for field in msgspec.structs.fields(kind):
        if "datetime" in str(field.type):
            properties[field.encode_name] = _time(properties[field.encode_name], comes_in=issubclass(kind, In))
    for described, meaning in meanings_of(kind).items():
        properties[described] = _meaning(properties[described], meaning)
    if issubclass(kind, JobIn):
        component["required"] = [needed for needed in component["required"] if needed not in FOLLOWING]
    for schema in properties.values():
        if schema.get("default", ...) is None:  # the same as not given, which generators of clients know how to say
            del schema["default"]
    given = [always for always in _ALWAYS_GIVEN if "default" in properties.get(always, ())]
    for always in given:
        properties[always].pop("default", None)
    component["required"] = list(dict.fromkeys([*component.get("required", ()), *given]))
    if name in _EXAMPLES:
        component["examples"] = _EXAMPLES[name]


def _time(schema: dict[str, Any], *, comes_in: bool) -> dict[str, Any]:
    """A schema of times with their format, which msgspec gives to some; what comes in may be a number as well."""
    if "anyOf" in schema:
        return schema | {"anyOf": [_time(one, comes_in=comes_in) for one in schema["anyOf"]]}
    if schema["type"] == "array":
        return schema | {"items": _time(schema["items"], comes_in=comes_in)}
    if schema["type"] != "string":
        return schema
    return schema | ({"type": ["string", "number"]} if comes_in else {}) | {"format": "date-time"}


def _meaning(schema: dict[str, Any], meaning: str) -> dict[str, Any]:
    return {**schema, "description": _LINK.sub(r"\1", " ".join(meaning.split()))}


def _alternatives(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if isinstance(kind, UnionType) else (kind,)


def _describe(operation: Operation, schemas: _Schemas) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.handler.__name__,
        "tags": [_tag_of(operation.path)],
        "summary": operation.summary,
        "description": _details(operation),
        "parameters": _parameters(operation, schemas),
        "responses": _responses(operation, schemas),
    }
    if operation.body:
        content = {"application/json": {"schema": schemas[operation.body]}}
        described["requestBody"] = {"required": True, "content": content}
    if operation.needs == PUBLIC:
        described["security"] = []
    return described


def _tag_of(path: str) -> str:
    parts = path.split("/")
    return _TAG_OF[parts[2]] if parts[1] == "v1" else "server"


def _details(operation: Operation) -> str:
    """Its summary, and what else a caller must know."""
    rest = "No token is needed." if operation.needs == PUBLIC else f"It needs the right `{right_of(operation)}`."
    return f"{operation.summary}. {rest}"


def right_of(operation: Operation) -> str:
    return str(getattr(operation.needs, "value", operation.needs))


def _parameters(operation: Operation, schemas: _Schemas) -> list[dict[str, Any]]:
    found = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": schemas[_IN_PATHS.get(name, str)],
            "description": _IN_PATHS_MEAN[name],
        }
        for name in _PARAMETER.findall(operation.path)
    ]
    headers = operation.headers if operation.needs == PUBLIC else {**operation.headers, **_NAMESPACE}
    for place, parameters in (("query", operation.query), ("header", headers)):
        for name, description in parameters.items():
            kind = _KINDS.get(name, {"type": "string"})
            found.append({"name": name, "in": place, "required": False, "schema": kind, "description": description})
    return found


def _responses(operation: Operation, schemas: _Schemas) -> dict[str, Any]:
    content = {operation.media_type: {"schema": schemas[operation.answer]}}
    if "follow" in operation.query:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    responses: dict[str, Any] = {str(operation.status): {"description": operation.summary, "content": content}}
    for status, description in operation.others.items():
        responses[str(status)] = {"description": description, "content": content}
    statuses = set(operation.errors) | {400}
    if operation.needs != PUBLIC:
        statuses |= {401, 403, 429, 503}
    if operation.body:
        statuses.add(413)
    problem = {"application/problem+json": {"schema": schemas[Problem]}}
    for status in sorted(statuses):
        responses[str(status)] = {"description": _ERRORS[status], "content": problem}
    return responses
