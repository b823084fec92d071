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
from rota.api.app import build_app
from rota.api.auditing import KEPT_BACK as HIDDEN_IN_AUDIT
from rota.api.auditing import Auditor
from rota.api.auditing import difference as audit_difference
from rota.api.auth import COOKIE, CSRF_HEADER, SECURE_COOKIE, Authenticator, csrf_token
from rota.api.keyring import KEY_PREFIX, SESSION_PREFIX
from rota.api.keyring import digest as secret_hash
from rota.api.problems import HttpError as HttpProblem
from rota.api.problems import problem_of
from rota.api.refusals import Refusal
from rota.api.routes import OPERATIONS
from rota.api.streaming import event as stream_event
from rota.cli.crontabs import Wanted as WantedCrontab
from rota.cli.crontabs import plan as plan_crontab
from rota.cli.entry import INTERRUPTED
from rota.cli.lines import Line, derive_key
from rota.cli.main import app as command_line
from rota.cli.output import errors_in_words
from rota.compose import EXIT_CODE_RESTART, SUPERVISED, open_database
from rota.contract.fields import In as Sent
from rota.contract.fields import Out as Returned
from rota.contract.jobs import BatchJobIn
from rota.contract.problems import Problem
from rota.contract.reading import hash_request
from rota.domain.admission import gates_of
from rota.domain.cron import Cron
from rota.domain.crontab import parse_crontab
from rota.domain.declared import Application, Declared, decode_schedules, encode_schedules
from rota.domain.http import HttpCall
from rota.domain.ids import declared_id, fire_id, shard_of
from rota.domain.job import (
    RESERVED_TASKS,
    Definition,
    MisfireRule,
    Options,
    Timetable,
    decode_options,
    encode_options,
)
from rota.domain.limits import Limits
from rota.domain.policies import Policies, decode_policies, encode_policies, key_of
from rota.domain.retry import RetryPolicy
from rota.domain.rights import Grant
from rota.domain.schedule import jitter_of
from rota.errors import BadInputError, DatabaseUnavailableError, RotaError, SetupError
from rota.identity.verifying import TokenVerifier
from rota.intake.definitions import Caller
from rota.intake.intake import Intake
from rota.intake.intake import Repeated as StoredAnswer
from rota.scheduler.keeping import LogKeeper
from rota.sdk.describing import describe_app
from rota.sdk.refusals import refusal as error_behind
from rota.sdk.sending_sync import SyncJob, SyncRun
from rota.sdk.transactions import Answered, Prepared, submit_within_sync
from rota.settings import VARIABLES, Settings
from rota.store import transactions
from rota.store.database import Database
from rota.store.declaring import Reconciled, _Work
from rota.store.embedded import EmbeddedPostgres
from rota.store.gates import _number as lock_number
from rota.store.listening import GATE, READY, SCHEDULE, WORKER
from rota.store.migrating import LOCK_KEY, migrations
from rota.testing.databases import SERVER_VARIABLE
from rota.worker.examples import EXAMPLES
from rota.worker.executing import Executor
from rota.worker.guardian import FAILED_TO_START
from rota.worker.runners.command import describe_run
from rota.worker.runners.http import _headers as http_headers
from rota.worker.worker import EXIT_CODE_CUT_OFF

SETTING_FIELDS = tuple(field.name for field in dataclasses.fields(Settings))
SOURCE = Path(rota.__file__).parent
CHANNELS = {"runs became ready": READY, "a worker is asked": WORKER, "gates": GATE, "schedules": SCHEDULE}
TASK_CONNECTION_NAME = transactions.NAME
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
    await Intake.offload_payload(stand_in, _TOO_LARGE_FOR_A_ROW, run_id)
    await Executor.keep(stand_in, claim, _TOO_LARGE_FOR_A_ROW)
    await LogKeeper._keep_each(stand_in, "2030-01-31", [row])
    await LogKeeper._keep_together(stand_in, "2030-01-31", [row])
    return dict(zip(("payload", "result", "one log", "many logs"), keys, strict=True))


async def schedule_event_kinds() -> list[str]:
    """The kinds of events that a change of declared schedules leaves behind."""
    kinds: list[str] = []

    async def fetch(_statement: str, _namespaces: Any, found: list[str], *_others: Any) -> None:
        kinds.extend(found)

    job = {UUID(int=1): "nightly"}
    statements: Any = SimpleNamespace(fetch=fetch)
    await _Work(statements, "default", Reconciled("shop", "1", job, job, job))._record()
    return kinds
