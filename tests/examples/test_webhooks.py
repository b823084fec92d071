"""The webhooks example: real receivers, one that fails now and then, one that is down and comes back."""

from __future__ import annotations

import threading

import pytest
from stage import EXAMPLES

from support import eventually, free_port

HERE = EXAMPLES / "webhooks"
SECRET = "known to the test"  # noqa: S105 - known to the test alone
EVENTS = 12
TWO_CLOCKS = 0.05  # tokens are counted by the database, arrivals by the receiver


@pytest.fixture
def example(monkeypatch, stage):
    """The example's modules, submitting to the stage."""
    monkeypatch.syspath_prepend(str(HERE))
    for name in ("ROTA_URL", "ROTA_TOKEN"):
        monkeypatch.setenv(name, stage.environment[name])
    monkeypatch.setenv("WEBHOOKS_COOLDOWN_SECONDS", "1")
    import receiver  # noqa: PLC0415 - its path is known now
    import webhooks  # noqa: PLC0415

    return webhooks, receiver


@pytest.fixture
def receivers(example):
    """One that fails every fifth time, and one that is down until it is told otherwise."""
    _, module = example
    flaky = module.Receiver(free_port(), SECRET, lambda number: number % 5 == 0)
    down = module.Receiver(free_port(), SECRET, lambda _number: True)
    threads = [threading.Thread(target=server.serve_forever, args=(0.05,)) for server in (flaky, down)]
    for thread in threads:
        thread.start()
    yield flaky, down
    for server, thread in zip((flaky, down), threads, strict=True):
        server.shutdown()
        server.server_close()
        thread.join()


def got(receiver, customer):
    return [delivery.event["number"] for delivery in receiver.deliveries if delivery.customer == customer.name]


async def test_each_customer_is_told_in_order_at_their_pace_and_one_that_is_down_holds_up_nobody(
    stage, example, receivers, sql
):
    webhooks, _ = example
    flaky, down = receivers
    slow, quick = (
        webhooks.Customer(name, f"http://127.0.0.1:{flaky.server_port}/{name}", per_second=rate)
        for name, rate in (("slow", 5), ("quick", 50))
    )
    sick = webhooks.Customer("sick", f"http://127.0.0.1:{down.server_port}/sick", per_second=50)
    async with webhooks.app:
        for number in range(EVENTS):
            for customer in (sick, slow, quick):
                await webhooks.tell(customer, number=number)
        with stage.worker("webhooks:app", directory=HERE, ROTA_SECRET_WEBHOOKS=SECRET):
            everything = list(range(EVENTS))
            await eventually(lambda: got(flaky, slow) == got(flaky, quick) == everything)
            arrived = [delivery.time for delivery in flaky.deliveries if delivery.customer == "slow"]
            # With a burst of one, the second token may have waited for the first event; all others come one by one.
            least = [(number - 1) / slow.per_second - TWO_CLOCKS for number in range(EVENTS)]
            assert all(moment - arrived[0] >= after for moment, after in zip(arrived, least, strict=True))
            opened = "SELECT count(*) FROM rota.events WHERE kind = 'breaker.opened' AND subject = $1"
            await eventually(lambda: sql.fetchval(opened, f"key:127.0.0.1:{down.server_port}"))
            assert got(down, sick) == []
            down.fails = lambda _number: False
            await eventually(lambda: got(down, sick) == everything)
    assert flaky.requests > 2 * EVENTS, "nothing was refused, so no retry was shown"
