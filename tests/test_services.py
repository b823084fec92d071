"""Every loop of every process is a service: a round that fails is logged once, and the next one comes."""

from __future__ import annotations

import ast
import asyncio
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from structlog.testing import capture_logs

import rota
from certificates import Authority
from rota.access.jwt_verifier import TokenVerifier
from rota.api.http.tls import Certificate
from rota.api.server import api_services, build_backend
from rota.clock import DatabaseClock
from rota.compose import build_scheduler, build_worker, worker_gateway
from rota.ops.autoscaler import Autoscaler, ScaleLimits
from rota.ops.code_watcher import Watcher
from rota.ops.reloader import Reloader
from rota.ops.supervisor import Supervisor
from rota.service import ServiceGroup
from rota.settings import Settings
from rota.worker.runners.registry import Runners
from support import eventually

SOURCE = Path(rota.__file__).parent


class NoDatabase:
    """Enough of one to put a process together."""

    pooled = False
    wake = None

    async def fetch_value(self, _name):
        return 64  # shards

    async def time(self):
        return datetime.now(UTC)


async def api(settings):
    certificate = Certificate(settings.tls_certificate, settings.tls_key)
    return api_services(await build_backend(settings, NoDatabase()), TokenVerifier.from_settings(settings), certificate)


async def scheduler(settings):
    return build_scheduler(settings, NoDatabase(), NoDatabase()).services


async def worker(settings):
    clock, runners = DatabaseClock(), Runners(settings, None)
    gateway = worker_gateway(settings, NoDatabase(), shards=64, clock=clock)
    return build_worker(settings, NoDatabase(), runners, clock=clock, gateway=gateway).services


async def supervisor(settings):
    reloader = Reloader("tasks:app", watcher=Watcher([]), workers=2, say=print)
    supervisors = [Supervisor(settings, workers=2, announce=print, reloader=one) for one in (None, reloader)]
    return [*supervisors[0].services, reloader]


async def autoscaler(settings):
    return [Autoscaler(settings, [], ScaleLimits(least=0, most=1))]


PROCESSES = (api, scheduler, worker, supervisor, autoscaler)


def settings_in(directory):
    files = Authority(directory).sign("server", "127.0.0.1")
    return Settings(
        home=directory,
        tls_certificate=files.certificate,
        tls_key=files.key,
        jwt_keys="https://sign-in.example/keys.json",
        jwt_audience="rota",
    )


def every_service():
    """(process, number) of each, named."""
    with tempfile.TemporaryDirectory() as directory:
        settings = settings_in(Path(directory))
        return [
            pytest.param(process, number, id=f"{process.__name__}-{service.name}-{number}")
            for process in PROCESSES
            for number, service in enumerate(asyncio.run(process(settings)))
        ]


@pytest.mark.parametrize(("process", "number"), every_service())
async def test_a_round_that_fails_is_logged_once_and_the_process_goes_on(process, number, tmp_path):
    services = list(await process(settings_in(tmp_path)))
    faulty, rounds = services[number], dict.fromkeys(services, 0)

    def stand_in_for(service):
        async def tick():
            rounds[service] += 1
            if service is faulty and rounds[service] == 1:
                raise ValueError("a fault of ours")
            return 0

        return tick

    for service in services:
        service.tick = stand_in_for(service)
        service.full_round = None
    async with ServiceGroup(services) as group:
        with capture_logs() as logs:
            await eventually(lambda: rounds[faulty])
            faulty.wake()  # some would rest for minutes
            await eventually(lambda: rounds[faulty] > 1)
        assert all(rounds.values()), "all of them have started"
        assert not [task for task in group._tasks.values() if task.done()]
    told = [entry["event"] for entry in logs if entry.get("service") == faulty.name and entry["log_level"] == "error"]
    assert told == ["a round failed; the next one starts afresh"]


