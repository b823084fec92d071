"""Time zones: found by name, cut into spans of one offset, and followed when the zone data changes.

A process runs for months, and governments change their clocks with weeks of notice. The zone data comes from the
system's files or, where there are none, from the package `tzdata`; both are replaced in place by an update. Everything
remembered here is forgotten by `refresh_zones` once the files are others, so nothing outside may keep a zone.
"""

from __future__ import annotations

import importlib.util
import os
import zoneinfo
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

from rota.errors import BadInputError

# Two changes of one zone lie more than six days apart since 1970 (the closest: Fernando de Noronha, October 2000).
_PROBE = timedelta(days=6)
_SECOND = timedelta(seconds=1)
_RELEASE_FILES = ("tzdata.zi", "+VERSION")
_RELEASE_LENGTH = 40
_OF_THIS_HOST = ("localtime", "posixrules")


class Span(NamedTuple):
    """A time of one offset, within a year.

    A wall-clock time (`opens`, and `start + offset`) is carried as a datetime in UTC, so that all arithmetic is plain.
    """

    start: datetime
    end: datetime
    offset: timedelta
    opens: datetime  # what the wall clock would have shown at `start` had it not been changed then


@lru_cache(maxsize=1024)
def load_zone(name: str) -> ZoneInfo:
    """The IANA zone; raises BadInputError when there is none of that name."""
    try:
        if name in _OF_THIS_HOST:
            raise KeyError(name)  # noqa: TRY301 - they are files of the zone data, but no zones
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise BadInputError(
            f"no time zone called {name[:80]!r} (an IANA name is expected, such as Europe/Berlin)",
            field="timezone",
        ) from None


@lru_cache(maxsize=8192)
def spans_of(name: str, year: int) -> tuple[Span, ...]:
    """The zone's year (of UTC) in spans, in their order and without holes."""
    zone = load_zone(name)
    first, last = datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)
    starts = [first, *_changes(zone, first, last)]
    ends = [*starts[1:], last]
    return tuple(
        Span(start, end, _offset(zone, start), start + _offset(zone, start - _SECOND))
        for start, end in zip(starts, ends, strict=True)
    )


def zone_data_version() -> str:
    """Which zone data is in use, and since when; another text when files were replaced. Costs a few looks at files."""
    found = [_state(Path(directory)) for directory in zoneinfo.TZPATH]
    if (package := _package_directory()) is not None:
        found.append(_state(package))
    return ", ".join(state for state in found if state) or "none"


def refresh_zones() -> bool:
    """Forgets all zones if their data changed since they were loaded; whether it did."""
    global _loaded_version  # noqa: PLW0603 - what is remembered of zones is remembered per process, as zoneinfo does
    version = zone_data_version()
    if version == _loaded_version:
        return False
    _loaded_version = version
    ZoneInfo.clear_cache()
    load_zone.cache_clear()
    spans_of.cache_clear()
    return True


def _changes(zone: ZoneInfo, first: datetime, last: datetime) -> list[datetime]:
    """The moments after `first` and before `last` from which on another offset counts."""
    found = []
    low, before = first, _offset(zone, first)
    while low < last - _SECOND:
        high = min(low + _PROBE, last - _SECOND)
        after = _offset(zone, high)
        if after != before:
            found.append(_change_between(zone, low, high))
        low, before = high, after
    return found


def _change_between(zone: ZoneInfo, low: datetime, high: datetime) -> datetime:
    before = _offset(zone, low)
    while high - low > _SECOND:
        middle = low + (high - low) // _SECOND // 2 * _SECOND
        low, high = (middle, high) if _offset(zone, middle) == before else (low, middle)
    return high


def _offset(zone: ZoneInfo, moment: datetime) -> timedelta:
    offset = moment.astimezone(zone).utcoffset()
    assert offset is not None  # noqa: S101 - a zone always has one
    return offset


@cache
def _package_directory() -> Path | None:
    """Where the package `tzdata` keeps its zones."""
    spec = importlib.util.find_spec("tzdata")
    return Path(spec.origin).parent / "zoneinfo" if spec and spec.origin else None


def _state(directory: Path) -> str:
    """Release and time of the last change of a directory of zones; empty when there is none."""
    # An update may keep the times of its files, but it renames them into place, which their directories show.
    with suppress(OSError), os.scandir(directory) as entries:
        states = [entry.stat() for entry in entries if entry.is_dir() or entry.name in _RELEASE_FILES]
        changed = max(state.st_mtime for state in (directory.stat(), *states))
        return f"{_release(directory)} of {datetime.fromtimestamp(changed, UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    return ""


def _release(directory: Path) -> str:
    """The name of the release, such as 2025b, if the directory tells."""
    for name in _RELEASE_FILES:
        with suppress(OSError), (directory / name).open("rb") as file:
            words = file.read(_RELEASE_LENGTH).split(b"\n")[0].decode("ascii", "replace").split()
            if words:
                return words[-1]
    return directory.name


_loaded_version = zone_data_version()
