"""`rota submit --file`: sends a stream of lines in batches, one at a time, to keep their order.

Lines the server can't accept now (rate limit, backlog limit, no database) are sent again after the pause it asks for.
So are lines lost on the way: every line has an idempotency key. Rejected lines are reported; the others continue.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import msgspec
import typer
from typer.core import TyperOption

from rota.cli.bulk_lines import BadLine, JobLine, read_pieces, split_lines, with_key
from rota.cli.terminal.output import BAD_INPUT, FAILED, errors_in_words, print_json, say, server
from rota.cli.terminal.progress import Meter
from rota.cli.terminal.tables import print_line
from rota.cli.terminal.times import show_seconds
from rota.client import AnswerError, Client, ServerUnreachableError
from rota.client.errors import NOT_NOW
from rota.client.retries import Patience
from rota.contract.jobs import BatchResult
from rota.contract.problems import Problem
from rota.errors import BadInputError, RotaError

MOST_PER_BATCH = 5000
_BATCH_BYTES = 900_000  # many proxies accept at most a megabyte
PATIENCE_SECONDS = 300.0  # how long to wait for a lost server
MOST_SHOWN = 10
_TOO_LARGE = 413
_RATE_LIMITED = 429
_STANDARD_INPUT = "-"
_GO_TOGETHER = {"file", "errors", "quiet", "key", "as_json"}
_AGAIN = "Accepted jobs stay. Run the same command within 24 hours to continue: it makes no job twice."


@dataclass
class _BulkCounts:
    """Results so far."""

    accepted: int = 0
    there_already: int = 0
    refused: int = 0
    last_line: int = 0
    seconds: float = 0.0
    began: float = field(default_factory=time.monotonic)

    @property
    def lines(self) -> int:
        """Lines with a result."""
        return self.accepted + self.there_already + self.refused

    @property
    def rate(self) -> float:
        """Lines a second."""
        return self.lines / self.seconds if self.seconds else 0.0


class _Refusals:
    """Reports rejected lines: the first few on standard error, all of them in the --errors file."""

    def __init__(self, meter: Meter, file: IO[str] | None) -> None:
        self._meter = meter
        self._file = file
        self._count = 0

    def add(self, number: int, reason: str, status: int | None) -> None:
        """Reports a line."""
        self._count += 1
        if self._count <= MOST_SHOWN:
            self._meter.warn(f"line {number}: {reason}")
        if self._file:
            self._file.write(json.dumps({"line": number, "reason": reason, "status": status}) + "\n")

    def end(self) -> None:
        """Prints how many were not shown."""
        if self._count > MOST_SHOWN:
            where = "see the --errors file" if self._file else "use --errors FILE to keep them"
            say(f"… and {self._count - MOST_SHOWN:,} more lines were refused; {where}")


class _LineSender:
    """Sends lines in batches that the server accepts."""

    def __init__(self, client: Client, *, salt: str, meter: Meter, refusals: _Refusals) -> None:
        self._client = client
        self._salt = salt
        self._meter = meter
        self._refusals = refusals
        self._most = MOST_PER_BATCH
        self._reached = False
        self._refused: list[tuple[int, str, int | None]] = []  # not reported yet
        self._told = ""  # the last reason printed for a pause
        self.tally = _BulkCounts()

    def send(self, lines: Iterable[JobLine | BadLine | None]) -> None:
        """Sends everything; raises if no server can be reached or it rejects the token."""
        for batch, last in self._batches(lines):
            self._send_batch(batch)
            self._report()
            self.tally.last_line = last.number
            self.tally.seconds = time.monotonic() - self.tally.began
            self._meter.show(last.end, self.tally.lines)

    def _batches(self, lines: Iterable[JobLine | BadLine | None]) -> Iterator[tuple[list[JobLine], JobLine | BadLine]]:
        """Batches, each with the last line it covers; a pause in the input ends a batch."""
        batch: list[JobLine] = []
        size, last = 0, None
        for found in lines:
            line = with_key(found, self._salt) if isinstance(found, JobLine) else found
            if isinstance(line, BadLine):
                self._refuse(line.number, line.reason)
            elif line is not None:
                batch.append(line)
                size += len(line.content)
            last = line or last
            full = len(batch) >= self._most or size >= _BATCH_BYTES or len(self._refused) >= self._most
            if last is not None and (line is None or full):
                yield batch, last
                batch, size, last = [], 0, None
        if last is not None:
            yield batch, last

    def _send_batch(self, batch: list[JobLine]) -> None:
        """Sends until each line has a result."""
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

    def _count(self, line: JobLine, result: BatchResult) -> None:
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
        """Reports rejected lines in order, whether we or the server rejected them."""
        for refusal in sorted(self._refused):
            self._refusals.add(*refusal)
        self._refused.clear()

    def _ask(self, batch: list[JobLine], patience: Patience) -> list[BatchResult]:
        """The results of these lines, or of the first ones if the server accepts fewer at a time."""
        while True:
            try:
                results = self._client.submit_lines([line.content for line in batch])
            except AnswerError as error:
                if error.status == _TOO_LARGE and len(batch) == 1:
                    problem = Problem(type="about:blank", title="Too large", status=error.status, detail=str(error))
                    return [BatchResult(error=problem)]
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
        """Pauses; raises the error if waiting would not help or took too long."""
        self._reached = True
        if isinstance(error, AnswerError) and error.status == _RATE_LIMITED:
            patience.begin_anew()  # the server is there: no limit to waiting
        pause = patience.pause_after(error)
        if isinstance(error, AnswerError) and error.retry_after_seconds:
            pause = max(pause, error.retry_after_seconds)
        if str(error) != self._told:
            self._told = str(error)
            self._meter.tell(f"{error}; trying again in {show_seconds(pause, exact=True)}")
        time.sleep(pause)


def _is_for_later(result: BatchResult) -> bool:
    return result.error is not None and result.error.status in NOT_NOW


def _error_of(result: BatchResult) -> AnswerError:
    problem: dict[str, Any] = msgspec.to_builtins(result.error)
    return AnswerError(problem["status"], problem)


def _open_errors(path: Path | None, file: str) -> AbstractContextManager[IO[str] | None]:
    """The emptied file for rejected lines; raises BadInputError if it can't be written."""
    if path is None:
        return nullcontext()
    if file != "-" and path.exists() and path.samefile(file):
        raise BadInputError("is the input file", field="--errors")
    try:
        return path.open("w")
    except OSError as error:
        raise BadInputError(f"{path} can't be written ({error.strerror})", field="--errors") from None


