"""A clock that tests of schedulers move."""

from __future__ import annotations

import pytest


class Time:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time():
    return Time()
