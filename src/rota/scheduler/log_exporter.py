"""Sends logs elsewhere: to Elasticsearch, Loki, or a file for a log shipper (log_targets).

No line is lost: a log that has ended is queued in the transaction that records its copy in object storage, and leaves
the queue when the target has taken all of it. While the target is away the queue grows by a row per attempt; the text
is in object storage anyway. Attempts that go on are sent chunk by chunk: one worker writes the chunks of an attempt one
after the other, so what is there has no gap. How much of a log was sent is recorded after the target took it. If the
process dies in between, lines are sent again, with the same key.

Two processes can be at it for a moment, when a scheduler takes over: lines may come twice, never not at all. Lines that
the target refuses for what they are are logged and left out.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, NamedTuple

from rota.blobs import BlobError, BlobMissingError, Blobs
from rota.domain.ids import show_job, show_run
from rota.scheduler.log_targets import ExportedLine, LogTarget, TargetError
from rota.scheduler.shard_service import ShardService
from rota.scheduler.sweeper import SWEEPING_SHARD
from rota.store.logs.blocks import LogBlocks
from rota.store.logs.exports import LogExports, SentLog
from rota.telemetry import get_logger

_LOGS_PER_ROUND = 200
_CHUNKS_PER_ROUND = 500
_LINES_PER_REQUEST = 2000
_BYTES_PER_REQUEST = 1024 * 1024
_GROWING_SECONDS = 5.0  # what ends sooner is sent when it has
_LONGEST_PAUSE_SECONDS = 60.0
_MOST_SHOWN = 5
_log = get_logger("log_exporter")


class Portion(NamedTuple):
    """Lines of a log, and what is recorded once they have arrived."""

    lines: list[ExportedLine]
    sent: SentLog


class LogExporter(ShardService):
    """Sends logs, in the scheduler that owns SWEEPING_SHARD."""

    interval_seconds = 5.0
    full_round = _LOGS_PER_ROUND

    def __init__(
        self, *, exports: LogExports, blocks: LogBlocks, blobs: Blobs, target: LogTarget, **shared: Any
    ) -> None:
        super().__init__(**shared)
        self._exports = exports
        self._blocks = blocks
        self._blobs = blobs
        self._target = target
        self._failures = 0
        self._unreadable = 0  # logs of this round that object storage did not give

    @property
    def pause_seconds(self) -> float:
        """Longer and longer while the target is away."""
        return float(min(super().pause_seconds * 2**self._failures, _LONGEST_PAUSE_SECONDS))

    def expect(self) -> None:
        """There is something to send; a target that is away is left alone."""
        if not self._failures:
            self.wake()

    async def serve(self, owned: Mapping[int, int]) -> int:
        """Returns how many logs were looked at."""
        if SWEEPING_SHARD not in owned:
            return 0
        await self._exports.end_lost()
        self._unreadable = 0
        due = await self._exports.due(_LOGS_PER_ROUND)
        growing = await self._exports.growing(_GROWING_SECONDS, _CHUNKS_PER_ROUND)
        try:
            await self._send(self._ended(due))
            await self._send(self._growing(growing))
        except TargetError as error:
            if not self._failures:
                _log.warning("logs can't be exported; they wait", error=str(error))
            self._failures = min(self._failures + 1, 10)
            return 0
        if self._failures:
            _log.info("logs are exported again")
        self._failures = 0
        return len(due) - self._unreadable

    async def close(self) -> None:
        await super().close()
        await self._target.close()

    async def _send(self, portions: AsyncIterator[Portion]) -> None:
        """Sends portions together, as many as fit into a request, and records each that has arrived."""
        lines: list[ExportedLine] = []
        size = 0
        arrived: list[SentLog] = []
        async for portion in portions:
            lines += portion.lines
            size += sum(len(line.line) for line in portion.lines)
            arrived.append(portion.sent)
            if len(lines) >= _LINES_PER_REQUEST or size >= _BYTES_PER_REQUEST:
                await self._deliver(lines, arrived)
                lines, size, arrived = [], 0, []
        await self._deliver(lines, arrived)

    async def _deliver(self, lines: Sequence[ExportedLine], arrived: Sequence[SentLog]) -> None:
        refused = await self._target.send(lines) if lines else []
        for refusal in refused[:_MOST_SHOWN]:
            _log.warning(
                "the target refuses a line of a log; it is left out",
                run_id=refusal.line.run_id,
                number=refusal.line.number,
                refused=len(refused),
                error=refusal.reason,
            )
        if arrived:
            await self._exports.note(arrived)

    async def _ended(self, due: Sequence[Any]) -> AsyncIterator[Portion]:
        runs = await self._blocks.runs_of(due)
        for log in due:
            key = log["namespace"], log["run_id"], log["claim"]
            try:
                text = await self._text(log)
            except BlobError as error:
                _log.warning("a log can't be read for export; it is tried again", error=str(error))
                await self._exports.postpone([key])
                self._unreadable += 1
                continue
            lines = _lines(log, runs, text, 0)[log["lines"] :]
            for first in range(0, len(lines), _LINES_PER_REQUEST):
                some = lines[first : first + _LINES_PER_REQUEST]
                yield Portion(some, SentLog(*key, log["lines"] + first + len(some), 0, whole=False))
            yield Portion([], SentLog(*key, 0, 0, whole=True))

    async def _text(self, log: Any) -> str:
        if log["blob"] is None:
            return ""  # its retention has ended
        try:
            body = await self._blobs.get_piece(log["blob"], log["first"], log["length"])
        except BlobMissingError as error:
            _log.warning("a log is no longer in object storage and is not exported", error=str(error))
            return ""
        return body.decode("utf-8", "replace")

    async def _growing(self, chunks: Sequence[Any]) -> AsyncIterator[Portion]:
        runs = await self._blocks.runs_of(chunks)
        sent: dict[tuple[Any, ...], int] = {}
        for chunk in chunks:
            key = chunk["namespace"], chunk["run_id"], chunk["claim"]
            first = sent.get(key, chunk["lines"])
            lines = _lines(chunk, runs, chunk["body"], first)
            sent[key] = first + len(lines)
            yield Portion(lines, SentLog(*key, sent[key], chunk["number"] + 1, whole=False))


def _lines(log: Any, runs: Mapping[Any, Any], text: str, first: int) -> list[ExportedLine]:
    run = runs.get((log["namespace"], log["run_id"]))
    lines = []
    for number, line in enumerate(text.removesuffix("\n").split("\n") if text else (), first + 1):
        moment, _, rest = line.partition(" ")
        stream, _, said = rest.partition(" ")
        lines.append(
            ExportedLine(
                time=moment,
                namespace=log["namespace"],
                run_id=show_run(log["run_id"]),
                job_id=show_job(run["job_id"]) if run else None,
                task=run["task"] if run else None,
                pool=run["pool"] if run else None,
                attempt=log["attempt"],
                stream=stream,
                line=said,
                number=number,
                claim=log["claim"],
            )
        )
    return lines
