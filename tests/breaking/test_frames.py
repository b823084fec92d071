"""What a task's process may tell its worker: nothing that it says breaks the worker, its neighbours or an answer."""

from __future__ import annotations

import base64
import json
from contextlib import suppress

import hostile
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.worker.runners.child_messages import FromChild, from_child, to_child
from rota.worker.runners.guarded_process import Subprocesses
from rota.worker.runners.process import Isolated, ProcessRunner
from support import eventually, examples

DONE = {"type": "RunDone"}
OVER = {**DONE, "result": b"4"}


def framed(*messages):
    """Frames as the worker reads them; bytes go as they are."""
    whole = b""
    for message in messages:
        body = message if isinstance(message, bytes) else msgspec.msgpack.encode(message)
        whole += body if isinstance(message, bytes) else len(body).to_bytes(4, "big") + body
    return whole


def told(**fields):
    return {"type": "Told", "progress": None, "message": None, "checkpoint": None} | fields


@pytest.fixture
async def worker(engine):
    """A worker with a single process: who comes next gets what is left of the one before."""
    subprocesses = Subprocesses()
    functions = {name: Isolated(getattr(hostile, name)) for name in ("speak", "add")}
    runner = ProcessRunner(functions, subprocesses, processes=1, grace_seconds=0.5)
    worker = engine.worker(
        runners=dict.fromkeys(functions, runner),
        grace_seconds=0.5,
        on_lease=subprocesses.extend_deadline,
        blobs=engine.blobs,
    )
    async with engine.running(worker):
        yield worker
    await runner.close()


async def said(engine, *messages):
    """The run of a task that said this, once it has ended, as anybody reads it."""
    payload = {"words": base64.b64encode(framed(*messages)).decode()}
    run_id = await engine.submit(task="speak", payload=payload, maxRetries=0, timeoutSeconds=10)

    async def ended():
        answer = await engine.api.get(f"/v1/runs/{run_id}")
        assert answer.status_code == 200
        run = json.loads(answer.content)
        return run if run["status"] in ("success", "failed", "retrying") else None

    return await eventually(ended)


NONSENSE = [
    pytest.param([b"\x00\x00\x00\x00"], id="an empty frame"),
    pytest.param([b"\xff\xff\xff\xff"], id="a frame of four gigabytes"),
    pytest.param([b"\x00\x00\x00\x05hello"], id="no MessagePack"),
    pytest.param([{"type": "Reboot"}], id="an unknown message"),
    pytest.param([{**DONE, "result": 5}], id="a result that is no text"),
    pytest.param([{**DONE, "result": b'1, "owner": "mallory"'}], id="a result that ends early"),
    pytest.param([{**DONE, "result": b"\xff"}], id="a result that is not UTF-8"),
    pytest.param([{**DONE, "result": b""}], id="an empty result"),
    pytest.param([{**DONE, "error": "a\x00b", "trace": "c\x00d"}], id="NUL in an error"),
    pytest.param([{**DONE, "snooze": float("nan")}], id="a snooze that is no number"),
    pytest.param([{**DONE, "snooze": 1e300}], id="a snooze for ever"),
    pytest.param([{**DONE, "snooze": -1e300}], id="a snooze since ever"),
    pytest.param([told(progress=float("nan")), OVER], id="progress that is no number"),
    pytest.param([told(progress=1e300), OVER], id="progress beyond its end"),
    pytest.param([told(message="a\x00b"), OVER], id="NUL in a message"),
    pytest.param([told(message="x" * 1_000_000), OVER], id="an endless message"),
    pytest.param([told(checkpoint='1, "a": 2'), OVER], id="a checkpoint that ends early"),
    pytest.param([told(checkpoint="{"), OVER], id="a checkpoint that is no JSON"),
    pytest.param([told(checkpoint='"\\u0000\\ud800"'), OVER], id="a checkpoint with half a surrogate"),
    pytest.param([{"type": "ChildQuestion", "number": 1, "what": "x", "question": b"{"}, OVER], id="an odd question"),
    pytest.param([{"type": "Output", "stream": "a\x00", "data": b"\x00", "whole": True}, OVER], id="NUL in a log"),
]


@pytest.mark.parametrize("messages", NONSENSE)
async def test_whatever_a_process_says_its_run_ends_and_others_go_on(engine, worker, messages):
    run = await said(engine, *messages)
    assert "owner" not in str(run.get("result"))
    assert run["owner"] == "admin"
    assert len(run.get("progressMessage") or "") < 10_000
    other = await engine.until(await engine.submit(task="add", payload={"a": 1, "b": 2}), "success", "failed")
    assert other["result"] == 3
    listed = json.loads((await engine.api.get("/v1/runs")).content)["items"]
    assert {run["runId"], other["runId"]} == {one["runId"] for one in listed}


async def test_a_process_does_not_forge_lines_of_a_log(engine, worker):
    forged = "2026-01-01T00:00:00.000Z rota forged"
    run = await said(
        engine,
        {"type": "Output", "stream": f"stdout x\n{forged}", "data": b"y", "whole": True},
        OVER,
    )
    text = (await engine.api.get(f"/v1/runs/{run['runId']}/logs")).text
    assert not any(line.startswith(forged) for line in text.splitlines())


@settings(max_examples=examples(200), deadline=None)
@given(
    st.binary(max_size=200)
    | st.recursive(st.none() | st.text() | st.integers(-5, 5), st.lists).map(msgspec.msgpack.encode)
)
def test_any_bytes_are_a_message_or_refused(body):
    for decoder in (from_child, to_child):
        with suppress(ValueError, msgspec.MsgspecError):
            decoder.decode(body)


def test_every_message_of_a_process_is_attacked_here():
    attacked = {message["type"] for case in NONSENSE for message in case.values[0] if isinstance(message, dict)}
    assert {kind.__name__ for kind in FromChild.__args__} - attacked == {"Ready"}


async def test_a_run_does_not_get_the_end_of_the_one_before(engine, worker):
    await said(engine, {**OVER, "claim": 1})
    for number in range(3):
        run = await engine.until(await engine.submit(task="add", payload={"a": number, "b": 0}), "success", "failed")
        assert run["result"] == number


@pytest.mark.parametrize("text", [b'1, "owner": "mallory"', b"{", b"\xff", b""])
async def test_json_that_a_task_wrote_itself_does_not_become_part_of_an_answer(engine, text):
    async def forge():
        return msgspec.Raw(text)

    async with engine.running(engine.worker({"forge": forge})):
        run_id = await engine.submit(task="forge", maxRetries=0)
        run = await engine.until(run_id, "success", "failed")
    assert run["owner"] == "admin"
    assert run["status"] == "failed"
    assert "JSON" in run["error"]


async def test_a_secret_that_looks_like_a_number_is_masked_and_the_answer_stays_json(engine):
    async def tell():
        return {"pin": 123456, "key 123456": [1.5, 123456789, "is 123456"], "quote": 'ab"cd'}

    secrets = {"PIN": "123456", "QUOTE": 'ab"cd'}
    async with engine.running(engine.worker({"tell": tell}, secrets=secrets)):
        run = await engine.until(await engine.submit(task="tell"), "success", "failed")
    assert run["result"] == {"pin": "***", "key ***": [1.5, "***789", "is ***"], "quote": "***"}
