"""The command `rota init`: makes a small project from the files in project/."""

from __future__ import annotations

import shlex
from importlib.resources import files
from pathlib import Path

import typer

from rota.cli.terminal.output import errors_in_words
from rota.cli.terminal.tables import print_line
from rota.errors import BadInputError, SetupError

_NAMES = {"gitignore": ".gitignore"}  # git would read it in this repository
_TEMPLATES = ("tasks.py", "test_tasks.py", "pyproject.toml", "README.md", "gitignore")


def init(
    directory: Path = typer.Argument(
        Path(), metavar="DIRECTORY", help="The directory, made if missing (the current one)."
    ),
    force: list[str] = typer.Option([], "--force", metavar="FILE", help="Overwrite this file; can be repeated."),
) -> None:
    """Make a small project with tasks, a schedule and tests.

    Existing files are not overwritten, unless named by --force.
    """
    with errors_in_words():
        contents = _contents()
        if unknown := sorted(set(force) - contents.keys()):
            raise BadInputError(f"{unknown[0]} is not one of the files: {', '.join(contents)}", field="--force")
        try:
            _write(directory, contents, force)
        except OSError as error:
            raise SetupError(f"{directory} can't be written to: {error.strerror}. Choose another directory.") from error
    _print_next_steps(directory)


def _contents() -> dict[str, str]:
    folder = files("rota.cli").joinpath("project")
    return {_NAMES.get(name, name): folder.joinpath(name).read_text(encoding="utf-8") for name in _TEMPLATES}


def _write(directory: Path, contents: dict[str, str], force: list[str]) -> None:
    """Writes all files, or none if one already exists."""
    there = [name for name in contents if (directory / name).exists() and name not in force]
    if there:
        over = " ".join(f"--force {name}" for name in there)
        raise SetupError(f"{directory.absolute()} already has {', '.join(there)}; to overwrite, add {over}")
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (directory / name).write_text(content, encoding="utf-8")


def _print_next_steps(directory: Path) -> None:
    go = [] if directory.resolve() == Path.cwd() else [f"cd {shlex.quote(str(directory))}"]
    lines = [
        f"Made {', '.join(_NAMES.get(name, name) for name in _TEMPLATES)}. Next:",
        *(f"  {line}" for line in go),
        "  rota dev tasks:app",
        "and in a second terminal:",
        """  rota submit hello --task tasks.greet --payload '{"name": "Ada"}' --wait""",
        "  pytest",
    ]
    for line in lines:
        print_line(line)
