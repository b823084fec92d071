"""Commands about workflows: workflow apply, run, show, resume, …"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import typer

from rota.cli.terminal.completion import complete_workflow, complete_workflow_or_run, complete_workflow_run
from rota.cli.terminal.output import (
    FAILED,
    CursorOption,
    JsonFlag,
    LimitOption,
    print_json,
    read_object_from,
    refuse_empty,
    server,
    show_page,
)
from rota.cli.terminal.tables import Column, print_fields, print_line, print_table, status, text, time
from rota.cli.terminal.times import parse_duration, show_length
from rota.client import AnswerError, Client
from rota.client.bodies import new_key
from rota.errors import BadInputError

workflow = typer.Typer(
    name="workflow",
    help="Workflows: apply files, start and follow runs.",
    rich_markup_mode=None,
    no_args_is_help=True,
)
_NOT_FOUND = 404
_RUN_PREFIX = "wfr_"
_Name = typer.Argument(metavar="WORKFLOW", autocompletion=complete_workflow, help="The workflow's name or id.")
_Run = typer.Argument(
    metavar="RUN", autocompletion=complete_workflow_run, help="The run, wfr_…, or a workflow, for its latest run."
)
_Node = typer.Argument(metavar="NODE", help="The node's key.")
_Comment = typer.Option(None, "--comment", help="Why; it is kept in the audit.")


@workflow.command()
def apply(
    file: str = typer.Argument(metavar="FILE", help="YAML, JSON (.json) or TOML (.toml); - is standard input, YAML."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Show what would change, and change nothing."),
    as_json: bool = JsonFlag,
) -> None:
    """Create a workflow from a file, or change it to what the file says.

    Runs that are open keep the definition they began with. What is the same makes no new version.
    """
    with server(apply) as client:
        from rota.cli.workflow_plan import apply_plan, plan_file  # noqa: PLC0415 - other commands read no files
        from rota.cli.workflow_view import DIFFERENCE  # noqa: PLC0415 - as above

        planned = plan_file(client, file)
        answer = None if dry_run else apply_plan(client, planned)
        done = planned.words if dry_run else planned.done
        if as_json:
            print_json({"name": planned.name, "becomes": done, "changes": planned.changes, "workflow": answer})
            return
        version = f", version {answer['version']}" if answer else ""
        print_line(f"{planned.name}: {done}{version}")
        if planned.changes:
            print_table(planned.changes, DIFFERENCE, none="")


@workflow.command()
def run(
    name: str = _Name,
    inputs: list[str] = typer.Option([], "--input", "-i", help="An input, name=value; can be repeated."),
    payload: str | None = typer.Option(None, "--inputs", help="All inputs: a JSON object, @FILE, or - for stdin."),
    key: str | None = typer.Option(None, "--key", help="An idempotency key: the same key again starts no second run."),
    wait: bool = typer.Option(False, "--wait", "-w", help="Wait until it has ended; fails if it does not succeed."),
    timeout: str | None = typer.Option(None, "--timeout", help="With --wait: give up waiting after this long."),
    as_json: bool = JsonFlag,
) -> None:
    """Start a run of a workflow."""
    with server(run) as client:
        refuse_empty(key, "--key")
        if timeout is not None and not wait:
            raise BadInputError("needs --wait", field="--timeout")
        seconds = None if timeout is None else parse_duration(timeout, "--timeout")
        given = _inputs(client, name, inputs, payload) if inputs or payload else {}
        answer = client.call(
            "POST",
            f"{_path(name)}/run",
            body={"inputs": given},
            headers={"Idempotency-Key": key or new_key()},
            repeatable=True,
        )
        if wait:
            _wait_for(client, answer["workflowRunId"], seconds, as_json=as_json)
        elif as_json:
            print_json(answer)
        else:
            print_line(f"{answer['workflowRunId']} is {answer['status']}")


@workflow.command(name="list")
def list_workflows(cursor: str | None = CursorOption, limit: int = LimitOption, as_json: bool = JsonFlag) -> None:
    """List workflows by name."""
    with server(list_workflows) as client:
        page = client.call("GET", "/v1/workflows", query={"cursor": cursor, "limit": limit})
        columns = (
            text("NAME", "name", least=10),
            status(),
            Column(heading="NODES", show=lambda item: str(len(item["nodes"]))),
            text("VERSION", "version", least=8, drop=3),
            time("CHANGED", "changedAt", drop=1),
            text("WORKFLOW", "workflowId", drop=2),
        )
        show_page(page, columns, none="No workflows. Make one: rota workflow apply FILE", as_json=as_json)


@workflow.command()
def runs(
    name: str | None = typer.Argument(
        None, metavar="[WORKFLOW]", autocompletion=complete_workflow, help="Only of this workflow."
    ),
    status_filter: str | None = typer.Option(
        None, "--status", help="Only running, cancelling, success, failed or cancelled."
    ),
    cursor: str | None = CursorOption,
    limit: int = LimitOption,
    as_json: bool = JsonFlag,
) -> None:
    """List workflow runs, newest first."""
    with server(runs) as client:
        query = {"workflow": name, "status": status_filter, "cursor": cursor, "limit": limit}
        page = client.call("GET", "/v1/workflow-runs", query=query)
        columns = (
            text("RUN", "workflowRunId"),
            text("WORKFLOW", "name", least=10),
            status(),
            time("STARTED", "startTime"),
            Column(heading="TOOK", show=lambda item: show_length(item["startTime"], item.get("endTime")), drop=2),
            text("CULPRIT", "culprit", least=8, drop=1),
        )
        show_page(page, columns, none="No workflow runs. Start one: rota workflow run NAME", as_json=as_json)


@workflow.command()
def show(
    target: str = typer.Argument(
        metavar="WORKFLOW|RUN", autocompletion=complete_workflow_or_run, help="A workflow's name or id, or a run, wfr_…"
    ),
    as_json: bool = JsonFlag,
) -> None:
    """Show a workflow, or a run with its nodes: how they ended, what they wait for."""
    with server(show) as client:
        if target.strip().startswith(_RUN_PREFIX):
            found = client.call("GET", _run_path(target.strip()))
            _show_run(client, found, as_json=as_json)
            return
        found = client.call("GET", _path(target))
        if as_json:
            print_json(found)
            return
        from rota.cli.workflow_view import show_definition  # noqa: PLC0415 - few commands show nodes

        print_fields({name: value for name, value in found.items() if name not in ("nodes", "inputs") or not value})
        if found["inputs"]:
            print_fields({"inputs": found["inputs"]})
        show_definition(found["nodes"])


@workflow.command()
def versions(name: str = _Name, as_json: bool = JsonFlag) -> None:
    """List the versions of a workflow, newest first."""
    with server(versions) as client:
        page = client.call("GET", f"{_path(name)}/versions")
        columns = (
            text("NUMBER", "number"),
            text("VERSION", "version"),
            Column(heading="NODES", show=lambda item: str(len(item["nodes"]))),
            text("BY", "createdBy", least=8),
            time("CREATED", "createdAt"),
        )
        show_page(page, columns, none="No versions.", as_json=as_json)


@workflow.command()
def members(
    run_id: str = _Run,
    node: str = _Node,
    status_filter: str | None = typer.Option(None, "--status", help="Only failed, or running."),
    cursor: str | None = CursorOption,
    limit: int = LimitOption,
    as_json: bool = JsonFlag,
) -> None:
    """List members of a map that failed, or that have not ended."""
    with server(members) as client:
        path = f"{_run_path(_find_run(client, run_id))}/nodes/{quote(node, safe='')}/members"
        page = client.call("GET", path, query={"status": status_filter, "cursor": cursor, "limit": limit})
        columns = (
            text("INDEX", "index"),
            status(),
            text("RUN", "runId"),
            text("REASON", "reason", least=12),
        )
        show_page(page, columns, none="No such members.", as_json=as_json)


@workflow.command()
def cancel(run_id: str = _Run, as_json: bool = JsonFlag) -> None:
    """Cancel a run: nothing of it starts any more, and what runs is asked to stop."""
    _act(run_id, "cancel", None, as_json=as_json)


@workflow.command()
def resume(
    run_id: str = _Run,
    nodes: list[str] = typer.Option([], "--node", help="A node to run again; can be repeated (all that failed)."),
    items: list[int] = typer.Option(
        [], "--item", min=0, help="With one --node that is a map: only its failed members with these indexes."
    ),
    generation: int | None = typer.Option(None, "--generation", help="Only if the run is still at this generation."),
    version: str | None = typer.Option(None, "--version", help="Go on with this version of the workflow, or latest."),
    as_json: bool = JsonFlag,
) -> None:
    """Run again what failed in a run, and everything after it."""
    body = {"nodes": nodes or None, "items": items or None, "generation": generation, "version": version}
    _act(run_id, "resume", {name: value for name, value in body.items() if value is not None}, as_json=as_json)


@workflow.command()
def signal(
    run_id: str = _Run,
    name: str = typer.Argument(metavar="SIGNAL", help="The name that a node waits for."),
    payload: str | None = typer.Option(None, "--payload", help="What it brings along: JSON."),
    key: str | None = typer.Option(None, "--key", help="An idempotency key: the same key again sends no second one."),
    as_json: bool = JsonFlag,
) -> None:
    """Send a signal to a run. It is kept until a node waits for it."""
    with server(signal) as client:
        refuse_empty(key, "--key")
        found = _find_run(client, run_id)
        answer = client.call(
            "POST",
            f"{_run_path(found)}/signals/{quote(name, safe='')}",
            body={"payload": _json(payload, "--payload")},
            headers={"Idempotency-Key": key or new_key()},
            repeatable=True,
        )
        print_json(answer) if as_json else print_line(f"{found} got the signal {name}")


@workflow.command()
def approve(run_id: str = _Run, node: str = _Node, comment: str | None = _Comment, as_json: bool = JsonFlag) -> None:
    """Approve what a node waits for."""
    _decide(run_id, node, "approve", comment, as_json=as_json)


@workflow.command()
def reject(run_id: str = _Run, node: str = _Node, comment: str | None = _Comment, as_json: bool = JsonFlag) -> None:
    """Reject what a node waits for: the node fails."""
    _decide(run_id, node, "reject", comment, as_json=as_json)


@workflow.command()
def pause(name: str = _Name, as_json: bool = JsonFlag) -> None:
    """Pause a workflow: its schedule, and what would start in its open runs. What runs ends."""
    _change(name, "POST", "/pause", "is paused", as_json=as_json)


@workflow.command()
def unpause(name: str = _Name, as_json: bool = JsonFlag) -> None:
    """Let a paused workflow go on."""
    _change(name, "POST", "/resume", "goes on", as_json=as_json)


@workflow.command()
def delete(name: str = _Name, as_json: bool = JsonFlag) -> None:
    """Delete a workflow, and cancel its open runs."""
    _change(name, "DELETE", "", "is deleted", as_json=as_json)


def _change(name: str, method: str, path: str, words: str, *, as_json: bool) -> None:
    with server() as client:
        answer = client.call(method, f"{_path(name)}{path}", repeatable=True)
        print_json(answer) if as_json else print_line(f"{answer['name']} {words}")


def _act(run_id: str, verb: str, body: Mapping[str, Any] | None, *, as_json: bool) -> None:
    with server() as client:
        answer = client.call("POST", f"{_run_path(_find_run(client, run_id))}/{verb}", body=body)
        _show_run(client, answer, as_json=as_json)


def _decide(run_id: str, node: str, verb: str, comment: str | None, *, as_json: bool) -> None:
    with server() as client:
        found = _find_run(client, run_id)
        body = {} if comment is None else {"comment": comment}
        answer = client.call("POST", f"{_run_path(found)}/nodes/{quote(node, safe='')}/{verb}", body=body)
        done = "approved" if verb == "approve" else "rejected"
        print_json(answer) if as_json else print_line(f"{node} of {found} is {done}")


def _wait_for(client: Client, run_id: str, seconds: float | None, *, as_json: bool) -> None:
    """Shows the run when it has ended; exits with 1 if it did not succeed."""
    try:
        ended = client.wait_for_workflow_run(run_id, seconds)
    except TimeoutError as error:
        raise BadInputError(f"{error}; `rota workflow show {run_id}` shows how it goes on", field="--timeout") from None
    _show_run(client, client.call("GET", _run_path(run_id)), as_json=as_json)
    if ended.status != "success":
        raise typer.Exit(FAILED)


def _show_run(client: Client, found: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    from rota.cli.workflow_view import show_nodes, show_run_line  # noqa: PLC0415 - few commands show nodes

    show_run_line(found)
    if found.get("nodes"):
        show_nodes(found["nodes"], _edges(client, found), datetime.now(UTC).isoformat())


def _edges(client: Client, found: Mapping[str, Any]) -> Mapping[str, list[str]]:
    """Which nodes come after which, in the version that the run follows; none if that is not known any more."""
    try:
        page = client.call("GET", f"{_path(found['workflowId'])}/versions")
    except AnswerError as error:
        if error.status != _NOT_FOUND:
            raise
        return {}
    nodes: Mapping[str, Any] = next((one["nodes"] for one in page["items"] if one["version"] == found["version"]), {})
    return {key: node.get("after", []) for key, node in nodes.items()}


def _find_run(client: Client, given: str) -> str:
    """The id of a workflow run, given by its id, or the latest run of a workflow that is given by its name or id."""
    given = given.strip()
    if given.startswith(_RUN_PREFIX):
        return given
    page = client.call("GET", "/v1/workflow-runs", query={"workflow": given, "limit": 1})
    if not page["items"]:
        raise BadInputError("the workflow has not run yet", field="RUN")
    found: str = page["items"][0]["workflowRunId"]
    return found


def _inputs(client: Client, name: str, given: list[str], whole: str | None) -> dict[str, Any]:
    """The inputs: text where the workflow wants text, else JSON."""
    values = read_object_from(whole, "--inputs") or {}
    declared = client.call("GET", _path(name))["inputs"] if given else {}
    for one in given:
        field, equals, value = one.partition("=")
        if not equals or not field:
            raise BadInputError(f"{one!r} is not name=value", field="--input")
        if field in values:
            raise BadInputError(f"{field} is given twice", field="--input")
        values[field] = _value(field, value, declared.get(field, {}).get("type"))
    return values


def _value(field: str, value: str, kind: str | None) -> Any:
    if kind == "string":
        return value
    try:
        return json.loads(value)
    except ValueError:
        if kind is None:
            return value
        raise BadInputError(f"{field} must be of type {kind}, as JSON, not {value!r}", field="--input") from None


def _json(content: str | None, field: str) -> Any:
    if content is None:
        return None
    try:
        return json.loads(content)
    except ValueError as error:
        raise BadInputError(f"is not valid JSON ({error}); text is '\"text\"'", field=field) from None


def _path(name: str) -> str:
    return f"/v1/workflows/{quote(name.strip(), safe='')}"


def _run_path(run_id: str) -> str:
    return f"/v1/workflow-runs/{quote(run_id, safe='')}"
