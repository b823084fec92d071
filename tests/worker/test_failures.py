"""The line that a worker's own log gets for an attempt that fails."""

from __future__ import annotations

import pytest

from rota.worker.executor import _first_line


@pytest.mark.parametrize("error", [None, "", " \n ", "\x0b"])
def test_an_error_without_a_word_is_told_as_one(error):
    assert _first_line(error) == "no message"


def test_the_first_line_is_told():
    assert _first_line("\n no such customer \nmore") == "no such customer "
