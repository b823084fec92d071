"""Commands and code in the documents do what the page says: each page is done from top to bottom."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from stories import read_page
from telling import Telling

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = sorted([README, *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("README.md")])
TOLD = [path for path in PAGES if read_page(path).has_something_to_run]
GONE_ON_FROM = {read_page(path).goes_on_from for path in TOLD}  # told before the page that goes on from them
# What can't be done where tests run. A new line here wants a good reason.
NOT_RUN = {
    ("docs/how-to/monitor-with-prometheus.md", "needs Prometheus"),  # tests/metrics/test_prometheus.py has one
    ("docs/how-to/monitor-with-prometheus.md", "takes ports that may be in use"),
    ("docs/how-to/trace-with-opentelemetry.md", "needs a collector"),  # tests/metrics has a receiver of its own
}


def name_of(path):
    return str(path.relative_to(ROOT))


def copy_repository(target):
    """The files of the repository as they are now, with the virtual environment that is there."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    (target / ".venv").symlink_to(ROOT / ".venv")
    for name in ("pyproject.toml", "constraints.txt"):
        os.utime(target / name, (0, 0))  # or make would install the copy into the real environment


def directory_of(page, directory):
    """Where a page begins: an empty directory; the README in a copy of the repository, an example in one of its own."""
    directory.mkdir()
    if page.path == README:
        copy_repository(directory)
    elif page.path.is_relative_to(ROOT / "examples"):
        shutil.copytree(page.path.parent, directory, dirs_exist_ok=True)
    elif page.place:
        shutil.copytree(ROOT / page.place, directory, dirs_exist_ok=True)
    return directory


def surroundings(page, request):
    """The variables that what a page needs comes in."""
    environment = {}
    if page.needs_postgres:
        environment["DATABASE_URL"] = request.getfixturevalue("database_url")
    if page.needs_server:
        environment["ROTA_DATABASE_URL"] = environment.get("DATABASE_URL") or request.getfixturevalue("database_url")
    return environment


def telling_of(path, tmp_path, environment=None):
    page = read_page(path)
    return Telling(page, directory_of(page, tmp_path / "page"), tmp_path / "behind", environment or {})


def telling_on(page, tmp_path, environment):
    """A page in the directory and the home that the one before it left."""
    directory, home = tmp_path / "page" / page.place, tmp_path / "behind" / "home"
    return Telling(page, directory, tmp_path / "behind-next", environment, home)


@pytest.mark.parametrize("path", [path for path in TOLD if path not in GONE_ON_FROM], ids=name_of)
def test_a_page_does_what_it_says(path, tmp_path, request):
    environment = surroundings(read_page(path), request)
    if before := read_page(path).goes_on_from:
        asyncio.run(telling_of(before, tmp_path, environment).tell())
        asyncio.run(telling_on(read_page(path), tmp_path, environment).tell())
    else:
        asyncio.run(telling_of(path, tmp_path, environment).tell())


def test_what_is_not_run_is_known_with_its_reason():
    found = {(name_of(path), step.note) for path in PAGES for step in read_page(path).steps if step.kind == "skipped"}
    assert found == NOT_RUN
