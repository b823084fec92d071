"""The pytest plugin in the project of a user: a pytest of its own for each of these."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "test-your-jobs.md"
SHOP = """
import rota

app = rota.App("shop")


@app.task(retries=1)
async def greet(name: str) -> str:
    return f"Hello, {len(name)}"
"""
ASYNC_TEST = """
import pytest
from shop import greet


@pytest.mark.asyncio
async def test_greeting(rota_kit):
    await greet.submit("Ada")
    assert [run.result for run in await rota_kit.run_until_idle()] == ["Hello, 3"]
"""
NO_APP = "[pytest]\n"


@pytest.fixture
def project(pytester, postgres, monkeypatch):
    """A project with an application, whose tests use a server that is there: starting one takes a while."""
    monkeypatch.setenv("ROTA_TEST_DATABASE_URL", postgres.url("postgres"))
    pytester.makepyfile(shop=SHOP)
    pytester.makeini("[pytest]\nrota_app = shop:app\n")
    return pytester


def run(project, *arguments):
    # pytest-asyncio warns of a setting that is not made; whatever else warns is ours.
    warnings = ("-W", "error", "-W", "ignore::pytest.PytestDeprecationWarning")
    return project.runpytest_subprocess("-p", "no:cacheprovider", *warnings, *arguments)


def test_an_async_test_in_strict_mode(project):
    project.makepyfile(test_shop=ASYNC_TEST)
    run(project, "--asyncio-mode=strict").assert_outcomes(passed=1)


def test_an_async_test_in_auto_mode(project):
    project.makepyfile(test_shop=ASYNC_TEST.replace("@pytest.mark.asyncio\n", ""))
    run(project, "--asyncio-mode=auto").assert_outcomes(passed=1)


def test_the_application_may_come_from_a_fixture(project):
    project.makeini(NO_APP)
    project.makeconftest(
        """
import pytest
import shop


@pytest.fixture
def rota_app():
    return shop.app
"""
    )
    project.makepyfile(
        test_shop="""
from shop import greet


def test_greeting(rota_kit_sync):
    assert greet.sync.submit("Ada").result() == "Hello, 3"
"""
    )
    run(project).assert_outcomes(passed=1)


def test_without_a_server_one_is_started(project, monkeypatch):
    monkeypatch.delenv("ROTA_TEST_DATABASE_URL")
    project.makepyfile(test_shop=ASYNC_TEST)
    run(project).assert_outcomes(passed=1)


def test_workers_of_xdist_do_not_meet(project):
    project.makepyfile(test_shop=ASYNC_TEST, test_other=ASYNC_TEST, test_third=ASYNC_TEST)
    run(project, "-n", "2").assert_outcomes(passed=3)


def test_a_test_that_fails_shows_what_was_submitted_and_what_failed(project):
    project.makepyfile(
        test_shop="""
from shop import greet


def test_greeting(rota_kit_sync):
    greet.sync.with_options(retries=0).submit("Ada")
    rota_kit_sync.assert_submitted(greet, name="Bob")


def test_failure(rota_kit_sync, monkeypatch):
    import shop
    monkeypatch.setattr(shop, "len", lambda _name: 1 / 0, raising=False)
    greet.sync.submit("Ada")
    rota_kit_sync.run_until_idle()
    assert rota_kit_sync.runs(greet, status="success")
"""
    )
    result = run(project)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "*AssertionError: shop.greet(name='Bob') was not submitted.",
            "*1. shop.greet(name='Ada')",
            "*name: expected 'Bob', was 'Ada'",
        ]
    )
    result.stdout.fnmatch_lines(["*Rota: attempts that failed*", "shop.greet: Traceback*", "ZeroDivisionError*"])


def test_without_pytest_asyncio_it_says_what_to_do(project, monkeypatch):
    project.mkdir("without").joinpath("pytest_asyncio.py").write_text("raise ImportError('not here')\n")
    monkeypatch.setenv("PYTHONPATH", str(project.path / "without"))
    project.makepyfile(test_shop="def test_greeting(rota_kit):\n    pass\n")
    result = run(project, "-p", "no:asyncio", "-p", "no:anyio")
    result.stdout.fnmatch_lines(["*rota_kit is for async tests, which need pytest-asyncio*"])


def test_a_setting_that_names_no_application_says_so(project):
    project.makeini("[pytest]\nrota_app = shop:apple\n")
    project.makepyfile(test_shop=ASYNC_TEST)
    run(project).stdout.fnmatch_lines(["*shop has no 'apple'; it has app*"])


def test_who_does_not_use_it_pays_nothing(project):
    project.makepyfile(
        test_nothing="""
import sys


def test_nothing():
    assert "pytest_rota" in sys.modules
    assert "rota" not in sys.modules
    assert "asyncpg" not in sys.modules
"""
    )
    run(project).assert_outcomes(passed=1)


def test_the_test_of_a_clock_change_in_the_guide_takes_ten_lines():
    code = re.search(r"```python\n# test_clock_change\.py\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
