"""Makes the pages of the reference that say what the code says: commands, settings, the REST API, the Python SDK.

`python tools/make_reference.py` writes them; with `--check` it writes nothing and fails when one is not up to date.
What the code can't say (how things belong together, examples) is in tools/reference, and comes in from there.
"""

from __future__ import annotations

import ast
import inspect
import math
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import typer

import rota
import rota.testing
from rota import settings
from rota.access.authorization import PUBLIC
from rota.api import openapi
from rota.api.operations import Operation
from rota.api.routes import OPERATIONS
from rota.cli.main import app
from rota.contract import aliases
from rota.contract.meanings import meanings_of, structs_by_name, texts_below
from rota.metrics.catalogue import Metrics

ROOT = Path(__file__).resolve().parents[1]
NOTES = ROOT / "tools" / "reference"
PAGES = ROOT / "docs" / "reference"
MADE = "<!-- needs: server -->\n\n"
MARKER = re.compile(r"^<!-- command: ([a-z -]+) -->$", re.MULTILINE)
SECTIONS = {
    "For every command": ("home", "host", "port", "tls_certificate", "tls_key"),
    "For the command line and clients": ("server_url", "given_token", "namespace", "ca_file"),
    "Metrics and traces": tuple(
        each.name for each in settings.VARIABLES.values() if each.name.startswith(("metrics", "statsd", "tracing"))
    ),
    "Tokens of an identity provider": tuple(each.name for each in settings.VARIABLES.values() if "jwt" in each.name),
}
# Who shows which metrics; the rest is for every process.
METRICS = {
    "Workers": (
        "rota_attempts_started_total",
        "rota_attempts_ended_total",
        "rota_retries_total",
        "rota_runs_buried_total",
        "rota_start_lag_seconds",
        "rota_queue_seconds",
        "rota_run_duration_seconds",
        "rota_fenced_reports_total",
        "rota_worker_slots",
        "rota_worker_slots_used",
    ),
    "Who submits": ("rota_runs_submitted_total",),
    "Schedulers": ("rota_fire_total", "rota_fire_missed_total", "rota_scheduler_shards"),
    "The installation, from API servers": (
        "rota_runs",
        "rota_oldest_queued_seconds",
        "rota_pool_slots",
        "rota_pool_slots_used",
        "rota_workers",
        "rota_dead_letters",
        "rota_blocked_runs",
        "rota_breakers",
        "rota_schedules_overdue",
        "rota_database_up",
    ),
    "Every process": (),
}
INTERNAL = re.compile(r"For (senders|tests|workers|runners|the worker|the SDK)\b.*:|The same, without awaiting")
GIVEN = (
    "Call",
    "Context",
    "Databases",
    "Job",
    "Kit",
    "Node",
    "Run",
    "SyncKit",
    "Task",
    "Workflow",
    "WorkflowRun",
)  # nobody makes one by hand
EVERYWHERE = ("Rota-Namespace",)
BAD = 400
REST = "For the parts that do the work"


# Commands


def commands_page() -> str:
    """Every command with its arguments and options; what is said besides is in tools/reference/cli.md."""
    text = (NOTES / "cli.md").read_text(encoding="utf-8")
    known = dict(_commands(typer.main.get_command(app), ()))
    placed = MARKER.findall(text)
    made = MARKER.sub(lambda match: _command(match[1], known[match[1]]), text)
    missing = [name for name, command in known.items() if name not in placed and not hasattr(command, "commands")]
    more = "\n".join(_command(name, known[name]) for name in missing)
    return MADE + made + (f"\n## More\n\n{more}" if more else "")


def _commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for name, found in getattr(command, "commands", {}).items():
        yield " ".join((*path, name)), found
        yield from _commands(found, (*path, name))


def _command(name: str, command: Any) -> str:
    shown = [parameter for parameter in command.params if parameter.name != "help" and not parameter.hidden]
    arguments = [parameter for parameter in shown if parameter.param_type_name == "argument"]
    options = [parameter for parameter in shown if parameter.param_type_name == "option"]
    usage = " ".join([f"rota {name}", *(_placeholder(parameter) for parameter in arguments)])
    lines = [f"### `{usage}`", "", *_paragraphs(command.help), ""]
    for title, parameters in (("argument", arguments), ("option", options)):
        rows = [f"| {_names(one)} | {_meaning(one)} |" for one in parameters if title == "option" or one.help]
        lines += [f"| {title} | meaning |", "|---|---|", *rows, ""] if rows else []
    return "\n".join(lines)


