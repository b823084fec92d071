"""Times and durations as people read and write them. Times are shown in UTC, with a Z."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo

from rota.domain.durations import seconds_of
from rota.errors import BadInputError

_EXAMPLE_TIME = "2030-01-31T09:30:00Z"
_EVERY = "every "
_MILLISECOND, _MINUTE, _HOUR, _DAY = 0.001, 60, 3600, 86400


def show_time(moment: str | None) -> str:
    """A time to the second."""
    return _parse(moment).strftime("%Y-%m-%d %H:%M:%SZ") if moment else ""


def show_local_time(moment: str, zone: tzinfo) -> str:
    """A time in a zone, with its offset, which tells the two times of a repeated hour apart."""
    return _parse(moment).astimezone(zone).strftime("%a %Y-%m-%d %H:%M:%S %z")


def show_time_briefly(moment: str | None, now: datetime | None = None) -> str:
    """A short time: the clock for today, month and day for this year, else the date."""
    if not moment:
        return ""
    found, now = _parse(moment), now or datetime.now(UTC)
    if found.date() == now.date():
        return found.strftime("%H:%M:%SZ")
    return found.strftime("%m-%d %H:%MZ" if found.year == now.year else "%Y-%m-%d")


def show_age(moment: str | None, now: datetime | None = None) -> str:
    """How long ago something was."""
    return f"{show_seconds(((now or datetime.now(UTC)) - _parse(moment)).total_seconds())} ago" if moment else ""


def show_length(start: str | None, end: str | None) -> str:
    """How long something took."""
    return show_seconds((_parse(end) - _parse(start)).total_seconds(), exact=True) if start and end else ""


def show_seconds(seconds: float, *, exact: bool = False) -> str:
    """A duration in its largest fitting unit; `exact` is more precise for short ones."""
    seconds = max(0.0, seconds)
    if exact and seconds < 1:
        return f"{seconds * 1000:.0f} ms" if seconds >= _MILLISECOND else "<1 ms"
    if exact and seconds < _MINUTE:
        return f"{seconds:.1f} s"
    for unit, name in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= 2 * unit:
            return f"{int(seconds // unit)} {name}"
    return f"{int(seconds)} s"


def show_interval(seconds: float) -> str:
    """An interval, whole, in the largest unit that leaves no rest: 90 s, 15 min, 2 h."""
    for unit, name in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= unit and seconds % unit == 0:
            return f"{seconds // unit:g} {name}"
    return f"{seconds:g} s"


def parse_duration(content: str, option: str) -> float:
    """Seconds of 90, 90s, 15m, 2h30m, 1d."""
    try:
        return seconds_of(content)
    except ValueError as error:
        raise BadInputError(str(error), field=option) from None


def parse_interval(content: str, option: str) -> float:
    """Seconds of 90s or `every 90s`."""
    words = content.strip()
    return parse_duration(words[len(_EVERY) :] if words.lower().startswith(_EVERY) else words, option)


def check_time(content: str | None, option: str) -> str | None:
    """The time in ISO format; raises BadInputError if it is not a time or has no offset."""
    if content is None:
        return None
    try:
        moment = datetime.fromisoformat(content.strip())
    except ValueError:
        raise BadInputError(f"{content!r} is not a time such as {_EXAMPLE_TIME}", field=option) from None
    if moment.tzinfo is None:
        raise BadInputError(f"{content!r} has no offset: add Z for UTC, or one such as +02:00", field=option)
    return moment.isoformat()


def _parse(moment: str | None) -> datetime:
    return datetime.fromisoformat(moment or "").astimezone(UTC)
