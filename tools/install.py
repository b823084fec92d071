"""Installs Rota from this checkout into the environment of this Python: what running it needs, and the extras named.

uv does it in a fraction of pip's time. It asks the indexes that pip is configured for, and is gone afterwards. Where it
can't be had, or fails, pip does it.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
# pip's options, and the variables that say the same to uv.
_SAME = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
}
_SEPARATORS = {"UV_FIND_LINKS": ","}  # all others take spaces
_ONLY_PIP = frozenset({"client-cert", "keyring-provider", "no-index", "proxy", "require-hashes"})


def main(extras: list[str]) -> None:
    """Installs, by uv if that works."""
    configured = pip_configuration()
    wanted = ["--quiet", "--constraint", str(CONSTRAINTS), "--editable", f".[{','.join(extras)}]" if extras else "."]
    if not install_by_uv(wanted, configured):
        subprocess.run([*PIP, "install", *wanted], cwd=ROOT, check=True)
    compile_sources()


def install_by_uv(wanted: list[str], configured: Mapping[str, str]) -> bool:
    """Whether uv did it."""
    if _ONLY_PIP & configured.keys():
        return False
    # pip takes the best match of all its indexes, not of the first that has the name: what is configured relies on it.
    options = ["--python", sys.executable, "--index-strategy", "unsafe-best-match"]
    # Compiled now, on all cores, and not at the first start by every process at once.
    options += ["--compile-bytecode", *wanted]
    environment = uv_variables(configured) | os.environ
    with TemporaryDirectory() as folder:
        try:
            subprocess.run(
                [*PIP, "install", "--quiet", "--quiet", "--no-deps", "--target", folder, pin_of("uv")], check=True
            )
            subprocess.run([f"{folder}/bin/uv", "pip", "install", *options], cwd=ROOT, env=environment, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"uv can't be used ({error.__class__.__name__}): pip installs, which takes longer", file=sys.stderr)
            return False
    return True


def pin_of(package: str) -> str:
    """The package's line of the constraints."""
    return next(line for line in CONSTRAINTS.read_text().splitlines() if line.startswith(f"{package}=="))


def pip_configuration() -> dict[str, str]:
    """pip's options by name, from its files and variables."""
    listed = subprocess.run([*PIP, "config", "list"], capture_output=True, text=True, check=True).stdout
    found: dict[str, str] = {}
    for line in listed.splitlines():  # as in global.index-url='…' or :env:.find-links='…', the strongest last
        name, _, value = line.partition("=")
        section, _, option = name.rpartition(".")
        if section in ("global", "install", ":env:"):
            found[option] = ast.literal_eval(value)
    return found


def uv_variables(configured: Mapping[str, str]) -> dict[str, str]:
    """What pip is configured for, as variables of uv."""
    found = {variable: configured[option].split() for option, variable in _SAME.items() if configured.get(option)}
    return {variable: _SEPARATORS.get(variable, " ").join(values) for variable, values in found.items()}


def compile_sources() -> None:
    """As an editable install is not compiled, every process of the first start would do it."""
    subprocess.run([sys.executable, "-m", "compileall", "-q", "-j", "0", str(ROOT / "src")], check=False)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except subprocess.CalledProcessError as problem:
        sys.exit(problem.returncode)  # it has said why
