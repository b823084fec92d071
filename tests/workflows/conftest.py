"""What tests of workflows share."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from rota.gateway.calendars import CalendarDays
from rota.gateway.job_builder import JobBuilder
from rota.gateway.workflows import WorkflowGateway
from rota.store.flow.workflows import Workflows
from rota.store.submit import Submissions


@pytest.fixture
def workflows(database):
    builder = JobBuilder(shards=64, payload_limit_bytes=64 * 1024, now=lambda: datetime.now(UTC))
    return WorkflowGateway(
        Workflows(database),
        Submissions(database),
        builder,
        CalendarDays(database, lambda: datetime.now(UTC)),
        shards=64,
        now=lambda: datetime.now(UTC),
    )
