"""Loads an application: the App at module:name.

`python -m rota.sdk.app_loader MODULE:APP` tries that in a separate process and prints, as JSON, what is wrong and
which files were loaded.
"""

from __future__ import annotations

import importlib
import os
import re
import site
import sys
import sysconfig
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import msgspec

from rota.errors import SetupError
from rota.sdk.app import App
from rota.sdk.declared_schedules import check_app
from rota.secret_environment import guard_secrets

_APP = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


class Loaded(msgspec.Struct, frozen=True):
    """The result of an import: the problem, if any, and the files of the application's modules."""

    problem: str | None = None
    files: tuple[str, ...] = ()


def load_app(where: str) -> App:
    """The App at module:name; raises SetupError."""
    check_form(where)
    module_name, _, attribute = where.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    module = _import(module_name, where)
    try:
        found = getattr(module, attribute)
    except AttributeError:
        apps = [name for name, value in vars(module).items() if isinstance(value, App)]
        hint = f"; it has {' and '.join(apps)}" if apps else "; it needs a line such as `app = rota.App()`"
        raise SetupError(f"{where}: {module_name} has no {attribute!r}{hint}") from None
    if not isinstance(found, App):
        raise SetupError(f"{where}: {attribute!r} is of type {type(found).__name__}, not a rota.App")
    try:
        check_app(found)
    except SetupError as error:
        raise SetupError(f"{where}: {error}") from error
    return found


def check_form(where: str) -> None:
    """Raises SetupError unless it is module:name; callers put the option's name before the message."""
    if not _APP.fullmatch(where):
        raise SetupError(f"needs MODULE:APP, such as tasks:app, not {where!r}")


def _try_to_load(where: str) -> Loaded:
    """Loads the App, in a process that ends afterwards."""
    before = set(sys.modules)
    problem = None
    try:
        load_app(where)
    except SetupError as error:
        problem = str(error)
    except SystemExit as error:
        problem = f"{where} can't be imported: it ends the process (SystemExit: {error})"
    return Loaded(problem, tuple(_own_files(sys.modules[name] for name in set(sys.modules) - before)))


def _import(module_name: str, where: str) -> ModuleType:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise SetupError(f"{where}: there is no module {error.name!r} in {Path.cwd()}") from error
        raise SetupError(f"{where}: {module_name} needs {error.name!r}, which is not installed") from error
    except SetupError as error:
        raise SetupError(f"{where}: {error}") from error
    except Exception as error:
        raise SetupError(f"{where} can't be imported: {_blame(error)}") from error


def _blame(error: Exception) -> str:
    """The error and its line of code."""
    words = f"{type(error).__name__}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, SyntaxError) or not frames:
        return words
    return f"{words} ({frames[-1].filename}, line {frames[-1].lineno})"


def _own_files(modules: Iterable[ModuleType]) -> list[str]:
    """The files of modules that are neither in the standard library nor installed."""
    others = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    others |= {*site.getsitepackages(), site.getusersitepackages()}
    named = {getattr(module, "__file__", None) or "" for module in modules}
    files = {Path(file).resolve() for file in named if file.endswith(".py")}
    return sorted(str(file) for file in files if not any(file.is_relative_to(other) for other in others))


def main(arguments: list[str]) -> None:
    """Prints the result on standard output; what the application prints goes to standard error."""
    answer = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    os.write(answer, msgspec.json.encode(_try_to_load(arguments[0])))
    os._exit(0)  # don't wait for threads that the import started


if __name__ == "__main__":
    guard_secrets()
    main(sys.argv[1:])
