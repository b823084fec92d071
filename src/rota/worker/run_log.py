"""Run logs: kept line by line, sent a few times a second, and always before the run's report.

A run that writes nothing costs nothing: its log is made with its first line. Beyond a size limit only the end of a log
is kept, after a line that says how much is left out. The lines of an attempt are sent in order, so that a client that
follows the log never sees a gap.
"""

from __future__ import annotations

import asyncio
import codecs
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from rota.broker.protocol import Broker
from rota.domain.run import Claim, LogChunk
from rota.domain.text import clean_text
from rota.service import Service
from rota.worker.secret_mask import Mask

_FLUSH_SECONDS = 0.25
_CHUNK_BYTES = 64 * 1024
_LINE_CHARACTERS = 16 * 1024
_TAIL_BYTES = 32 * 1024
_PIECE_BYTES = 8 * 1024


class RunLog:
    """The log of one attempt."""

    def __init__(
        self,
        claim: Claim,
        *,
        limit_bytes: int,
        mask: Mask,
        now: Callable[[], float],
        on_lines: Callable[[RunLog], None],
    ) -> None:
        self.claim = claim
        self._limit = limit_bytes
        self._mask = mask
        self._now = now
        self._on_lines = on_lines
        self._size = 0
        self._lines: list[str] = []
        self._unsent: list[LogChunk] = []
        self._number = 0
        self._decoders: dict[str, codecs.IncrementalDecoder] = {}
        self._partial: dict[str, str] = {}
        self._left_out = 0
        self._tails: dict[str, bytes] = {}
        self._closed = False
        self._last_made = False
        self._lock = threading.Lock()  # functions in threads write while the event loop sends

    def write(self, stream: str, text: str) -> None:
        """Adds whole lines, from a logger."""
        with self._lock:
            lines = text.removesuffix("\n").split("\n")
            for number, line in enumerate(lines):
                if self._is_full:
                    self._keep_tail(stream, "\n".join(lines[number:]).encode("utf-8", "replace") + b"\n")
                    return
                self._add(stream, line)

    def feed(self, stream: str, data: bytes) -> None:
        """Adds raw output; a line is taken when it is complete, or too long to wait for its end."""
        with self._lock:
            for first in range(0, len(data), _PIECE_BYTES):
                if self._is_full:
                    self._keep_tail(stream, data[first:])
                    return
                self._feed(stream, data[first : first + _PIECE_BYTES])

    def _feed(self, stream: str, data: bytes) -> None:
        decoder = self._decoders.get(stream)
        if decoder is None:
            decoder = self._decoders[stream] = codecs.getincrementaldecoder("utf-8")("replace")
        *lines, rest = (self._partial.get(stream, "") + decoder.decode(data)).split("\n")
        for line in lines:
            self._add(stream, line)
        if len(rest) > _LINE_CHARACTERS + self._mask.longest:
            # Mask before cutting: a secret across the cut would be found in neither part.
            rest = self._mask(rest)
            cut = (len(rest) - self._mask.longest) // _LINE_CHARACTERS * _LINE_CHARACTERS
            self._add(stream, rest[:cut])
            rest = rest[cut:]
        self._partial[stream] = rest

    def close(self) -> None:
        """Ends the log; what an abandoned function still writes is dropped."""
        with self._lock:
            if self._closed:
                return
            for stream, rest in list(self._partial.items()):
                if rest:
                    self._add(stream, rest)
            if self._tails:
                self._add_tails()
            self._closed = True
        self._on_lines(self)

    def unsent(self) -> list[LogChunk]:
        """All chunks that are still to be sent, in order."""
        with self._lock:
            self._pack()
            return list(self._unsent)

    def _pack(self) -> None:
        size = 0
        body: list[str] = []
        for line in self._lines:
            if size + len(line) > _CHUNK_BYTES and body:
                self._make_chunk("".join(body), last=False)
                size, body = 0, []
            size += len(line)
            body.append(line)
        self._lines = []
        if body or (self._closed and not self._last_made):
            self._make_chunk("".join(body), last=self._closed)

    def sent(self, chunks: int) -> None:
        """Removes this many chunks, which have arrived."""
        del self._unsent[:chunks]

    @property
    def _is_full(self) -> bool:
        return self._size >= self._limit

    def _make_chunk(self, body: str, *, last: bool) -> None:
        self._unsent.append(LogChunk(self.claim, self._number, body, last))
        self._number += 1
        self._last_made = last

    def _add(self, stream: str, line: str) -> None:
        if self._closed:
            return
        # Of a line that was overwritten (a progress bar), keep the last state.
        shown = self._mask(clean_text(line.rstrip("\r").rpartition("\r")[2]))
        for first in range(0, len(shown) or 1, _LINE_CHARACTERS):
            whole = f"{_stamp(self._now())} {stream} {shown[first : first + _LINE_CHARACTERS]}\n"
            self._lines.append(whole)
            self._size += len(whole)
        if self._size >= self._limit and not self._tails:
            # Half a line continues in the tail, so that a secret across the boundary is found.
            self._tails = {name: rest.encode("utf-8", "replace") for name, rest in self._partial.items() if rest}
            self._partial.clear()
        self._on_lines(self)

    def _keep_tail(self, stream: str, data: bytes) -> None:
        self._left_out += len(data)
        kept = _TAIL_BYTES + 4 * self._mask.longest
        self._tails[stream] = (self._tails.get(stream, b"") + data[-kept:])[-kept:]

    def _add_tails(self) -> None:
        tails = {stream: self._tail_lines(data) for stream, data in self._tails.items()}
        kept = sum(len(line) + 1 for lines in tails.values() for line in lines)
        if self._left_out > kept:
            left_out = self._left_out - kept
            self._add("rota", f"[… {left_out:,} bytes are left out here: a log is cut at {self._limit:,} bytes …]")
        for stream, lines in tails.items():
            for line in lines:
                self._add(stream, line)

    def _tail_lines(self, data: bytes) -> list[str]:
        """Masks first, then cuts off what may be part of a secret or of a line."""
        text = self._mask(data.decode("utf-8", "replace"))
        if len(data) >= _TAIL_BYTES + 4 * self._mask.longest:
            text = text[self._mask.longest :][-_TAIL_BYTES:]
            _, found, rest = text.partition("\n")
            text = rest if found else text
        return text.removesuffix("\n").split("\n")


