"""What a shell job may ask for."""

from __future__ import annotations

import pytest

from rota.domain.job import check_command
from rota.domain.runner_payloads import ShellCall, parse_shell_call
from rota.errors import BadInputError


def test_a_command_alone_and_everything_around_it_are_read():
    assert parse_shell_call({"command": "x"}) == ShellCall("x", "/bin/sh", {}, "", None)
    whole = {"run": "x", "shell": "/bin/bash", "environment": {"A": "b"}, "input": "in", "directory": "~"}
    assert parse_shell_call({"command": whole}) == ShellCall("x", "/bin/bash", {"A": "b"}, "in", "~")


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"run": " "}, "run"),
        ({}, "run"),
        ({"run": "x", "shell": "bash"}, "shell"),
        ({"run": "x", "environment": ["A"]}, "environment"),
        ({"run": "x", "environment": {"A": 1}}, "environment"),
        ({"run": "x", "environment": {"A=B": "c"}}, "environment"),
        ({"run": "x", "environment": {"ROTA_TOKEN": "c"}}, "environment"),
        ({"run": "x", "input": 5}, "input"),
        ({"run": "x", "directory": "a\x00b"}, "directory"),
        ({"run": "x", "enviroment": {}}, "enviroment"),
    ],
)
def test_what_can_not_be_is_refused_by_its_field(fields, named):
    with pytest.raises(BadInputError) as refused:
        parse_shell_call({"command": fields})
    assert refused.value.fields[0][0] == f"payload.command.{named}"


def test_a_worker_that_knows_the_text_alone_refuses_a_command_that_says_more():
    with pytest.raises(BadInputError):
        check_command({"run": "rm -rf $SCRATCH", "environment": {"SCRATCH": "x"}})
