"""Alerts: what fires, the rules, and silences."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, get_args
from uuid import UUID

import msgspec

from rota.api.backend import Backend
from rota.api.operations import ApiRequest, Operation, decode
from rota.api.paging import PAGE_PARAMETERS, read_limit
from rota.contract.alerts import (
    AlertList,
    AlertOut,
    AlertRuleIn,
    AlertRuleList,
    AlertRuleName,
    AlertRuleOut,
    AlertScope,
    AlertTestOut,
    SilenceIn,
    SilenceList,
    SilenceOut,
)
from rota.domain.alerts import INSTALLATION, AlertRule, AlertSettings, Phase, check_rule
from rota.domain.ids import show_job
from rota.domain.rights import Right
from rota.errors import BadInputError, ForbiddenError, NotFoundError
from rota.store.alert import rule_of
from rota.store.alert.states import runbook_of

_CURSOR = "/"
_LONGEST_SILENCE = timedelta(days=366)
_SCOPE = {"scope": "installation: of all namespaces, for admins of all namespaces; else of this namespace"}
_SILENCE = "silence_"


@Operation(
    "GET",
    "/v1/alerts",
    Right.READ,
    query={
        "state": "only pending, firing or resolved ones; several separated by commas",
        "limit": PAGE_PARAMETERS["limit"],
    },
)
async def list_alerts(services: Backend, call: ApiRequest) -> AlertList:
    """List alerts: those that fire, then those that were resolved within the last week."""
    rows = await services.alerts.alerts(_visible(call), _read_states(call), call.only, read_limit(call.query))
    return AlertList(items=[_show_alert(row) for row in rows])


@Operation("GET", "/v1/alerts/rules", Right.READ, query=PAGE_PARAMETERS)
async def list_alert_rules(services: Backend, call: ApiRequest) -> AlertRuleList:
    """List the rules of the namespace and of the installation, by name."""
    limit = read_limit(call.query)
    rows = await services.alerts.find_page(call.namespace, _read_cursor(call), limit)
    cursor = f"{_CURSOR}{rows[-1]['name']} {rows[-1]['namespace']}" if len(rows) == limit else None
    return AlertRuleList(items=[_show_rule(row) for row in rows], next_cursor=cursor)


@Operation("GET", "/v1/alerts/rules/{rule}", Right.READ, query=_SCOPE, errors=(404,))
async def get_alert_rule(services: Backend, call: ApiRequest) -> AlertRuleOut:
    """Get a rule: the namespace's, or if it has none of this name, the installation's."""
    name = _name(call)
    row = None
    if _read_scope(call) == "namespace":
        row = await services.alerts.find(call.namespace, name)
    return _show_rule(_there(row or await services.alerts.find(INSTALLATION, name)))


@Operation("PUT", "/v1/alerts/rules/{rule}", Right.OPERATE, body=AlertRuleIn, query=_SCOPE, errors=(404, 409))
async def put_alert_rule(services: Backend, call: ApiRequest) -> AlertRuleOut:
    """Create a rule or replace it. One of a namespace takes the place of the installation's rule of the same name."""
    rule = await _rule_in(services, call, decode(call.body, AlertRuleIn))
    return _show_rule(await services.alerts.put(rule, call.caller.owner))


@Operation("DELETE", "/v1/alerts/rules/{rule}", Right.OPERATE, query=_SCOPE, errors=(404,))
async def delete_alert_rule(services: Backend, call: ApiRequest) -> AlertRuleOut:
    """Delete a rule. What it fires is resolved."""
    return _show_rule(_there(await services.alerts.delete(_place(call), _name(call))))


