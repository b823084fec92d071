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
from rota.contract.fields import JobId, PoolName, RunId, StoredName
from rota.contract.problems import Problem

_Schemas = dict[Any, dict[str, Any]]
_REF = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"\{(\w+)\}")
_KINDS: dict[str, dict[str, Any]] = {
    "limit": {"type": "integer", "minimum": 1, "maximum": 500},
    "waitSeconds": {"type": "number", "minimum": 0, "maximum": 60},
    "follow": {"type": "boolean"},
    "url": {"type": "boolean"},
}
_NAMESPACE = {NAMESPACE_HEADER: "the namespace; if not given, the caller's only one, or default"}
_IN_PATHS: dict[str, Any] = {"jobId": JobId, "runId": RunId, "keyId": KeyId, "pool": PoolName, "subject": StoredName}
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
        "info": {"title": "Rota", "version": version, "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"}},
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}},
        "security": [{"bearer": []}],
    }


def _schemas(operations: Sequence[Operation]) -> tuple[_Schemas, dict[str, Any]]:
    """The schema of each type, and the components they refer to; made in one call, since each call is slow."""
    types = {kind for operation in operations for kind in (operation.answer, operation.body) if kind}
    parts = {part for kind in types for part in _alternatives(kind)}
    ordered = [*sorted(parts, key=str), Problem, str, *_IN_PATHS.values()]
    schemas, components = msgspec.json.schema_components(ordered, ref_template=_REF)
    found = dict(zip(ordered, schemas, strict=True))
    for kind in types - parts:
        found[kind] = {"anyOf": [found[part] for part in _alternatives(kind)]}
    return found, components


def _alternatives(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if isinstance(kind, UnionType) else (kind,)


def _describe(operation: Operation, schemas: _Schemas) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.handler.__name__,
        "summary": operation.summary,
        "parameters": _parameters(operation, schemas),
        "responses": _responses(operation, schemas),
    }
    if operation.body:
        content = {"application/json": {"schema": schemas[operation.body]}}
        described["requestBody"] = {"required": True, "content": content}
    if operation.needs == PUBLIC:
        described["security"] = []
    return described


def _parameters(operation: Operation, schemas: _Schemas) -> list[dict[str, Any]]:
    found = [
        {"name": name, "in": "path", "required": True, "schema": schemas[_IN_PATHS.get(name, str)]}
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
