"""How many workers a pool needs."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from rota.domain.scaling import PoolLoad, wanted_slots, wanted_workers


def load(queued=0, running=0, **known):
    return PoolLoad(queued=queued, running=running, **{"staying": running} | known)


def wanted(found, *, target=5.0, slots=10, **bounds):
    return wanted_workers(found, target_seconds=target, slots_per_worker=slots, **bounds)


def test_a_pool_of_which_nothing_is_known_needs_nothing_whatever_the_least():
    assert wanted(load(), least=3) == 0
    assert wanted(load(workers=1, slots=10), least=3) == 3


@pytest.mark.parametrize(
    ("found", "workers"),
    [
        (load(queued=1, run_seconds=0.01), 1),
        (load(queued=1000, run_seconds=0.05), 1),  # 10 slots start 100 each within 5 s
        (load(queued=1000, run_seconds=0.1), 2),
        (load(queued=100, run_seconds=60.0), 10),  # each needs its own slot
        (load(queued=100), 10),  # unknown: as if each took as long as the target
        (load(running=25, slots=30, workers=3, run_seconds=1.0), 3),
        (load(running=25, slots=30, workers=3, run_seconds=1.0, starts_per_second=45.0), 5),
        (load(queued=50, running=25, paused=True, slots=30, workers=3, run_seconds=1.0), 3),
    ],
)
def test_slots_are_for_what_runs_and_for_what_should_start_in_time(found, workers):
    assert wanted(found) == workers


def test_long_runs_are_not_scaled_away():
    assert wanted(load(running=20, workers=2, slots=20, run_seconds=3600.0)) == 2


def test_runs_on_workers_that_drain_need_no_other_slots():
    assert wanted(load(running=5, staying=0, run_seconds=3600.0)) == 0


def test_what_a_worker_claims_ahead_of_its_slots_waits():
    """Of very short runs it claims thousands."""
    claimed = load(running=2000, workers=1, slots=10, run_seconds=0.05)
    assert wanted_slots(claimed, 5.0) == 2000 * 0.05 / 5


def test_slots_that_become_free_in_time_are_counted_on_unless_a_run_has_waited_too_long():
    busy = {"running": 10, "workers": 1, "slots": 10, "run_seconds": 0.5}
    assert wanted(load(queued=50, **busy)) == 1
    assert wanted(load(queued=1, oldest_seconds=5.1, **busy)) == 2


def test_what_has_waited_too_long_weighs_more_and_never_more_than_a_slot_each():
    on_time, late = (load(queued=40, run_seconds=0.5, oldest_seconds=age) for age in (1.0, 20.0))
    assert (wanted_slots(on_time, 5.0), wanted_slots(late, 5.0)) == (4, 16)
    assert wanted_slots(load(queued=40, run_seconds=0.5, oldest_seconds=1e6), 5.0) == 40


def test_the_bounds_hold():
    assert wanted(load(queued=1000), most=7) == 7
    assert wanted(load(workers=1, slots=10), least=2, most=7) == 2


def test_fewer_are_wanted_only_when_no_sample_needed_them():
    busy = (0, 30, 30)
    assert wanted(load(workers=3, slots=30, run_seconds=1.0, seen=[busy, (0, 0, 30)])) == 3
    assert wanted(load(workers=3, slots=30, run_seconds=1.0, seen=[(0, 5, 30), (0, 0, 30)])) == 1
    assert wanted(load(workers=3, slots=30, run_seconds=1.0, seen=[(0, 0, 30)])) == 0


def test_a_burst_that_is_over_starts_no_more_workers():
    assert wanted(load(workers=2, slots=20, run_seconds=1.0, seen=[(1000, 20, 20)])) == 2


def follow(*, memory):
    """The workers of a pool with a burst every 20 seconds until 400, every five seconds; runs take a second."""
    random, workers, queued = Random(7), 0, 0
    seen, numbers = [], []
    for second in range(0, 600, 5):
        queued += random.randint(60, 100) if second % 20 == 0 and second < 400 else 0
        slots = workers * 10
        running = min(queued, slots)
        seen.append((queued - running, running, slots))
        known = seen[-memory:] if memory else []
        found = load(queued - running, running, run_seconds=1.0, workers=workers, slots=slots, seen=known)
        queued = max(0, queued - slots * 5)
        workers = wanted(found)
        numbers.append(workers)
    return numbers


def test_a_load_in_bursts_is_followed_once_up_and_once_down():
    numbers = follow(memory=12)
    assert min(numbers[4:80]) >= 2, "it stays through the gaps"
    assert numbers[-1] == 0
    turns = [after - before for before, after in pairwise(numbers) if after != before]
    assert turns == sorted(turns, reverse=True), "never up again after it went down"
    forgetful = [after - before for before, after in pairwise(follow(memory=0)) if after != before]
    assert len(forgetful) > 5 * len(turns), "without a memory it flaps"
