"""Parameter schemas: a payload that a worker would take is never refused, and what plainly can't fit is."""

from __future__ import annotations

import dataclasses
import enum
import json
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given, strategies

import rota
from rota.domain.application import AnnouncedTask, Announcement
from rota.errors import BadInputError
from rota.gateway.payload_check import check_of, refusal
from rota.sdk.announced_tasks import describe_task
from rota.task.arguments import Arguments, ArgumentsError


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Lenient(enum.Enum):
    ONE = "one"

    @classmethod
    def _missing_(cls, value):  # noqa: ARG003 - the shape of it
        return cls.ONE


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Bits(enum.IntFlag):
    LOW = 1
    HIGH = 4


@dataclasses.dataclass
class Node:
    name: str
    children: list[Node] = dataclasses.field(default_factory=list)


class Strict(msgspec.Struct, forbid_unknown_fields=True):
    count: Annotated[int, msgspec.Meta(ge=1, le=5)]


class Cat(msgspec.Struct, tag=True):
    lives: int


class Dog(msgspec.Struct, tag=True):
    bones: int


class Pair(NamedTuple):
    left: int
    right: str


class Box(TypedDict, total=False):
    size: int


class Model(pydantic.BaseModel):
    number: int


TYPES = (
    *(int, float, bool, str, bytes, None, Any, Decimal, datetime, date, timedelta, UUID, Colour, Lenient, Rights, Bits),
    *(Node, Strict, Cat | Dog, Pair, Box, Model, list[int], set[int], tuple[int, str], tuple[int, ...]),
    *(dict[str, int], dict[int, Any], list[Node] | None, int | str | None, Literal["a", 1], Literal[True]),
    *(Annotated[str, msgspec.Meta(min_length=2, pattern="^a")], Annotated[list[int], msgspec.Meta(max_length=1)]),
    Annotated[float, msgspec.Meta(gt=0, multiple_of=0.5)],
    int | list[Colour],
)
VALUES = (
    *(None, True, 0, 1, 3, 7, -1, 2**70, 1.0, 0.5, 1e300, "", "a", "ab", "red", "one", "1", "1.5", "YWJj", "P1D"),
    *("2030-01-31T09:30:00Z", "2030-01-31T09:30:00", "2030-01-31", "5b4d9d8e-6d1d-4a43-9d5b-4b6e2a3c1f00"),
    *([], [1], [1, "a"], [1, 2], ["red"], {}, {"size": 1}, {"size": "x"}, {"name": "n"}, {"name": 1}),
    *({"count": 3}, {"count": 9}, {"count": 3, "more": 1}, {"type": "Cat", "lives": 9}, {"type": "Dog"}),
    *({"1": 2}, {"number": "5"}, {"name": "n", "children": [{"name": "m", "children": [{"name": 3}]}]}),
    *([{"name": "n"}], [{"nome": "n"}]),
)


def function_of(kind, **options):
    def function(it):
        """Takes one thing."""

    function.__annotations__ = {"it": kind}
    if "default" in options:
        function.__defaults__ = (options["default"],)
    return function


def accepts(function, payload):
    try:
        Arguments(function).decode(payload)
    except ArgumentsError:
        return False
    except (TypeError, ValueError):  # of a model: it was looked at
        return False
    return True


def checked(function, payload):
    schema = json.dumps(Arguments(function).schema).encode()
    check = check_of(schema)
    assert check is not None
    return check.accepts(json.dumps(payload))


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_what_a_worker_takes_is_never_refused(kind):
    function = function_of(kind)
    for value in VALUES:
        payload = {"it": value}
        if accepts(function, payload):
            assert checked(function, payload), payload


