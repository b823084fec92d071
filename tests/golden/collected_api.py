"""What the REST API shows: its OpenAPI document, its problems, what it writes into the audit trail, its events."""

from __future__ import annotations

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import httpx
from internals import (
    AUDIT_BEGIN,
    HIDDEN_IN_AUDIT,
    OPERATIONS,
    PROBLEM_MAKERS,
    STREAM_EVENT,
    Authenticator,
    HttpProblem,
    Problem,
    RotaError,
    audit_difference,
    build_app,
    error_behind,
    problem_of,
    schedule_event_kinds,
)
from literals import calls, literal, statuses_with_titles, texts
from starlette.exceptions import HTTPException
from starlette.requests import Request

import rota

_MANY = 20
_INDENTED = re.compile(r"\\n +")  # from Python 3.13 on, docstrings are not indented


def openapi() -> str:
    """The document as a client gets it; the version is not part of the promise."""

    async def get() -> Any:
        transport = httpx.ASGITransport(_app())
        async with httpx.AsyncClient(transport=transport, base_url="http://rota") as client:
            return (await client.get("/openapi.json")).json()

    text = json.dumps(asyncio.run(get()), indent=2, sort_keys=True, ensure_ascii=False)
    return _INDENTED.sub(r"\\n", text)


def problem_types() -> str:
    """Every problem type with its statuses, and what the SDK raises for it."""
    problems = [problem_of(HttpProblem(status, title, "")) for status, title in statuses_with_titles()]
    problems += [problem_of(error) for error in map(_bare, _errors_of_rota()) if not isinstance(error, HttpProblem)]
    lines = [f"{kind:<36} {statuses:<10} {_raised(kind)}" for kind, statuses in _by_type(problems)]
    by_framework = asyncio.run(_problems_of_starlette())
    lines += ["", "A path or method that does not exist, and whatever else Starlette refuses by itself:"]
    lines += [f"{kind:<36} {statuses}" for kind, statuses in _by_type(by_framework)]
    lines += ["", "Errors that applications know by name, when the API meets them:"]
    for name in rota.__all__:
        kind = getattr(rota, name)
        if isinstance(kind, type) and issubclass(kind, RotaError):
            problem = problem_of(_bare(kind))
            lines.append(f"{name:<36} {problem.type} {problem.status}")
    made = [call for call in calls(*PROBLEM_MAKERS) if len(call.args) > 2 and literal(call.args[1]) is None]
    lines += ["", f"Places that make a problem whose title is no literal (each is covered above): {len(made)}"]
    return "\n".join(lines)


def audit_actions() -> str:
    """Operations by their ids, which are also their names in the audit trail."""
    rows = []
    for one in OPERATIONS:
        needs, recorded = getattr(one.needs, "value", one.needs), "recorded" if one.recorded else "-"
        rows.append(f"{one.handler.__name__:<24} {one.method:<7} {one.path:<44} {needs:<11} {recorded}")
    named = {literal(call.args[0]) for call in calls(AUDIT_BEGIN) if call.args}
    also = sorted(name for name in named if isinstance(name, str))
    return "\n".join(
        [
            f"{'operationId and action':<24} {'method':<7} {'path':<44} {'right':<11} in the audit trail",
            *sorted(rows),
            "",
            f"Recorded by the handler itself: {', '.join(also)}",
            f"Fields whose content is left out: {', '.join(sorted(HIDDEN_IN_AUDIT))}",
            f"A change: {json.dumps(_change(), ensure_ascii=False)}",
        ]
    )


def events() -> str:
    """Kinds of events that the API lists, and names of the events in its streams."""
    kinds = texts(r"(?:alert|breaker|gate|job|pool|run|schedule|worker)\.[a-z_]+")
    kinds |= set(asyncio.run(schedule_event_kinds()))
    streamed = {str(literal(call.args[0])) for call in calls(STREAM_EVENT) if call.args}
    return "\n".join([f"kinds: {', '.join(sorted(kinds))}", f"in streams: {', '.join(sorted(streamed))}"])


def _app() -> Any:
    nothing: Any = None  # nothing behind the routes is used
    return build_app(nothing, Authenticator("token"), "0")


def _errors_of_rota(kind: type[RotaError] = RotaError) -> Iterable[type[RotaError]]:
    """Our errors, without those that tests define."""
    yield kind
    for child in kind.__subclasses__():
        if child.__module__.startswith("rota."):
            yield from _errors_of_rota(child)


def _bare(kind: type[RotaError]) -> Any:
    """An error as if it had been raised, whatever its constructor wants."""
    error: Any = kind.__new__(kind)
    error.fields = []
    return error


async def _problems_of_starlette() -> list[Problem]:
    handler: Any = _app().exception_handlers[HTTPException]
    found = []
    for status in range(400, 600):
        request = Request({"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": b""})
        answer = await handler(request, HTTPException(status, "no"))
        body = json.loads(answer.body)
        found.append(Problem(type=body["type"], title=body["title"], status=answer.status_code, detail=""))
    return found


def _by_type(problems: Iterable[Problem]) -> list[tuple[str, str]]:
    found: dict[str, set[int]] = defaultdict(set)
    for problem in problems:
        found[problem.type].add(problem.status)
    return [
        (kind, "any other" if len(statuses) > _MANY else ", ".join(map(str, sorted(statuses))))
        for kind, statuses in sorted(found.items())
    ]


def _raised(kind: str) -> str:
    return type(error_behind(Problem(type=kind, title="", status=400, detail=""))).__name__


def _change() -> Any:
    before, after = (rota.Retry(max_seconds=seconds) for seconds in (10.0, 20.0))
    return audit_difference(before, after)
