"""The billing example: its driver kills workers and counts."""

from __future__ import annotations

import re

import pytest
from stage import EXAMPLES

pytestmark = pytest.mark.scenario


def test_every_charge_is_made_once_while_workers_are_killed(stage):
    said = stage.run("charge_all.py", "--charges", "120", "--kills", "2", directory=EXAMPLES / "billing")
    lost = re.search(r"120 charges, (\d+) attempts lost", said)
    assert lost, said
    assert int(lost[1]) > 0, "nothing went wrong, so nothing was shown"
    assert "0 missing, 0 made twice, 0 cents too many taken" in said
