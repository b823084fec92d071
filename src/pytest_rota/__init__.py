"""The pytest plugin: fixtures with an application on an engine and a database of the test's own.

Every run of pytest imports this, used or not, so what it needs is imported when a fixture is requested.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

try:
    import pytest_asyncio
except ImportError:
    pytest_asyncio = None  # type: ignore[assignment]  # says that it is not there

if TYPE_CHECKING:
    from rota.sdk.app import App
    from rota.testing import Databases, Kit, SyncKit

_KITS = pytest.StashKey[list["Kit"]]()
_NO_ASYNCIO = (
    "rota_kit is for async tests, which need pytest-asyncio (pip install pytest-asyncio). Other tests take "
    "rota_kit_sync; those of other plugins open a kit by themselves: async with "
    "rota.testing.running(app, database_url=rota_database_url) as kit."
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Which application is tested."""
    parser.addini("rota_app", "MODULE:APP of the application that rota_kit serves, such as shop.tasks:app")


@pytest.hookimpl(hookwrapper=True)  # the old kind: works with an old pytest, too
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A test that failed shows what its runs failed with: that may be why."""
    outcome: Any = yield
    report = outcome.get_result()
    if report.when == "call" and report.failed:
        errors = [error for kit in item.stash.get(_KITS, []) for error in kit.errors()]
        if errors:
            report.sections.append(("Rota: attempts that failed", "\n".join(errors)))


@pytest.fixture(scope="session")
def rota_databases() -> Iterator[Databases]:
    """A server with a template for the whole session."""
    from rota.testing import databases  # noqa: PLC0415 - see above

    with databases() as found:
        yield found


@pytest.fixture
def rota_database_url(rota_databases: Databases) -> Iterator[str]:
    """A migrated database of this test's own, whose time can be moved."""
    with rota_databases.fresh() as url:
        yield url


@pytest.fixture(scope="session")
def rota_app(request: pytest.FixtureRequest) -> App | None:
    """The application of the setting rota_app; override this to make it otherwise."""
    from rota.sdk.app_loader import load_app  # noqa: PLC0415 - see above

    where = str(request.config.getini("rota_app"))
    return load_app(where) if where else None


@pytest.fixture
def rota_kit_sync(request: pytest.FixtureRequest, rota_database_url: str, rota_app: App | None) -> Iterator[SyncKit]:
    """The application on an engine of this test's own, for a test that is not async."""
    from rota.testing import running_sync  # noqa: PLC0415 - see above

    with running_sync(*_apps(rota_app), database_url=rota_database_url) as kit:
        _keep(request, kit.kit)
        yield kit


async def _rota_kit(request: pytest.FixtureRequest, rota_database_url: str, rota_app: App | None) -> AsyncIterator[Kit]:
    """The application on an engine of this test's own, in the test's event loop."""
    from rota.testing import running  # noqa: PLC0415 - see above

    async with running(*_apps(rota_app), database_url=rota_database_url) as kit:
        _keep(request, kit)
        yield kit


def _refuse() -> None:
    """The application on an engine of this test's own; needs pytest-asyncio."""
    pytest.fail(_NO_ASYNCIO, pytrace=False)


if pytest_asyncio is None:
    rota_kit: Any = pytest.fixture(name="rota_kit")(_refuse)
else:
    rota_kit = pytest_asyncio.fixture(name="rota_kit")(_rota_kit)


def _apps(app: App | None) -> list[App]:
    return [] if app is None else [app]


def _keep(request: pytest.FixtureRequest, kit: Kit) -> None:
    request.node.stash.setdefault(_KITS, []).append(kit)
