"""Receivers of logs: HTTP servers that hold what they are sent against the protocols of Elasticsearch and Loki."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web


class Receiver:
    """What has arrived, and how it answers: `away` is the status of an outage, `refuses` finds lines that it does not
    take, `is_busy` those that it takes later."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.headers: list[Any] = []
        self.requests = 0
        self.away: int | None = None
        self.refuses: Callable[[str], bool] = lambda _line: False
        self.is_busy: Callable[[str], bool] = lambda _line: False
        self.url = ""

    @property
    def texts(self) -> list[str]:
        """Each line once, in the order of arrival."""
        return list(dict.fromkeys(line["line"] for line in self.lines))

    def _came(self, request: web.Request) -> web.Response | None:
        self.requests += 1
        self.headers.append(request.headers)
        return None if self.away is None else web.Response(status=self.away, text="away")


class BulkReceiver(Receiver):
    """The bulk API: pairs of an action and a document, each on a line, and an outcome for each of them."""

    def __init__(self) -> None:
        super().__init__()
        self.documents: dict[str, dict[str, Any]] = {}

    async def answer(self, request: web.Request) -> web.Response:
        if refusal := self._came(request):
            return refusal
        assert request.path.endswith("/_bulk")
        assert request.content_type == "application/x-ndjson"
        body = await request.text()
        assert body.endswith("\n")
        parts = [json.loads(line) for line in body.split("\n")[:-1]]
        items = [
            self._take(action["create"], document) for action, document in zip(parts[::2], parts[1::2], strict=True)
        ]
        return web.json_response(
            {"took": 1, "errors": any("error" in item for item in items), "items": [{"create": item} for item in items]}
        )

    def _take(self, action: dict[str, str], document: dict[str, Any]) -> dict[str, Any]:
        assert set(action) == {"_index", "_id"}
        assert document["@timestamp"] == document["time"]
        if self.is_busy(document["line"]):
            return {"status": 429, "error": {"type": "es_rejected_execution_exception"}}
        if self.refuses(document["line"]):
            return {"status": 400, "error": {"type": "document_parsing_exception"}}
        if action["_id"] in self.documents:
            assert self.documents[action["_id"]] == document
            return {"status": 409, "error": {"type": "version_conflict_engine_exception"}}
        self.documents[action["_id"]] = document
        self.lines.append(document)
        return {"status": 201, "_index": action["_index"]}


class PushReceiver(Receiver):
    """Loki's push API: streams of labels, with times in nanoseconds."""

    def __init__(self) -> None:
        super().__init__()
        self.labels: list[dict[str, str]] = []

    async def answer(self, request: web.Request) -> web.Response:
        if refusal := self._came(request):
            return refusal
        assert request.path == "/loki/api/v1/push"
        assert request.content_type == "application/json"
        streams = (await request.json())["streams"]
        values = [(moment, json.loads(line)) for stream in streams for moment, line in stream["values"]]
        assert all(moment.isdecimal() and len(moment) == 19 for moment, _ in values)
        taken = [line for _, line in values if not self.refuses(line["line"])]
        self.labels += [stream["stream"] for stream in streams]
        self.lines += taken  # Loki takes the others of a request that it refuses
        if len(taken) < len(values):
            return web.Response(status=400, text="entry too far behind")
        return web.Response(status=204)


@asynccontextmanager
async def receiving(receiver: Receiver):
    """The receiver on a port of its own."""
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_route("*", "/{path:.*}", receiver.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        receiver.url = f"http://{host}:{port}"
        yield receiver
    finally:
        await runner.cleanup()
