"""Time zones: loaded by name, cut into spans of one offset, and reloaded when the zone data changes.

A process runs for months, and governments change their clocks with weeks of notice. The zone data comes from the system
or, if it has none, from the package `tzdata`; updates replace the files in place. `refresh_zones` clears the caches
here when files changed, so no other module may keep a zone.
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

# Since 1970 two changes of a zone are more than six days apart (the closest: Fernando de Noronha, October 2000).
_PROBE = timedelta(days=6)
_SECOND = timedelta(seconds=1)
_OF = " of "
_RELEASE_FILES = ("tzdata.zi", "+VERSION")
_RELEASE_LENGTH = 40
_OF_THIS_HOST = ("localtime", "posixrules")


class Span(NamedTuple):
    """A time with one offset, within a year.

    Wall-clock times (`opens`, and `start + offset`) are carried as UTC datetimes, so that arithmetic is plain.
    """

    start: datetime
    end: datetime
    offset: timedelta
    opens: datetime  # what the wall clock would have shown at `start` without the change


@lru_cache(maxsize=1024)
def load_zone(name: str) -> ZoneInfo:
    """The IANA zone; raises BadInputError if there is none of that name."""
    try:
        if name in _OF_THIS_HOST:
            raise KeyError(name)  # noqa: TRY301 - files of the zone data, but not zones
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise BadInputError(
            f"no time zone called {name[:80]!r} (an IANA name is expected, such as Europe/Berlin)",
            field="timezone",
        ) from None


@lru_cache(maxsize=8192)
def spans_of(name: str, year: int) -> tuple[Span, ...]:
    """A UTC year of the zone as consecutive spans."""
    zone = load_zone(name)
    first, last = datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)
    starts = [first, *_changes(zone, first, last)]
    ends = [*starts[1:], last]
    return tuple(
        Span(start, end, _offset(zone, start), start + _offset(zone, start - _SECOND))
        for start, end in zip(starts, ends, strict=True)
    )


def zone_data_version() -> str:
    """The version of the zone data; changes when files are replaced. Reads a few files."""
    return ", ".join(_states()) or "none"


def zone_data_releases() -> list[str]:
    """The releases that are installed, such as 2025b: the system's, and that of the package for zones it lacks."""
    return [state.partition(_OF)[0] for state in _states()]


def refresh_zones() -> bool:
    """Clears all cached zones if their data changed; returns whether it did."""
    global _loaded_version  # noqa: PLW0603 - zones are cached per process, as in zoneinfo
    version = zone_data_version()
    if version == _loaded_version:
        return False
    _loaded_version = version
    ZoneInfo.clear_cache()
    load_zone.cache_clear()
    spans_of.cache_clear()
    return True


def _states() -> list[str]:
    found = [_state(Path(directory)) for directory in zoneinfo.TZPATH]
    if (package := _package_directory()) is not None:
        found.append(_state(package))
    return [state for state in found if state]


def _changes(zone: ZoneInfo, first: datetime, last: datetime) -> list[datetime]:
    """The moments between `first` and `last` at which the offset changes."""
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
    """The zone directory of the package `tzdata`."""
    spec = importlib.util.find_spec("tzdata")
    return Path(spec.origin).parent / "zoneinfo" if spec and spec.origin else None


def _state(directory: Path) -> str:
    """Release and last change of a zone directory; empty if there is none."""
    # An update may keep file times, but it renames files into place, which changes their directories.
    with suppress(OSError), os.scandir(directory) as entries:
        states = [entry.stat() for entry in entries if entry.is_dir() or entry.name in _RELEASE_FILES]
        changed = max(state.st_mtime for state in (directory.stat(), *states))
        return f"{_release(directory)}{_OF}{datetime.fromtimestamp(changed, UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    return ""


def _release(directory: Path) -> str:
    """The release, such as 2025b, or else the directory's name."""
    for name in _RELEASE_FILES:
        with suppress(OSError), (directory / name).open("rb") as file:
            words = file.read(_RELEASE_LENGTH).split(b"\n")[0].decode("ascii", "replace").split()
            if words:
                return words[-1]
    return directory.name


_loaded_version = zone_data_version()
