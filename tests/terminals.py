"""A terminal for a test: what a command sends to it, byte by byte."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
from contextlib import suppress

SECONDS = 240.0


def on_terminal(command, environment, *, columns=80):
    """Exit code, and everything a command sends to a terminal of this width."""
    terminal, far_end = pty.openpty()
    fcntl.ioctl(far_end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    # Where tests run side by side, each process is told of a width that is not this terminal's.
    kept = {name: value for name, value in environment.items() if name not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(command, env=kept, stdin=far_end, stdout=far_end, stderr=far_end)
    os.close(far_end)
    shown = b""
    with suppress(OSError):  # the terminal is gone when the command has ended
        while part := os.read(terminal, 65536):
            shown += part
    os.close(terminal)
    return process.wait(SECONDS), shown.decode().replace("\r\n", "\n")
