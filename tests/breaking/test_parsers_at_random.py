"""Whatever is written into a field, a parameter or a variable: it is read or refused in words, at a bounded cost."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from starlette.datastructures import Headers

from rota.api import operations
from rota.api.paging import one_shot_filter, read_cursor, read_limit, read_moment, read_number_cursor, run_filter
from rota.api.routes import jobs, logs, pools, runs, submit
from rota.api.streams.sse import read_position, read_switch
from rota.contract import aliases
from rota.contract.fields import Key, Name, PoolName, Tag, TaskName
from rota.contract.jobs import BatchJobIn, JobIn, JobPatch
from rota.contract.json_rules import bad_json, hash_request
from rota.domain.cron_grammar import MAX_EXPRESSION_LENGTH
from rota.domain.durations import seconds_of
from rota.domain.ids import find_job_id, floor_id, parse_run
from rota.domain.job import check_command, check_script_name, decode_options
from rota.domain.policies import decode_policies
from rota.domain.rights import Caller
from rota.domain.runner_payloads import parse_http_call
from rota.domain.schedule import parse_cron
from rota.domain.timezones import load_zone
from rota.errors import BadInputError, SetupError
from rota.gateway.job_builder import JobBuilder
from rota.settings import VARIABLES, Settings
from support import examples

NOW = datetime(2026, 5, 17, 12, tzinfo=UTC)
SHORT = timedelta(hours=24)
# Calls of functions, Python's and C's, that reading one expression and finding its next time may take.
MOST_CALLS = 60_000

anything = st.text(max_size=300)
# Texts that look like what is wanted and are not: the characters of the grammar in any order.
at_random = settings(max_examples=examples(150), deadline=None)


def shaped(alphabet, length=60):
    return anything | st.text(alphabet, max_size=length)


def refused_or(read, *arguments, **named):
    """What `read` gives; None when it refused in our words. Anything else it raises fails the test."""
    try:
        return read(*arguments, **named)
    except BadInputError:
        return None


def calls_of(work):
    """How many functions `work` calls: a cost that no other load on the machine changes."""
    count = 0

    def note(_frame, event, _argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def call(query=None, path=None, headers=None):
    """As much of a request as parsers look at; its headers as they come over the wire."""
    raw = [(name.encode(), text.encode(errors="replace")) for name, text in (headers or {}).items()]
    given = Headers(raw=raw)
    request = SimpleNamespace(headers=given, all_headers=given.getlist)
    return SimpleNamespace(query=query or {}, path=path or {}, request=request)


@at_random
@given(shaped("0123456789*/-,#?LWHJANFESU()@ ", MAX_EXPRESSION_LENGTH), st.sampled_from(["UTC", "Europe/Berlin"]))
@example("0 0 29 2 1#5", "Europe/Berlin")
@example("0 0 31W,30W,29W,28W * *", "UTC")
@example(",".join("H(0-59)/7" for _ in range(19)) + " * * * *", "UTC")
@example("1" * MAX_EXPRESSION_LENGTH, "UTC")
def test_any_cron_expression_costs_a_bounded_number_of_steps(expression, zone):
    found = []
    assert calls_of(lambda: found.append(refused_or(parse_cron, expression, zone, NOW))) < MOST_CALLS
    if found[0] is not None:
        assert found[0].next_after(NOW) > NOW


@at_random
@given(anything | st.sampled_from(["../../etc/passwd", "/etc/localtime", "a\x00b", "Europe", "zone.tab", "x" * 5000]))
def test_any_text_is_a_time_zone_or_none(name):
    refused_or(load_zone, name)


@at_random
@given(shaped("0123456789dhms. ", 500) | st.floats() | st.integers(-(10**400), 10**400))
@example("9" * 400)
@example(float("nan"))
@example(float("inf"))
@example(10**400)
def test_any_duration_is_a_finite_number_or_a_value_error(duration):
    with suppress(ValueError):
        assert abs(seconds_of(duration)) < 10**11


@at_random
@given(shaped("job_run0123456789abcdefABCDEF\n", 40))
@example("job_" + "0" * 32 + "\n")
@example("job_" + "\u0660" * 32)
def test_any_text_is_an_id_or_none(text):
    for parse, prefix in ((find_job_id, "job_"), (parse_run, "run_")):
        found = refused_or(parse, text)
        assert found is None or text == f"{prefix}{found.hex}"


@at_random
@given(shaped("0123456789abcdef.-", 60))
@example("f" * 32 + ".-999999999999999999.-999999999")
@example("0" * 32 + ".999999999999999999.999999999")
@example("9" * 18)
def test_any_text_is_a_cursor_or_none(text):
    refused_or(read_cursor, {"cursor": text})
    number = refused_or(read_number_cursor, {"cursor": text})
    assert number is None or 0 <= number < 1 << 63
    before = floor_id(NOW)
    place = refused_or(logs._read_place, text, before)
    assert place is None or (place.run_id <= before and abs(place.claim) < 1 << 63 and 0 <= place.line < 1 << 31)


moments = shaped("0123456789-:.TZ+ ", 40) | st.sampled_from(
    ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59.999999-23:59", "2026-02-30T00:00:00Z", "2026-05-17T12:00:60Z"]
)


@at_random
@given(
    st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(("owner", "name", "tag", "task", "limit"), anything)
        | {
            "status": shaped("scheduledqueuedfailed,", 30),
            "startTime": moments,
            "endTime": moments,
            "cursor": shaped("0123456789abcdef", 33),
        },
    )
)
def test_any_filter_is_a_range_of_ids_or_refused(query):
    refused_or(read_limit, query)
    refused_or(read_moment, query, "startTime")
    for found in (
        refused_or(run_filter, query, NOW, None),
        refused_or(one_shot_filter, query, since=NOW - SHORT, only=None),
    ):
        assert found is None or all("\x00" not in text for text in (found.owner, found.name, found.tag) if text)


@at_random
@given(shaped('W/"0123456789*truefals.', 30))
def test_any_header_or_switch_is_read_or_refused(text):
    version = refused_or(jobs._read_if_match, call(headers={"if-match": text}))
    assert version is None or 0 <= version < 1 << 31
    refused_or(submit.read_key, text, "Idempotency-Key")
    position = read_position(call(headers={"last-event-id": text}))
    assert position is None or 0 <= position < 1 << 63
    refused_or(read_switch, call({"follow": text}), "follow")
    wait = refused_or(runs._read_wait, call({"waitSeconds": text}))
    assert wait is None or 0 <= wait <= runs.LONGEST_WAIT_SECONDS
    refused_or(pools._pool, call(path={"pool": text}))


@at_random
@given(anything, st.sampled_from([Name, TaskName, PoolName, Tag, Key]))
@example("a\n", Name)
@example("a\n", TaskName)
@example("a,b", Tag)
def test_a_name_holds_neither_line_breaks_nor_nul(text, kind):
    try:
        msgspec.convert(text, kind)
    except msgspec.ValidationError:
        return
    assert not set(text) & set("\x00\n\r\x1b\x7f")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | anything,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(anything, inner, max_size=4),
    max_leaves=12,
)
http_fields = st.fixed_dictionaries(
    {"url": shaped("htps:/[]@.%0123456789abc#?\\", 60) | st.just("http://example.com/")},
    optional=dict.fromkeys(("method", "body", "json", "expectedStatus", "maxRedirects"), json_values)
    | {"headers": json_values | st.dictionaries(shaped("Hostrata-: \r\n", 20), anything, max_size=3)},
)


@at_random
@given(json_values | http_fields)
def test_any_http_call_is_read_or_refused(payload):
    found = refused_or(parse_http_call, payload if isinstance(payload, dict) else json.dumps(payload).encode())
    if found is not None:
        assert all(not set(name + value) & set("\x00\r\n") for name, value in found.headers.items())


@at_random
@given(json_values)
def test_any_script_or_command_is_a_plain_text_or_refused(value):
    name = refused_or(check_script_name, value)
    assert name is None or not (name.startswith("/") or ".." in name.split("/") or "\x00" in name)
    command = refused_or(check_command, value)
    assert command is None or "\x00" not in command


def fields_of(kind):
    """Values for the fields of a job: most wrong, some right, nested ones with the names of their own fields."""
    names = [field.encode_name for field in msgspec.structs.fields(kind)]
    nested = st.dictionaries(
        st.sampled_from(
            ["strategy", "baseSeconds", "limit", "perSeconds", "failures", "policy", "windowSeconds", "cap"]
        ),
        st.sampled_from(["exponential", "all", "skip"]) | st.floats() | st.integers(-5, 10**9),
        max_size=4,
    )
    right = st.sampled_from(
        ["rota.echo", "script", "http", "cron", "interval", "future", "immediate", "* * * * *", "UTC", "skip", "latest"]
    )
    times = st.datetimes(timezones=st.just(UTC)).map(datetime.isoformat)
    numbers = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-1, 10**19)
    values = json_values | nested | right | times | numbers | st.lists(anything, max_size=3)
    always = {"name": anything, "scheduleType": right} if kind is JobIn else {}
    return st.fixed_dictionaries(always, optional={name: values for name in names if name not in always})


def decode(kind, fields):
    """As the API reads a body."""
    try:
        return msgspec.json.decode(json.dumps(fields, allow_nan=False).encode(), type=kind)
    except ValueError as error:
        return refused_or(_raise, bad_json(error)) if isinstance(error, msgspec.MsgspecError) else None


def _raise(error):
    raise error


@pytest.fixture(scope="module")
def preparer():
    return JobBuilder(shards=64, payload_limit_bytes=1000, now=lambda: NOW)


@settings(max_examples=examples(400), deadline=None)
@given(fields=fields_of(JobIn))
@example(fields={"name": "a", "scheduleType": "interval", "everySeconds": 1e300, "task": "t"})
@example(fields={"name": "a", "scheduleType": "cron", "cronExpression": "* * * * *", "task": "t", "timezone": "\x00"})
@example(fields={"name": "a", "scheduleType": "interval", "everySeconds": 86400, "startTime": "0001-01-01T00:00:00Z"})
@example(fields={"name": "a", "scheduleType": "future", "scheduleTime": "9999-12-31T23:59:59-23:59", "task": "t"})
def test_any_job_is_prepared_or_refused(preparer, fields):
    wanted = decode(JobIn, fields)
    if wanted is not None:
        refused_or(preparer.prepare, wanted, Caller("default", "ada"), NOW, None)


@settings(max_examples=examples(400), deadline=None)
@given(fields=fields_of(JobPatch), recurring=st.booleans())
def test_any_change_is_made_or_refused(preparer, fields, recurring):
    patch = decode(JobPatch, fields)
    if patch is None:
        return
    body = {"name": "a", "task": "rota.echo"} | (
        {"scheduleType": "cron", "cronExpression": "0 9 * * *"} if recurring else {"scheduleType": "immediate"}
    )
    item, _ = preparer.prepare(msgspec.convert(body, JobIn), Caller("default", "ada"), NOW, None)
    refused_or(preparer.patched, item.definition, patch, "default", item.id)
    if recurring:
        refused_or(preparer.patched_timetable, item.timetable, patch, item.id)
    else:
        refused_or(preparer.patched_time, patch)


@at_random
@given(anything | json_values.map(json.dumps))
def test_what_is_stored_as_json_is_read_whatever_became_of_it(text):
    decode_options(text)
    decode_policies(text)
    refused_or(hash_request, text.encode("utf-8", "replace"))


@at_random
@given(
    st.dictionaries(
        st.sampled_from([*VARIABLES, "ROTA_SECRET_A", "ROTA_SECRET_", "ROTA_SECRET_a-b"]),
        shaped("0123456789.e-+_nainfof,=~/ ", 40),
        max_size=5,
    )
)
@example({"ROTA_HOME": "~nobody-of-that-name/x"})
@example({"ROTA_POOLS": "mail=" + "9" * 5000})
@example({"ROTA_POOLS": "mail\x1b[31m"})
@example({"ROTA_SLOTS": "9" * 5000})
@example({"ROTA_APP_PATIENCE_SECONDS": "1e308"})
@example({"ROTA_GRACE_SECONDS": "nan"})
def test_any_environment_is_read_or_refused_with_a_setup_error(environment):
    try:
        found = Settings.from_environment(environment)
    except SetupError:
        return
    for variable, field in VARIABLES.items():
        if variable.endswith("_SECONDS"):
            timedelta(seconds=getattr(found, field.name))
    assert found.home.is_absolute()
    assert found.url
    assert sum(found.pool_weights) > 0


OTHERS = ("schedule", "command", "image", "type", "expression", "", "é")
NAMES = sorted({*aliases.known_names(JobIn), *aliases.known_names(JobPatch), *OTHERS})
LIKELY = ["cron", "CRON", "0 9 * * *", "2090-01-01T00:00:00Z", "rota.echo", "fixed", "skip"]
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=8) | st.sampled_from(LIKELY),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=8,
)


@at_random
@given(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=6), st.sampled_from([JobIn, BatchJobIn, JobPatch]))
def test_a_body_in_any_words_is_understood_or_refused_with_its_fields(body, kind):
    found, refusal = None, None
    try:
        found = operations.decode(json.dumps(body).encode(), kind)
    except BadInputError as error:
        refusal = error
    assert isinstance(found, kind) or 1 <= len(refusal.fields) <= 20


@at_random
@given(st.data())
def test_a_job_in_snake_case_is_the_job_in_camel_case(data):
    given_fields = data.draw(
        st.fixed_dictionaries(
            {"task": st.just("rota.echo")},
            optional={
                "maxRetries": st.integers(0, 9),
                "delaySeconds": st.integers(0, 9),
                "retry": st.fixed_dictionaries({}, optional={"baseSeconds": st.just(1.0), "maxSeconds": st.just(9.0)}),
                "rateLimit": st.just({"limit": 1, "perSeconds": 2.0}),
                "payload": st.dictionaries(st.sampled_from(NAMES), st.integers(), max_size=3),
                "orderingKey": st.text("abc", min_size=1, max_size=3),
            },
        )
    )
    snake = {aliases.snake_case(name): value for name, value in given_fields.items()}
    for name in ("retry", "rate_limit"):
        if name in snake:
            snake[name] = {aliases.snake_case(inner): value for inner, value in snake[name].items()}
    ours, theirs = (operations.decode(json.dumps(body).encode(), JobIn) for body in (given_fields, snake))
    assert msgspec.json.encode(ours) == msgspec.json.encode(theirs)
