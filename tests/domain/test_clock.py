"""The database's time as a process knows it: never ahead, and after a jump not behind for long."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.clock import KEEP_SECONDS, DatabaseClock

EPOCH = datetime(2030, 1, 1, tzinfo=UTC).timestamp()
ROUNDING = 1e-5


class World:
    """A local monotonic clock, a database whose clock is `distance` ahead of it, and the network between."""

    def __init__(self):
        self.local = 1000.0
        self.distance = EPOCH
        self.clock = DatabaseClock(monotonic=lambda: self.local)

    @property
    def database(self):
        return self.local + self.distance

    def ask(self, there=0.0, back=0.0):
        """One question: so long to the database, so long back. Gives the jump that was noticed."""
        sent = self.local
        self.local += there
        answer = datetime.fromtimestamp(self.database, UTC)
        self.local += back
        return self.clock.observe(sent=sent, received=self.local, database_time=answer)

    @property
    def behind(self):
        return self.database - self.clock.now()


@pytest.fixture
def world():
    return World()


delays = st.floats(min_value=0, max_value=30)


@given(st.lists(st.tuples(delays, delays, delays), min_size=1, max_size=20))
def test_the_clock_is_never_ahead_of_the_database(questions):
    world = World()
    for there, back, pause in questions:
        world.ask(there, back)
        assert world.behind >= -ROUNDING
        world.local += pause
        assert world.behind >= -ROUNDING


@given(delays, delays)
def test_the_clock_is_behind_by_no_more_than_the_way_back(there, back):
    world = World()
    world.ask(there, back)
    assert world.behind == pytest.approx(back, abs=ROUNDING)


def test_a_quick_answer_is_kept_over_a_slower_one_that_follows(world):
    world.ask(there=0.001, back=0.001)
    world.ask(there=0.1, back=0.5)
    assert world.behind == pytest.approx(0.001, abs=ROUNDING)


def test_a_slow_answer_is_replaced_by_a_quicker_one(world):
    world.ask(there=0.1, back=0.5)
    world.ask(there=0.001, back=0.001)
    assert world.behind == pytest.approx(0.001, abs=ROUNDING)


def test_an_old_measurement_is_replaced_even_by_a_slower_answer(world):
    world.ask(back=0.001)
    world.local += KEEP_SECONDS
    world.ask(back=0.3)
    assert world.behind == pytest.approx(0.3, abs=ROUNDING)


@pytest.mark.parametrize("jump", [-86400.0, -2.0, 2.0, 3600.0], ids="{:+g} s".format)
def test_a_jump_of_the_database_clock_is_followed_at_once_and_told(world, jump):
    world.ask(back=0.001)
    world.distance += jump
    assert world.ask(back=0.2) == pytest.approx(jump, abs=0.21)
    assert world.behind == pytest.approx(0.2, abs=ROUNDING)


def test_a_slow_answer_is_not_taken_for_a_jump(world):
    world.ask(back=0.001)
    assert world.ask(back=20.0) == 0.0


def test_the_first_answer_is_no_jump_however_far_it_is_from_the_local_clock(world):
    world.distance = 0.0
    assert world.ask() == 0.0
    assert world.behind == pytest.approx(0, abs=ROUNDING)


def test_before_the_first_answer_the_local_clock_has_to_do():
    assert abs(DatabaseClock().now() - datetime.now(UTC).timestamp()) < 5


def test_the_datetime_is_aware_and_the_same_moment(world):
    world.ask()
    assert world.clock.now_datetime().utcoffset().total_seconds() == 0
    assert world.clock.now_datetime().timestamp() == pytest.approx(world.clock.now(), abs=ROUNDING)


@given(st.lists(st.tuples(delays, delays, delays), min_size=1, max_size=20))
def test_slow_answers_are_not_taken_for_a_jump(questions):
    world = World()
    for there, back, pause in questions:
        assert world.ask(there, back) == 0.0
        world.local += pause
