"""What listens on a port of this machine: nothing, a Rota server or another program."""

from __future__ import annotations

import errno
import http.client
import json
import socket
import ssl
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import psutil

_TIMEOUT_SECONDS = 2.0
_MOST_BYTES = 1024
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with, never bound to


@dataclass(frozen=True)
class PortOwner:
    """The program that uses a port."""

    rota: bool
    process: str | None = None

    def __str__(self) -> str:
        who = "another Rota server" if self.rota else "another program"
        return f"{who} ({self.process})" if self.process else who


def can_bind(host: str, port: int) -> OSError | OverflowError | None:
    """The error when listening on the port; None if it is free."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (OSError, OverflowError) as error:
            return error
    return None


def is_taken(error: OSError | OverflowError) -> bool:
    """Whether another program uses the port, rather than the address being invalid."""
    return isinstance(error, OSError) and error.errno == errno.EADDRINUSE


def who_listens(host: str, port: int) -> PortOwner:
    """Finds out whether a Rota server listens there, and the process."""
    host = _EVERYWHERE.get(host, host)
    return PortOwner(any(_is_rota(host, port, secure=secure) for secure in (False, True)), _process(port))


def _is_rota(host: str, port: int, *, secure: bool) -> bool:
    """Whether `/healthz` answers like Rota. The certificate is not checked: we send nothing secret."""
    try:
        with closing(_connection(host, port, secure=secure)) as connection:
            connection.request("GET", "/healthz")
            answer = connection.getresponse()
            found = json.loads(answer.read(_MOST_BYTES))
    except (OSError, http.client.HTTPException, ValueError):
        return False
    return answer.status == http.client.OK and isinstance(found, dict) and found.get("status") == "ok"


def _connection(host: str, port: int, *, secure: bool) -> http.client.HTTPConnection:
    if not secure:
        return http.client.HTTPConnection(host, port, timeout=_TIMEOUT_SECONDS)
    unchecked = ssl.create_default_context()
    unchecked.check_hostname = False
    unchecked.verify_mode = ssl.CERT_NONE
    return http.client.HTTPSConnection(host, port, timeout=_TIMEOUT_SECONDS, context=unchecked)


def _process(port: int) -> str | None:
    """Name and pid of the process, if the system shows them."""
    try:
        found: list[Any] = [
            one for one in psutil.net_connections("tcp") if one.laddr.port == port and one.status == psutil.CONN_LISTEN
        ]
        pid = next((one.pid for one in found if one.pid), None)
        return f"{psutil.Process(pid).name()}, pid {pid}" if pid else None
    except (psutil.Error, OSError):
        return None
