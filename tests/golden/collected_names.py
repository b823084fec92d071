"""What applications import and are given, by name and parameter."""

from __future__ import annotations

import ast
import importlib.metadata
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from internals import (
    EXAMPLES,
    RESERVED_TASKS,
    HttpCall,
    Returned,
    Sent,
    SyncJob,
    SyncRun,
    describe_run,
    http_headers,
)

import pytest_rota
import rota
import rota.client
import rota.testing
from tools.make_reference import GIVEN, INTERNAL

_OPERATORS = ("__aenter__", "__aiter__", "__await__", "__call__", "__enter__", "__getitem__", "__iter__", "__len__")
# Plain attributes that are promised; those of errors and records all are. What else there is, is for Rota itself.
_ATTRIBUTES = {
    "App": ("name", "state"),
    "Call": ("arguments", "headers", "task"),
    "Context": ("secrets",),
    "Job": ("id", "is_duplicate"),
    "Kit": ("database_url",),
    "Run": ("id", "is_duplicate", "job_id"),
    "Task": ("name",),
}
_PLAIN = (str, bytes, int, float, bool, type(None))
_UNPACKED = re.compile(r"'?Unpack\[(\w+)\]'?")


def public_names() -> str:
    """What applications import, with parameters and defaults. Annotations are left out: tests/typing has those."""
    lines: list[str] = []
    for module in (rota, rota.client, rota.testing):
        lines += [f"# {module.__name__}", ""]
        for name in sorted(module.__all__):
            thing = getattr(module, name)
            known = module is not rota and getattr(rota, name, None) is thing
            lines += [f"{name} is rota.{name}", ""] if known else [*_described(name, thing), ""]
    lines += ["# what tasks give that has no public name", ""]
    for words, thing in _handed_out().items():
        lines += [*_described(words, thing), ""]
    lines += ["# fields of what clients send and return", ""]
    lines += sorted({f"{kind.__name__}{_parameters(kind)}" for kind in _structs(Sent, Returned)})
    lines += ["", "# the pytest plugin", "", *_plugin(), "", "# tasks that are built in", ""]
    lines += [f"{name}{_parameters(function)}" for name, function in sorted(EXAMPLES.items())]
    lines += [f"reserved: {', '.join(sorted(RESERVED_TASKS))}", "", "# entry points", ""]
    points = importlib.metadata.distribution("rota").entry_points
    lines += sorted(f"{point.group}: {point.name}" for point in points)
    return "\n".join([*lines, "", "# what a run is told about itself", "", *_told_to_runs()])


def _described(name: str, thing: Any) -> Iterator[str]:
    if hasattr(thing, "__required_keys__"):
        yield f"dictionary {name}: {_keys(thing)}"
    elif not inspect.isclass(thing):
        yield f"{name}{_parameters(thing)}" if callable(thing) else name
    else:
        bases = ", ".join(base.__name__ for base in thing.__mro__[1:-1] if _is_known(base))
        # Applications don't make these themselves, so how they are made is not promised.
        made = "" if name in GIVEN or " " in name else _parameters(thing)
        yield f"class {name}{made}{f' is a {bases}' if bases else ''}"
        yield from (f"    {line}" for line in sorted(_members(name.partition(" ")[0], thing)))


def _members(name: str, kind: type) -> Iterator[str]:
    ours = [base for base in kind.__mro__ if base.__module__.startswith("rota")]
    plain = {attribute for base in ours for attribute in _assigned(base)}
    if not (issubclass(kind, Exception) or hasattr(kind, "__struct_fields__") or hasattr(kind, "_fields")):
        plain &= set(_ATTRIBUTES.get(name, ()))
    for attribute in plain | {found for base in ours for found, value in vars(base).items() if _is_called(value)}:
        member = inspect.getattr_static(kind, attribute, None)
        if attribute.startswith("_") and attribute not in _OPERATORS:
            continue
        if attribute not in plain and INTERNAL.match(inspect.getdoc(member) or ""):
            continue
        if attribute in plain or isinstance(member, property):
            yield f".{attribute}"
            continue
        function = getattr(member, "__func__", member)
        yield f"{'async ' if inspect.iscoroutinefunction(function) else ''}{attribute}{_parameters(function)}"