@Operation("POST", "/v1/alerts/rules/{rule}/test", Right.OPERATE, query=_SCOPE, errors=(404, 409))
async def test_alert_rule(services: Backend, call: ApiRequest) -> AlertTestOut:
    """Record an event as if the rule fired, to try out its destinations."""
    name, place = _name(call), _place(call)
    row = None if place == INSTALLATION else await services.alerts.find(place, name)
    rule = rule_of(_there(row or await services.alerts.find(INSTALLATION, name)))
    event = await services.alerts.test(rule, place, call.caller.owner)
    return AlertTestOut(rule=rule.name, title=event.detail or "", destinations=list(rule.settings.destinations))


@Operation("GET", "/v1/alerts/silences", Right.READ, query={"limit": PAGE_PARAMETERS["limit"]})
async def list_silences(services: Backend, call: ApiRequest) -> SilenceList:
    """List silences that have not ended."""
    rows = await services.alerts.silences(_visible(call), read_limit(call.query))
    return SilenceList(items=[_show_silence(row) for row in rows])


@Operation("POST", "/v1/alerts/silences", Right.OPERATE, body=SilenceIn, query=_SCOPE, status=201, errors=(409,))
async def create_silence(services: Backend, call: ApiRequest) -> SilenceOut:
    """Silence alerts until a time. One that still fires then is told."""
    wanted: SilenceIn = decode(call.body, SilenceIn)
    if not services.now < wanted.until <= services.now + _LONGEST_SILENCE:
        raise BadInputError("must be in the future, at most a year ahead", field="until")
    row = await services.alerts.silence(
        _place(call),
        rule=wanted.rule,
        key=wanted.key,
        until=wanted.until,
        reason=wanted.reason,
        created_by=call.caller.owner,
    )
    shown = _show_silence(row)
    call.made = shown.silence_id
    return shown


@Operation("DELETE", "/v1/alerts/silences/{silenceId}", Right.OPERATE, query=_SCOPE, errors=(404,))
async def end_silence(services: Backend, call: ApiRequest) -> SilenceOut:
    """End a silence."""
    row = await services.alerts.end_silence(_place(call), _silence_id(call))
    if row is None:
        raise NotFoundError("there is no such silence")
    return _show_silence(row)


async def _rule_in(services: Backend, call: ApiRequest, wanted: AlertRuleIn) -> AlertRule:
    given = {name: getattr(wanted, name) for name in AlertRuleIn.__struct_fields__ if name not in ("kind", "enabled")}
    place = _place(call)
    if wanted.job is not None and place != INSTALLATION:
        given["job_id"] = await services.jobs.find_id(call.namespace, wanted.job)
        if given["job_id"] is None:
            raise BadInputError("there is no such job", field="job")
    given["destinations"] = tuple(wanted.destinations)
    rule = AlertRule(place, _name(call), wanted.kind, AlertSettings(**given), wanted.enabled)
    check_rule(rule)
    return rule


def _show_rule(row: Any) -> AlertRuleOut:
    try:
        rule = rule_of(row)
        kind, given = rule.of_kind, rule.settings
    except (msgspec.MsgspecError, KeyError):
        return _show_unread(row)
    return AlertRuleOut(
        name=rule.name,
        scope=_scope_of(rule.namespace),
        kind=rule.kind,
        enabled=rule.enabled,
        severity=rule.severity,
        threshold=rule.threshold,
        window_seconds=rule.window.total_seconds() or None,
        for_seconds=rule.hold.total_seconds(),
        resolve_seconds=given.resolve_seconds,
        objective=given.objective if rule.kind == "start_lag" else None,
        minimum=given.minimum if kind.is_share else None,
        database_bytes=given.database_bytes,
        pool=given.pool,
        task=given.task,
        job=given.job,
        destinations=list(given.destinations),
        error=row["error"],
        error_time=row["error_at"],
        runbook=runbook_of(rule.kind),
        changed_by=row["changed_by"],
        changed_time=row["changed_at"],
    )


