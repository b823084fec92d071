"""Functions for processes of their own: they must be importable by another process."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import rota


def add(a: int, b: int) -> int:
    return a + b


async def add_async(a: int, b: int, context: rota.Context) -> dict:
    context.progress(0.5, "half way")
    return {"sum": a + b, "attempt": context.attempt, "key": context.idempotency_key}


def who() -> int:
    return os.getpid()


def crash() -> None:
    ctypes.string_at(0)


def mark(file: str) -> int:
    Path(file).touch()
    return os.getpid()


def leave(code: int) -> None:
    os._exit(code)


def kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hang(context: rota.Context) -> None:
    context.checkpoint(os.getpid())
    while True:
        time.sleep(0.05)


def spin(context: rota.Context) -> None:
    context.checkpoint(os.getpid())
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        pass


def polite(context: rota.Context) -> str:
    while not context.cancelled:
        time.sleep(0.01)
    return "stopped"


async def patient() -> None:
    await asyncio.sleep(60)


def eat() -> int:
    return len(bytearray(600 * 1024 * 1024))


def fail() -> None:
    raise ValueError("no such customer")


def fail_for_good() -> None:
    raise rota.Final("never")


def snooze() -> rota.Snooze:
    return rota.Snooze(30)


def talk() -> None:
    print("printed")
    print("complained", file=sys.stderr)
    logging.getLogger("anything").warning("logged")
    os.write(1, b"below Python\n")
    subprocess.run(["echo", "from a child"], check=True)


def leave_behind(seconds: float) -> int:
    return subprocess.Popen(["setsid", "sleep", str(seconds)]).pid


def checkpointed(context: rota.Context) -> int:
    before = context.last_checkpoint or 0
    context.checkpoint(before + 1)
    if before < 2:
        raise RuntimeError("again")
    return before


def big() -> str:
    return "x" * 200_000


def secret(context: rota.Context) -> str:
    print("the key is", context.secrets["API_KEY"])
    return context.secrets["API_KEY"]


def loud(context: rota.Context) -> None:
    while not context.cancelled:
        print("x" * 1000)


def leave_a_thread() -> int:
    def go_on():
        while True:
            print("from a thread of another run")
            time.sleep(0.05)

    threading.Thread(target=go_on, daemon=True).start()
    return os.getpid()


def say_secret(context: rota.Context) -> None:
    context.progress(0.5, f"using {context.secrets['API_KEY']}")
    time.sleep(1.5)


@dataclass
class Maß:  # noqa: PLC2401 - names in any script
    länge: int = 0  # noqa: PLC2401


def measure(größe: int, maß: Maß) -> list[int]:  # noqa: PLC2401
    return [größe, maß.länge]
