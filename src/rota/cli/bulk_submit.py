"""`rota submit --file`: a stream of lines, sent in batches, one after the other.

One batch is under way at a time, so that lines arrive in their order. What the server can't take now (a limit, too much
waiting, no database) is sent again after the pause it asks for; what was lost on the way as well, since every line has
an idempotency key. A line that is refused is reported, and the others go on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import msgspec

from rota.cli.bulk_lines import BadLine, Line, with_key
from rota.cli.terminal.output import say
from rota.cli.terminal.progress import Meter
from rota.cli.terminal.times import show_seconds
from rota.client import AnswerError, Client, ServerUnreachableError
from rota.client.retries import NOT_NOW, Patience
from rota.contract.jobs import BatchResult
from rota.contract.problems import Problem
from rota.errors import BadInputError

MOST_PER_BATCH = 5000
BATCH_BYTES = 900_000  # many a proxy takes no more than a megabyte
PATIENCE_SECONDS = 300.0  # a server that is gone for longer is not waited for
MOST_SHOWN = 10
_TOO_LARGE = 413
_RATE_LIMITED = 429


@dataclass
class Tally:
    """What became of the lines so far."""

    accepted: int = 0
    there_already: int = 0
    refused: int = 0
    last_line: int = 0
    seconds: float = 0.0
    began: float = field(default_factory=time.monotonic)

    @property
    def lines(self) -> int:
        """Those of which something became."""
        return self.accepted + self.there_already + self.refused

    @property
    def rate(self) -> float:
        """Lines a second."""
        return self.lines / self.seconds if self.seconds else 0.0


class Refusals:
    """Reports lines that are refused: the first few on standard error, all of them into a file if there is one."""

    def __init__(self, meter: Meter, file: IO[str] | None) -> None:
        self._meter = meter
        self._file = file
        self._count = 0

    def add(self, number: int, reason: str, status: int | None) -> None:
        """One more."""
        self._count += 1
        if self._count <= MOST_SHOWN:
            self._meter.warn(f"line {number}: {reason}")
        if self._file:
            self._file.write(json.dumps({"line": number, "reason": reason, "status": status}) + "\n")

    def end(self) -> None:
        """Says how many were not shown."""
        if self._count > MOST_SHOWN:
            where = "they are in the --errors file" if self._file else "--errors FILE keeps them all"
            say(f"… and {self._count - MOST_SHOWN:,} more lines were refused; {where}")


class Sender:
    """Sends lines, in batches that the server takes."""

    def __init__(self, client: Client, *, salt: str, meter: Meter, refusals: Refusals) -> None:
        self._client = client
        self._salt = salt
        self._meter = meter
        self._refusals = refusals
        self._most = MOST_PER_BATCH
        self._reached = False
        self._refused: list[tuple[int, str, int | None]] = []  # and not reported yet
        self._told = ""  # why nothing moves, as it was said last
        self.tally = Tally()

    def send(self, lines: Iterable[Line | BadLine | None]) -> None:
        """Sends everything; raises when the server can't be had, or refuses whoever asks."""
        for batch, last in self._batches(lines):
            self._send_batch(batch)
            self._report()
            self.tally.last_line = last.number
            self.tally.seconds = time.monotonic() - self.tally.began
            self._meter.show(last.end, self.tally.lines)

    def _batches(self, lines: Iterable[Line | BadLine | None]) -> Iterator[tuple[list[Line], Line | BadLine]]:
        """Lines that go together, with the last that is done once they are; a pause in what comes ends a batch."""
        batch: list[Line] = []
        size, last = 0, None
        for found in lines:
            line = with_key(found, self._salt) if isinstance(found, Line) else found
            if isinstance(line, BadLine):
                self._refuse(line.number, line.reason)
            elif line is not None:
                batch.append(line)
                size += len(line.content)
            last = line or last
            full = len(batch) >= self._most or size >= BATCH_BYTES or len(self._refused) >= self._most
            if last is not None and (line is None or full):
                yield batch, last
                batch, size, last = [], 0, None
        if last is not None:
            yield batch, last

    def _send_batch(self, batch: list[Line]) -> None:
        """Until there is an answer for each."""
        patience = Patience(PATIENCE_SECONDS)
        while batch:
            results = self._ask(batch[: self._most], patience)
            later = [pair for pair in zip(batch, results, strict=False) if _is_for_later(pair[1])]
            for line, result in zip(batch, results, strict=False):
                if not _is_for_later(result):
                    self._count(line, result)
            if len(later) < len(results):
                patience.begin_anew()
                self._told = ""
            batch = [line for line, _ in later] + batch[len(results) :]
            if later:
                self._wait(_error_of(later[0][1]), patience)

    def _count(self, line: Line, result: BatchResult) -> None:
        if result.error is not None:
            self._refuse(line.number, result.error.detail, result.error.status)
        elif result.replayed or result.duplicate:
            self.tally.there_already += 1
        else:
            self.tally.accepted += 1

    def _refuse(self, number: int, reason: str, status: int | None = None) -> None:
        self.tally.refused += 1
        self._refused.append((number, reason, status))

    def _report(self) -> None:
        """In the order of the lines, whoever refused them."""
        for refusal in sorted(self._refused):
            self._refusals.add(*refusal)
        self._refused.clear()

    def _ask(self, batch: list[Line], patience: Patience) -> list[BatchResult]:
        """The results of these, or of the first of them where the server takes fewer at a time."""
        while True:
            try:
                results = self._client.submit_lines([line.content for line in batch])
            except AnswerError as error:
                if error.status == _TOO_LARGE and len(batch) == 1:
                    return [BatchResult(error=_problem_of(error))]
                if error.status == _TOO_LARGE:
                    self._most = len(batch) // 2
                    batch = batch[: self._most]
                else:
                    self._wait(error, patience)
            except ServerUnreachableError as error:
                if not self._reached:
                    raise
                self._wait(error, patience)
            else:
                self._reached = True
                return results

    def _wait(self, error: AnswerError | ServerUnreachableError, patience: Patience) -> None:
        """Pauses; raises the error when that would not help, or took too long already."""
        self._reached = True
        if isinstance(error, AnswerError) and error.status == _RATE_LIMITED:
            patience.begin_anew()  # the server is there, and turns away for as long as it likes
        pause = patience.pause_after(error)
        if isinstance(error, AnswerError) and error.retry_after_seconds:
            pause = max(pause, error.retry_after_seconds)
        if str(error) != self._told:
            self._told = str(error)
            self._meter.tell(f"{error}; going on when it can, first in {show_seconds(pause, exact=True)}")
        time.sleep(pause)


