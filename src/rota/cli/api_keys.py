"""Commands about access: token create, list, revoke and sign, whoami, audit."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import typer

from rota.cli.terminal.output import (
    CursorOption,
    JsonFlag,
    LimitOption,
    errors_in_words,
    print_json,
    refuse_empty,
    say,
    server,
    show_page,
)
from rota.cli.terminal.tables import Column, print_line, print_table, status, text, time
from rota.cli.terminal.times import check_time, parse_interval
from rota.client import Client
from rota.client.bodies import fields_of
from rota.domain.ids import is_key_id
from rota.domain.rights import EVERYWHERE, Grant, Right, Role
from rota.errors import BadInputError, SetupError
from rota.settings import DEFAULT_NAMESPACE, Settings

_KEY_PREFIX = "rota_"
_NamespaceOption = typer.Option(None, "--namespace", help="The namespace (ROTA_NAMESPACE; else the token's).")
token = typer.Typer(name="token", help="Make, list and revoke API keys.", rich_markup_mode=None, no_args_is_help=True)


@token.command()
def create(
    name: str = typer.Argument(metavar="NAME", help="Its purpose, such as billing-service."),
    role: Role = typer.Option(..., "--role", help="What it may do."),
    namespace: str | None = _NamespaceOption,
    everywhere: bool = typer.Option(False, "--everywhere", help="For all namespaces."),
    owner: str | None = typer.Option(None, "--owner", help="The owner of its jobs (its name)."),
    sees_all: bool = typer.Option(False, "--sees-all", help="Can read all jobs of the namespace."),
    scopes: list[Right] = typer.Option([], "--scope", help="Only this right of the role; can be repeated."),
    expires_seconds: str | None = typer.Option(None, "--expires", help="Valid for 12h, 90d, … (until revoked)."),
    as_json: bool = JsonFlag,
) -> None:
    """Make a key. It is shown only once."""
    with server(create, namespace=namespace) as client:
        refuse_empty(owner, "--owner")
        given = {
            "name": name,
            "role": role.value,
            "sees": "all" if sees_all else "own",
            "everywhere": everywhere,
            "owner": owner,
            "scopes": [right.value for right in scopes] or None,
            "expires_seconds": None if expires_seconds is None else parse_interval(expires_seconds, "--expires"),
        }
        made = client.call("POST", "/v1/keys", body=fields_of(given))
        if as_json:
            print_json(made)
            return
        print(made["key"])
        where = "everywhere" if made["namespace"] == EVERYWHERE else f"in namespace {made['namespace']}"
        say(f"{made['role']} {where}, owner {made['owner']}. Save it now: it is not shown again.", "dim")


@token.command("list")
def list_(
    namespace: str | None = _NamespaceOption,
    cursor: str | None = CursorOption,
    limit: int = LimitOption,
    as_json: bool = JsonFlag,
) -> None:
    """List keys, without their secrets."""
    with server(list_, namespace=namespace) as client:
        page = client.call("GET", "/v1/keys", query={"cursor": cursor, "limit": limit})
        columns = (
            text("PREFIX", "prefix"),
            text("NAME", "name", least=10),
            status(),
            text("ROLE", "role"),
            text("SEES", "sees", drop=2),
            Column(heading="MAY", show=lambda item: ",".join(item.get("scopes") or ["all"]), drop=3),
            text("OWNER", "owner", least=8, drop=2),
            text("NAMESPACE", "namespace", drop=4),
            time("EXPIRES", "expiresTime", drop=1),
            time("LAST USED", "lastUsedTime", drop=5),
        )
        show_page(page, columns, none="No keys: make one with `rota token create`.", as_json=as_json)


@token.command()
def revoke(
    key_id: str = typer.Argument(metavar="KEY", help="Its prefix, its id, its name or the key itself."),
    namespace: str | None = _NamespaceOption,
    as_json: bool = JsonFlag,
) -> None:
    """Revoke a key. No server accepts it any more."""
    with server(revoke, namespace=namespace) as client:
        answer = client.call("DELETE", f"/v1/keys/{_find_key(client, key_id.strip())}")
        if as_json:
            print_json(answer)
            return
        print_line(f"{answer['prefix']} ({answer['name']}) is revoked")


@token.command()
def sign(
    subject: str = typer.Argument(metavar="SUBJECT", help="The user; also the owner of their jobs."),
    role: Role = typer.Option(..., "--role", help="What it may do."),
    namespace: str | None = _NamespaceOption,
    sees_all: bool = typer.Option(False, "--sees-all", help="Can read all jobs of the namespace."),
    expires: str = typer.Option("1h", "--expires", help="Valid for 15m, 12h, …"),
) -> None:
    """Sign a JWT with ROTA_JWT_SECRET, without a server. It can't be revoked: keep it short-lived."""
    from rota.access.jwt_signing import sign_token  # noqa: PLC0415 - cryptography loads slowly

    with errors_in_words(sign):
        settings = Settings.from_environment()
        if settings.jwt_secret is None:
            raise SetupError("There is no secret to sign with: set ROTA_JWT_SECRET to the server's.")
        grants = {namespace or settings.namespace or DEFAULT_NAMESPACE: Grant(role, "all" if sees_all else "own")}
        expires_at = datetime.now(UTC) + timedelta(seconds=parse_interval(expires, "--expires"))
        print(
            sign_token(
                settings.jwt_secret,
                subject,
                grants,
                expires_at,
                issuer=settings.jwt_issuer,
                audience=settings.jwt_audience,
                claim=settings.jwt_claim,
            )
        )


