"""`rota submit --file`, from its options to its exit code."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from typer.core import TyperOption

from rota.cli.bulk_lines import read_pieces, split_lines
from rota.cli.bulk_submit import Refusals, Sender, Tally, open_errors, summary_of, summary_words
from rota.cli.terminal.output import BAD_INPUT, FAILED, errors_in_words, print_json, say, server
from rota.cli.terminal.progress import open_meter
from rota.cli.terminal.tables import console
from rota.errors import BadInputError, RotaError

STANDARD_INPUT = "-"
_GO_TOGETHER = {"file", "errors", "quiet", "key", "as_json"}
_AGAIN = "What was accepted stays. The same command again goes on: within 24 hours it makes nothing twice."


def submit_file(
    context: typer.Context, file: str, *, errors: Path | None, salt: str, quiet: bool, as_json: bool
) -> None:
    """Sends every line of the file, and says what became of them."""
    with errors_in_words():
        _refuse_others(context)
    with server() as client, _open(file) as descriptor, open_errors(errors, file) as kept:
        meter = open_meter(_size(descriptor), quiet=quiet)
        refusals = Refusals(meter, kept)
        sender = Sender(client, salt=salt, meter=meter, refusals=refusals)
        try:
            with meter:
                sender.send(split_lines(read_pieces(descriptor)))
        except (KeyboardInterrupt, RotaError, OSError) as error:
            _stop(error, sender.tally, refusals, as_json=as_json)
        refusals.end()
        _report(sender.tally, complete=True, as_json=as_json)
        if sender.tally.refused:
            raise typer.Exit(BAD_INPUT)


def _stop(error: BaseException, tally: Tally, refusals: Refusals, *, as_json: bool) -> None:
    """It could not be finished: says how far it came, and why."""
    if tally.lines:
        refusals.end()
        _report(tally, complete=False, as_json=as_json)
    if isinstance(error, RotaError):
        if tally.lines:
            say(_AGAIN)
        raise error
    say(f"Interrupted. {_AGAIN}" if isinstance(error, KeyboardInterrupt) else f"The file can't be read: {error}")
    raise typer.Exit(FAILED) from None


def _report(tally: Tally, *, complete: bool, as_json: bool) -> None:
    if as_json:
        print_json(summary_of(tally, complete=complete))
    else:
        words = summary_words(tally) if complete else f"{summary_words(tally)}, up to line {tally.last_line:,}"
        console().print(words, soft_wrap=True, markup=False)


def _refuse_others(context: typer.Context) -> None:
    """Whatever says what one job is can't be meant for all of them."""
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE" and name not in _GO_TOGETHER:
            option = parameter.opts[0] if isinstance(parameter, TyperOption) else "NAME"
            raise BadInputError("does not go with --file: each line says everything about its job", field=option)


@contextmanager
def _open(file: str) -> Iterator[int]:
    """Where to read from; raises BadInputError when there is nothing to read."""
    if file == STANDARD_INPUT:
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
    """How large it is, where that is known beforehand."""
    found = os.fstat(descriptor)
    return found.st_size if stat.S_ISREG(found.st_mode) else None