values = strategies.recursive(
    strategies.none()
    | strategies.booleans()
    | strategies.integers()
    | strategies.floats(allow_nan=False, allow_infinity=False)
    | strategies.text(),
    lambda inner: (
        strategies.lists(inner, max_size=3) | strategies.dictionaries(strategies.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(strategies.sampled_from(TYPES), values)
def test_no_payload_at_random_is_refused_that_a_worker_takes(kind, value):
    function = function_of(kind)
    if accepts(function, {"it": value}):
        assert checked(function, {"it": value})


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (int, "1"),
        (int, 1.5),
        (int, None),
        (str, 1),
        (bool, 1),
        (datetime, "yesterday"),
        (UUID, "1"),
        (Colour, "green"),
        (Literal["a", 1], "b"),
        (list[int], [1, "x"]),
        (tuple[int, str], [1]),
        (dict[str, int], {"a": "x"}),
        (Node, {"nome": "x"}),
        (Strict, {"count": 9}),
        (Strict, {"count": 3, "more": 1}),
        (int | None, "x"),
        (Annotated[str, msgspec.Meta(min_length=2)], "a"),
    ],
    ids=str,
)
def test_what_plainly_does_not_fit_is_refused(kind, value):
    assert not accepts(function_of(kind), {"it": value})
    assert not checked(function_of(kind), {"it": value})


def test_parameters_that_are_missing_or_unknown_are_named():
    def report(days: int, customer: str, *, note: str = "") -> None: ...

    check = check_of(json.dumps(Arguments(report).schema).encode())
    error = refusal(check, "report", '{"days": "x", "costumer": "a"}')
    assert isinstance(error, BadInputError)
    assert dict(error.fields) == {
        "payload.customer": "required, but missing",
        "payload.days": "must be `int`, not `str`",
        "payload.costumer": "the task has no such parameter; did you mean customer?",
    }
    assert not check.accepts(None)
    assert check.accepts('{"days": 1, "customer": "ä"}')


def test_of_very_many_mistakes_only_those_that_are_shown_are_looked_for(monkeypatch):
    looked = []
    monkeypatch.setattr("rota.gateway.payload_check.nearest", lambda name, _: looked.append(name))
    check = check_of(json.dumps(Arguments(function_of(int)).schema).encode())
    errors = check.errors(json.dumps({f"it{number}": 1 for number in range(10_000)}))
    assert len(errors) == 20
    assert len(looked) == 19  # one parameter is missing


def test_a_function_with_any_other_keywords_takes_any_other_field():
    def report(days: int, **rest: str) -> None: ...

    assert checked(report, {"days": 1, "colour": "red"})
    assert not checked(report, {"colour": "red"})


def test_a_context_is_no_parameter():
    def report(context: rota.Context, days: int = 3) -> None: ...

    assert [*Arguments(report).schema["properties"]] == ["days"]
    assert checked(report, {})


def test_annotations_that_exist_for_type_checkers_alone_accept_anything():
    def report(what, days: Unheard = 3) -> None: ...  # noqa: F821 - as under TYPE_CHECKING

    assert checked(report, {"what": [1], "days": "x"})


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (b"[]", 1),
        (b"7", 1),
        (b"not json", 1),
        (b'{"properties": 5, "required": 7}', 1),
        (b'{"properties": {}, "required": ["it", {}]}', 1),
        (b'{"properties": {"it": {"type": "integer", "minimum": "x"}}}', 1),
        (b'{"properties": {"it": {"type": ["string"], "anyOf": [{}, 3]}}}', 1),
        (b'{"properties": {"it": {"enum": [[1], {}]}}}', 1),
        (b'{"properties": {"it": {"$ref": "#"}}}', 1),
        (b'{"properties": {"it": {"type": "string", "pattern": "(a+)+$"}}}', "a" * 50_000 + "b"),
        (b'{"properties": {"it": ' + b'{"type": "array", "items": ' * 50 + b"{}" + b"}" * 50 + b"}}", []),
        (b'{"properties": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 1),
        (b'{"properties": {"' + b"x" * 100_000 + b'": {"type": "object", "properties": {"class": {}}}}}', 1),
        (b'{"properties": {"it": {"type": "object", "properties": {"a": 1}, "required": 3}}}', {"a": 1}),
    ],
    ids=lambda one: str(one)[:60],
)
def test_a_schema_that_makes_no_sense_harms_no_payload(schema, value):
    check = check_of(schema)
    assert check is None or check.accepts(json.dumps({"it": value}))


