"""Commands about alerts: list them, their rules and silences; set, delete, test; apply a file."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import msgspec
import typer

from rota.cli.terminal.output import (
    CursorOption,
    JsonFlag,
    LimitOption,
    print_json,
    refuse_options_before,
    server,
    show_page,
)
from rota.cli.terminal.tables import Column, print_line, text, time
from rota.cli.terminal.times import parse_duration
from rota.cli.workflow_files import read_content
from rota.client import Client
from rota.contract.alerts import AlertRuleIn, AlertRuleName, AlertScope
from rota.contract.fields import In
from rota.contract.json_rules import bad_json
from rota.errors import BadInputError

alerts = typer.Typer(name="alerts", rich_markup_mode=None)
_NameArgument = typer.Argument(..., metavar="RULE", help="The name of the rule.")
_InstallationFlag = typer.Option(False, "--installation", help="Of all namespaces; for admins of all of them.")
_RULES = "/v1/alerts/rules"
_SILENCES = "/v1/alerts/silences"


class RuleInFile(AlertRuleIn, kw_only=True):
    """A rule in a file, with its name."""

    name: AlertRuleName
    scope: AlertScope = "namespace"


class _RulesFile(In, kw_only=True):
    rules: list[RuleInFile]


@alerts.callback(invoke_without_command=True)
def list_alerts(
    context: typer.Context,
    state: str | None = typer.Option(None, "--state", help="firing, resolved, pending (firing and resolved)."),
    limit: int = LimitOption,
    as_json: bool = JsonFlag,
) -> None:
    """Alerts: what fires, and what was resolved lately."""
    if context.invoked_subcommand:
        refuse_options_before(context.invoked_subcommand, state, as_json)
        return
    with server(list_alerts) as client:
        page = client.call("GET", "/v1/alerts", query={"state": state, "limit": limit})
        columns = (
            text("STATE", "state"),
            text("SEVERITY", "severity"),
            text("ALERT", "title", least=20),
            time("SINCE", "since"),
            text("RULE", "rule", drop=2),
            text("KEY", "key", drop=3),
            text("NEXT", "nextAct", drop=1),
        )
        show_page(page, columns, none="No alerts.", as_json=as_json)


@alerts.command("rules")
def list_rules(cursor: str | None = CursorOption, limit: int = LimitOption, as_json: bool = JsonFlag) -> None:
    """List the rules of the namespace and of the installation."""
    with server(list_rules) as client:
        page = client.call("GET", _RULES, query={"cursor": cursor, "limit": limit})
        columns = (
            text("RULE", "name", least=12),
            text("KIND", "kind"),
            Column(heading="ON", show=lambda item: "yes" if item["enabled"] else "no"),
            text("SEVERITY", "severity"),
            Column(heading="THRESHOLD", show=lambda item: _number(item["threshold"])),
            Column(heading="WINDOW", show=lambda item: _number(item.get("windowSeconds")), drop=2),
            Column(heading="FOR", show=lambda item: _number(item["forSeconds"]), drop=3),
            text("SCOPE", "scope", drop=1),
            text("ERROR", "error", least=10),
        )
        show_page(page, columns, none="No rules.", as_json=as_json)


@alerts.command("set")
def set_rule(
    name: str = _NameArgument,
    kind: str | None = typer.Option(None, "--kind", help="What it measures (that of the rule there is)."),
    threshold: float | None = typer.Option(None, "--threshold", help="From when on it is an alert."),
    window_seconds: str | None = typer.Option(None, "--window", help="How far back it looks: 15m, 1h."),
    for_seconds: str | None = typer.Option(None, "--for", help="How long it must hold before it fires: 0s, 5m."),
    resolve_seconds: str | None = typer.Option(None, "--resolve", help="How long it must be good: 30s, 5m."),
    severity: str | None = typer.Option(None, "--severity", help="critical, warning or info."),
    pool: str | None = typer.Option(None, "--pool", help="Only about this pool."),
    task: str | None = typer.Option(None, "--task", help="Only about this task."),
    job: str | None = typer.Option(None, "--job", help="Only about this job."),
    destinations: list[str] = typer.Option([], "--destination", help="Send it there alone; can be repeated."),
    enabled: bool | None = typer.Option(None, "--on/--off", help="Evaluate it, or not."),
    installation: bool = _InstallationFlag,
    as_json: bool = JsonFlag,
) -> None:
    """Create a rule, or change what is given of one.

    A rule with the name of one of the installation's takes its place in the namespace.
    """
    given = {
        "kind": kind,
        "threshold": threshold,
        "windowSeconds": _seconds(window_seconds, "--window"),
        "forSeconds": _seconds(for_seconds, "--for"),
        "resolveSeconds": _seconds(resolve_seconds, "--resolve"),
        "severity": severity,
        "pool": pool,
        "task": task,
        "job": job,
        "destinations": destinations or None,
        "enabled": enabled,
    }
    with server(set_rule) as client:
        body = _as_it_is(client, name, installation=installation, kind=kind)
        body |= {field: value for field, value in given.items() if value is not None}
        if "kind" not in body:
            raise BadInputError("there is no such rule yet: say what it measures", field="--kind")
        _show_changed(_put(client, name, body, _scope(installation)), as_json=as_json)


@alerts.command("delete")
def delete_rule(name: str = _NameArgument, installation: bool = _InstallationFlag, as_json: bool = JsonFlag) -> None:
    """Delete a rule; what it fires is resolved."""
    with server(delete_rule) as client:
        gone = client.call("DELETE", _path(name), query={"scope": _scope(installation)})
        if as_json:
            print_json(gone)
            return
        print_line(f"{gone['name']} is deleted")


@alerts.command("test")
def try_rule(name: str = _NameArgument, installation: bool = _InstallationFlag, as_json: bool = JsonFlag) -> None:
    """Record an event as if a rule fired, to try out its destinations."""
    with server(try_rule) as client:
        answer = client.call("POST", f"{_path(name)}/test", query={"scope": _scope(installation)})
        if as_json:
            print_json(answer)
            return
        where = ", ".join(answer.get("destinations", ())) or "all destinations that want alerts"
        print_line(f"{answer['title']}: recorded, for {where}")


@alerts.command("apply")
def apply_file(
    file: str = typer.Argument(..., metavar="FILE", help="YAML, JSON or TOML with `rules`; - is stdin (YAML)."),
    as_json: bool = JsonFlag,
) -> None:
    """Create or replace all rules in a file. Other rules stay."""
    with server(apply_file) as client:
        rules = read_rules(file)
        done = []
        for rule in rules:
            body = msgspec.to_builtins(rule)
            done.append(_put(client, body.pop("name"), body, body.pop("scope")))
        if as_json:
            print_json(done)
            return
        for each in done:
            _show_changed(each, as_json=False)


@alerts.command("silence")
def silence(
    rule: str | None = typer.Option(None, "--rule", help="Only alerts of this rule (all)."),
    key: str | None = typer.Option(None, "--key", help="Only alerts with this key (all)."),
    duration: str = typer.Option(..., "--for", help="How long: 30m, 2h, 1d."),
    reason: str = typer.Option(..., "--reason", help="Why."),
    installation: bool = _InstallationFlag,
    as_json: bool = JsonFlag,
) -> None:
    """Silence alerts for some time. One that still fires then is told."""
    with server(silence) as client:
        until = datetime.now(UTC) + timedelta(seconds=parse_duration(duration, "--for"))
        body = {"until": until.isoformat(), "reason": reason}
        body |= {name: value for name, value in (("rule", rule), ("key", key)) if value is not None}
        made = client.call("POST", _SILENCES, body=body, query={"scope": _scope(installation)})
        if as_json:
            print_json(made)
            return
        print_line(f"{made['silenceId']}: silent until {made['until']}")


@alerts.command("silences")
def list_silences(limit: int = LimitOption, as_json: bool = JsonFlag) -> None:
    """List silences that have not ended."""
    with server(list_silences) as client:
        page = client.call("GET", _SILENCES, query={"limit": limit})
        columns = (
            text("SILENCE", "silenceId"),
            Column(heading="RULE", show=lambda item: item.get("rule") or "all"),
            Column(heading="KEY", show=lambda item: item.get("key") or "all", least=10),
            time("UNTIL", "until"),
            text("BY", "createdBy", drop=1),
            text("REASON", "reason", least=10),
        )
        show_page(page, columns, none="No silences.", as_json=as_json)


@alerts.command("unsilence")
def end_silence(
    silence_id: str = typer.Argument(..., metavar="SILENCE", help="The id of the silence."),
    installation: bool = _InstallationFlag,
    as_json: bool = JsonFlag,
) -> None:
    """End a silence."""
    with server(end_silence) as client:
        path = f"{_SILENCES}/{quote(silence_id, safe='')}"
        ended = client.call("DELETE", path, query={"scope": _scope(installation)})
        if as_json:
            print_json(ended)
            return
        print_line(f"{ended['silenceId']} has ended")


def read_rules(file: str) -> list[RuleInFile]:
    """The rules in a file; raises BadInputError that says where it is wrong."""
    content = read_content(file)
    if not isinstance(content, dict):
        raise BadInputError(f"{file} must hold a list of rules: name and kind of each, under rules", field="FILE")
    try:
        rules = msgspec.convert(content, _RulesFile).rules
    except msgspec.ValidationError as error:
        bad = bad_json(error)
        where, words = bad.fields[0] if bad.fields else ("", str(bad))
        raise BadInputError(f"{where}: {words}" if where else words, field="FILE") from None
    names = [(rule.scope, rule.name) for rule in rules]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise BadInputError(f"the rule {twice[1]} stands twice in it", field="FILE")
    return rules


def _as_it_is(client: Client, name: str, *, installation: bool, kind: str | None) -> dict[str, Any]:
    """The fields of the rule there is, as a body; none if there is none, or if it becomes one of another kind."""
    scope = _scope(installation)
    found = [
        rule
        for rule in client.call("GET", _RULES, query={"limit": 500})["items"]
        if rule["name"] == name and rule["kind"] == (kind or rule["kind"])
    ]
    own = [rule for rule in found if rule["scope"] == scope] or ([] if installation else found)
    known = set(AlertRuleIn.__struct_encode_fields__)
    return {field: value for rule in own[:1] for field, value in rule.items() if field in known and value is not None}


def _put(client: Client, name: str, body: dict[str, Any], scope: str) -> dict[str, Any]:
    answer: dict[str, Any] = client.call("PUT", _path(name), body=body, query={"scope": scope}, repeatable=True)
    return answer


def _show_changed(rule: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(rule)
        return
    state = "" if rule["enabled"] else ", off"
    print_line(f"{rule['name']}: {rule['kind']}, {rule['severity']}, threshold {rule['threshold']:g}{state}")


def _path(name: str) -> str:
    return f"{_RULES}/{quote(name, safe='')}"


def _scope(installation: bool) -> str:
    return "installation" if installation else "namespace"


def _seconds(duration: str | None, option: str) -> float | None:
    return None if duration is None else parse_duration(duration, option)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"
