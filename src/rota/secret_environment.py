"""Keeps the secrets in a process's environment from the commands it runs.

Scripts, shell commands and isolated functions run under the worker's account. On Linux, every process of an account can
read in /proc/PID/environ which variables another was started with, even after they were unset. Three things prevent it:

- A supervisor starts its children without secrets, and sends these over their standard input (`separate`).
- A process that was started with secrets copies them to another place in its memory, where os.environ and libraries
  find them, and overwrites the place that /proc shows.
- The kernel denies other processes of the account access to our memory (PR_SET_DUMPABLE). Root still has it.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from rota.processes import SUPERVISED, forbid_inspection
from rota.settings import is_secret

ON_STANDARD_INPUT = "stdin"  # the value of ROTA_SUPERVISED; any other: there is nothing to wait for
_SIZE_BYTES = 4
# Fields of /proc/PID/stat, counted from the one after the process's name: proc(5) counts from 1, and that is its 3rd.
_ENV_START, _ENV_END = 50 - 3, 51 - 3


def separate(environment: Mapping[str, str]) -> tuple[dict[str, str], bytes]:
    """The environment to start a process with, and what to write to its standard input first."""
    plain = {name: value for name, value in environment.items() if not is_secret(name)}
    secret = [os.fsencode(f"{name}={value}") for name, value in environment.items() if is_secret(name)]
    body = b"\0".join(secret)
    return plain | {SUPERVISED: ON_STANDARD_INPUT}, len(body).to_bytes(_SIZE_BYTES, "big") + body


def guard_secrets() -> None:
    """Takes over the secrets that a supervisor sends, and keeps those in the environment to ourselves.

    Call it at the start of a process, before there are threads, which could read the environment meanwhile.
    """
    if os.environ.get(SUPERVISED) == ON_STANDARD_INPUT:
        _take_over(sys.stdin.fileno())
        os.environ[SUPERVISED] = "1"  # a process that we replace ourselves with finds them in its environment
    if sys.platform == "linux":
        _overwrite_start()
    forbid_inspection()


def _take_over(number: int) -> None:
    size = int.from_bytes(_read_exactly(number, _SIZE_BYTES), "big")
    for entry in filter(None, _read_exactly(number, size).split(b"\0")):
        name, _, value = entry.partition(b"=")
        os.environb[name] = value


def _read_exactly(number: int, size: int) -> bytes:
    read = b""
    while len(read) < size:
        if not (some := os.read(number, size - len(read))):
            raise SystemExit("the supervisor ended before it sent the settings")
        read += some
    return read


def _overwrite_start() -> None:
    """Overwrites secrets where /proc/PID/environ shows them."""
    try:
        fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return  # without /proc there is nothing to read them from
    start, end = int(fields[_ENV_START]), int(fields[_ENV_END])
    place = start
    for entry in ctypes.string_at(start, end - start).split(b"\0"):
        name, _, value = entry.partition(b"=")
        if value and is_secret(os.fsdecode(name)):
            if (current := os.environb.get(name)) is not None:
                os.environb[name] = current  # libc keeps what is set in memory of its own
            ctypes.memset(place + len(name) + 1, 0, len(value))
        place += len(entry) + 1
