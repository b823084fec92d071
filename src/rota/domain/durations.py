"""Durations as people write them."""

from __future__ import annotations

import re
from datetime import timedelta

# Seconds, or words such as 90s, 15m, 2h30m, 1d.
Duration = float | timedelta | str

_WORDS = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?", re.ASCII)
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_MOST_SECONDS = 100 * 366 * _DAY


def seconds_of(duration: Duration) -> float:
    """A duration in seconds; raises ValueError if it is none."""
    if isinstance(duration, timedelta):
        return duration.total_seconds()
    return _parse(duration) if isinstance(duration, str) else _check(duration)


def _check(seconds: float) -> float:
    # NaN would be written as null, and taken for no duration.
    if not abs(seconds) <= _MOST_SECONDS:
        raise ValueError(f"a duration is a number of seconds up to a hundred years, not {str(seconds)[:20]}")
    return float(seconds)


def _parse(words: str) -> float:
    match = _WORDS.fullmatch(words.strip().lower())
    if not match or not any(match.groups()):
        raise ValueError(f"{words!r} is not a duration such as 90s, 15m, 2h30m or 1d")
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    total = days * _DAY + hours * _HOUR + minutes * _MINUTE + seconds
    if total > _MOST_SECONDS:
        raise ValueError(f"{words!r} is longer than a hundred years")
    return total
