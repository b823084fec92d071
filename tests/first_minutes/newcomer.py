"""Somebody who uses Rota for the first time: commands as processes of their own, with a HOME of their own."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rota.client import Client
from support import wait_until

ROTA = (sys.executable, "-m", "rota.cli.main")
# Guards against waiting for ever, on a machine that is busy with others.
START_SECONDS = 240.0
COMMAND_SECONDS = 240.0


@dataclass(frozen=True)
class Done:
    """A command that ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def said(self) -> str:
        """What stands on the terminal, which must never be a traceback."""
        assert "Traceback" not in self.out + self.err, self.err
        return self.out + self.err


class Newcomer:
    """A home directory, a port, and commands."""

    def __init__(self, home: Path, port: int, **environment: str) -> None:
        self.home = home
        self.port = port
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
        self.environment = kept | {
            "HOME": str(home),
            "ROTA_PORT": str(port),
            "NO_COLOR": "1",
            "TERM": "dumb",
            "COLUMNS": "60",
            "PATH": f"{Path(sys.executable).parent}:{kept['PATH']}",
            **environment,
        }

    @property
    def rota_home(self) -> Path:
        return Path(self.environment.get("ROTA_HOME", self.home / ".rota"))

    def __call__(self, *arguments: str, cwd: Path | None = None, **environment: str) -> Done:
        done = subprocess.run(
            [*ROTA, *arguments],
            env=self.environment | environment,
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def client(self) -> Client:
        return Client(f"http://127.0.0.1:{self.port}", (self.rota_home / "admin.token").read_text().strip())

    def ask(self, path: str) -> Any:
        with self.client() as client:
            return client.call("GET", path)

    @contextmanager
    def running(self, *arguments: str, cwd: Path | None = None, until: str = "Ctrl-C stops", **environment: str):
        """`rota <arguments>` in the background, from the moment it has said `until`."""
        with Background(self, arguments, cwd=cwd, environment=environment) as background:
            background.wait_for(until)
            yield background

    def on_terminal(self, columns: int, *arguments: str, **environment: str) -> tuple[int, list[str]]:
        """Exit code and lines of a command on a terminal of this width."""
        terminal, far_end = pty.openpty()
        fcntl.ioctl(far_end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), far_end)
        given = {name: value for name, value in self.environment.items() if name != "COLUMNS"} | environment
        process = subprocess.Popen([*ROTA, *arguments], env=given, **streams)
        os.close(far_end)
        shown = b""
        with suppress(OSError):  # the terminal is gone when the command has ended
            while part := os.read(terminal, 65536):
                shown += part
        os.close(terminal)
        return process.wait(COMMAND_SECONDS), shown.decode().splitlines()


class Background:
    """A command that goes on until it is told to stop."""

    def __init__(self, who: Newcomer, arguments: tuple[str, ...], *, cwd: Path | None, environment: dict[str, str]):
        self._log = who.home / f"said-{time.monotonic_ns()}.txt"
        with self._log.open("w") as output:
            self.process = subprocess.Popen(
                [*ROTA, *arguments],
                env=who.environment | environment,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(START_SECONDS)
            finally:
                self.process.kill()

    @property
    def said(self) -> str:
        text = self._log.read_text()
        assert "Traceback" not in text, text
        return text

    def wait_for(self, words: str) -> None:
        wait_until(lambda: words in self.said or self.process.poll() is not None, within=START_SECONDS)
        assert words in self.said, self.said

    def interrupt(self) -> int:
        """Ctrl-C; its exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(START_SECONDS)


def memory() -> str | None:
    """A file system in memory, where there is one with room: a first start writes a whole database."""
    place = "/dev/shm"  # noqa: S108 - a new directory in it, of a name that is not known before
    return place if os.access(place, os.W_OK) and shutil.disk_usage(place).free > 4 * 1024**3 else None