# By the names of classes and functions: what is not meant to run for ever, and why.
LOOPS = {
    "_events": "one client's stream: ends with it",
    "_while_known": "one client's stream: ends with it",
    "_all_events": "one client's stream: ends with it",
    "AsyncClient.wait": "one call of a client: ends with its answer",
    "AsyncWorkflowCalls.wait_for_workflow_run": "one call of a client: ends with the workflow run or its time",
    "AsyncCalls._follow_events": "one call of a client: ends when it is closed",
    "AsyncCalls._follow_logs": "one call of a client: ends when it is closed",
    "AsyncCalls._follow_log": "one call of a client: ends with the run",
    "AsyncCalls._items": "one call of a client: ends with the last page",
    "AsyncCalls._send": "one call of a client: ends with its answer",
    "AsyncDelivery._ask_for_members": "one submission: ends with its answer or its patience",
    "AsyncDelivery._ask_for_set": "one submission: ends with its answer or its patience",
    "_DatabaseEndpoint.send_set": "one submission: ends with its answer or its patience",
    "LocalGateway.look": "one call: ends with the run or its time",
    "LocalGateway._look_at_workflow": "one call: ends with the workflow run or its time",
    "Submitter._send": "one request: ends with its answer",
    "Run.result": "one call: ends with the run or its time",
    "WorkflowRun.result": "one call: ends with the workflow run or its time",
    "_drop_future": "one call: ends when nothing is left",
    "waiting_for_database": "the start of a process: ends when the database answers",
    "Engine._settle": "one call of a test: ends when nothing is due",
    "_Process._until_done": "one run: ends with it",
}
TASKS = {
    "Dispatcher._start_sending": "some messages to one destination; every error is logged there",
    "AsyncFlight.send_all": "the parts of one submission, waited for",
    "AsyncCoalescer._start": "the requests of those who wait; every error is theirs",
    "SigningKeys.tick": "one look, shared by all who wait for it",
    "_HeldTokens._refill": "one question to the database; the next one starts another",
    "_until_ended": "one request: both end with it",
    "FreshLooks.of": "one look, shared by all who ask at the time",
    "InstallationGauges.refresh": "one look, shared by all who ask at the time",
    "_while_known": "the next event of one client's stream",
    "Reloader.tick": "one try of the code, cancelled by the next change",
    "ChildWorkers.drain": "the end of one worker that is no longer needed; waited for when all stops",
    "run_until_stopped": "the process's work itself, beside the wait for a signal",
    "WakeUps.__call__": "ends when all is sent; the next wake-up starts another",
    "Executor.start": "one attempt: whatever it raises is its outcome",
    "Subprocesses.start": "the start of one process, finished also when cancelled",
    "_Process._answer": "one answer to a task in a child process",
    "ProcessRunner._start_spare": "the start of one spare process",
    "Turns.take": "one wait, cancelled when the turn is over",
    "Worker._restart": "one drain",
    "_run_together": "the workers of this process, which end together",
}


def found_in(tree, is_wanted):
    """The qualified names of functions that contain what is wanted."""
    names = set()

    def visit(node, outer):
        for child in ast.iter_child_nodes(node):
            named = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            inner = (*outer, child.name) if named else outer
            if is_wanted(child):
                names.add(".".join(inner))
            visit(child, inner)

    visit(tree, ())
    return names


def is_endless_loop(node):
    if not (isinstance(node, ast.While) and isinstance(node.test, ast.Constant)):
        return False
    return any(isinstance(inner, (ast.Await, ast.AsyncFor, ast.AsyncWith)) for inner in ast.walk(node))


def is_task(node):
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name in {"create_task", "ensure_future", "TaskGroup"}


@pytest.mark.parametrize(("is_wanted", "reasons"), [(is_endless_loop, LOOPS), (is_task, TASKS)], ids=["loops", "tasks"])
def test_only_services_run_for_ever(is_wanted, reasons):
    found = {
        name
        for file in SOURCE.rglob("*.py")
        if file != SOURCE / "service.py"
        for name in found_in(ast.parse(file.read_text()), is_wanted)
    }
    assert found == reasons.keys(), "make it a service, or say here why it needs to be none"