def _show_unread(row: Any) -> AlertRuleOut:
    """A rule that this release can't read, so that it can be seen and deleted."""
    return AlertRuleOut(
        name=row["name"],
        scope=_scope_of(row["namespace"]),
        kind=row["kind"],
        enabled=row["enabled"],
        severity="warning",
        threshold=None,
        for_seconds=0.0,
        resolve_seconds=0.0,
        error=row["error"] or "this release can't read it",
        error_time=row["error_at"],
        runbook=runbook_of(row["kind"]),
        changed_by=row["changed_by"],
        changed_time=row["changed_at"],
    )


def _show_alert(row: Any) -> AlertOut:
    return AlertOut(
        rule=row["rule"],
        scope=_scope_of(row["rule_namespace"]),
        kind=row["kind"],
        key=row["key"],
        state=row["phase"],
        severity=row["severity"],
        subject=row["subject"],
        title=row["title"],
        value=row["value"],
        threshold=row["threshold"],
        since=row["since"],
        fired_time=row["fired_at"],
        resolved_time=row["resolved_at"],
        silenced_until=row["silenced_until"],
        job_id=None if row["job_id"] is None else show_job(row["job_id"]),
        next_act=row["act"],
        runbook=runbook_of(row["kind"]),
    )


def _show_silence(row: Any) -> SilenceOut:
    return SilenceOut(
        silence_id=f"{_SILENCE}{row['id'].hex}",
        scope=_scope_of(row["namespace"]),
        rule=row["rule"],
        key=row["key"],
        until=row["until"],
        reason=row["reason"],
        created_by=row["created_by"],
        created_at=row["created_at"],
    )


def _scope_of(namespace: str) -> AlertScope:
    return "installation" if namespace == INSTALLATION else "namespace"


def _visible(call: ApiRequest) -> list[str]:
    """Whose alerts the caller sees: the namespace's, and as an admin of all the installation's."""
    return [call.namespace, *((INSTALLATION,) if call.access.identity.rules_everywhere else ())]


def _read_scope(call: ApiRequest) -> AlertScope:
    scope: Any = call.query.get("scope", "namespace")
    if scope not in get_args(AlertScope):
        raise BadInputError("must be namespace or installation", field="scope")
    found: AlertScope = scope
    return found


def _place(call: ApiRequest) -> str:
    """The namespace that a change is about; raises ForbiddenError for the installation's if the caller may not."""
    if _read_scope(call) == "namespace":
        return call.namespace
    if not call.access.identity.rules_everywhere:
        raise ForbiddenError("only an admin of all namespaces may change what holds for the installation")
    return INSTALLATION


def _read_states(call: ApiRequest) -> list[str]:
    known = get_args(Phase)
    wanted = call.query.get("state", "firing,resolved").lower().split(",")
    if not set(wanted) <= set(known):
        raise BadInputError(f"must be one of {', '.join(known)}", field="state")
    return wanted


def _name(call: ApiRequest) -> str:
    try:
        return msgspec.convert(call.path["rule"], AlertRuleName)
    except msgspec.ValidationError:
        words = "must have 1 to 100 letters, digits, dots, underscores or hyphens"
        raise BadInputError(words, field="rule") from None


def _there(row: Any | None) -> Any:
    if row is None:
        raise NotFoundError("there is no such rule")
    return row


def _silence_id(call: ApiRequest) -> UUID:
    text = call.path["silenceId"]
    try:
        if text.startswith(_SILENCE):
            return UUID(hex=text.removeprefix(_SILENCE))
    except ValueError:
        pass
    raise NotFoundError("there is no such silence")


def _read_cursor(call: ApiRequest) -> str | None:
    text = call.query.get("cursor")
    if text is None:
        return None
    if not text.startswith(_CURSOR) or not text.isprintable():
        raise BadInputError("is not a valid cursor; use the nextCursor of a list", field="cursor")
    return text.removeprefix(_CURSOR)


OPERATIONS = (
    *(list_alerts, list_alert_rules, get_alert_rule, put_alert_rule, delete_alert_rule, test_alert_rule),
    *(list_silences, create_silence, end_silence),
)
