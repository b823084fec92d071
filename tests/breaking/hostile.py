"""A task that does not use its context but speaks to the worker itself: whatever bytes it likes."""

from __future__ import annotations

import base64
import os
import sys


def speak(words: str) -> None:
    """Writes these bytes (base64) on the socket to the worker; its own end is told behind them."""
    os.write(int(sys.argv[1]), base64.b64decode(words))


def add(a: int, b: int) -> int:
    return a + b
