"""Tests of the tasks: on the real engine, with a PostgreSQL of their own and a time that they move.

The fixture comes with Rota. The first test takes some seconds, the others are quick.
"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
import rota
from rota.testing import SyncKit

from tasks import charge, greet, morning_report


def test_a_greeting_is_as_long_as_asked(rota_kit_sync: SyncKit) -> None:
    run = greet.sync.submit("Ada", times=2)
    rota_kit_sync.run_until_idle()
    assert run.result().count("Ada") == 2


def test_nothing_is_charged_for_nothing_and_it_is_not_tried_again(rota_kit_sync: SyncKit) -> None:
    run = charge.sync.submit("c42", 0)
    (ended,) = rota_kit_sync.run_until_idle()
    assert (ended.status, ended.attempt) == ("failed", 1)
    with pytest.raises(rota.RunFailedError, match="nothing to charge"):
        run.result()


def test_the_report_comes_on_working_days(rota_kit_sync: SyncKit) -> None:
    rota_kit_sync.travel_to(datetime(2027, 1, 1, tzinfo=UTC))  # a Friday, at midnight
    rota_kit_sync.advance(days=7)
    assert len(rota_kit_sync.runs(morning_report, status="success")) == 5
