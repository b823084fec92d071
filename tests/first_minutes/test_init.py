"""`rota init`: what it writes is a project that works."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from support import wait_until

FILES = {".gitignore", "README.md", "pyproject.toml", "tasks.py", "test_tasks.py"}


@pytest.fixture
def made(newcomer, short_path):
    """A project, by name in a directory with a space in its name."""
    place = short_path / "my project"
    done = newcomer("init", str(place))
    assert done.code == 0, done.err
    return place


def run(place, newcomer, *command):
    kept = {name: value for name, value in newcomer.environment.items() if not name.startswith("PYTEST")}
    return subprocess.run(command, cwd=place, env=kept, capture_output=True, text=True, check=False, timeout=120)


def test_the_project_passes_its_own_tests_and_what_checks_code(made, newcomer):
    tools = Path(sys.executable).parent
    tested = run(made, newcomer, str(tools / "pytest"), "-q", "-p", "no:cacheprovider")
    assert tested.returncode == 0, tested.stdout
    assert "3 passed" in tested.stdout
    for command in (("mypy", "--strict", "."), ("ruff", "check", "--isolated", ".")):
        done = run(made, newcomer, str(tools / command[0]), *command[1:])
        assert done.returncode == 0, done.stdout


def test_the_commands_that_are_told_next_work_and_failures_are_told(made, newcomer):
    with newcomer.running("dev", "tasks:app", cwd=made, until="Watching") as background:
        wait_until(lambda: any(worker["status"] == "live" for worker in newcomer.ask("/v1/workers")["items"]))
        words = next(line for line in newcomer("init", cwd=made.parent).out.splitlines() if "rota submit" in line)
        done = newcomer(*shlex.split(words)[1:])
        assert done.code == 0, done.said
        assert "Hello, Ada!" in done.out
        newcomer("submit", "bill", "--task", "tasks.charge", "--payload", '{"customer": "c", "cents": 0}', "--wait")
        background.wait_for("tasks.charge failed for good: nothing to charge (tasks.py, line ")
        schedules = wait_until(
            lambda: [job for job in newcomer.ask("/v1/jobs")["items"] if job["task"] == "tasks.morning_report"]
        )
        assert schedules[0]["cronExpression"] == "0 9 * * MON-FRI"
        (made / "test_tasks.py").write_text("")
        (made / "tasks.py").write_text((made / "tasks.py").read_text() + "\n")
        background.wait_for("Changed: ")
        assert "Changed: tasks.py. Restarting" in background.said, "a test is none of the workers' business"
        assert background.stop() == 0


def test_nothing_is_written_over_unless_it_is_named(made, newcomer):
    (made / "tasks.py").write_text("mine = 1\n")
    (made / "README.md").unlink()
    refused = newcomer("init", str(made))
    assert refused.code == 2
    assert "tasks.py" in refused.err
    assert "--force tasks.py" in refused.err
    assert (made / "tasks.py").read_text() == "mine = 1\n"
    assert not (made / "README.md").exists(), "all of it, or nothing"
    words = [word for name in FILES - {"tasks.py"} for word in ("--force", name)]
    assert newcomer("init", str(made), *words).code == 2
    assert newcomer("init", str(made), *words, "--force", "tasks.py").code == 0
    assert (made / "tasks.py").read_text() != "mine = 1\n"


def test_a_file_that_is_not_written_can_not_be_forced(newcomer, tmp_path):
    done = newcomer("init", str(tmp_path), "--force", "main.py")
    assert done.code == 2
    assert "main.py is not one of the files: tasks.py" in done.err
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_can_not_be_made_is_told(newcomer, tmp_path):
    (tmp_path / "file").touch()
    done = newcomer("init", str(tmp_path / "file" / "below"))
    assert done.code == 2
    assert "can't be written to" in done.said


def test_what_is_made_is_told_with_what_to_do_next(newcomer, tmp_path):
    done = newcomer("init", str(tmp_path / "fresh"))
    assert {file.name for file in (tmp_path / "fresh").iterdir()} == FILES
    for command in ("cd ", "rota dev tasks:app", "rota submit hello", "pytest"):
        assert command in done.out