def _is_called(member: object) -> bool:
    return isinstance(member, (property, staticmethod, classmethod)) or inspect.isfunction(member)


def _assigned(kind: Any) -> Iterator[str]:
    """Attributes: fields of a record, and what a constructor sets."""
    yield from getattr(kind, "__struct_fields__", getattr(kind, "_fields", ()))
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(kind)))):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def _is_known(base: type) -> bool:
    return base.__name__ in (*rota.__all__, *rota.client.__all__) or (
        base.__module__ == "builtins" and base not in (Exception, BaseException)
    )


def _handed_out() -> dict[str, type]:
    @rota.App("shop").task(name="send")
    async def send() -> None: ...

    return {
        "Task of an async function": type(send),
        "Sender of task.after()": type(send.after(1)),
        "Recurrence of task.every()": type(send.every(1)),
        "Sender of task.sync": type(send.sync),
        "Recurrence of task.sync.every()": type(send.sync.every(1)),
        "Run of task.sync.submit()": SyncRun,
        "Job of task.sync.every().submit()": SyncJob,
    }


def _structs(*kinds: type) -> Iterator[type]:
    for kind in kinds:
        for child in kind.__subclasses__():
            if child.__module__.startswith("rota.contract."):
                yield child
                yield from _structs(child)


class _Default:
    """A default as it is shown: in words where these are the same everywhere."""

    def __init__(self, value: object) -> None:
        plain = isinstance(value, _PLAIN) or (
            isinstance(value, tuple) and all(isinstance(one, _PLAIN) for one in value)
        )
        self._words = repr(value) if plain else "…"

    def __repr__(self) -> str:
        return self._words


def _parameters(thing: Callable[..., Any]) -> str:
    """Names, kinds and defaults; and the names behind `**options: Unpack[Options]`."""
    own = getattr(thing, "__init__", None)
    if isinstance(thing, type) and issubclass(thing, BaseException) and not inspect.isfunction(own):
        return "(*words)"  # what Python says about these differs between its versions
    signature, kept, options = inspect.signature(thing), [], ""
    for one in signature.parameters.values():
        if match := _UNPACKED.fullmatch(str(one.annotation)):
            function: Any = inspect.unwrap(thing)
            options = f" options: {_keys(function.__globals__[match[1]])}"
        if one.name not in ("self", "cls"):
            default = one.default if one.default is one.empty else _Default(one.default)
            kept.append(one.replace(annotation=one.empty, default=default))
    return f"{signature.replace(parameters=kept, return_annotation=signature.empty)}{options}"


def _keys(kind: Any) -> str:
    return " ".join(sorted(kind.__required_keys__ | kind.__optional_keys__))


def _plugin() -> list[str]:
    options: list[str] = []
    parser: Any = SimpleNamespace(addini=lambda name, *_: options.append(f"ini option {name}"))
    pytest_rota.pytest_addoption(parser)
    return [*options, *(f"fixture {name}" for name in sorted(vars(pytest_rota)) if name.startswith("rota_"))]


def _told_to_runs() -> list[str]:
    context: Any = SimpleNamespace(
        run_id="R", job_id="J", attempt=1, idempotency_key="K", nominal_time=SimpleNamespace(isoformat=lambda: "N")
    )
    headers = http_headers(HttpCall(url="http://a"), context) | {"User-Agent": "rota/…"}
    return [
        *(f"environment variable of commands: {name}={value}" for name, value in sorted(describe_run(context).items())),
        *(f"header of HTTP jobs: {name}: {value}" for name, value in sorted(headers.items())),
    ]
