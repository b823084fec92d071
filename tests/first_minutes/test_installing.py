"""What `make` installs: for running Rota what that needs, for the work on it its tools; by uv, else by pip."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def install():
    """The tool, as a module."""
    spec = importlib.util.spec_from_file_location("install", ROOT / "tools" / "install.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("target", "installed"),
    [
        ("up", [""]),
        ("check", [" dev"]),
        ("format", [" dev"]),
        ("docs", [" docs"]),
        ("test", [" dev", " docs"]),
    ],
)
def test_each_target_installs_what_it_needs(target, installed, tmp_path):
    command = ["make", "-n", "-C", str(ROOT), target, f"VENV={tmp_path}/venv"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert re.findall(r"bin/python tools/install\.py(.*)", printed) == installed


@pytest.fixture
def environment(tmp_path):
    """A virtual environment in which `make` has installed Rota, as far as `make` looks at it."""
    folder = tmp_path / "venv"
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "rota-1.0.dist-info").mkdir()
    (packages / "rota-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: rota\nVersion: 1.0\n")
    (folder / "bin" / "rota").write_text(f"#!{folder}/bin/python\n")
    for name in (".installed", ".installed-dev"):
        (folder / name).touch()
    return folder


def installs(environment, *named):
    """The extras of each install that `make setup` would do."""
    command = ["make", "-n", "-C", str(ROOT), "setup", f"VENV={environment}", *named]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return re.findall(r"bin/python tools/install\.py(.*)", printed)


def test_an_environment_that_works_is_kept(environment):
    assert installs(environment) == []
    assert installs(environment, f"PYTHON={sys.executable}") == []


def test_an_environment_without_its_python_is_made_again(environment):
    for name in environment.glob("bin/python*"):
        name.unlink()
    assert installs(environment) == [""]


def test_an_environment_that_lost_its_packages_is_made_again(environment):
    shutil.rmtree(environment / "lib")
    assert installs(environment) == [""]


def test_an_environment_that_was_moved_is_made_again(environment, tmp_path):
    environment.rename(tmp_path / "elsewhere")
    assert installs(tmp_path / "elsewhere") == [""]


def test_an_environment_behind_a_link_is_kept(environment, tmp_path):
    (tmp_path / "link").symlink_to(environment)
    assert installs(tmp_path / "link") == []


def test_another_python_that_is_named_makes_the_environment_again(environment, tmp_path):
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\necho Python 3.99.0\n")
    other.chmod(0o700)
    assert installs(environment, f"PYTHON={other}") == [""]


class Commands:
    """Stands in for subprocess.run: notes what was run, and fails what a test wants to fail."""

    def __init__(self, failing):
        self.run = []
        self._failing = failing

    def __call__(self, command, **options):
        self.run.append((command, options.get("env")))
        if any(self._failing in str(word) for word in command):
            raise subprocess.CalledProcessError(1, command)
        return subprocess.CompletedProcess(command, 0, stdout="global.index-url='https://example.org/simple'\n")

    def named(self, word):
        return [command for command, _ in self.run if any(word in str(part) for part in command)]


@pytest.mark.parametrize("failing", ["uv==", "bin/uv"], ids=["uv can't be had", "uv fails"])
def test_without_uv_pip_installs_the_same(install, monkeypatch, capsys, failing):
    commands = Commands(failing)
    monkeypatch.setattr(install.subprocess, "run", commands)
    install.main(["dev"])
    (by_pip,) = [command for command in commands.named("pip") if "--editable" in command and "bin/uv" not in command[0]]
    assert by_pip[-4:] == ["--constraint", str(ROOT / "constraints.txt"), "--editable", ".[dev]"]
    assert "pip installs" in capsys.readouterr().err


def test_uv_asks_the_indexes_that_pip_is_configured_for(install, monkeypatch):
    commands = Commands("nothing fails")
    monkeypatch.setattr(install.subprocess, "run", commands)
    install.main([])
    ((_, variables),) = [(command, env) for command, env in commands.run if "bin/uv" in str(command[0])]
    assert variables["UV_DEFAULT_INDEX"] == "https://example.org/simple"


def test_all_that_uv_understands_is_passed_on(install):
    configured = {
        "extra-index-url": "https://a.example/simple https://b.example/simple",
        "find-links": "/one\n/two",
        "cert": "/ca.pem",
        "timeout": "180",
    }
    assert install.uv_variables(configured) == {
        "UV_INDEX": "https://a.example/simple https://b.example/simple",
        "UV_FIND_LINKS": "/one,/two",
        "SSL_CERT_FILE": "/ca.pem",
    }


def test_where_pip_is_told_what_uv_is_not_pip_installs(install, monkeypatch):
    commands = Commands("nothing fails")
    monkeypatch.setattr(install.subprocess, "run", commands)
    assert not install.install_by_uv([], {"proxy": "http://127.0.0.1:9"})
    assert commands.run == []


def test_no_file_names_a_registry(install):
    for name in ("Makefile", "constraints.txt", "pyproject.toml", "tools/install.py"):
        assert not re.search(r"https?://|pypi", (ROOT / name).read_text()), name


@pytest.mark.slow
def test_a_half_made_environment_is_mended_and_gets_no_tools_of_ours(tmp_path):
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    for name in ("Makefile", "constraints.txt", "pyproject.toml", "tools/install.py"):
        shutil.copy2(ROOT / name, clone / name)
    python = clone / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("half of a file")
    environment = os.environ | {"HOME": str(tmp_path)}
    make = ["make", "-C", str(clone), "setup", f"PYTHON={sys.executable}"]
    subprocess.run(make, env=environment, check=True, capture_output=True)
    listed = subprocess.run([python, "-m", "pip", "list"], env=environment, check=True, capture_output=True, text=True)
    names = {line.split()[0].lower() for line in listed.stdout.splitlines()}
    assert {"rota", "asyncpg"} <= names
    assert not {"pytest", "mypy", "ruff", "mkdocs", "django", "celery", "uv"} & names
    said = subprocess.run([python.with_name("rota"), "--version"], check=True, capture_output=True, text=True).stdout
    assert said.startswith("rota ")
