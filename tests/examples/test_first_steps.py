"""The first example: what its page says, done."""

from __future__ import annotations

import pytest
from stage import EXAMPLES, ROTA

HERE = EXAMPLES / "first_steps"


@pytest.fixture(scope="module")
def worker(whole_stage):
    with whole_stage.worker("tasks:app", directory=HERE) as process:
        yield process


def test_the_script_prints_what_its_tasks_return(stage, worker):
    said = stage.run("submit.py", directory=HERE)
    assert said.splitlines() == [
        "Hello, Ada! Hello, Ada!",
        "['Hello, Grace!', 'Hello, Alan!']",
        "later: scheduled",
        "3",
    ]


def test_a_charge_of_nothing_fails_and_is_a_dead_letter(stage, worker):
    command = ("submit", "bill", "--task", "charge", "--payload", '{"customer": "c42", "cents": 0}', "--wait")
    with pytest.raises(AssertionError, match="nothing to charge"):
        stage.run(*ROTA, *command, directory=HERE)
    assert "nothing to charge" in stage.run(*ROTA, "dead-letters", directory=HERE)


def test_progress_is_told_on_the_way(stage, worker):
    command = ("submit", "tally", "--task", "count", "--payload", '{"to": 3}', "--wait")
    assert "3" in stage.run(*ROTA, *command, directory=HERE)