def _is_for_later(result: BatchResult) -> bool:
    return result.error is not None and result.error.status in NOT_NOW


def _error_of(result: BatchResult) -> AnswerError:
    problem: dict[str, Any] = msgspec.to_builtins(result.error)
    return AnswerError(problem["status"], problem)


def _problem_of(error: AnswerError) -> Problem:
    return Problem(type="about:blank", title="Too large", status=error.status, detail=str(error))


def open_errors(path: Path | None, file: str) -> AbstractContextManager[IO[str] | None]:
    """The file for what is refused, empty; raises BadInputError when there can't be one."""
    if path is None:
        return nullcontext()
    if file != "-" and path.exists() and path.samefile(file):
        raise BadInputError("is the file that is read", field="--errors")
    try:
        return path.open("w")
    except OSError as error:
        raise BadInputError(f"{path} can't be written ({error.strerror})", field="--errors") from None


def summary_of(tally: Tally, *, complete: bool) -> dict[str, Any]:
    """For programs."""
    return {
        "lines": tally.lines,
        "accepted": tally.accepted,
        "thereAlready": tally.there_already,
        "refused": tally.refused,
        "lastLine": tally.last_line,
        "complete": complete,
        "seconds": round(tally.seconds, 3),
        "jobsPerSecond": round(tally.rate, 1),
    }


def summary_words(tally: Tally) -> str:
    """For people."""
    fates = f"{tally.accepted:,} accepted, {tally.there_already:,} there already, {tally.refused:,} refused"
    return f"{fates} ({tally.seconds:.1f} s, {tally.rate:,.0f} jobs/s)"
