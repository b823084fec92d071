"""Rota's commands as processes of their own, as people start them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from rota.cli.main import app
from rota.client import Client
from support import wait_until
from terminals import on_terminal

ROTA = (sys.executable, "-m", "rota.cli.main")
# A guard against waiting for ever, on a machine that is busy with other work.
SECONDS = 240.0


def environment(**given: str) -> dict[str, str]:
    """The variables of this process without Rota's settings, and with those given."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")} | given


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


class Commands:
    """The commands of a user: variables, and the home and port that they lead to.

    A call is a process: for each way of waiting, ending and printing, and for what runs a part of Rota.
    """

    def __init__(self, home: Path, port: int, **variables: str) -> None:
        self.home = home
        self.port = port
        self.environment = environment(ROTA_PORT=str(port), NO_COLOR="1", TERM="dumb", **variables)

    @property
    def rota_home(self) -> Path:
        return Path(self.environment.get("ROTA_HOME", self.home / ".rota"))

    def __call__(self, *arguments: str, cwd: Path | None = None, **variables: str) -> Done:
        done = subprocess.run(
            [*ROTA, *arguments],
            env=self.environment | variables,
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def in_process(self, *arguments: str, **variables: str) -> Done:
        """The same without a process, whose start takes far longer than what most commands do."""
        others = {name: None for name in os.environ if name not in self.environment}
        given = others | self.environment | variables
        done = CliRunner().invoke(app, list(arguments), env=given, catch_exceptions=False)
        return Done(done.exit_code, done.stdout, done.stderr)

    def client(self) -> Client:
        return Client(f"http://127.0.0.1:{self.port}", (self.rota_home / "admin.token").read_text().strip())

    def ask(self, path: str, method: str = "GET", **options: Any) -> Any:
        """The API itself: for preparing and for looking again and again."""
        with self.client() as client:
            return client.call(method, path, **options)

    def wait_for_worker(self) -> None:
        wait_until(lambda: any(worker["status"] == "live" for worker in self.ask("/v1/workers")["items"]))

    @contextmanager
    def running(self, *arguments: str, cwd: Path | None = None, until: str = "Ctrl-C stops", **variables: str):
        """`rota <arguments>` in the background, from the moment it has said `until`."""
        with Background(self, *arguments, cwd=cwd, **variables) as background:
            background.wait_for(until)
            yield background

    def on_terminal(self, columns: int, *arguments: str, **variables: str) -> tuple[int, list[str]]:
        """Exit code and lines of a command on a terminal of this width."""
        code, shown = on_terminal([*ROTA, *arguments], self.environment | variables, columns=columns)
        return code, shown.splitlines()


class Background:
    """A command that runs until it is asked to stop."""

    def __init__(self, who: Commands, *arguments: str, cwd: Path | None = None, **variables: str) -> None:
        self._log = who.home / f"said-{time.monotonic_ns()}.txt"
        with self._log.open("w") as output:
            self.process = subprocess.Popen(
                [*ROTA, *arguments],
                env=who.environment | variables,
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
                self.process.wait(SECONDS)
            finally:
                self.process.kill()

    @property
    def said(self) -> str:
        text = self._log.read_text()
        assert "Traceback" not in text, text
        return text

    def wait_for(self, words: str) -> None:
        wait_until(lambda: words in self.said or self.process.poll() is not None, within=SECONDS)
        assert words in self.said, self.said

    def stop(self, how: signal.Signals = signal.SIGINT) -> int:
        """Ctrl-C, or another signal; its exit code."""
        self.process.send_signal(how)
        return self.process.wait(SECONDS)
