"""Watching code: which Python files below some directories have changed since the last look.

By looking at times and sizes again and again: a few milliseconds for a thousand files, the same on every system and on
every file system, and nothing to install.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Protocol

LOOK_SECONDS = 0.5
QUIET_SECONDS = 0.2
# Looking takes at most a tenth of the time, however many files there are.
LOOK_SHARE = 0.1
# Whoever writes files without end does not keep us from going on.
MOST_LOOKS = 25
# Workers don't run these; those that the application itself imports are watched all the same (`include`).
FOR_TESTS = re.compile(r"test_.*\.py|.*_test\.py|conftest\.py")
SKIPPED = frozenset({"node_modules", "__pycache__", "site-packages"})
VIRTUAL_ENVIRONMENT = "pyvenv.cfg"

State = tuple[int, int]


class Watched(Protocol):
    """What can be asked for changes."""

    def changed(self) -> list[Path]:
        """What changed since the last time."""
        ...


class Watcher:
    """Knows the Python files below `places`, and those of `include`, as they were at the last look."""

    def __init__(self, places: Sequence[Path], *, skip: Sequence[Path] = ()) -> None:
        self.places = [place.resolve() for place in places]
        self._skip = {str(path.resolve()) for path in skip}
        self._wanted: frozenset[str] = frozenset()
        self._included: frozenset[str] = frozenset()
        self._seen = self._look()

    def include(self, files: Iterable[str]) -> None:
        """Watches these as well from the next look on, wherever they lie. May be called while another thread looks."""
        self._wanted |= frozenset(files)

    def changed(self) -> list[Path]:
        """The files that are new, changed or gone since the last look."""
        added = self._wanted - self._included
        self._included |= added
        before, self._seen = self._seen, self._look()
        known = (before.keys() | self._seen.keys()) - (added - before.keys())
        return sorted(Path(path) for path in known if before.get(path) != self._seen.get(path))

    def _look(self) -> dict[str, State]:
        found = {}
        for place in self.places:
            for entry in self._files_below(str(place)):
                if state := _state(entry):
                    found[entry.path] = state
        for file in self._included - found.keys():
            if state := _state(Path(file)):
                found[file] = state
        return found

    def _files_below(self, place: str) -> Iterator[os.DirEntry[str]]:
        directories = [place]
        while directories:
            directory = directories.pop()
            entries = _entries(directory)
            if directory != place and any(entry.name == VIRTUAL_ENVIRONMENT for entry in entries):
                continue
            for entry in entries:
                if entry.name.endswith(".py"):
                    if not FOR_TESTS.fullmatch(entry.name):
                        yield entry
                elif entry.is_dir(follow_symlinks=False) and not self._is_skipped(entry):
                    directories.append(entry.path)

    def _is_skipped(self, entry: os.DirEntry[str]) -> bool:
        return entry.name.startswith(".") or entry.name in SKIPPED or entry.path in self._skip


async def next_change(
    watcher: Watched, *, look_seconds: float = LOOK_SECONDS, quiet_seconds: float = QUIET_SECONDS
) -> list[Path]:
    """Waits for a change, and then for a moment of quiet: an editor writes several files, a checkout many."""
    changed: set[Path] = set()
    looks, took = 0, 0.0
    while looks < MOST_LOOKS:
        await asyncio.sleep(max(quiet_seconds if changed else look_seconds, took / LOOK_SHARE))
        began = time.monotonic()
        latest = await asyncio.to_thread(watcher.changed)
        took = time.monotonic() - began
        if changed and not latest:
            break
        changed.update(latest)
        looks += bool(changed)
    return sorted(changed)


def places_of(where: str) -> list[Path]:
    """Where the code of MODULE:APP lies: the current directory, or that of its module if it is elsewhere.

    Found without importing anything, since what is to be imported may be broken.
    """
    here = Path.cwd()
    name = where.partition(":")[0].partition(".")[0]
    spec = PathFinder.find_spec(name, [str(here), *sys.path]) or importlib.util.find_spec(name)
    found = [] if spec is None else [Path(place).resolve() for place in spec.submodule_search_locations or ()]
    if not found and spec and spec.origin and spec.has_location:
        found = [Path(spec.origin).resolve().parent]
    own = [place for place in found if not SKIPPED & set(place.parts)]
    elsewhere = [place for place in own if not place.is_relative_to(here)]
    return elsewhere if own and own == elsewhere else [here, *elsewhere]


def _entries(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except OSError:
        return []  # gone since it was found, or not ours to read


def _state(file: os.DirEntry[str] | Path) -> State | None:
    try:
        stat = file.stat()
    except OSError:
        return None  # gone since it was found
    return stat.st_mtime_ns, stat.st_size
