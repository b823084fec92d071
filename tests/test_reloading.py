"""New code is tried before workers get it, and what happens is said."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

import psutil
import pytest

from rota.ops import reloader
from rota.ops.reloader import Reloader, name_some, try_import
from rota.sdk.app_loader import Loaded
from rota.service import ServiceGroup
from support import eventually, patience

APP = "import rota\napp = rota.App()\n"


@pytest.fixture
def code(tmp_path, monkeypatch):
    """The file of my_tasks:app."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "my_tasks.py"
    file.write_text(APP)
    return file


async def test_code_that_can_be_imported_names_its_own_files_whatever_it_prints(code):
    (code.parent / "helper.py").write_text("print('hello')\n")
    code.write_text(APP + "import helper, json, msgspec\nprint('hello')\n")
    assert await try_import("my_tasks:app") == Loaded(None, (str(code.parent / "helper.py"), str(code)))


async def test_nothing_compiled_is_left_behind(code):
    await try_import("my_tasks:app")
    assert list(code.parent.iterdir()) == [code]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("def broken(:", "SyntaxError: invalid syntax ({}, line 3: def broken(:)"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("import no_such_module", "my_tasks:app: my_tasks needs 'no_such_module', which is not installed"),
        ("raise SystemExit(3)", "it ends the process (SystemExit: 3)"),
        ("import os; os._exit(4)", "the process that tried ended with exit code 4"),
        ("del app", "my_tasks has no 'app'"),
    ],
)
async def test_code_that_can_not_be_imported_says_why(code, line, words):
    code.write_text(APP + line)
    assert words.format(code) in (await try_import("my_tasks:app")).problem


async def test_an_import_without_end_is_given_up_with_all_it_started(code):
    started = code.parent / "started"
    code.write_text(
        f"import pathlib, subprocess, time\n"
        f"pathlib.Path({str(started)!r}).write_text(str(subprocess.Popen(['sleep', '600']).pid))\n"
        f"time.sleep(600)\n"
    )
    seconds = math.ceil(3 * patience())
    loaded = await try_import("my_tasks:app", within_seconds=seconds)
    assert loaded.problem == f"my_tasks:app can't be imported: it takes longer than {seconds} seconds"
    pid = int(started.read_text())
    await eventually(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


def test_of_many_files_the_first_are_named_and_the_rest_counted(code):
    here = {code.parent / f"{letter}.py" for letter in "edcba"}
    assert name_some(here) == "a.py, b.py, c.py and 2 more"
    assert name_some({Path("/elsewhere/library.py")}) == "/elsewhere/library.py"


class Saved:
    """Stands for the code: what is saved is seen by the next look."""

    def __init__(self):
        self.directories = [Path.cwd()]
        self.included = ()
        self.latest = []

    def save(self, name):
        self.latest.append(Path.cwd() / name)

    def changed(self):
        seen, self.latest = self.latest, []
        return seen

    def include(self, files):
        self.included = files


class Development:
    """A reloader at work, with imports that end as they are told to."""

    def __init__(self, monkeypatch):
        self.saved = Saved()
        self.said = []
        self.begun = self.renewed = 0
        self.imports = asyncio.Queue()
        monkeypatch.setattr(reloader, "try_import", self._import)
        self.reloader = Reloader("my_tasks:app", watcher=self.saved, workers=1, say=self.said.append)
        self.reloader.renew_workers = self._renew

    async def _import(self, _app):
        self.begun += 1
        return await self.imports.get()

    def _renew(self):
        self.renewed += 1

    async def told(self, number):
        return await eventually(lambda: len(self.said) == number and self.said[-1])


@pytest.fixture
async def development(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    development = Development(monkeypatch)
    async with ServiceGroup([development.reloader]):
        yield development


async def test_workers_start_at_once_and_are_renewed_after_a_change(development, tmp_path):
    development.imports.put_nowait(Loaded(None, ("a file",)))
    assert await development.told(1) == f"Watching {tmp_path}: a change restarts 1 worker."
    assert development.saved.included == ("a file",)
    development.saved.save("my_tasks.py")
    development.imports.put_nowait(Loaded())
    assert await development.told(2) == "Changed: my_tasks.py. Restarting 1 worker."
    assert development.renewed == 2


async def test_broken_code_changes_nothing_and_the_next_change_is_another_chance(development):
    development.imports.put_nowait(Loaded("It is broken."))
    assert await development.told(1) == "It is broken. Save a change to try again."
    assert development.renewed == 0
    development.saved.save("my_tasks.py")
    development.imports.put_nowait(Loaded())
    assert await development.told(2) == "Changed: my_tasks.py. Starting 1 worker."
    development.saved.save("my_tasks.py")
    development.imports.put_nowait(Loaded("It is broken again"))
    assert await development.told(3) == "It is broken again. The old code keeps running; save a change to try again."
    assert development.renewed == 1


async def test_a_change_while_code_is_imported_starts_over_with_all_that_changed(development):
    development.imports.put_nowait(Loaded())
    await development.told(1)
    development.saved.save("first.py")
    await eventually(lambda: development.begun == 2)
    development.saved.save("second.py")
    await eventually(lambda: development.begun == 3)
    development.imports.put_nowait(Loaded())
    assert await development.told(2) == "Changed: first.py, second.py. Restarting 1 worker."
