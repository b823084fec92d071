"""What the fleet can run: tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import typer

from rota.cli.run_figures import show_run_figures
from rota.cli.terminal.completion import complete_task
from rota.cli.terminal.output import CursorOption, JsonFlag, LimitOption, print_json, server, show_page
from rota.cli.terminal.tables import Column, print_fields, print_line, print_table, text
from rota.domain.job import RESERVED_TASKS
from rota.errors import BadInputError

_MOST_CHOICES = 5


def tasks(
    name: str | None = typer.Argument(None, metavar="NAME", autocompletion=complete_task, help="Show this task."),
    stats: bool = typer.Option(False, "--stats", help="Its latest 100 runs in numbers."),
    cursor: str | None = CursorOption,
    limit: int = LimitOption,
    as_json: bool = JsonFlag,
) -> None:
    """List tasks that workers know, or show one.

    With their parameters, and the options that jobs of the task get unless they say otherwise.
    """
    with server(tasks) as client:
        if name is not None:
            if cursor is not None:
                raise BadInputError("is for the list; leave out NAME", field="--cursor")
            path = f"/v1/tasks/{quote(name, safe='')}"
            if stats:
                show_run_figures(client.call("GET", f"{path}/stats"), as_json=as_json)
            else:
                _show_task(client.call("GET", path), as_json=as_json)
            return
        if stats:
            raise BadInputError("is for one task; give its NAME", field="--stats")
        page = client.call("GET", "/v1/tasks", query={"cursor": cursor, "limit": limit})
        columns = (
            text("TASK", "task", least=15),
            Column(heading="PARAMETERS", show=_parameters_of, least=12, drop=1),
            Column(heading="DEFAULTS", show=_defaults_of, least=12, drop=2),
            Column(heading="APP", show=_app_of, drop=3),
            text("WORKERS", "workers"),
        )
        show_page(page, columns, none="No tasks: no worker is running.", as_json=as_json)


def _show_task(task: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(task)
        return
    shown = {
        "task": task["task"],
        "description": task.get("description"),
        "workers": task["workers"],
        "pools": ", ".join(task["pools"]),
        "versions": "; ".join(map(_version_words, task["versions"])),
        "defaults": _defaults_of(task),
        "computed": _computed_words(task.get("computed", ())),
    }
    print_fields({name: value for name, value in shown.items() if value not in (None, "")})
    print_line("")
    if "parameters" not in task:
        print_line("Its workers have not described its parameters.")
        return
    columns = (
        text("PARAMETER", "name"),
        text("TYPE", "type", least=10),
        text("REQUIRED", "required"),
        text("DEFAULT", "default"),
    )
    print_table(_parameter_rows(task["parameters"]), columns, none="It takes no parameters.")


def _parameter_rows(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    required = schema.get("required", ())
    rows = [
        {
            "name": name,
            "type": _type_words(one),
            "required": "yes" if name in required else "no",
            "default": "" if "default" not in one else str(one["default"]),
        }
        for name, one in _properties(schema)
    ]
    others = schema.get("additionalProperties")
    if others and rows:
        rows.append({"name": "(others)", "type": _type_words(others), "required": "no", "default": ""})
    return rows


def _type_words(schema: Any) -> str:  # noqa: PLR0911 - a line for each
    """A schema in a few words, such as `integer ≥ 1` or `string (date-time) or null`."""
    if not isinstance(schema, Mapping):
        return "any"
    if choices := schema.get("anyOf"):
        return " or ".join(dict.fromkeys(map(_type_words, choices)))
    if values := schema.get("enum"):
        more = ", …" if len(values) > _MOST_CHOICES else ""
        return f"one of {', '.join(map(str, values[:_MOST_CHOICES]))}{more}"
    kind = str(schema.get("type") or schema.get("title") or "any")
    if kind == "array" and schema.get("items"):
        return f"array of {_type_words(schema['items'])}"
    if kind == "object" and "title" in schema:
        return f"object ({schema['title']})"
    if "format" in schema:
        return f"{kind} ({schema['format']})"
    bounds = [f" {sign} {schema[word]}" for word, sign in (("minimum", "≥"), ("maximum", "≤")) if word in schema]
    return kind + "".join(bounds)


def _parameters_of(task: Mapping[str, Any]) -> str:
    if "parameters" not in task:
        return "?"
    schema = task["parameters"]
    required = schema.get("required", ())
    return ", ".join(name if name in required else f"[{name}]" for name, _ in _properties(schema))


def _properties(schema: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Those that are required first, as the function has them. The order of the others is lost on the way here."""
    properties = dict(schema.get("properties", {}))
    required = [(name, properties.pop(name)) for name in schema.get("required", ()) if name in properties]
    return [*required, *properties.items()]


def _defaults_of(task: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_value_words(value)}" for name, value in task.get("defaults", {}).items())


def _value_words(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name} {_value_words(part)}" for name, part in value.items()) + "}"
    if isinstance(value, float):
        return f"{value:g}"
    return "+".join(map(str, value)) if isinstance(value, list) else str(value)


def _app_of(task: Mapping[str, Any]) -> str:
    if not task["versions"] or task["task"] in RESERVED_TASKS or task["task"].startswith("rota."):
        return "built in"
    first = task["versions"][0]
    more = f" (+{len(task['versions']) - 1})" if len(task["versions"]) > 1 else ""
    return f"{first['app']} {first['version']}{more}"


def _version_words(version: Mapping[str, Any]) -> str:
    workers = "1 worker" if version["workers"] == 1 else f"{version['workers']} workers"
    return f"{version['app']} {version['version']} ({'in force, ' if version.get('inForce') else ''}{workers})"


def _computed_words(names: Sequence[str]) -> str:
    return f"{', '.join(names)} (by the application; give them yourself in other jobs)" if names else ""
