"""Workflows written in code become the definitions of the contract, or are refused where they are written."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime

import msgspec
import pytest

import rota
from rota.contract.workflows import WorkflowIn
from rota.errors import SetupError
from rota.task.arguments import ArgumentsError

app = rota.App("etl")


@app.task(retries=2, timeout="1m")
def extract(day: str) -> dict: ...


@app.task
def clean(file: str, mode: str = "strict") -> None: ...


@app.task
def copy(source: str, target: str) -> None: ...


@app.task
async def load(context: rota.Context, parts: dict, rows: object = None) -> int: ...


@app.task
def touch() -> None: ...


@app.task(unique_key="one")
def unique(n: int) -> None: ...


@app.task(ordering_key=lambda n: f"customer {n}", rate_limit=rota.RateLimit(limit=5, key=lambda n: f"rate {n}"))
def keyed(n: int) -> None: ...


def fresh(name="flow", **options):
    """A workflow of an application that declares nothing else."""
    return rota.App("etl").workflow(name, **options)


def nodes_of(flow):
    return flow.definition()["nodes"]


def test_the_nightly_pipeline_as_the_contract_has_it():
    with fresh("nightly", cron="0 2 * * *", timezone="Europe/Berlin", fail_fast=True, deadline="2h") as flow:
        rows = extract.node(day=flow.nominal_date)
        parts = clean.map(rows["files"], max_concurrency=50, tolerate_failures="1%")
        load.node(parts).after(touch.node().after(rows))
    assert flow.definition() == {
        "name": "nightly",
        "schedule": {"cronExpression": "0 2 * * *", "timezone": "Europe/Berlin"},
        "failFast": True,
        "deadlineSeconds": 7200.0,
        "nodes": {
            "extract": {
                "task": "test_workflow_definitions.extract",
                "payload": {"day": {"$nominal": "date"}},
                "maxRetries": 2,
                "timeoutSeconds": 60.0,
            },
            "clean": {
                "task": "test_workflow_definitions.clean",
                "payload": {"file": {"$item": ""}},
                "map": {
                    "items": {"$from": "extract", "path": "files"},
                    "maxConcurrency": 50,
                    "tolerateFailures": "1%",
                },
                "after": ["extract"],
            },
            "touch": {"task": "test_workflow_definitions.touch", "after": ["extract"]},
            "load": {
                "task": "test_workflow_definitions.load",
                "payload": {"parts": {"$from": "clean"}},
                "after": ["touch", "clean"],
            },
        },
    }
    assert msgspec.convert(flow.definition(), WorkflowIn).nodes["load"].after == ["touch", "clean"]


def test_conditions_are_written_as_comparisons():
    with fresh() as flow:
        mode = flow.input("mode", type=str, default="full")
        rows = extract.node("x")
        load.node({}).when((rows["count"] > 0) & ~(mode == "dry") | rows["files"][0]["name"].exists())
        load.node({}).when(mode.is_in(["full", "part"]))
    assert nodes_of(flow)["load"]["when"] == {
        "any": [
            {"all": [{"$from": "extract", "path": "count", "gt": 0}, {"not": {"$input": "mode", "eq": "dry"}}]},
            {"$from": "extract", "path": "files.0.name", "exists": True},
        ]
    }
    assert nodes_of(flow)["load"]["after"] == ["extract"]
    assert nodes_of(flow)["load_2"]["when"] == {"$input": "mode", "in": ["full", "part"]}
    assert flow.definition()["inputs"] == {"mode": {"type": "string", "default": "full"}}


@dataclass
class Window:
    begin: date
    end: date


def test_arguments_are_json_with_references_in_them():
    with fresh(inputs={"region": str, "limit": {"type": int, "default": 5}}) as flow:
        rows = extract.node("x")
        load.node(
            {"rows": [rows, rows["n"]], "region": flow.input("region"), "at": flow.nominal},
            Window(date(2027, 1, 1), date(2027, 1, 2)),
        )
        load.node({"$from": "text, not a reference", "deep": [{"$item": 1}]}, None)
    payload = nodes_of(flow)["load"]["payload"]
    assert payload == {
        "parts": {
            "rows": [{"$from": "extract"}, {"$from": "extract", "path": "n"}],
            "region": {"$input": "region"},
            "at": {"$nominal": "timestamp"},
        },
        "rows": {"begin": "2027-01-01", "end": "2027-01-02"},
    }
    literal = {"$literal": {"$from": "text, not a reference", "deep": [{"$item": 1}]}}
    assert nodes_of(flow)["load_2"]["payload"]["parts"] == literal
    assert flow.definition()["inputs"] == {"region": {"type": "string"}, "limit": {"type": "integer", "default": 5}}


def test_a_map_gives_the_item_to_the_parameter_that_is_left_or_that_is_named():
    with fresh() as flow:
        clean.map(["a", "b"])
        clean.map(flow.object("orders.ndjson"), file=rota.item["path"], mode="loose", stop_on_failure=True)
        copy.map([1], target="x")
        copy.map([1], source=rota.item["from"], target=rota.item["to"])
        keyed.with_options(ordering_key=None, rate_limit=None).map([1], n=rota.index)
    nodes = nodes_of(flow)
    assert nodes["clean"]["payload"] == {"file": {"$item": ""}}
    assert nodes["clean_2"]["payload"] == {"file": {"$item": "path"}, "mode": "loose"}
    assert nodes["clean_2"]["map"] == {"items": {"$object": "orders.ndjson"}, "stopOnFailure": True}
    assert nodes["copy"]["payload"] == {"source": {"$item": ""}, "target": "x"}
    assert nodes["copy_2"]["payload"] == {"source": {"$item": "from"}, "target": {"$item": "to"}}
    assert nodes["keyed"]["payload"] == {"n": {"$index": ""}}


def test_keys_come_from_tasks_and_a_given_one_wins():
    with fresh() as flow:
        first = touch.node()
        touch.node().with_options(key="touch")
        last = touch.node().after(first, trigger="all_ended").with_options(allow_failure=True)
        assert (first.key, last.key) == ("touch_2", "touch_3")
    assert list(flow.nodes) == ["touch_2", "touch", "touch_3"]
    assert nodes_of(flow)["touch_3"] == {
        "task": "test_workflow_definitions.touch",
        "trigger": "all_ended",
        "allowFailure": True,
        "after": ["touch_2"],
    }


def test_a_node_that_starts_early_is_not_held_up_by_what_it_reads():
    with fresh() as flow:
        rows = extract.node("x")
        left, right = touch.node().after(rows), touch.node().after(rows)
        load.node(rows).after(left, right, trigger="any_succeeded")
    assert nodes_of(flow)["load"]["after"] == ["touch", "touch_2"]


def test_options_of_a_task_become_those_of_its_nodes():
    with fresh() as flow:
        keyed.with_options(pool="big", priority="high", tags=["x"], expires=5).node(3)
    assert nodes_of(flow)["keyed"] == {
        "task": "test_workflow_definitions.keyed",
        "payload": {"n": 3},
        "orderingKey": "customer 3",
        "rateLimit": {"limit": 5, "perSeconds": 1.0, "burst": None, "key": "rate 3"},
        "pool": "big",
        "priority": "high",
        "tags": ["x"],
        "expiresSeconds": 5.0,
    }


def test_tasks_of_others_are_named():
    with fresh() as flow:
        rows = extract.node("x")
        flow.task("http", {"url": "https://example.org", "body": rows}, retries=7).with_options(key="call")
    assert nodes_of(flow)["call"] == {
        "task": "http",
        "payload": {"url": "https://example.org", "body": {"$from": "extract"}},
        "maxRetries": 7,
        "after": ["extract"],
    }


def test_a_schedule_has_its_calendar_and_inputs():
    start = datetime(2027, 1, 1, tzinfo=UTC)
    with fresh(
        every="15m", overlap="skip", start=start, misfire="skip", inputs={"n": int}, schedule_inputs={"n": 3}
    ) as flow:
        keyed.with_options(ordering_key=None, rate_limit=None).node(flow.input("n"))
    assert flow.definition()["schedule"] == {
        "everySeconds": 900.0,
        "startTime": "2027-01-01T00:00:00Z",
        "misfire": "skip",
        "overlap": "skip",
        "inputs": {"n": 3},
    }


def unfit(make, words, error=SetupError):
    with pytest.raises(error, match=words), fresh() as flow:
        make(flow)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda _flow: unique.node(1), r"can't have unique_key.*with_options\(unique_key=None\)"),
        (lambda _flow: touch.with_options(idempotency_key="k").node(), "can't have idempotency_key"),
        (lambda _flow: keyed.node(extract.node("x")["n"]), "ordering_key is made of arguments"),
        (lambda _flow: copy.map([1]), "Which parameter of copy gets the item.*source, target"),
        (lambda _flow: touch.map([1]), "Which parameter of touch gets the item"),
        (lambda _flow: clean.map("abc"), "takes a list, a node"),
        (lambda _flow: f"{extract.node('x')}", "known only when the workflow runs"),
        (lambda _flow: bool(extract.node("x")["a"]), "known only when the workflow runs"),
        (lambda _flow: list(extract.node("x")), "known only when the workflow runs"),
        (lambda _flow: (extract.node("x")["a"] > 1) and True, "join conditions with &"),
        (lambda _flow: extract.node("x")["a"] > touch.node(), "with a constant"),
        (lambda _flow: touch.node().when(True), "takes a condition"),
        (lambda _flow: touch.node().after("extract"), "nodes of its own workflow"),
        (lambda _flow: (touch.node().with_options(key="a"), touch.node().with_options(key="a")), "Two nodes"),
        (lambda _flow: touch.node().with_options(key="a/b"), "The workflow 'flow'"),
        (lambda flow: flow.input("day", type=set), "its type is one of"),
        (lambda flow: extract.node(flow.input("day", type=str, default=3)), "inputs.day: must be of type string"),
        (lambda flow: flow.wait(seconds=1, signal="x"), "takes one of"),
        (lambda flow: flow.wait(seconds=1, timeout=1), "are for a signal"),
        (lambda _flow: None, "has no nodes"),
        (lambda _flow: touch.node().with_options(trigger="any_failed"), "any_failed needs nodes before it"),
    ],
)
def test_what_can_not_be_is_refused_where_it_is_written(make, words):
    unfit(make, words)


def test_arguments_that_do_not_fit_are_refused():
    unfit(lambda _flow: extract.node(3), "extract: Expected `str`", ArgumentsError)
    unfit(lambda _flow: clean.node(extract.node("x")["file"], 5), "clean: Expected `str`", ArgumentsError)
    unfit(lambda _flow: copy.map([1], target=5), "copy: Expected `str`", ArgumentsError)
    unfit(lambda _flow: extract.node("x", "y"), "too many positional arguments", ArgumentsError)
    unfit(lambda _flow: clean.map([1], file=rota.item, colour=1), "there is no parameter 'colour'", ArgumentsError)


def test_a_cycle_is_refused_and_names_the_nodes():
    def cycle(_flow):
        first, second = touch.node().with_options(key="a"), touch.node().with_options(key="b")
        first.after(second)
        second.after(first)

    unfit(cycle, "nodes: is a cycle: a → b → a")


def test_nodes_are_made_inside_of_a_workflow_only():
    with pytest.raises(SetupError, match=r"inside `with app\.workflow"):
        touch.node()
    with fresh() as flow:
        touch.node()
    with pytest.raises(SetupError, match="is complete"):
        flow.task("http")
    with pytest.raises(SetupError, match="has its nodes already"):
        flow.__enter__()


def test_nodes_of_another_workflow_are_refused():
    with fresh("one"):
        other = touch.node()
    unfit(lambda _flow: touch.node().after(other), "nodes of its own workflow")
    unfit(lambda _flow: load.node(other), "of another workflow")


def test_a_block_that_fails_declares_nothing():
    other = rota.App("other")
    with pytest.raises(ZeroDivisionError), other.workflow("flow"):
        load.node(touch.node(), 1 / 0)
    assert other.declarations.workflows() == []
    with other.workflow("flow"):
        touch.node()
    with pytest.raises(SetupError, match="Two workflows are called 'flow'"), other.workflow("flow"):
        touch.node()
    assert [one.name for one in other.declarations.workflows()] == ["flow"]


def test_a_workflow_of_ten_thousand_nodes_is_made_in_one_go():
    with fresh() as flow:
        nodes = [touch.node()]
        nodes += [touch.node().after(nodes[0]) for _ in range(9_999)]
    assert len(flow.definition()["nodes"]) == 10_000
    unfit(lambda _flow: [touch.node() for _ in range(10_001)], "has 10001 nodes; the limit is 10000")
