"""The kit's own tests use it as a user would: through the plugin."""

from __future__ import annotations

import kit_tasks
import pytest


@pytest.fixture
def rota_app():
    """The application that is served."""
    kit_tasks.gone_through.clear()
    return kit_tasks.app
