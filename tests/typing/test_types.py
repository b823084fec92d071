"""Types are checked as users check them: what is right passes, what is wrong is found, line by line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RIGHT, WRONG = Path(__file__).with_name("right.py"), Path(__file__).with_name("wrong.py")
SECONDS = 300


def run(*command):
    return subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, cwd=ROOT, timeout=SECONDS, check=False
    )


def found_by_mypy(file):
    """The lines with errors."""
    done = run("mypy", "--strict", "--config-file=", "--no-error-summary", str(file))
    assert done.returncode in (0, 1), done.stderr
    return {int(line) for line in re.findall(rf"{file.name}:(\d+): error", done.stdout)}


def found_by_pyright(file):
    """The lines with errors."""
    done = run("basedpyright", "--outputjson", "--level", "error", str(file))
    assert done.returncode in (0, 1), done.stderr
    found = json.loads(done.stdout)["generalDiagnostics"]
    return {one["range"]["start"]["line"] + 1 for one in found if one["severity"] == "error"}


CHECKERS = {"mypy": found_by_mypy, "pyright": found_by_pyright}


@pytest.mark.parametrize("find", CHECKERS.values(), ids=CHECKERS)
def test_right_calls_pass(find):
    assert find(RIGHT) == set()


@pytest.mark.parametrize("find", CHECKERS.values(), ids=CHECKERS)
def test_wrong_calls_are_found_each_on_its_line(find):
    wrong = {number for number, line in enumerate(WRONG.read_text().splitlines(), 1) if line.endswith("# wrong")}
    assert find(WRONG) == wrong
