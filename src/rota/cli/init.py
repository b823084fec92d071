"""The command that makes a small project to start from: init.

The files are those of this package in project/, under the same names, except for the one that would mean something to
git there.
"""

from __future__ import annotations

import shlex
from importlib.resources import files
from pathlib import Path

import typer

from rota.cli.terminal.output import errors_in_words
from rota.cli.terminal.tables import console
from rota.errors import BadInputError, SetupError

_NAMES = {"gitignore": ".gitignore"}
_TEMPLATES = ("tasks.py", "test_tasks.py", "pyproject.toml", "README.md", "gitignore")


def init(
    directory: Path = typer.Argument(Path(), metavar="[DIRECTORY]", help="Where; made if it is not there. Else here."),
    force: list[str] = typer.Option([], "--force", metavar="FILE", help="Write over this file; can be repeated."),
) -> None:
    """Make a small project to start from. Tasks, a schedule, tests.

    Nothing that is there is written over, unless --force names it.
    """
    with errors_in_words():
        contents = _contents()
        if unknown := sorted(set(force) - contents.keys()):
            raise BadInputError(f"{unknown[0]} is not among what is written: {', '.join(contents)}", field="--force")
        try:
            _write(directory, contents, force)
        except OSError as error:
            raise SetupError(f"{directory} can't be written to: {error.strerror}. Choose another directory.") from error
    _tell_next(directory)


def _contents() -> dict[str, str]:
    folder = files("rota.cli").joinpath("project")
    return {_NAMES.get(name, name): folder.joinpath(name).read_text(encoding="utf-8") for name in _TEMPLATES}


def _write(directory: Path, contents: dict[str, str], force: list[str]) -> None:
    """Writes all files, or none if one is there already."""
    there = [name for name in contents if (directory / name).exists() and name not in force]
    if there:
        over = " ".join(f"--force {name}" for name in there)
        raise SetupError(f"{', '.join(there)} would be written over in {directory.absolute()}; if so, add {over}")
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (directory / name).write_text(content, encoding="utf-8")


def _tell_next(directory: Path) -> None:
    go = [] if directory.resolve() == Path.cwd() else [f"cd {shlex.quote(str(directory))}"]
    lines = [
        f"Made {', '.join(_NAMES.get(name, name) for name in _TEMPLATES)}. Now:",
        *(f"  {line}" for line in go),
        "  rota dev tasks:app",
        "and in a second terminal:",
        """  rota submit hello --task tasks.greet --payload '{"name": "Ada"}' --wait""",
        "  pytest",
    ]
    for line in lines:
        console().print(line, soft_wrap=True, markup=False)
