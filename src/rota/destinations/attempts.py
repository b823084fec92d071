"""How an attempt to send a message ended."""

from __future__ import annotations

from typing import NamedTuple


class DeliveryAttempt(NamedTuple):
    """What came back: an HTTP status, if any, and why it failed (None: it was taken)."""

    answer: int | None = None
    error: str | None = None

    @property
    def is_delivered(self) -> bool:
        return self.error is None
