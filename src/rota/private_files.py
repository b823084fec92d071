"""Files and directories that only their owner should reach, whatever the umask: that one belongs to the tasks, whose
files others may be meant to read."""

from __future__ import annotations

import os
import stat
from pathlib import Path

OTHERS = stat.S_IRWXO
GROUP_AND_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def close_to(path: Path, forbidden: int) -> None:
    """Removes these permissions from our own file or directory; ignores links and files of other accounts."""
    if exposure(path, forbidden) is None:
        return
    number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        found = os.fstat(number)
        if found.st_uid == os.geteuid():
            os.fchmod(number, stat.S_IMODE(found.st_mode) & ~forbidden)
    finally:
        os.close(number)


def exposure(path: Path, forbidden: int) -> int | None:
    """The mode of our own file or directory if it has one of these permissions; else None."""
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    if stat.S_ISLNK(found.st_mode) or found.st_uid != os.geteuid() or not found.st_mode & forbidden:
        return None
    return stat.S_IMODE(found.st_mode)
