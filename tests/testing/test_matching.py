"""What the kit says of submissions, and of those that a test expects in vain."""

from __future__ import annotations

from datetime import timedelta
from unittest.mock import ANY

import kit_tasks as tasks
import pytest


async def test_a_submission_is_found_by_the_arguments_that_are_given(rota_kit):
    due = rota_kit.now + timedelta(days=1)
    await tasks.send_mail.submit("ada", subject="hi", due=due)
    await tasks.send_mail.submit("bob")
    (found,) = await rota_kit.assert_submitted(tasks.send_mail, to="ada")
    assert found.arguments["subject"] == "hi"
    await rota_kit.assert_submitted(tasks.send_mail, count=2)
    await rota_kit.assert_submitted("kit_tasks.send_mail", to=ANY, count=2)
    await rota_kit.assert_submitted(tasks.send_mail, due=due, count=1)
    await rota_kit.assert_submitted(tasks.send_mail, subject="(none)", count=1)
    await rota_kit.assert_not_submitted(tasks.send_mail, to="carl")
    await rota_kit.assert_not_submitted(tasks.greet)


async def test_a_submission_that_is_missed_is_told_with_what_there_was_instead(rota_kit):
    await tasks.send_mail.submit("bob", subject="hi")
    await tasks.greet.after("1h").submit("Ada")
    with pytest.raises(AssertionError) as caught:
        await rota_kit.assert_submitted(tasks.send_mail, to="ada", subject="hi")
    due = (rota_kit.now + timedelta(hours=1)).isoformat()
    assert str(caught.value).splitlines() == [
        "kit_tasks.send_mail(to='ada', subject='hi') was not submitted.",
        "Of this task:",
        "  1. kit_tasks.send_mail(to='bob', subject='hi')",
        "       to: expected 'ada', was 'bob'",
        "Of other tasks:",
        f"  1. kit_tasks.greet(name='Ada') at {due}",
    ]


async def test_the_number_of_submissions_counts(rota_kit):
    with pytest.raises(AssertionError, match="Nothing was submitted at all"):
        await rota_kit.assert_submitted(tasks.greet)
    await tasks.greet.cron("0 5 * * *", timezone="Europe/Berlin").submit("Ada")
    with pytest.raises(AssertionError, match="was submitted once, not 2") as caught:
        await rota_kit.assert_submitted(tasks.greet, name="Ada", count=2)
    assert "on '0 5 * * *' in Europe/Berlin" in str(caught.value)
    with pytest.raises(AssertionError, match="was submitted once:"):
        await rota_kit.assert_not_submitted(tasks.greet)
