"""What is seen of changing code, and when it is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rota.ops import code_watcher
from rota.ops.code_watcher import Watcher, code_directories, next_change


def write(path, text="pass\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_new_changed_and_deleted_files_are_seen_once(tmp_path):
    changing = write(tmp_path / "changing.py")
    deleted = write(tmp_path / "package" / "deleted.py")
    write(tmp_path / "untouched.py")
    watcher = Watcher([tmp_path])
    assert watcher.changed() == []
    new = write(tmp_path / "package" / "deep" / "new.py")
    changing.write_text("something else\n")
    deleted.unlink()
    assert watcher.changed() == sorted([changing, new, deleted])
    assert watcher.changed() == []


def test_a_change_of_the_same_size_is_seen(tmp_path):
    file = write(tmp_path / "tasks.py", "old\n")
    watcher = Watcher([tmp_path])
    before = file.stat().st_mtime_ns
    file.write_text("new\n")
    os.utime(file, ns=(before + 1, before + 1))
    assert watcher.changed() == [file]


@pytest.mark.parametrize(
    "ignored", [".git/hook.py", "node_modules/a/b.py", "__pycache__/c.py", "lib/site-packages/d.py", "notes.txt"]
)
def test_what_is_not_the_application_s_code_is_not_watched(tmp_path, ignored):
    watcher = Watcher([tmp_path])
    write(tmp_path / ignored)
    assert watcher.changed() == []


def test_virtual_environments_and_what_is_to_be_skipped_are_not_watched(tmp_path):
    write(tmp_path / "my environment" / "pyvenv.cfg")
    watcher = Watcher([tmp_path], skip=[tmp_path / "home"])
    write(tmp_path / "my environment" / "lib" / "library.py")
    write(tmp_path / "home" / "scripts" / "cleanup.py")
    assert watcher.changed() == []


def test_a_place_is_watched_whatever_it_is_called_and_holds(tmp_path):
    place = tmp_path / ".hidden"
    write(place / "pyvenv.cfg")
    watcher = Watcher([place])
    file = write(place / "tasks.py")
    assert watcher.changed() == [file]


def test_links_in_circles_and_places_that_are_not_there_do_no_harm(tmp_path):
    (tmp_path / "circle").symlink_to(tmp_path)
    watcher = Watcher([tmp_path, tmp_path / "nowhere"])
    file = write(tmp_path / "tasks.py")
    assert watcher.changed() == [file]


def test_included_files_are_watched_wherever_they_lie(tmp_path):
    elsewhere = write(tmp_path / "elsewhere" / "library.py")
    watcher = Watcher([tmp_path / "code"])
    watcher.include([str(elsewhere)])
    assert watcher.changed() == [], "to be watched is no change"
    elsewhere.write_text("something else\n")
    assert watcher.changed() == [elsewhere]
    elsewhere.unlink()
    assert watcher.changed() == [elsewhere]


class Scripted:
    """Sees these changes, one look after the other, and then none."""

    def __init__(self, *looks):
        self.looks = list(looks)

    def changed(self):
        return [Path(name) for name in self.looks.pop(0)] if self.looks else []


async def gather(*looks):
    watcher = Scripted(*looks)
    return [path.name for path in await next_change(watcher, poll_seconds=0, quiet_seconds=0)], watcher


async def test_changes_are_gathered_until_a_look_finds_none():
    names, watcher = await gather([], [], ["b.py"], ["a.py", "b.py"], [], ["later.py"])
    assert names == ["a.py", "b.py"]
    assert watcher.looks == [["later.py"]]


async def test_files_that_change_without_end_do_not_keep_the_others_waiting(monkeypatch):
    monkeypatch.setattr(code_watcher, "MOST_POLLS", 3)
    names, watcher = await gather(*[[f"{number}.py"] for number in range(5)])
    assert names == ["0.py", "1.py", "2.py"]
    assert len(watcher.looks) == 2


def test_a_module_in_the_current_directory_or_nowhere_means_the_current_directory(tmp_path, monkeypatch):
    write(tmp_path / "my_tasks.py")
    write(tmp_path / "my_package" / "__init__.py", "this is not Python")
    monkeypatch.chdir(tmp_path)
    for where in ("my_tasks:app", "my_package.deep.tasks:app", "not_there_yet:app"):
        assert code_directories(where) == [tmp_path]


def test_code_elsewhere_is_watched_there_and_installed_code_is_not(tmp_path, monkeypatch):
    write(tmp_path / "code" / "my_tasks.py")
    write(tmp_path / "code" / "my_package" / "__init__.py")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.syspath_prepend(tmp_path / "code")
    assert code_directories("my_tasks:app") == [tmp_path / "code"]
    assert code_directories("my_package.deep:app") == [tmp_path / "code" / "my_package"]
    assert code_directories("msgspec:app") == [tmp_path / "here"]
