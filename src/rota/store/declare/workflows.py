"""Which workflows applications declare, and what they said of them last."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from rota.store.postgres.database import Statements


async def declared_workflows(statements: Statements, namespace: str, app: str) -> list[Any]:
    """The workflows that an application declares or declared; without an id: it was deleted since."""
    return await statements.fetch("declared_workflows", namespace=namespace, app=app)


async def declared_elsewhere(statements: Statements, namespace: str, app: str, name: str) -> str | None:
    """Another application that declares a workflow of this name."""
    row = await statements.fetch_row("declared_elsewhere", namespace=namespace, app=app, name=name)
    return None if row is None else row["app"]


async def note_workflow(
    statements: Statements,
    namespace: str,
    app: str,
    name: str,
    workflow_id: UUID,
    *,
    declared: str | None,
    version: str | None,
) -> None:
    """Notes what a version says of a workflow; None: nothing any more."""
    await statements.fetch(
        "note_workflow",
        namespace=namespace,
        app=app,
        name=name,
        workflow_id=workflow_id,
        declared=declared,
        version=version,
    )
