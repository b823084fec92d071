"""What can go wrong with a test of jobs."""

from __future__ import annotations

from rota.errors import RotaError


class StuckError(RotaError):
    """A run does not end, and nothing else happens."""


class EndlessError(RotaError):
    """More runs than any test can want: something submits itself again and again."""
