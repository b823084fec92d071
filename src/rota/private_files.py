"""Files and directories that only their owner should reach, whatever the umask: that one belongs to the tasks, whose
files others may be meant to read."""

from __future__ import annotations

import os
import secrets
import stat
import tempfile
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


def kept_secret(path: Path) -> str:
    """The random secret in this file; made if there is none, readable by its owner only."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.exists() and (secret := path.read_text().strip()):
        return secret
    # Written to another file, then linked: no process reads half a secret, and of two that start together one wins.
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")  # with mode 600
    with os.fdopen(handle, "w") as file:
        file.write(secrets.token_urlsafe(32) + "\n")
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(beside, path)
    except FileExistsError:
        if not path.read_text().strip():
            Path(beside).replace(path)
    Path(beside).unlink(missing_ok=True)
    return path.read_text().strip()
