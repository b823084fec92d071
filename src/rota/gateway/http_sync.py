# Made from src/rota/gateway/http.py by tools/make_sync.py (`make sync`): change that file, not this one.
"""Submitting over HTTP. http_sync.py is generated from this file."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from rota.client import AnswerError, Client, ServerUnreachableError
from rota.client.errors import refusal_of
from rota.client.retries import Patience
from rota.contract.workflows import WorkflowRunOut, WorkflowRunStarted
from rota.gateway.deliveries_sync import Delivery
from rota.gateway.protocol import RunSnapshot
from rota.gateway.workflow_acts import WorkflowAct

_ANSWER_SECONDS = 1.0  # for the answer, after the wait
_PAUSE_SECONDS = 0.5


class SyncHttpGateway(Delivery):
    """Submits over HTTP, and asks the API for runs."""

    def __init__(
        self, url: str | None, token: str | None, namespace: str | None = None, patience_seconds: float | None = None
    ) -> None:
        self._client = Client(url, token, namespace=namespace, patience=patience_seconds)
        super().__init__(self._client)
        self._patience = Patience()

    def look(self, run_id: str, wait_seconds: float) -> RunSnapshot:
        """The server waits. While it does not answer the status is unknown; after a minute that is an error."""
        try:
            run = self._client.look(run_id, wait_seconds, within=wait_seconds + _ANSWER_SECONDS)
        except (ServerUnreachableError, AnswerError) as error:
            if wait_seconds <= 0:
                raise
            self._patience.bear(error)
            time.sleep(min(wait_seconds, _PAUSE_SECONDS))
            return RunSnapshot("unknown", error=str(error))
        self._patience.begin_anew()
        return RunSnapshot(run.status, run.result, run.error, run.reason, run.traceback)

    def cancel(self, run_id: str) -> None:
        try:
            self._client.cancel_run(run_id)
        except AnswerError as error:
            raise refusal_of(error) from error

    def caller(self) -> None:
        """Known to the server only, by the token."""

    def start_workflow(self, workflow: str, inputs: Mapping[str, Any], key: str) -> WorkflowRunStarted:
        try:
            return self._client.run_workflow(workflow, inputs, idempotency_key=key)
        except AnswerError as error:
            raise refusal_of(error) from error

    def act_on_workflow(self, act: WorkflowAct) -> WorkflowRunOut:
        """Waiting is asking again: it ends with the run, or when its time is over."""
        client = self._client
        try:
            match act.verb:
                case "look" if act.wait_seconds:
                    return self._wait(act)
                case "cancel":
                    return client.cancel_workflow_run(act.run_id)
                case "resume":
                    return client.resume_workflow_run(
                        act.run_id,
                        generation=act.generation,
                        nodes=act.nodes,
                        items=act.items,
                        version=act.version,
                    )
                case "signal":
                    client.signal_workflow_run(act.run_id, act.name, act.payload, idempotency_key=act.key)
                case "approve":
                    return client.approve_node(act.run_id, act.name, comment=act.comment)
                case "reject":
                    return client.reject_node(act.run_id, act.name, comment=act.comment)
            return client.workflow_run(act.run_id)
        except AnswerError as error:
            raise refusal_of(error) from error

    def _wait(self, act: WorkflowAct) -> WorkflowRunOut:
        try:
            return self._client.wait_for_workflow_run(act.run_id, act.wait_seconds)
        except TimeoutError:
            return self._client.workflow_run(act.run_id)

    def close(self) -> None:
        self._client.close()