def _summary_of(tally: _BulkCounts, *, complete: bool) -> dict[str, Any]:
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


def _summary_words(tally: _BulkCounts) -> str:
    counts = f"{tally.accepted:,} accepted, {tally.there_already:,} there already, {tally.refused:,} refused"
    return f"{counts} ({tally.seconds:.1f} s, {tally.rate:,.0f} jobs/s)"


def submit_file(
    context: typer.Context, file: str, *, errors: Path | None, salt: str, quiet: bool, as_json: bool
) -> None:
    """Sends every line of the file and prints the counts."""
    with errors_in_words():
        _refuse_others(context)
    with server() as client, _open(file) as descriptor, _open_errors(errors, file) as kept:
        meter = Meter(_size(descriptor), quiet=quiet)
        refusals = _Refusals(meter, kept)
        sender = _LineSender(client, salt=salt, meter=meter, refusals=refusals)
        try:
            with meter:
                sender.send(split_lines(read_pieces(descriptor)))
        except (KeyboardInterrupt, RotaError, OSError) as error:
            _stop(error, sender.tally, refusals, as_json=as_json)
        refusals.end()
        _report(sender.tally, complete=True, as_json=as_json)
        if sender.tally.refused:
            raise typer.Exit(BAD_INPUT)


def _stop(error: BaseException, tally: _BulkCounts, refusals: _Refusals, *, as_json: bool) -> None:
    """Prints how far it came before the error."""
    if tally.lines:
        refusals.end()
        _report(tally, complete=False, as_json=as_json)
    if isinstance(error, RotaError):
        if tally.lines:
            say(_AGAIN)
        raise error
    say(f"Interrupted. {_AGAIN}" if isinstance(error, KeyboardInterrupt) else f"The file can't be read: {error}")
    raise typer.Exit(FAILED) from None


def _report(tally: _BulkCounts, *, complete: bool, as_json: bool) -> None:
    if as_json:
        print_json(_summary_of(tally, complete=complete))
    else:
        print_line(_summary_words(tally) + ("" if complete else f", up to line {tally.last_line:,}"))


def _refuse_others(context: typer.Context) -> None:
    """Refuses options that describe a single job."""
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE" and name not in _GO_TOGETHER:
            option = parameter.opts[0] if isinstance(parameter, TyperOption) else "NAME"
            raise BadInputError("can't be used with --file: each line describes its job", field=option)


@contextmanager
def _open(file: str) -> Iterator[int]:
    """A descriptor to read from; raises BadInputError if the file can't be read."""
    if file == _STANDARD_INPUT:
        if sys.stdin.isatty():
            say("Reading jobs from the terminal, one JSON object per line; Ctrl-D ends.", "dim")
        yield sys.stdin.fileno()
        return
    try:
        descriptor = os.open(file, os.O_RDONLY)
    except (OSError, ValueError) as error:
        raise BadInputError(f"{file} can't be read ({getattr(error, 'strerror', error)})", field="--file") from None
    try:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise BadInputError(f"{file} is a directory", field="--file")
        yield descriptor
    finally:
        os.close(descriptor)


def _size(descriptor: int) -> int | None:
    """The size of a regular file."""
    found = os.fstat(descriptor)
    return found.st_size if stat.S_ISREG(found.st_mode) else None
