"""Runs the `python` blocks of one page, one after the other, in one namespace. A process of its own: it may await at
the top level, as in `python -m asyncio`, changes directory and environment with the page's shell, and dies with it.

Each line of its standard input is a JSON object with the names of files: what to run, where the output and the verdict
go."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import linecache
import os
import sys
import traceback
from pathlib import Path
from types import FunctionType, ModuleType


def main() -> None:
    """Runs one block for each line of standard input."""
    page = sys.modules["__main__"] = ModuleType("__main__")
    sys.path[0] = ""
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            task = json.loads(line)
            follow_shell(task)
            send_output_to(task["output"])
            problem = run(task, vars(page), runner)
            sys.stdout.flush()
            sys.stderr.flush()
            beside = Path(task["verdict"] + ".new")
            beside.write_text(problem)
            beside.rename(task["verdict"])


def follow_shell(task: dict[str, str]) -> None:
    """Goes where the shell is, with the variables it exports."""
    os.chdir(task["directory"])
    pairs = Path(task["environment"]).read_text().split("\0")
    wanted = dict(pair.partition("=")[::2] for pair in pairs if pair)
    for name in set(os.environ) - set(wanted):
        del os.environ[name]
    os.environ.update(wanted)


def send_output_to(path: str) -> None:
    """What is printed from here on goes into this file."""
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(number, 1)
    os.dup2(number, 2)
    os.close(number)


def run(task: dict[str, str], namespace: dict[str, object], runner: asyncio.Runner) -> str:
    """Runs a block; gives the traceback if it raises, else nothing. Lines are counted as in the page."""
    name, first = task["page"], int(task["line"])
    source = "\n" * (first - 1) + Path(task["block"]).read_text()
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    try:
        code = compile(source, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        if code.co_flags & inspect.CO_COROUTINE:
            runner.run(FunctionType(code, namespace)())
        else:
            exec(code, namespace)  # noqa: S102 - that is what it is for
    except (Exception, SystemExit):  # noqa: BLE001 - told to the one who asked
        return traceback.format_exc()
    return ""


if __name__ == "__main__":
    main()
