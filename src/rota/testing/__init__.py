"""Tests of applications on the real engine, in one process, with a clock that the test moves.

The pytest plugin `pytest_rota` provides fixtures.
"""

from rota.testing.databases import Databases, databases
from rota.testing.engine import EndlessError, StuckError
from rota.testing.kit import Kit, running
from rota.testing.kit_sync import SyncKit, running_sync
from rota.testing.records import RunRecord, Submission

__all__ = [
    "Databases",
    "EndlessError",
    "Kit",
    "RunRecord",
    "StuckError",
    "Submission",
    "SyncKit",
    "databases",
    "running",
    "running_sync",
]