def test_a_task_says_its_options_and_which_of_them_it_computes():
    app = rota.App()

    @app.task(
        name="bill",
        retries=0,
        timeout="1m",
        tags=["money"],
        retry=rota.Retry(strategy="fixed"),
        ordering_key=lambda customer: customer,
        ordering_on_failure="release",
        rate_limit="5/1m",
    )
    def bill(customer: str, plan: str = "hidden", days: int = 30) -> None:
        """Bills a customer.

        More about it.
        """

    found = describe_task(bill)
    assert found.computed == ("orderingKey",)
    assert found.description == "Bills a customer."
    assert found.defaults["maxRetries"] == 0
    assert found.defaults["timeoutSeconds"] == 60
    assert found.defaults["rateLimit"]["perSeconds"] == 60
    assert "orderingKey" not in found.defaults
    properties = found.parameters["properties"]
    assert properties["days"] == {"type": "integer", "default": 30}
    assert properties["plan"] == {"type": "string"}  # texts may be secrets


def test_a_schema_that_is_too_large_is_left_out_and_the_defaults_stay():
    wide = {"type": "object", "properties": {f"field_{number}": {"title": "x" * 100} for number in range(400)}}
    hopeless = {"type": "object", "properties": {"x" * 20_000: {}}}
    tasks = {
        "wide": AnnouncedTask(wide, {"maxRetries": 0}),
        "hopeless": AnnouncedTask(hopeless, {"maxRetries": 1}),
    }
    read = json.loads(Announcement(tasks).text)
    assert len(read["wide"]["parameters"]["properties"]) == 400
    assert read["hopeless"] == {"parameters": {"type": "object"}, "defaults": {"maxRetries": 1}}
    many = {
        f"task_{number}": AnnouncedTask({"type": "object", "title": "x" * 15_000}, {"maxRetries": 0})
        for number in range(400)
    }
    announcement = Announcement(many)
    assert announcement.fits
    assert json.loads(announcement.text)["task_7"] == {"defaults": {"maxRetries": 0}}


def test_what_json_can_not_hold_is_left_out():
    app = rota.App()

    @app.task(name="odd", retries=0)
    def odd(huge: int = 2**70, text: Literal["\ud800", "\x00"] = "\x00") -> None:
        """Bad \ud800 words."""

    read = json.loads(Announcement({"odd": describe_task(odd)}).text)["odd"]
    assert (read["defaults"], [*read["parameters"]["properties"]]) == ({"maxRetries": 0}, ["huge", "text"])


def test_what_postgresql_can_not_look_into_is_left_out():
    schema = {"type": "object", "properties": {"at": {"enum": ["\x00"]}}, "required": ["at"]}
    task = AnnouncedTask(schema, {"maxRetries": 0, "tags": ["\x00"]}, description="At \x00.")
    announcement = Announcement({"split": task})
    assert "\\u0000" not in announcement.text
    read = json.loads(announcement.text)["split"]
    assert read["parameters"] == {"type": "object", "properties": {"at": {}}, "required": ["at"]}
    assert (read["defaults"], read["description"]) == ({"maxRetries": 0}, "At \N{REPLACEMENT CHARACTER}.")


def test_equal_tasks_have_equal_digests():
    one = {"a": AnnouncedTask({"x": 1, "y": 2}), "b": AnnouncedTask()}
    other = {"b": AnnouncedTask(), "a": AnnouncedTask({"y": 2, "x": 1})}
    assert Announcement(one).digest == Announcement(other).digest
    assert Announcement({"a": AnnouncedTask()}).digest != Announcement(one).digest