def whoami(as_json: bool = JsonFlag) -> None:
    """Show whose token it is and what it can do."""
    with server() as client:
        who = client.call("GET", "/v1/session")
        if as_json:
            print_json(who)
            return
        print_line(f"{who['name']} ({who['kind']})")
        columns = (text("NAMESPACE", "namespace"), text("ROLE", "role"), text("SEES", "sees"))
        print_table(who["grants"], columns, none="No role in any namespace.")
        if who.get("scopes"):
            print_line(f"only to {', '.join(who['scopes'])}")


def audit(
    actor: str | None = typer.Option(None, "--actor", help="Only of this actor."),
    action: str | None = typer.Option(None, "--action", help="Only this action, such as cancel_job."),
    about: str | None = typer.Option(None, "--object", help="Only about this job, run, pool or key."),
    start_time: str | None = typer.Option(None, "--start", help="At or after this time."),
    end_time: str | None = typer.Option(None, "--end", help="Before this time."),
    namespace: str | None = _NamespaceOption,
    cursor: str | None = CursorOption,
    limit: int = LimitOption,
    as_json: bool = JsonFlag,
) -> None:
    """Show who did what, latest first."""
    with server(audit, namespace=namespace) as client:
        query = {
            "actor": actor,
            "action": action,
            "object": about,
            "startTime": check_time(start_time or None, "--start"),
            "endTime": check_time(end_time or None, "--end"),
            "cursor": cursor,
            "limit": limit,
        }
        page = client.call("GET", "/v1/audit", query=query)
        columns = (
            time("TIME", "time"),
            text("ACTOR", "actor", least=8),
            text("ACTION", "action"),
            text("OBJECT", "object", least=12),
            Column(heading="ENDED", show=lambda item: str(item.get("status") or "unknown")),
            text("FROM", "source", drop=1),
        )
        where = namespace or Settings.from_environment().namespace or "the token's namespace"
        show_page(page, columns, none=f"No entry matches in {where}.", as_json=as_json)


def _find_key(client: Client, given: str) -> str:
    """The id of a key, from its id, its prefix, the key itself, or a name that only one valid key has."""
    if is_key_id(given):
        return given
    prefix = "_".join(given.split("_")[:2])
    keys = list(client.api_keys())
    for key in keys:
        if given.startswith(_KEY_PREFIX) and key.prefix == prefix:
            return key.key_id
    named = [key for key in keys if key.name == given]
    valid = [key for key in named if key.status == "active"] or named
    if len(valid) == 1:
        return valid[0].key_id
    if not valid:
        raise BadInputError("no such key in this namespace; `rota token list` shows them", field="KEY")
    lines = "".join(f"\n  {key.prefix}  {key.role}  owner {key.owner}" for key in valid)
    raise BadInputError(f"several keys have the name {given!r}; give the prefix of one:{lines}", field="KEY")