class LogWriter(Service):
    """Sends run logs to the broker."""

    interval_seconds = None

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self._broker = broker
        self._open: dict[int, RunLog] = {}
        self._under_way: set[int] = set()
        self._sending = asyncio.Lock()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def note(self, log: RunLog) -> None:
        """The log has lines to send. Can be called from any thread."""
        self._open[log.claim.number] = log
        if threading.get_ident() == self._thread:
            self.wake()
        else:
            self._loop.call_soon_threadsafe(self.wake)

    async def tick(self) -> int:
        """Gathers lines for a moment and sends them; returns how many logs."""
        if not self._open:
            return 0
        await asyncio.sleep(_FLUSH_SECONDS)
        return await self._send(list(self._open))

    async def send_of(self, claims: Iterable[int]) -> None:
        """Sends the remaining lines of these attempts; raises DatabaseUnavailableError if that failed."""
        if wanted := [claim for claim in claims if claim in self._open or claim in self._under_way]:
            await self._send(wanted)

    async def _send(self, claims: list[int]) -> int:
        async with self._sending:
            portions = [(log, log.unsent()) for claim in claims if (log := self._open.pop(claim, None))]
            chunks = [chunk for _, portion in portions for chunk in portion]
            if not chunks:
                return 0
            self._under_way = {log.claim.number for log, _ in portions}
            try:
                await self._broker.write_logs(chunks)
            except BaseException:
                for log, _ in portions:
                    self._open[log.claim.number] = log
                raise
            finally:
                self._under_way = set()
            for log, portion in portions:
                log.sent(len(portion))
            return len(portions)


def _stamp(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
