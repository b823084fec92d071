"""Checks of the server: reachable, version, our token, clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

import rota
from rota.client import AnswerError, Client, ServerUnreachableError
from rota.client.answers import unreachable
from rota.client.http_messages import ExchangeError, HttpAnswer
from rota.client.http_routes import find_route
from rota.client.server_address import check_url, time_limits, trust
from rota.errors import RotaError, SetupError
from rota.ops.doctor.findings import Finding, ok, problem, warning
from rota.settings import Settings

_TIMEOUT_SECONDS = 5.0
_MOST_OFFSET = timedelta(seconds=2)  # servers send their time in whole seconds
_NOT_AUTHENTICATED = 401


@dataclass(frozen=True)
class ServerAnswer:
    """What a server says without a token."""

    version: str
    time: datetime | None
    ready: bool


def ask_server(settings: Settings) -> ServerAnswer | Finding:
    """Asks the server; a finding if it does not answer."""
    try:
        url = check_url(settings.url)
    except SetupError as error:
        return problem("server", str(error))
    try:
        described, ready = _ask_openly(url)
        info = msgspec.json.decode(described.content)["info"]
        if info["title"] != "Rota":
            raise KeyError  # noqa: TRY301 - not a Rota server
        version = str(info["version"])
    except ExchangeError as error:
        return _no_answer(settings, unreachable(url, error))
    except (ValueError, KeyError, TypeError):
        return problem("server", f"what answers at {url} is not a Rota server", "set ROTA_URL to your server's address")
    return ServerAnswer(version, _date(ready), ready.is_success)


def _ask_openly(url: str) -> tuple[HttpAnswer, HttpAnswer]:
    """What the server says about itself without a token."""
    from rota.client._sync.http import HttpConnections  # noqa: PLC0415 - help texts need no HTTP library

    http, limits = HttpConnections(find_route(url, trust(url)), {}), time_limits(_TIMEOUT_SECONDS)
    try:
        described, ready = (
            http.request("GET", path, limits=limits, repeatable=True) for path in ("/openapi.json", "/readyz")
        )
    finally:
        http.close()
    return described, ready


def _no_answer(settings: Settings, error: ServerUnreachableError) -> Finding:
    if error.advised:
        return problem("server", str(error))
    if settings.server_url:
        return problem("server", str(error), "start it there, or set ROTA_URL to its address")
    return warning("server", str(error), "start one: rota up")


def check_server(settings: Settings, answer: ServerAnswer) -> Iterator[Finding]:
    """Whether it is ready and has our version."""
    words = f"Rota {answer.version} answers at {settings.url}"
    if not answer.ready:
        yield problem(
            "server", f"{words}, but its database does not", "see the server's log, and run rota doctor there"
        )
    elif _release(answer.version) != _release(rota.__version__):
        older = _release(answer.version) < _release(rota.__version__)
        whose = "the server" if older else "this installation"
        yield warning("server", f"{words}, and this is {rota.__version__}", f"update {whose}")
    else:
        yield ok("server", words)


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def check_clock(answer: ServerAnswer, now: datetime) -> Iterator[Finding]:
    """This host's clock against the server's."""
    if answer.time is not None:
        yield compare_clocks("clock", "the server's", answer.time - now)


def compare_clocks(check: str, whose: str, offset: timedelta) -> Finding:
    """Compares two clocks. Runs start by the database's; this host's matters for --in and expiry times."""
    seconds = abs(offset.total_seconds())
    if abs(offset) <= _MOST_OFFSET:
        return ok(check, f"this host's and {whose} agree within {max(1, round(seconds))} s")
    side = "behind" if offset > timedelta(0) else "ahead of"
    words = (
        f"this host's clock is {seconds:.0f} s {side} {whose}: --in and the expiry of tokens and certificates are off"
    )
    return warning(check, words, "synchronise both hosts with a time server (chrony, systemd-timesyncd)")


def check_token(settings: Settings, client: Client) -> Iterator[Finding]:
    """Whether our token is accepted, and its roles."""
    source = "ROTA_TOKEN" if settings.given_token else str(settings.admin_token_file)
    if not settings.token:
        yield problem("token", f"{source} can't be read", "set ROTA_TOKEN, or ROTA_HOME to the server's home directory")
        return
    try:
        who = client.call("GET", "/v1/session")
    except AnswerError as error:
        words = str(error.problem.get("said") or error) if error.status == _NOT_AUTHENTICATED else str(error)
        fix = "set ROTA_TOKEN to a valid token, or ROTA_HOME to the server's home directory"
        yield problem("token", f"the server does not accept the one in {source}: {words}", fix)
        return
    named = {"*": "all namespaces"}
    grants = [f"{grant['role']} in {named.get(grant['namespace'], grant['namespace'])}" for grant in who["grants"]]
    yield ok("token", f"the one in {source} is {who['name']}'s: {', '.join(grants) or 'no role anywhere'}")


def fetch_fleet(client: Client) -> dict[str, Any]:
    """The data for the fleet checks; None for what our token can't see."""
    found: dict[str, Any] = {"whose": _whose(client)}
    paths = {"workers": "/v1/workers", "shards": "/v1/shards", "queued": "/v1/runs", "pools": "/v1/pools"}
    for name, path in paths.items():
        query = {"status": "queued", "limit": 500} if name == "queued" else None
        try:
            found[name] = client.call("GET", path, query=query)["items"]
        except RotaError:
            found[name] = None  # check_token reports what we can see
    paused = {pool["pool"] for pool in found.pop("pools") or () if pool["status"] == "paused"}
    for run in found["queued"] or ():
        run["paused"] = run["pool"] in paused
    return found


def _whose(client: Client) -> str | None:
    """The owner whose runs are all that our token shows; None if it shows everyone's."""
    try:
        who = client.call("GET", "/v1/session")
    except AnswerError:
        return None  # check_token reports it
    sees_all = any(grant["sees"] == "all" for grant in who["grants"])
    return None if sees_all else str(who["name"])


def _date(answer: HttpAnswer) -> datetime | None:
    try:
        return parsedate_to_datetime(answer.headers["date"]).astimezone(UTC)
    except (KeyError, ValueError):
        return None
