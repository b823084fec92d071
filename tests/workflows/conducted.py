"""Workflow runs as tests see them."""

from __future__ import annotations

from rota.domain.rights import Caller
from support import eventually

ME = Caller(namespace="default", owner="me")


async def ended(workflows, started):
    """A workflow run when it is over."""
    run_id = started if isinstance(started, str) else started.workflow_run_id

    async def look():
        run = await workflows.show_run(run_id, ME)
        return run if run.status not in ("running", "cancelling") else None

    return await eventually(look)


async def node_is(workflows, started, node, status):
    """A workflow run when a node of it has this status; one that waits has been started."""

    async def look():
        run = await workflows.show_run(started.workflow_run_id, ME)
        found = run.nodes[node]
        return run if found.status == status and (found.start_time or status != "waiting") else None

    return await eventually(look)
