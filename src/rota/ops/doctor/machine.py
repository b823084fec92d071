"""Checks of this machine: Python, home directory, disk space, port, open files, time zones."""

from __future__ import annotations

import os
import platform
import pwd
import resource
import shlex
import shutil
import stat
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import rota
from rota.blobs import KINDS, forbidden_below
from rota.domain.timezones import load_zone, zone_data_releases, zone_data_version
from rota.errors import BadInputError, SetupError
from rota.ops.doctor.findings import Finding, ok, problem, warning
from rota.ops.ports import can_bind, is_taken, who_listens
from rota.private_files import GROUP_AND_OTHERS, OTHERS, exposure
from rota.settings import Settings
from rota.store.postgres.embedded import DIRECTORY, check_reach, check_root_home, is_foreign_link

_OLDEST_PYTHON = (3, 11)
_LITTLE_BYTES = 1024**3
_TOO_LITTLE_BYTES = 100 * 1024**2
_FEW_FILES = 1024
_WRITABLE = stat.S_IWGRP | stat.S_IWOTH


def check_versions() -> Iterator[Finding]:
    """The versions of Python and Rota."""
    words = f"Rota {rota.__version__} on Python {platform.python_version()} ({sys.executable})"
    if sys.version_info < _OLDEST_PYTHON:
        yield problem("versions", f"{words}: too old", "install Python 3.11 or newer")
    else:
        yield ok("versions", words)


def check_home(settings: Settings) -> Iterator[Finding]:
    """Whether Rota's directory is usable and private."""
    home = settings.home
    try:
        check_reach(home)
    except SetupError as error:
        yield problem("home", str(error), "set ROTA_HOME to another")
        return
    if not home.exists():
        parent = next(path for path in home.parents if path.exists())
        if not os.access(parent, os.W_OK | os.X_OK) or not parent.is_dir():
            yield problem("home", f"{home} can't be made: {parent} is not ours to write to", "set ROTA_HOME to another")
        else:
            yield ok("home", f"{home} is not there yet; `rota up` makes it")
        return
    if not home.is_dir():
        yield problem("home", f"{home} is not a directory", "move it away, or set ROTA_HOME to another")
        return
    if not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        yield problem("home", f"{home} can't be written to (it is {_owner(home)}'s)", "set ROTA_HOME to another")
        return
    if home.stat().st_uid != os.geteuid():
        yield warning("home", f"{home} belongs to {_owner(home)}, not to us", f"chown it, or run as {_owner(home)}")
    else:
        yield ok("home", f"{home} is ours to write to")
    yield from _check_privacy(settings)


def _check_privacy(settings: Settings) -> Iterator[Finding]:
    """Finds files that other users of this host can read or change. `rota up` fixes all of them but the first."""
    home, postgres = settings.home, settings.home / DIRECTORY
    if mode := exposure(home, _WRITABLE):
        words = f"{home} can be changed by others (mode {mode:o}), and so can what Rota reads from it"
        yield problem("home", words, f"chmod go-w {shlex.quote(str(home))}")
    if mode := exposure(settings.admin_token_file, GROUP_AND_OTHERS):
        file = settings.admin_token_file
        yield warning("token file", f"{file} can be read by others (mode {mode:o})", f"chmod 600 {file}")
    readable = {settings.scripts: OTHERS, postgres / "server.log": GROUP_AND_OTHERS}
    if "://" not in settings.blobs and (blobs := Path(settings.blobs).expanduser()).is_dir():
        readable |= {blobs / kind: forbidden_below(blobs) for kind in KINDS}
    for path, forbidden in readable.items():
        if mode := exposure(path, forbidden):
            whom = "go" if forbidden == GROUP_AND_OTHERS else "o"
            fix = f"chmod {whom}-rwx {shlex.quote(str(path))}, or start rota up again, which does it"
            yield warning("home", f"{path} can be read by others (mode {mode:o})", fix)
    if os.geteuid() == 0 and not settings.database_url and postgres.exists():
        yield from _check_postgres(home, postgres)


def _check_postgres(home: Path, postgres: Path) -> Iterator[Finding]:
    """As root: checks that the server's account can't trick root through links."""
    try:
        check_root_home(home)
    except SetupError as error:
        yield problem("home", str(error), "set ROTA_HOME to another")
    if postgres.stat().st_uid != 0:
        words = f"{postgres} belongs to {_owner(postgres)}: that account can make root follow links"
        yield problem("home", words, "start rota up again, which fixes it")
    for entry in postgres.iterdir():
        if is_foreign_link(entry):
            yield problem("home", f"{entry} is a link that root did not make", f"rm {shlex.quote(str(entry))}")


def check_disk(
    settings: Settings, *, little: int = _LITTLE_BYTES, too_little: int = _TOO_LITTLE_BYTES
) -> Iterator[Finding]:
    """Disk space for the home with the embedded database."""
    path = next(path for path in (settings.home, *settings.home.parents) if os.access(path, os.F_OK))
    usage = shutil.disk_usage(path)
    words = f"{_show_bytes(usage.free)} free of {_show_bytes(usage.total)} at {path}"
    fix = "make room, or set ROTA_HOME to a directory on another disk"
    if usage.free < too_little:
        yield problem("disk", f"{words}: too little", fix)
    elif usage.free < little:
        yield warning("disk", f"{words}: not much", fix)
    else:
        yield ok("disk", words)


def check_port(settings: Settings) -> Iterator[Finding]:
    """Whether the port is free, or used by a Rota server."""
    where = f"{settings.port} on {settings.host}"
    error = can_bind(settings.host, settings.port)
    if error is None:
        yield ok("port", f"{where} is free")
        return
    if not is_taken(error):
        yield problem("port", f"{where} can't be used ({error})", "set ROTA_HOST and ROTA_PORT to what this host has")
        return
    found = who_listens(settings.host, settings.port)
    process = f" ({found.process})" if found.process else ""
    if found.rota:
        yield ok("port", f"{where} is a Rota server's{process}")
    else:
        yield problem("port", f"{where} is another program's{process}", "set ROTA_PORT to another port, or stop it")


def check_files() -> Iterator[Finding]:
    """The limit of open files: each connection is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = soft if hard == resource.RLIM_INFINITY else hard
    if most != resource.RLIM_INFINITY and most < _FEW_FILES:
        yield warning("open files", f"at most {most} per process: few connections", "raise the limit: ulimit -n 65536")
    else:
        yield ok("open files", "any number" if most == resource.RLIM_INFINITY else f"up to {most} per process")


def check_zones(now: datetime | None = None) -> Iterator[Finding]:
    """Whether there is recent zone data."""
    version = zone_data_version()
    try:
        load_zone("Europe/Berlin")
    except BadInputError:
        yield problem("time zones", "there is no zone data: schedules support only UTC", "pip install --upgrade tzdata")
        return
    year = (now or datetime.now(UTC)).year
    if any(str(recent) in version for recent in (year, year - 1)) or not any(sign.isdigit() for sign in version):
        yield ok("time zones", f"data of release {' and '.join(zone_data_releases())}")
    else:
        fix = "pip install --upgrade tzdata, or update the system"
        yield warning("time zones", f"the data may be old: {version}", fix)


def _owner(path: Path) -> str:
    number = path.stat().st_uid
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def _show_bytes(count: int) -> str:
    return f"{count / 1024**3:.1f} GiB" if count >= 1024**3 else f"{count / 1024**2:.0f} MiB"
