"""Sends one message by Apprise: the program of a process that does nothing else (apprise_messages.py).

It reads its order from standard input, so that no list of processes shows an address, and answers with one line.

Addresses come from users, and some of Apprise's services read files that an address names, or act on the machine. An
audit hook of Python stands between all of that and the system: connections go to addresses that the guard lets through,
files are read where libraries are, none is written, and no program is started.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import sysconfig
from pathlib import Path
from typing import Any

import msgspec

from rota.destinations.apprise_messages import ProcessAnswer, ProcessOrder
from rota.http_addresses import SETTING, AddressGuard, is_address

_STATUS = re.compile(r"error=(\d{3})")
_OWN_MACHINE = frozenset({"blink1", "dbus", "glib", "gnome", "macosx", "syslog", "windows"})  # Apprise's modules
_TALKING = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
_STARTING = frozenset({"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty"})
_SYSTEM = ("/usr/lib", "/usr/share", "/usr/local/share", "/etc/ssl", "/etc/pki", "/etc/mime.types", "/dev/null")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC


class ProcessGuard:
    """An audit hook: raises for what this process must not do."""

    def __init__(self, addresses: AddressGuard) -> None:
        self._addresses = addresses
        self._readable = tuple(map(os.path.realpath, _readable()))
        self.has_refused = False  # an address

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in _TALKING:
            self._check_address(arguments[1])
        elif event == "open":
            self._check_file(arguments[0], arguments[2])
        elif event in _STARTING:
            raise PermissionError("starts no program")

    def _check_address(self, address: Any) -> None:
        if address is None:  # a socket that is connected
            return
        try:
            # A name could mean another address when it is looked up again; libraries look names up before.
            if not isinstance(address, tuple) or not is_address(str(address[0])):
                raise PermissionError("not the number of an internet address")
            self._addresses.check(str(address[0]))
        except OSError:
            self.has_refused = True
            raise

    def _check_file(self, path: Any, flags: int) -> None:
        if isinstance(path, int):
            return
        real = os.path.realpath(os.fsdecode(path))
        if flags & _WRITING or not any(real == place or real.startswith(place + os.sep) for place in self._readable):
            raise PermissionError("reads libraries alone, and writes nothing")


class _Heard(logging.Handler):
    """The HTTP status among what Apprise logs; the rest may show what must not be seen."""

    status: int | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if found := _STATUS.search(record.getMessage()):
            self.status = int(found[1])


def main() -> None:
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=ProcessOrder)
    sys.stdout.buffer.write(msgspec.json.encode(carry_out(order)) + b"\n")


def carry_out(order: ProcessOrder) -> ProcessAnswer:
    import apprise  # noqa: PLC0415 - an extra; only this process needs it

    guard = ProcessGuard(AddressGuard(order.allow))
    sys.addaudithook(guard)
    heard = _Heard()
    logging.getLogger("apprise").addHandler(heard)
    service: Any = apprise.Apprise.instantiate(order.url, suppress_exceptions=True)
    if not service:
        return ProcessAnswer(error="is not an address that Apprise knows; see https://appriseit.com")
    if not _OWN_MACHINE.isdisjoint(type(service).__module__.split(".")):
        return ProcessAnswer(error="would act on the machine that sends it")
    if order.check_only:
        return ProcessAnswer()
    if service.notify(body=order.text, title=order.title, notify_type=apprise.NotifyType(order.tone)):
        return ProcessAnswer()
    if guard.has_refused:
        return ProcessAnswer(error=f"{SETTING} does not let its address be called")
    words = "the service did not take it" if heard.status is None else f"answered {heard.status}"
    return ProcessAnswer(heard.status, words)


def _readable() -> list[str]:
    """Where libraries and certificates are."""
    libraries = {*sysconfig.get_paths().values(), sys.prefix, sys.base_prefix, str(Path(__file__).parents[2])}
    named = (os.environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"))
    return [place for place in (*libraries, *_SYSTEM, *named) if place and place != os.sep]


if __name__ == "__main__":
    main()
