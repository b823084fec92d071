"""Submitting over HTTP. http_sync.py is generated from this file."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from rota.client import AnswerError, AsyncClient, ServerUnreachableError
from rota.client.errors import refusal_of
from rota.client.retries import Patience
from rota.contract.workflows import WorkflowRunOut, WorkflowRunStarted
from rota.gateway.deliveries import AsyncDelivery
from rota.gateway.protocol import RunSnapshot
from rota.gateway.workflow_acts import WorkflowAct

_ANSWER_SECONDS = 1.0  # for the answer, after the wait
_PAUSE_SECONDS = 0.5


class HttpGateway(AsyncDelivery):
    """Submits over HTTP, and asks the API for runs."""

    def __init__(
        self, url: str | None, token: str | None, namespace: str | None = None, patience_seconds: float | None = None
    ) -> None:
        self._client = AsyncClient(url, token, namespace=namespace, patience=patience_seconds)
        super().__init__(self._client)
        self._patience = Patience()

    async def look(self, run_id: str, wait_seconds: float) -> RunSnapshot:
        """The server waits. While it does not answer the status is unknown; after a minute that is an error."""
        try:
            run = await self._client.look(run_id, wait_seconds, within=wait_seconds + _ANSWER_SECONDS)
        except (ServerUnreachableError, AnswerError) as error:
            if wait_seconds <= 0:
                raise
            self._patience.bear(error)
            await asyncio.sleep(min(wait_seconds, _PAUSE_SECONDS))
            return RunSnapshot("unknown", error=str(error))
        self._patience.begin_anew()
        return RunSnapshot(run.status, run.result, run.error, run.reason, run.traceback)

    async def cancel(self, run_id: str) -> None:
        try:
            await self._client.cancel_run(run_id)
        except AnswerError as error:
            raise refusal_of(error) from error

    async def caller(self) -> None:
        """Known to the server only, by the token."""

    async def start_workflow(self, workflow: str, inputs: Mapping[str, Any], key: str) -> WorkflowRunStarted:
        try:
            return await self._client.run_workflow(workflow, inputs, idempotency_key=key)
        except AnswerError as error:
            raise refusal_of(error) from error

    async def act_on_workflow(self, act: WorkflowAct) -> WorkflowRunOut:
        """Waiting is asking again: it ends with the run, or when its time is over."""
        client = self._client
        try:
            match act.verb:
                case "look" if act.wait_seconds:
                    return await self._wait(act)
                case "cancel":
                    return await client.cancel_workflow_run(act.run_id)
                case "resume":
                    return await client.resume_workflow_run(
                        act.run_id,
                        generation=act.generation,
                        nodes=act.nodes,
                        items=act.items,
                        version=act.version,
                    )
                case "signal":
                    await client.signal_workflow_run(act.run_id, act.name, act.payload, idempotency_key=act.key)
                case "approve":
                    return await client.approve_node(act.run_id, act.name, comment=act.comment)
                case "reject":
                    return await client.reject_node(act.run_id, act.name, comment=act.comment)
            return await client.workflow_run(act.run_id)
        except AnswerError as error:
            raise refusal_of(error) from error

    async def _wait(self, act: WorkflowAct) -> WorkflowRunOut:
        try:
            return await self._client.wait_for_workflow_run(act.run_id, act.wait_seconds)
        except TimeoutError:
            return await self._client.workflow_run(act.run_id)

    async def close(self) -> None:
        await self._client.aclose()
