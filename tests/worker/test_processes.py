"""Functions in processes of their own: killed, crashed, hungry, noisy; the worker lives on."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from contextlib import asynccontextmanager
from uuid import uuid4

import isolated
import psutil
import pytest

from rota.clock import uptime
from rota.domain.run import Claim
from rota.errors import SetupError
from rota.task.context import Context, NotBegunError
from rota.worker.runners.guarded_process import Subprocesses
from rota.worker.runners.process import Isolated, ProcessError, ProcessRunner
from support import eventually, in_time

_numbers = itertools.count(1)
NAMES = [
    name for name, value in vars(isolated).items() if callable(value) and getattr(value, "__module__", "") == "isolated"
]


@pytest.fixture
async def worker(engine):
    """A worker whose functions all run in processes of their own, two at a time."""
    async with working(engine, grace_seconds=0.5) as worker:
        yield worker


@pytest.fixture
async def lenient_worker(engine):
    """The same, with so long a grace period that whatever ends in a test has ended because it was asked to."""
    async with working(engine, grace_seconds=600) as worker:
        yield worker


@asynccontextmanager
async def working(engine, *, grace_seconds):
    functions = {name: Isolated(getattr(isolated, name)) for name in NAMES}
    functions["eat_little"] = Isolated(isolated.eat, memory_bytes=200 * 1024 * 1024)
    subprocesses = Subprocesses()
    runner = ProcessRunner(functions, subprocesses, processes=2, grace_seconds=grace_seconds)
    worker = engine.worker(
        runners=dict.fromkeys(functions, runner),
        grace_seconds=grace_seconds,
        on_lease=subprocesses.extend_deadline,
        blobs=engine.blobs,
        secrets={"API_KEY": "tell-nobody"},
    )
    async with engine.running(worker):
        yield worker
    await runner.close()


async def test_a_function_runs_elsewhere_and_its_result_and_context_come_through(engine, worker):
    run = await engine.until(await engine.submit(task="add", payload={"a": 1, "b": 2}), "success", "failed")
    assert run["result"] == 3
    run = await engine.until(await engine.submit(task="add_async", payload={"a": 1, "b": 2}), "success", "failed")
    assert run["result"] == {"sum": 3, "attempt": 1, "key": run["idempotencyKey"]}


async def test_processes_are_kept_warm_and_are_not_the_workers(engine, worker):
    pids = set()
    for _ in range(4):
        run = await engine.until(await engine.submit(task="who"), "success")
        pids.add(run["result"])
    assert os.getpid() not in pids
    assert len(pids) <= 2


@pytest.mark.parametrize(
    ("task", "payload", "words"),
    [
        ("crash", {}, "SIGSEGV"),
        ("leave", {"code": 7}, "exit code 7"),
        ("kill_self", {}, "SIGKILL"),
    ],
)
async def test_an_interpreter_that_dies_is_a_failed_attempt(engine, worker, task, payload, words):
    run = await engine.until(await engine.submit(task=task, payload=payload, maxRetries=0), "failed")
    assert words in run["error"]
    assert (await engine.until(await engine.submit(task="add", payload={"a": 1, "b": 1}), "success"))["result"] == 2


async def test_a_function_that_eats_more_than_its_memory_fails_and_others_go_on(engine, worker):
    run = await engine.until(await engine.submit(task="eat_little", maxRetries=0), "failed")
    assert "MemoryError" in run["error"]
    assert (await engine.until(await engine.submit(task="eat"), "success"))["result"] == 600 * 1024 * 1024


@pytest.mark.parametrize("task", ["hang", "spin"])
async def test_a_function_that_never_yields_is_killed_when_its_time_is_over(engine, worker, task):
    run_id = await engine.submit(task=task, timeoutSeconds=1, maxRetries=0)
    run = await engine.until(run_id, "failed")
    assert run["error"] == "timed out after 1 s"
    assert run["attempts"][0]["outcome"] == "timed_out"
    assert not _runs(run["checkpoint"])


@pytest.mark.parametrize("task", ["polite", "patient"], ids=["that looks", "that is async"])
async def test_one_that_looks_or_awaits_stops_by_itself_and_its_process_is_used_again(engine, lenient_worker, task):
    pid = (await engine.until(await engine.submit(task="who"), "success"))["result"]
    run_id = await engine.submit(task=task)
    await engine.until(run_id, "running")
    await eventually(lambda: lenient_worker.slots.running)
    await engine.api.post(f"/v1/runs/{run_id}/cancel")
    await engine.until(run_id, "cancelled")
    assert (await engine.until(await engine.submit(task="who"), "success"))["result"] == pid


async def test_errors_keep_their_words_and_final_and_snooze_their_meaning(engine, worker):
    run = await engine.until(await engine.submit(task="fail", maxRetries=0), "failed")
    assert run["error"] == "ValueError: no such customer"
    assert "isolated.py" in run["traceback"]
    run = await engine.until(await engine.submit(task="fail_for_good"), "failed")
    assert (run["error"], len(run["attempts"])) == ("never", 1)
    run = await engine.until(await engine.submit(task="snooze"), "scheduled")
    assert (run["snoozes"], run["attempt"], run["attempts"]) == (1, 0, [])


async def test_everything_it_writes_is_in_its_log(engine, worker):
    run_id = await engine.submit(task="talk")
    await engine.until(run_id, "success")
    text = (await engine.api.get(f"/v1/runs/{run_id}/logs")).text
    for stream, words in (
        ("stdout", "printed"),
        ("stderr", "complained"),
        ("log", "WARNING logged"),
        ("stdout", "below Python"),
        ("stdout", "from a child"),
    ):
        assert f" {stream} {words}\n" in text


async def test_what_it_starts_and_leaves_behind_ends_with_its_run(engine, worker):
    run = await engine.until(await engine.submit(task="leave_behind", payload={"seconds": 60}), "success")
    await eventually(lambda: not _runs(run["result"]))


def _runs(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def test_checkpoints_pass_between_attempts_in_different_processes(engine, worker):
    retry = {"strategy": "fixed", "baseSeconds": 0}
    async with engine.running(engine.scheduler()):
        run = await engine.until(await engine.submit(task="checkpointed", retry=retry), "success", "failed")
    assert run["result"] == 2


async def test_large_results_go_to_object_storage_and_come_back(engine, worker, sql):
    run = await engine.until(await engine.submit(task="big"), "success")
    assert len(run["result"]) == 200_000
    assert await sql.fetchval("SELECT result FROM rota.finished_runs") is None


async def test_secrets_reach_the_function_and_not_the_record(engine, worker):
    run_id = await engine.submit(task="secret")
    run = await engine.until(run_id, "success")
    log = (await engine.api.get(f"/v1/runs/{run_id}/logs")).text
    assert run["result"] == "***"
    assert "the key is ***" in log
    assert "tell-nobody" not in log + str(run)


async def test_a_pool_that_is_closed_keeps_no_process_not_even_of_a_run_that_was_given_up():
    subprocesses = Subprocesses()
    runner = ProcessRunner({"patient": Isolated(isolated.patient)}, subprocesses, processes=1, grace_seconds=0.5)
    running = asyncio.create_task(runner.run("patient", {}, _context()))
    await eventually(lambda: runner._busy)
    await in_time(runner.close())
    with pytest.raises(ProcessError):
        await in_time(running)
    assert not subprocesses._running


def test_a_function_that_cannot_be_imported_is_refused_at_the_start():
    with pytest.raises(SetupError, match="top level of a module"):
        ProcessRunner({"local": Isolated(lambda: None)}, None, processes=1, grace_seconds=1)


async def test_a_process_that_died_while_it_was_idle_costs_no_run(engine, worker):
    pid = (await engine.until(await engine.submit(task="who"), "success"))["result"]
    os.kill(pid, 9)
    run = await engine.until(await engine.submit(task="who", maxRetries=0), "success", "failed")
    assert run["status"] == "success"
    assert run["result"] != pid


async def test_one_that_prints_much_stops_when_it_is_asked_and_not_after_the_grace_period(engine, lenient_worker):
    pids = set()
    for _ in range(5):
        pids.add((await engine.until(await engine.submit(task="who"), "success"))["result"])
        run_id = await engine.submit(task="loud")

        async def has_spoken(run_id=run_id):
            return (await engine.api.get(f"/v1/runs/{run_id}/logs")).text

        await eventually(has_spoken)
        await engine.api.post(f"/v1/runs/{run_id}/cancel")
        await engine.until(run_id, "cancelled")
    assert len(pids) == 1


async def test_a_process_in_which_threads_are_left_is_not_used_again(engine, worker):
    pid = (await engine.until(await engine.submit(task="leave_a_thread"), "success"))["result"]
    run_id = await engine.submit(task="who")
    assert (await engine.until(run_id, "success"))["result"] != pid
    assert "another run" not in (await engine.api.get(f"/v1/runs/{run_id}/logs")).text


async def test_secrets_are_masked_in_progress_messages(engine, worker):
    run_id = await engine.submit(task="say_secret")

    async def told():
        return (await engine.run(run_id)).get("progressMessage")

    assert await eventually(told) == "using ***"


async def test_a_function_that_was_cancelled_before_its_process_could_begin_does_not_begin(tmp_path):
    """The request to stop lies behind the one to start, and a process that starts slowly finds both at once."""
    runner = ProcessRunner({"mark": Isolated(isolated.mark)}, Subprocesses(), processes=1, grace_seconds=60)
    begun = tmp_path / "begun"
    child = psutil.Process(int(bytes(await runner.run("mark", {"file": str(tmp_path / "warm")}, _context()))))
    for _ in range(20):
        context = _context()
        child.suspend()
        running = asyncio.create_task(runner.run("mark", {"file": str(begun)}, context))
        await eventually(lambda: runner._busy)
        context.ask_to_stop()
        running.cancel()
        await asyncio.sleep(0)
        child.resume()
        with pytest.raises(asyncio.CancelledError):
            await in_time(running)
        assert not begun.exists()
    await runner.close()


async def test_a_function_whose_deadline_passed_before_its_process_could_begin_does_not_begin(tmp_path):
    """A machine that was suspended wakes up: the worker said that it may begin, but that was long ago."""
    subprocesses = Subprocesses()
    runner = ProcessRunner({"mark": Isolated(isolated.mark)}, subprocesses, processes=1, grace_seconds=60)
    await runner.run("mark", {"file": str(tmp_path / "warm")}, _context())
    subprocesses.deadline = uptime()  # the guardian is not told, so that nothing but the process itself can decide
    with pytest.raises(NotBegunError):
        await in_time(runner.run("mark", {"file": str(tmp_path / "begun")}, _context()))
    assert not (tmp_path / "begun").exists()
    await runner.close()


def _context():
    now = time.time()
    return Context(
        Claim("default", uuid4(), uuid4(), next(_numbers), "task", 0, None, None, "{}", None, now, now, 0, 0)
    )


async def test_parameters_and_fields_have_names_in_any_script(engine, worker):
    payload = {"größe": 3, "maß": {"länge": 4}}
    run = await engine.until(await engine.submit(task="measure", payload=payload), "success", "failed")
    assert (run["status"], run["result"]) == ("success", [3, 4])