def _placeholder(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    several = "…" if argument.nargs == -1 else ""
    return f"{name}{several}" if argument.required or name.startswith("[") else f"[{name}{several}]"


def _paragraphs(text: str | None) -> list[str]:
    return inspect.cleandoc(text or "").splitlines()


def _names(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{_placeholder(parameter)}`"
    value = f" {parameter.metavar}" if parameter.metavar else ""
    return ", ".join(f"`{name}{value if name.startswith('--') else ''}`" for name in _words(parameter))


def _words(parameter: Any) -> tuple[str, ...]:
    return (*parameter.opts, *parameter.secondary_opts)


def _meaning(parameter: Any) -> str:
    said = _cell(parameter.help or "")
    default = parameter.default() if callable(parameter.default) else parameter.default
    if parameter.name == "workers" and default == _cores():
        return f"{said} Default: one per core."
    if isinstance(default, bool) or default in (None, (), []):
        return said
    return f"{said} Default: `{_cell(str(default))}`."


def _cores() -> int:
    return os.cpu_count() or 1


def _cell(text: str) -> str:
    """Text that fits into one cell of a table."""
    return re.sub(r"\s+", " ", text).strip().replace("|", "\\|")


# Settings


def settings_page() -> str:
    """Every variable with its default, bounds and meaning, which stand beside the fields of Settings."""
    meanings = attribute_docs(settings.Settings)
    named = {each.name: variable for variable, each in settings.VARIABLES.items()}
    elsewhere = {name for names in SECTIONS.values() for name in names}
    parts = []
    for title, names in (*list(SECTIONS.items())[:2], (REST, ()), *list(SECTIONS.items())[2:]):
        chosen = names or tuple(name for name in named if name not in elsewhere)
        rows = [_setting(named[name], name, meanings[name]) for name in chosen]
        parts.append("\n".join([f"## {title}", "", "| variable | default | meaning |", "|---|---|---|", *rows]))
    text = (NOTES / "settings.md").read_text(encoding="utf-8")
    return text.replace("<!-- tables -->", "\n\n".join(parts))


def _setting(variable: str, name: str, text: str) -> str:
    meaning, _, default = _cell(text).partition(". Default: ")
    return f"| `{variable}` | {default or _default(name)} | {meaning}{_bounds(variable)} |"


def _default(name: str) -> str:
    value = getattr(settings.Settings(home=Path("~/.rota")), name)
    if value in (None, ()):
        return ""
    if isinstance(value, bool):
        return "`on`" if value else "`off`"
    return f"`{','.join(value) if isinstance(value, tuple) else f'{value:g}' if isinstance(value, float) else value}`"


def _bounds(variable: str) -> str:
    bounds = settings.bounds_of(variable)
    if variable.endswith("LEASE_SECONDS"):
        return f"; at least {settings.SHORTEST_LEASE_SECONDS:g}"
    if bounds is None or bounds is settings.SECONDS:
        return ""
    if bounds.or_zero:
        return f"; 0, or {bounds.least:g} to {bounds.most:,.0f}"
    if bounds.most != math.inf:
        return f"; {bounds.least} to {bounds.most}"
    return f"; at least {bounds.least}" if bounds.least else ""


def attribute_docs(kind: type) -> dict[str, str]:
    """What stands as a text below the fields of a class, by their names; those of its bases as well."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("rota"):
            (made,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
            found |= dict(texts_below(made)) if isinstance(made, ast.ClassDef) else {}
    return found


# The REST API


def api_page() -> str:
    """Every operation, and the objects that go in and come out."""
    described = _document()
    text = (NOTES / "api.md").read_text(encoding="utf-8")
    errors = "\n".join(f"| {status} | {meaning} |" for status, meaning in sorted(openapi._ERRORS.items()))  # noqa: SLF001
    text = text.replace("<!-- errors -->", f"| status | meaning |\n|---|---|\n{errors}")
    text = text.replace("<!-- words -->", _words_of_others())
    operations = "\n".join(_operation(one, described) for one in OPERATIONS)
    schemas = described["components"]["schemas"]
    objects = "\n".join(_object(name, schemas[name]) for name in sorted(schemas) if "properties" in schemas[name])
    return text.replace("<!-- operations -->", operations).replace("<!-- objects -->", objects)


def _words_of_others() -> str:
    words = [(word, field, "a job") for word, field in aliases.WORDS.items()]
    words += [(word, field, "a list, or what selects runs") for word, field in aliases.QUERY_WORDS.items()]
    rows = [f"| `{word}` | `{field}` | {where} |" for word, field, where in words]
    return "\n".join(["| word | means | in |", "|---|---|---|", *rows])


@cache
def _document() -> dict[str, Any]:
    return openapi.document(OPERATIONS, rota.__version__)


def _operation(operation: Operation, described: dict[str, Any]) -> str:
    found = described["paths"][operation.path][operation.method.lower()]
    needed = "Public." if operation.needs == PUBLIC else f"Right: `{openapi.right_of(operation)}`."
    lines = [f"### {operation.method} `{operation.path}`", "", f"{operation.summary}. {needed}", ""]
    lines += _parameters([one for one in found["parameters"] if one["name"] not in EVERYWHERE])
    lines += _body(found.get("requestBody"))
    succeeded = [status for status in found["responses"] if int(status) < BAD]
    lines += [f"- {status}: {_answer(found['responses'][status])}{_why(operation, status)}" for status in succeeded]
    failed = [status for status in found["responses"] if status not in succeeded]
    return "\n".join([*lines, f"- Errors: {', '.join(failed)}. Operation `{found['operationId']}`.", ""])


def _body(request: dict[str, Any] | None) -> list[str]:
    if request is None:
        return []
    kinds = " or ".join(_type(content["schema"]) for content in request["content"].values())
    return [f"- Body: {kinds}"]


def _why(operation: Operation, status: str) -> str:
    meaning = operation.others.get(int(status))
    return f": {_cell(meaning)}" if meaning else ""


def _parameters(parameters: list[dict[str, Any]]) -> list[str]:
    if not parameters:
        return []
    rows = [
        f"| `{one['name']}` | {one['in']} | {_type(one['schema'])} | {_cell(one.get('description', ''))} |"
        for one in parameters
    ]
    return ["| parameter | in | type | meaning |", "|---|---|---|---|", *rows, ""]


def _answer(answer: dict[str, Any]) -> str:
    shown = (
        _type(content["schema"]) if "json" in media else f"`{media}`" for media, content in answer["content"].items()
    )
    return " or ".join(shown)


def _object(name: str, schema: dict[str, Any]) -> str:
    meanings = meanings_of(structs_by_name()[name])
    required = schema.get("required", [])
    lines = [f"### {name}", "", _cell(schema.get("description", "")), "", "| field | type | default | meaning |"]
    lines += ["|---|---|---|---|"]
    for field, shape in schema["properties"].items():
        default = "required" if field in required else _default_of(shape)
        lines.append(f"| `{field}` | {_type(shape)} | {default} | {_cell(meanings.get(field, ''))} |")
    return "\n".join([*lines, ""])


def _default_of(shape: dict[str, Any]) -> str:
    default = shape.get("default")
    return "" if default in (None, [], {}) else f"`{default}`"


def _type(shape: dict[str, Any]) -> str:
    """A type of JSON Schema in few words."""
    if "$ref" in shape:
        name = shape["$ref"].rpartition("/")[2]
        found = _document()["components"]["schemas"][name]
        return f"[{name}](#{name.lower()})" if "properties" in found else _type(found)
    if choices := _choices(shape):
        return " or ".join(_type(one) for one in choices if one != {"type": "null"})
    if "enum" in shape:
        return ", ".join(f"`{value}`" for value in shape["enum"] if value is not None)
    if shape.get("type") == "array":
        most = f", at most {shape['maxItems']:,}" if "maxItems" in shape else ""
        return f"list of {_type(shape.get('items', {}))}{most}"
    if isinstance(shape.get("additionalProperties"), dict) and shape["additionalProperties"]:
        return f"object of {_type(shape['additionalProperties'])}"
    return f"{shape.get('format') or shape.get('type') or 'any JSON'}{_sizes(shape)}"


def _choices(shape: dict[str, Any]) -> list[dict[str, Any]]:
    """The types of which it may be any."""
    if isinstance(kinds := shape.get("type"), list):
        return [{"type": kind} | ({"format": shape["format"]} if kind == "string" else {}) for kind in kinds]
    return list(shape.get("anyOf", []))


def _sizes(shape: dict[str, Any]) -> str:
    if shape.get("type") == "string":
        span = _span(shape, "minLength", "maxLength")
        return f" of{span} characters" if span else ""
    if "exclusiveMinimum" in shape:
        most = f", at most {shape['maximum']:,.15g}" if "maximum" in shape else ""
        return f" above {shape['exclusiveMinimum']:g}{most}"
    return _span(shape, "minimum", "maximum")


def _span(shape: dict[str, Any], least: str, most: str) -> str:
    low, high = shape.get(least), shape.get(most)
    if high is None:
        return f" from {low:g}" if low else ""
    return f" {low or 0:g} to {high:,.15g}"


# The Python SDK


def sdk_page() -> str:
    """The public names of rota and rota.testing."""
    text = (NOTES / "sdk.md").read_text(encoding="utf-8")
    for module in (rota, rota.testing):
        names = [name for name in module.__all__ if not name.startswith("_")]
        made = "\n".join(_named(f"{module.__name__}.{name}", getattr(module, name)) for name in names)
        text = text.replace(f"<!-- {module.__name__} -->", made)
    return text


def _named(name: str, thing: Any) -> str:
    lines = [f"### {name}", "", *_signature(name, thing), *_paragraphs(thing.__doc__), ""]
    if thing is rota.AsyncClient:
        lines.append("Its methods are those of `rota.Client`, to be awaited; what gives several is an async iterator.")
    elif inspect.isclass(thing) and not issubclass(thing, Exception):
        lines += list(_members(thing))
    return "\n".join([*lines, ""])


def _signature(name: str, thing: Any) -> list[str]:
    """How it is called, one parameter to a line where they are many."""
    if not callable(thing):
        return []
    try:
        shown = inspect.signature(thing)
    except ValueError:
        return []
    if name.rpartition(".")[2] in GIVEN or (inspect.isclass(thing) and issubclass(thing, Exception)):
        return []
    text = _tidy(f"{name}{shown}")
    if len(text) > 100:  # noqa: PLR2004 - what fits on a page
        parameters = [f"    {_tidy(str(one))}," for one in shown.parameters.values()]
        ending = (
            ")" if shown.return_annotation is inspect.Signature.empty else f") -> {_tidy(str(shown.return_annotation))}"
        )
        text = "\n".join([f"{name}(", *parameters, ending])
    return ["```text", text, "```", ""]


def _tidy(text: str) -> str:
    text = re.sub(r"<object object at 0x[0-9a-f]+>|<factory>", "…", text)
    text = re.sub(r"<(?:class|function) '?([\w.]+)[^>]*>", r"\1", text)
    return re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", text).replace("'", "").replace("~", "")


def _members(kind: type) -> Iterator[str]:
    docs = attribute_docs(kind)
    for name, member in inspect.getmembers(kind):
        if name.startswith("_") or name in getattr(kind, "__struct_fields__", ()):
            continue
        if INTERNAL.match(inspect.getdoc(member) or ""):
            continue
        if isinstance(member, property):
            yield f"- `{name}`: {_cell(member.__doc__ or '')}"
        elif callable(member) and getattr(member, "__doc__", None) and not inspect.isclass(member):
            yield f"- `{_call(name, member)}`: {_cell(member.__doc__)}"
    for name, text in docs.items():
        yield f"- `{name}`: {_cell(text)}"
    yield ""


def _call(name: str, member: Callable[..., Any]) -> str:
    parameters = [one for one in inspect.signature(member).parameters.values() if one.name not in ("self", "cls")]
    shown = ", ".join(
        _tidy(str(one).split(":")[0]) + ("=…" if one.default is not one.empty else "") for one in parameters
    )
    return f"{'await ' if inspect.iscoroutinefunction(member) else ''}{name}({shown})"


# Metrics


def metrics_page() -> str:
    """Every metric with its labels, by who shows it; the meanings stand beside the instruments."""
    parts = []
    instruments = {one.name: one for one in Metrics(task_label=True).registry.read()}
    for title, names in METRICS.items():
        chosen = names or tuple(name for name in instruments if not any(name in some for some in METRICS.values()))
        rows = [_metric(instruments[name]) for name in chosen]
        parts.append("\n".join([f"## {title}", "", "| metric | kind | labels | meaning |", "|---|---|---|---|", *rows]))
    text = (NOTES / "metrics.md").read_text(encoding="utf-8")
    return text.replace("<!-- tables -->", "\n\n".join(parts))


def _metric(instrument: Any) -> str:
    labels = ", ".join(f"`{label}`" for label in instrument.labels)
    return f"| `{instrument.name}` | {instrument.kind} | {labels} | {_cell(instrument.words).rstrip('.')} |"


MAKERS: dict[str, Callable[[], str]] = {
    "cli.md": commands_page,
    "settings.md": settings_page,
    "metrics.md": metrics_page,
    "api.md": api_page,
    "sdk.md": sdk_page,
}


def main() -> int:
    """Writes what is not up to date, or with --check fails for it."""
    outdated = []
    for name, make in MAKERS.items():
        text = re.sub(r"\n{3,}", "\n\n", make()).rstrip() + "\n"
        path = PAGES / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            outdated.append(name)
            if "--check" not in sys.argv:
                path.write_text(text, encoding="utf-8")
    if outdated and "--check" in sys.argv:
        print(f"not up to date: {', '.join(outdated)}; run `make reference`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
