"""The command `rota database-roles`: least-privilege database roles for servers, workers and submitters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import typer

from rota.cli.processes import HomeOption
from rota.cli.terminal.output import errors_in_words
from rota.cli.terminal.tables import Column, print_table, text
from rota.contract.fields import NamespaceName
from rota.errors import BadInputError
from rota.settings import Settings

_ServerOption = typer.Option([], "--server", help="A role for the API and schedulers.", metavar="ROLE")
_WorkerOption = typer.Option([], "--worker", help="A role for workers.", metavar="ROLE")
_SubmitterOption = typer.Option([], "--submitter", help="A role that can call rota.submit_v1.", metavar="ROLE")
_NamespacesOption = typer.Option(None, "--namespaces", help="Limit workers and submitters to namespaces: a,b.")
_PoolsOption = typer.Option(None, "--pools", help="Limit workers to pools: a,b.")
_ForgetOption = typer.Option([], "--forget", help="Revoke all rights of a role.", metavar="ROLE")

_COLUMNS = (
    text("ROLE", "name"),
    text("KIND", "kind"),
    Column(heading="NAMESPACES", show=lambda item: _list(item["namespaces"])),
    Column(heading="POOLS", show=lambda item: _list(item["pools"])),
)


def database_roles(
    server: list[str] = _ServerOption,
    worker: list[str] = _WorkerOption,
    submitter: list[str] = _SubmitterOption,
    namespaces: str | None = _NamespacesOption,
    pools: str | None = _PoolsOption,
    forget: list[str] = _ForgetOption,
    home: Path | None = HomeOption,
) -> None:
    """Grant database roles only the rights they need. Run it as the schema's owner. Lists all roles."""
    with errors_in_words():
        if namespaces is not None and not (worker or submitter):
            raise BadInputError("--namespaces limits the roles of --worker and --submitter; give one")
        if pools is not None and not worker:
            raise BadInputError("--pools limits the roles of --worker; give one")
        if len({*server, *worker, *submitter, *forget}) < len([*server, *worker, *submitter, *forget]):
            raise BadInputError("a role has one kind; give each role once")
        from rota.cli import process_start  # noqa: PLC0415 - as in processes.py

        names, pool_names = _names(namespaces, "--namespaces"), _names(pools, "--pools")
        wanted = [
            *((role, "server", None, None) for role in server),
            *((role, "worker", names, pool_names) for role in worker),
            *((role, "submitter", names, None) for role in submitter),
        ]
        settings = Settings.from_environment(home=home)
        roles = process_start.change_database_roles(settings, wanted, forget)
        print_table(roles, _COLUMNS, none="No roles: everything runs as the schema's owner.")


def _names(option: str | None, name: str) -> tuple[str, ...] | None:
    if option is None:
        return None
    names = tuple(dict.fromkeys(word.strip() for word in option.split(",")))
    try:
        return msgspec.convert(names, tuple[NamespaceName, ...])
    except msgspec.ValidationError:
        words = f"must be names of letters, digits and _.:- separated by commas, not {option!r}"
        raise BadInputError(words, field=name) from None


def _list(names: Sequence[str] | None) -> str:
    return "any" if names is None else ", ".join(names)
