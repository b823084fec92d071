"""NO_COLOR: not one escape sequence, on standard output and standard error."""

from __future__ import annotations

import os
import sys

import pytest

from terminals import on_terminal

TABLE = """
from rota.cli.terminal.output import fail, say
from rota.cli.terminal.tables import print_fields, print_table, status, text
print_table([{"name": "x", "status": "failed"}], (text("NAME", "name"), status()), none="")
print_fields({"name": "x"})
say("waiting", "dim")
fail("it failed")
"""
LOG = """
from rota.telemetry import configure_logging, get_logger
configure_logging()
get_logger("x").warning("something")
"""


def shown(program, **environment):
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    return on_terminal([sys.executable, "-c", program], kept | {"TERM": "xterm-256color"} | environment)[1]


@pytest.mark.parametrize("program", [TABLE, LOG], ids=["tables", "logs"])
def test_no_color_sends_no_escape_sequence_and_without_it_there_are_some(program):
    assert "\x1b" not in shown(program, NO_COLOR="1")
    assert "\x1b[" in shown(program)


def test_a_dumb_terminal_gets_no_escape_sequence():
    assert "\x1b" not in shown(TABLE, TERM="dumb")
