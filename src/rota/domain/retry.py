"""How long a run waits before its next attempt."""

from __future__ import annotations

import random
from typing import Literal

import msgspec

Strategy = Literal["exponential", "linear", "fibonacci", "fixed"]

# A run that was stopped this many times in a row because its worker lost the database is buried: it may be the cause.
MAX_LOSSES = 5
_SIXTY_FOUR = 64  # every cap is reached by this exponent


class RetryPolicy(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", forbid_unknown_fields=True):
    """How long to wait before the next attempt."""

    strategy: Strategy = "exponential"
    base_seconds: float = 5.0
    max_seconds: float = 3600.0
    jitter: float = 0.1

    def delay(self, failed_attempts: int, noise: random.Random | None = None) -> float:
        """Seconds to wait after this many failed attempts (1 or more), with jitter, never above the cap."""
        seconds = min(self.base_seconds * self._factor(failed_attempts), self.max_seconds)
        spread = (noise or _noise).uniform(-self.jitter, self.jitter)
        return min(seconds * (1 + spread), self.max_seconds)

    def _factor(self, failed_attempts: int) -> float:
        match self.strategy:
            case "fixed":
                return 1.0
            case "linear":
                return float(failed_attempts)
            case "fibonacci":
                return float(_fibonacci(failed_attempts))
            case "exponential":
                return float(2 ** min(failed_attempts - 1, _SIXTY_FOUR))


def _fibonacci(number: int) -> int:
    before, current = 0, 1
    for _ in range(min(number, 2 * _SIXTY_FOUR) - 1):
        before, current = current, before + current
    return current


_noise = random.Random()  # noqa: S311 - spreads load, guards nothing
