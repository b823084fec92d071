"""Ids carry the planned moment, and a schedule's fire time has exactly one."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.domain.ids import (
    find_job_id,
    fire_id,
    floor_id,
    new_id,
    parse_run,
    shard_of,
    show_following,
    show_job,
    show_run,
    show_series,
)
from rota.errors import BadInputError

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
JOB = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
DIGITS = "0" * 32

moments = st.datetimes(min_value=datetime(1971, 1, 1), max_value=datetime(8999, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


@given(moments)
def test_a_new_id_is_a_uuid_of_version_7(moment):
    made = new_id(moment.timestamp())
    assert (made.version, made.variant) == (7, "specified in RFC 4122")


@given(moments)
def test_a_new_id_lies_between_the_floors_of_its_moment_and_of_the_next_millisecond(moment):
    made = new_id(moment.timestamp())
    assert floor_id(moment) <= made < floor_id(moment + timedelta(milliseconds=2))


@given(moments, st.integers(min_value=2, max_value=10**12))
def test_ids_sort_by_the_planned_moment(moment, milliseconds):
    later = moment.timestamp() + milliseconds / 1000
    assert new_id(moment.timestamp()) < new_id(later)


def test_ids_of_one_moment_differ():
    assert len({new_id(NOON.timestamp()) for _ in range(10_000)}) == 10_000


def test_ids_of_one_moment_grow_whatever_other_ids_are_made_in_between():
    made = []
    for _ in range(100):
        made.append(new_id(NOON.timestamp()))
        new_id(NOON.timestamp() + 3600)
    assert made == sorted(made)


FORKING = """
import os
from rota.domain.ids import new_id
new_id(1.0)
child = os.fork()
if child:
    os.waitpid(child, 0)
print(new_id(1.0).hex, flush=True)
"""


def test_a_forked_process_makes_other_ids_than_its_parent():
    made = subprocess.check_output([sys.executable, "-c", FORKING], text=True).split()
    assert len(made) == len(set(made)) == 2


def test_a_moment_before_the_epoch_has_the_smallest_time_part():
    assert new_id(-5.0).int >> 80 == 0
    assert floor_id(datetime(1900, 1, 1, tzinfo=UTC)) == UUID(int=0)


def test_a_fire_time_always_has_the_same_id_in_whatever_zone_it_is_written():
    elsewhere = NOON.astimezone(timezone(timedelta(hours=5, minutes=45)))
    assert fire_id(JOB, NOON) == fire_id(JOB, elsewhere)


@pytest.mark.parametrize(
    ("job", "moment"),
    [(JOB, NOON + timedelta(microseconds=1)), (JOB, NOON + timedelta(days=1)), (UUID(int=JOB.int + 1), NOON)],
    ids=["a microsecond later", "a day later", "another job"],
)
def test_another_job_or_fire_time_has_another_id(job, moment):
    assert fire_id(job, moment) != fire_id(JOB, NOON)


def test_a_fire_id_carries_the_nominal_time_and_is_of_version_7():
    made = fire_id(JOB, NOON)
    assert floor_id(NOON) <= made < floor_id(NOON + timedelta(milliseconds=1))
    assert made.version == 7


@given(st.uuids(version=4), st.integers(min_value=1, max_value=4096))
def test_a_shard_is_one_of_the_shards_and_always_the_same(job_id, shards):
    assert shard_of(job_id, shards) == shard_of(job_id, shards)
    assert 0 <= shard_of(job_id, shards) < shards


def test_jobs_of_one_moment_spread_over_all_shards():
    assert {shard_of(new_id(NOON.timestamp()), 64) for _ in range(5000)} == set(range(64))


@given(st.uuids())
def test_an_id_that_is_shown_is_parsed_back(some_id):
    assert find_job_id(show_job(some_id)) == some_id
    assert parse_run(show_run(some_id)) == some_id


@pytest.mark.parametrize(
    "text",
    [
        "",
        "job_",
        f"run_{DIGITS}",
        f"JOB_{DIGITS}",
        DIGITS,
        f"job_{DIGITS[1:]}",
        f"job_{DIGITS}0",
        f"job_{'A' * 32}",
        f"job_{'g' * 32}",
        f"job_{'٣' * 32}",
        f"job_{DIGITS[1:]}\n",
        f" job_{DIGITS}",
        f"job_{DIGITS}\n",
        f"job_{DIGITS[2:]}{{}}",
        "job_00000000-0000-0000-0000-000000000000",
        "job_" + "0" * 100_000,
    ],
    ids=lambda text: repr(text[:45]),
)
def test_what_is_no_generated_id_is_none_and_as_a_runs_id_refused_with_its_field(text):
    assert find_job_id(text) is None
    with pytest.raises(BadInputError) as refused:
        parse_run(text.replace("run_", "job_", 1))
    ((field, message),) = refused.value.fields
    assert field == "runId"
    assert len(message) < 250


def test_a_job_id_is_no_run_id():
    with pytest.raises(BadInputError) as refused:
        parse_run(show_job(JOB))
    assert refused.value.fields[0][0] == "runId"


@pytest.mark.parametrize("first", ["job_01890a5dac96774bbcceb302099a8057", "run_01890a5dac96774bfffffffffffffffe"])
def test_a_series_is_shown_as_each_of_its_ids(first):
    assert show_series(first, 5) == [show_following(first, step) for step in range(5)]
    assert show_series(first, 1) == [first]
