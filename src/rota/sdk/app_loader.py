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
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType

import msgspec

from rota.errors import SetupError
from rota.sdk.app import App
from rota.sdk.declared_schedules import check_app
from rota.secret_environment import guard_secrets

_ROTA = Path(__file__).parents[1]  # not installed with the others where it runs from a checkout
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


def load_apps(named: Sequence[str]) -> list[App]:
    """The Apps at these places, each once; raises SetupError if two of them can't be served side by side."""
    apps: dict[str, App] = {}
    for where in dict.fromkeys(named):
        app = load_app(where)
        if any(app is other for other in apps.values()):
            continue  # by another name
        for elsewhere, other in apps.items():
            _check_side_by_side(elsewhere, other, where, app)
        apps[where] = app
    return list(apps.values())


def _check_side_by_side(elsewhere: str, other: App, where: str, app: App) -> None:
    if shared := sorted(app.tasks.keys() & other.tasks.keys()):
        raise SetupError(
            f"{elsewhere} and {where} both have a task called {shared[0]!r}; "
            "give one of them another name: @app.task(name=…)"
        )
    same = (app.name, app.caller.namespace) == (other.name, other.caller.namespace)
    if same and app.has_name and other.has_name:
        raise SetupError(
            f"{elsewhere} and {where} are both called {app.name!r}, so the schedules of one would replace those of the "
            'other; give each a name of its own: rota.App("…")'
        )


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
        words = f"{module_name} needs {error.name!r}, which is not installed"
        raise SetupError(f"{where}: {words}{_place_of(error)}") from error
    except SetupError as error:
        raise SetupError(f"{where}: {error}{_place_of(error)}") from error
    except Exception as error:
        # A syntax error names its place itself.
        said = error.msg if isinstance(error, SyntaxError) else error
        words = f"{type(error).__name__}: {said}"
        raise SetupError(f"{where} can't be imported: {words}{_place_of(error)}") from error


def _place_of(error: Exception) -> str:
    """The last line of the application's own code that led to the error, in brackets; else the last line of all."""
    if isinstance(error, SyntaxError) and error.filename:
        return _show_place(error.filename, error.lineno, error.text)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).is_file()]
    found = [frame for frame in frames if _is_own(Path(frame.filename))] or frames
    return _show_place(found[-1].filename, found[-1].lineno, found[-1].line) if found else ""


def _show_place(file: str, line: int | None, code: str | None) -> str:
    return f" ({file}, line {line}" + (f": {code.strip()})" if code and code.strip() else ")")


def _own_files(modules: Iterable[ModuleType]) -> list[str]:
    """The files of the application's modules."""
    named = {getattr(module, "__file__", None) or "" for module in modules}
    files = {Path(file).resolve() for file in named if file.endswith(".py")}
    return sorted(str(file) for file in files if _is_own(file))


def _is_own(file: Path) -> bool:
    """Whether it is the application's: neither in the standard library, nor installed, nor Rota's."""
    others = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    others |= {*site.getsitepackages(), site.getusersitepackages(), str(_ROTA)}
    return not any(file.resolve().is_relative_to(other) for other in others)


def main(arguments: list[str]) -> None:
    """Prints the result on standard output; what the application prints goes to standard error."""
    answer = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    os.write(answer, msgspec.json.encode(_try_to_load(arguments[0])))
    os._exit(0)  # don't wait for threads that the import started


if __name__ == "__main__":
    guard_secrets()
    main(sys.argv[1:])
