"""Everything the golden files need from inside Rota. When code is moved or renamed, follow it here and nowhere else."""

# ruff: noqa: F401 - the names are for the modules beside this one

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import rota
from rota.access.audit import KEPT_BACK as HIDDEN_IN_AUDIT
from rota.access.audit import Auditor
from rota.access.audit import difference as audit_difference
from rota.access.authenticator import CSRF_HEADER, Authenticator, csrf_token
from rota.access.credential_cache import KEY_PREFIX, SESSION_PREFIX
from rota.access.credential_cache import digest as secret_hash
from rota.access.jwt_verifier import TokenVerifier
from rota.api.app import build_app
from rota.api.http.refusals import Refusal
from rota.api.operations import session_cookie
from rota.api.problems import HttpProblemError as HttpProblem
from rota.api.problems import problem_of
from rota.api.routes import OPERATIONS
from rota.api.streams.sse import event as stream_event
from rota.cli.bulk_lines import JobLine as Line
from rota.cli.bulk_lines import derive_key
from rota.cli.crontab_plan import Wanted as WantedCrontab
from rota.cli.crontab_plan import plan as plan_crontab
from rota.cli.entry import INTERRUPTED
from rota.cli.main import app as command_line
from rota.cli.terminal.output import errors_in_words
from rota.client.errors import refusal as error_behind
from rota.compose import open_database
from rota.contract.fields import In as Sent
from rota.contract.fields import Out as Returned
from rota.contract.jobs import BatchJobIn
from rota.contract.json_rules import hash_request
from rota.contract.problems import Problem
from rota.domain.application import Application, DeclaredSchedule, decode_schedules, encode_schedules
from rota.domain.cron import Cron
from rota.domain.crontab import parse_crontab
from rota.domain.gates import gates_of
from rota.domain.ids import declared_id, fire_id, shard_of
from rota.domain.job import (
    RESERVED_TASKS,
    Definition,
    MisfireRule,
    RunOptions,
    Timetable,
    decode_options,
    encode_options,
)
from rota.domain.limits import Limits
from rota.domain.policies import Policies, decode_policies, encode_policies, key_of
from rota.domain.retry import RetryPolicy
from rota.domain.rights import Caller, Grant
from rota.domain.runner_payloads import HttpCall
from rota.domain.schedule import jitter_of
from rota.errors import BadInputError, DatabaseUnavailableError, RotaError, SetupError
from rota.gateway.local import LocalGateway
from rota.gateway.protocol import OutgoingJob
from rota.gateway.requests import Repeated as StoredAnswer
from rota.gateway.transaction import JobRow, KnownFunctions, SetRow, WrittenJob, submit_within_sync
from rota.processes import EXIT_CODE_RESTART, SUPERVISED
from rota.scheduler.log_uploader import LogUploader
from rota.sdk.declared_schedules import describe_app
from rota.sdk.sender_sync import SyncJob, SyncRun
from rota.settings import VARIABLES, Settings
from rota.store.admit import _number as lock_number
from rota.store.declare import Reconciled, _Work
from rota.store.postgres.database import Database
from rota.store.postgres.embedded import EmbeddedPostgres
from rota.store.postgres.wakeups import AWAITED, ENDED, GATE, READY, SCHEDULE, WORKER
from rota.store.report import task_transactions
from rota.store.schema import LOCK_KEY
from rota.store.schema.migrate import migrations
from rota.testing.databases import SERVER_VARIABLE
from rota.worker.executor import Executor
from rota.worker.runners.command import describe_run
from rota.worker.runners.examples import EXAMPLES
from rota.worker.runners.guardian import FAILED_TO_START
from rota.worker.runners.http import _headers as http_headers
from rota.worker.worker import EXIT_CODE_CUT_OFF

COOKIE, SECURE_COOKIE = (
    session_cookie(SimpleNamespace(url=SimpleNamespace(scheme=scheme))) for scheme in ("http", "https")
)
SETTING_FIELDS = tuple(field.name for field in dataclasses.fields(Settings))
SOURCE = Path(rota.__file__).parent
CHANNELS = {
    "runs became ready": READY,
    "a worker is asked": WORKER,
    "gates": GATE,
    "schedules": SCHEDULE,
    "clients wait for ends": AWAITED,
    "runs ended": ENDED,
}
TASK_CONNECTION_NAME = task_transactions.NAME
STREAM_EVENT = stream_event.__name__
AUDIT_BEGIN = Auditor.begin.__name__
PROBLEM_MAKERS = (HttpProblem.__name__, Refusal.__name__)
DATABASE_OPENERS = (open_database.__name__, Database.connect.__name__)
_RANDOM = re.compile(r"(?<=-)[0-9a-f]{8}(?=\.json)|(?<=together/)[0-9a-f]{32}")
_TOO_LARGE_FOR_A_ROW = "x" * 70_000


async def blob_keys(run_id: UUID) -> dict[str, str]:
    """The keys under which payloads, results and logs go to object storage; random parts are left out."""
    keys: list[str] = []

    async def put(key: str, _body: bytes) -> None:
        keys.append(_RANDOM.sub("<random>", key))

    stand_in: Any = SimpleNamespace(_blobs=SimpleNamespace(put=put), _mask=SimpleNamespace(longest=0))
    claim: Any = SimpleNamespace(run_id=run_id, namespace="default", number=7)
    row = {"namespace": "default", "run_id": run_id, "claim": 7, "body": "x", "attempt": 1, "position": 0}
    await LocalGateway.offload_payload(stand_in, _TOO_LARGE_FOR_A_ROW, run_id)
    await Executor.store_result(stand_in, claim, _TOO_LARGE_FOR_A_ROW)
    await LogUploader._keep_each(stand_in, "2030-01-31", [row], {})
    await LogUploader._keep_together(stand_in, "2030-01-31", [row], {})
    return dict(zip(("payload", "result", "one log", "many logs"), keys, strict=True))


async def schedule_event_kinds() -> list[str]:
    """The kinds of events that a change of declared schedules leaves behind."""
    kinds: list[str] = []

    async def fetch(_statement: str, **given: Any) -> None:
        kinds.extend(given["kinds"])

    job = {UUID(int=1): "nightly"}
    statements: Any = SimpleNamespace(fetch=fetch)
    await _Work(statements, "default", Reconciled("shop", "1", job, job, job), [])._record()
    return kinds
