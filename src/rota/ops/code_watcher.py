"""Watches code: which Python files have changed since the last poll.

It compares times and sizes: a few milliseconds for a thousand files, on every system and file system. inotify (as in
watchfiles) can't exclude directories: it would also watch virtual environments and the embedded database.
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

_POLL_SECONDS = 0.5
_QUIET_SECONDS = 0.2
_POLL_SHARE = 0.1  # the most time polls take, with any number of files
MOST_POLLS = 25  # so that files written all the time don't hold up the others
# Workers don't run these; `include` still watches those that the application imports.
_FOR_TESTS = re.compile(r"test_.*\.py|.*_test\.py|conftest\.py")
_SKIPPED = frozenset({"node_modules", "__pycache__", "site-packages"})
_VIRTUAL_ENVIRONMENT = "pyvenv.cfg"

_State = tuple[int, int]


class _Watched(Protocol):
    def changed(self) -> list[Path]: ...


class Watcher:
    """Compares the Python files below `directories`, and included ones, with the last poll."""

    def __init__(self, directories: Sequence[Path], *, skip: Sequence[Path] = ()) -> None:
        self.directories = [directory.resolve() for directory in directories]
        self._skip = {str(path.resolve()) for path in skip}
        self._wanted: frozenset[str] = frozenset()
        self._included: frozenset[str] = frozenset()
        self._seen = self._scan()

    def include(self, files: Iterable[str]) -> None:
        """Also watches these files, from the next poll on. Safe to call while another thread polls."""
        self._wanted |= frozenset(files)

    def changed(self) -> list[Path]:
        """The files added, changed or removed since the last poll."""
        added = self._wanted - self._included
        self._included |= added
        before, self._seen = self._seen, self._scan()
        known = (before.keys() | self._seen.keys()) - (added - before.keys())
        return sorted(Path(path) for path in known if before.get(path) != self._seen.get(path))

    def _scan(self) -> dict[str, _State]:
        found = {}
        for directory in self.directories:
            for entry in self._files_below(str(directory)):
                if state := _state(entry):
                    found[entry.path] = state
        for file in self._included - found.keys():
            if state := _state(Path(file)):
                found[file] = state
        return found

    def _files_below(self, root: str) -> Iterator[os.DirEntry[str]]:
        directories = [root]
        while directories:
            directory = directories.pop()
            entries = _entries(directory)
            if directory != root and any(entry.name == _VIRTUAL_ENVIRONMENT for entry in entries):
                continue
            for entry in entries:
                if entry.name.endswith(".py"):
                    if not _FOR_TESTS.fullmatch(entry.name):
                        yield entry
                elif entry.is_dir(follow_symlinks=False) and not self._is_skipped(entry):
                    directories.append(entry.path)

    def _is_skipped(self, entry: os.DirEntry[str]) -> bool:
        return entry.name.startswith(".") or entry.name in _SKIPPED or entry.path in self._skip


async def next_change(
    watcher: _Watched, *, poll_seconds: float = _POLL_SECONDS, quiet_seconds: float = _QUIET_SECONDS
) -> list[Path]:
    """Waits for a change and then for a quiet moment: editors and checkouts write several files."""
    changed: set[Path] = set()
    polls, took = 0, 0.0
    while polls < MOST_POLLS:
        await asyncio.sleep(max(quiet_seconds if changed else poll_seconds, took / _POLL_SHARE))
        began = time.monotonic()
        latest = await asyncio.to_thread(watcher.changed)
        took = time.monotonic() - began
        if changed and not latest:
            break
        changed.update(latest)
        polls += bool(changed)
    return sorted(changed)


def code_directories(where: str) -> list[Path]:
    """The directories of MODULE:APP: the current one, or the module's if it is elsewhere. Imports nothing."""
    here = Path.cwd()
    name = where.partition(":")[0].partition(".")[0]
    spec = PathFinder.find_spec(name, [str(here), *sys.path]) or importlib.util.find_spec(name)
    found = [] if spec is None else [Path(directory).resolve() for directory in spec.submodule_search_locations or ()]
    if not found and spec and spec.origin and spec.has_location:
        found = [Path(spec.origin).resolve().parent]
    own = [directory for directory in found if not _SKIPPED & set(directory.parts)]
    elsewhere = [directory for directory in own if not directory.is_relative_to(here)]
    return elsewhere if own and own == elsewhere else [here, *elsewhere]


def _entries(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except OSError:
        return []  # removed meanwhile, or not readable


def _state(file: os.DirEntry[str] | Path) -> _State | None:
    try:
        stat = file.stat()
    except OSError:
        return None  # removed meanwhile
    return stat.st_mtime_ns, stat.st_size
