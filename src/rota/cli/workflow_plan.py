"""What applying a file changes, and the change itself."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from rota.cli.workflow_files import read_workflow
from rota.cli.workflow_view import differences
from rota.client import AnswerError, Client
from rota.contract.workflows import WorkflowIn
from rota.domain.job import STORED_BYTES
from rota.domain.rights import Caller
from rota.errors import BadInputError
from rota.gateway.job_builder import JobBuilder
from rota.gateway.workflow_plans import plan_of

_NOT_FOUND = 404
_DEFINED = ("nodes", "inputs", "failFast", "deadlineSeconds", "schedule")


class PlannedWorkflow(NamedTuple):
    """A workflow as the file has it, what it differs in, and the revision that it was compared with."""

    wanted: WorkflowIn
    changes: list[dict[str, Any]]
    revision: int | None

    @property
    def name(self) -> str:
        return self.wanted.name

    @property
    def words(self) -> str:
        """What would be done."""
        return "create" if self.revision is None else "change" if self.changes else "no change"

    @property
    def done(self) -> str:
        """What was done."""
        return {"create": "created", "change": "changed"}.get(self.words, "no change")


def plan_file(client: Client, file: str) -> PlannedWorkflow:
    """Reads a file, checks it here, and compares it with the server's; raises BadInputError."""
    wanted = read_workflow(file)
    _check(wanted)
    try:
        found = client.call("GET", _path(wanted.name))
    except AnswerError as error:
        if error.status != _NOT_FOUND:
            raise
        return PlannedWorkflow(wanted, differences(None, _plain(wanted)), None)
    return PlannedWorkflow(wanted, differences(_plain(_known(found)), _plain(wanted)), found["revision"])


def apply_plan(client: Client, planned: PlannedWorkflow) -> Any:
    """Creates the workflow, or changes it if it is still the one that the file was compared with."""
    body = msgspec.to_builtins(planned.wanted)
    if planned.revision is None:
        return client.call("POST", "/v1/workflows", body=body)
    headers = {"If-Match": f'"{planned.revision}"'}
    return client.call("PUT", _path(planned.name), body=body, headers=headers)


def _known(found: dict[str, Any]) -> WorkflowIn:
    """The server's workflow as a definition."""
    given = {name: found[name] for name in _DEFINED if found.get(name) is not None}
    return msgspec.convert({"name": found["name"], **given}, WorkflowIn)


def _plain(wanted: WorkflowIn) -> dict[str, Any]:
    """A definition without what is so by default, so that what means the same is the same."""
    plain: dict[str, Any] = msgspec.to_builtins(wanted)
    return plain


def _check(wanted: WorkflowIn) -> None:
    """Raises BadInputError for what the server would refuse of its graph and references."""
    builder = JobBuilder(shards=1, payload_limit_bytes=STORED_BYTES, now=lambda: datetime.now(UTC))
    try:
        plan_of(wanted, Caller("default", "nobody"), builder)
    except BadInputError as error:
        words = "; ".join(f"{field}: {message}" for field, message in error.fields)
        raise BadInputError(words or str(error), field="FILE") from None


def _path(name: str) -> str:
    return f"/v1/workflows/{quote(name, safe='')}"
