"""What a shell job may ask for."""

from __future__ import annotations

import pytest

from rota.domain.shell import ShellCall, parse_shell_call
from rota.errors import BadInputError


def test_a_command_alone_and_everything_around_it_are_read():
    assert parse_shell_call({"command": "x"}) == ShellCall("x", "/bin/sh", {}, "", None)
    whole = {"command": "x", "shell": "/bin/bash", "environment": {"A": "b"}, "input": "in", "directory": "~"}
    assert parse_shell_call(whole) == ShellCall("x", "/bin/bash", {"A": "b"}, "in", "~")


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"command": " "}, "command"),
        ({"command": "x", "shell": "bash"}, "shell"),
        ({"command": "x", "environment": ["A"]}, "environment"),
        ({"command": "x", "environment": {"A": 1}}, "environment"),
        ({"command": "x", "environment": {"A=B": "c"}}, "environment"),
        ({"command": "x", "environment": {"ROTA_TOKEN": "c"}}, "environment"),
        ({"command": "x", "input": 5}, "input"),
        ({"command": "x", "directory": "a\x00b"}, "directory"),
    ],
)
def test_what_can_not_be_is_refused_by_its_field(fields, named):
    with pytest.raises(BadInputError) as refused:
        parse_shell_call(fields)
    assert refused.value.fields[0][0] == f"payload.{named}"
