"""Wake-ups: one that is alone goes at once, those in quick succession together."""

from __future__ import annotations

import asyncio
from uuid import uuid4

from rota.store.postgres.wakeups import ENDED, GATE, MOST_MARKS, READY, WakeUps, mark_of
from support import eventually


class Sent:
    """Wake-ups whose notifications are only noted."""

    def __init__(self):
        self.notes = []
        self.wake = WakeUps(self._notify, enabled=True)

    async def _notify(self, channel, payloads):
        self.notes.append((channel, payloads))


async def test_one_that_is_alone_goes_before_anything_else_can_happen_and_a_crowd_together():
    sent = Sent()
    sent.wake(pools=["a"])
    await asyncio.sleep(0)
    assert sent.notes == [(READY, ["a"])], "as soon as the caller lets it"
    sent.wake(pools=["c"])
    sent.wake(pools=["b"])
    await eventually(lambda: len(sent.notes) > 1)
    assert sent.notes[1:] == [(READY, ["b", "c"])]


async def test_ends_are_told_by_marks_in_one_notification_and_by_none_if_they_are_many():
    sent, run = Sent(), uuid4()
    sent.wake(ended=[("n", run)])
    sent.wake(ended=[("m", run)])
    await eventually(lambda: sent.notes)
    assert sent.notes == [(ENDED, [" ".join(sorted([mark_of("n", run), mark_of("m", run)]))])]
    sent.wake(ended=[("n", uuid4()) for _ in range(MOST_MARKS + 1)])
    await eventually(lambda: len(sent.notes) > 1)
    assert sent.notes[1] == (ENDED, [""])


async def test_switched_off_nothing_is_sent():
    notes = Sent()
    quiet = WakeUps(notes._notify, enabled=False)
    quiet(pools=["a"], awaited=True, ended=[("n", uuid4())])
    notes.wake(pools=["b"])
    await eventually(lambda: notes.notes)
    assert notes.notes == [(READY, ["b"])]


async def test_an_unexpected_error_does_not_keep_other_wake_ups_back():
    sent, asked = [], []

    async def notify(channel, payloads):
        asked.append(channel)
        if len(asked) == 1:
            wake(gates=True)
            raise RuntimeError("unexpected")
        sent.append((channel, payloads))

    wake = WakeUps(notify, enabled=True)
    wake(pools=["p"])
    await eventually(lambda: sent)
    assert asked == [READY, GATE]
    assert sent == [(GATE, [""])]
