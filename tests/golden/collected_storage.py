"""What stands in databases and object storage, and what processes of different releases must agree on."""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import inspect
import json
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
from internals import (
    CHANNELS,
    COOKIE,
    CSRF_HEADER,
    DATABASE_OPENERS,
    KEY_PREFIX,
    LOCK_KEY,
    SECURE_COOKIE,
    SESSION_PREFIX,
    SUPERVISED,
    TASK_CONNECTION_NAME,
    Application,
    BatchJobIn,
    Caller,
    Cron,
    Database,
    DeclaredSchedule,
    Definition,
    EmbeddedPostgres,
    Grant,
    HttpCall,
    JobRow,
    KnownFunctions,
    Limits,
    Line,
    MisfireRule,
    OutgoingJob,
    Policies,
    RetryPolicy,
    RunOptions,
    SetRow,
    Settings,
    StoredAnswer,
    Timetable,
    TokenVerifier,
    WantedCrontab,
    WrittenJob,
    blob_keys,
    csrf_token,
    declared_id,
    decode_options,
    decode_policies,
    decode_schedules,
    derive_key,
    describe_app,
    encode_options,
    encode_policies,
    encode_schedules,
    fire_id,
    gates_of,
    hash_request,
    jitter_of,
    key_of,
    lock_number,
    migrations,
    parse_crontab,
    plan_crontab,
    secret_hash,
    shard_of,
    submit_within_sync,
)
from literals import calls, literal

import rota

NOW = datetime(2030, 1, 31, 9, 30, tzinfo=UTC)
JOB = UUID("01948b2e-7c00-7123-8456-789abcdef012")
COMMAND_MODULE = "rota.cli.main"  # started by supervisors and workers that may be older than the files
OPTIONS = (
    '{"maxRetries":1,"retry":{"strategy":"linear","baseSeconds":1.5,"maxSeconds":2.0,"jitter":0.0},'
    '"timeoutSeconds":3.0,"expiresSeconds":4.0,"headers":{"trace":"1"}}'
)
POLICIES = (
    '{"order":"customer","letGo":true,"limit":"key:disk","most":2,"rate":"task:mail","count":3,"per":4.0,"burst":5,'
    '"breaker":"key:bank","failures":6,"cooldown":7.0,"overlap":"queue"}'
)
MISFIRE = '{"policy":"all","window_seconds":60.0,"cap":5}'
DEFINITION = (
    '{"owner":"ada","name":"nightly","task":"tidy","pool":"default","priority":1,"tags":["a"],"payload":"{}",'
    '"options":"{}","policies":null,"blob":null}'
)
TIMETABLE = (
    '{"schedule_type":"cron","cron_expression":"0 2 * * *","every_seconds":null,"timezone":"UTC",'
    '"anchor_at":"1970-01-01T00:00:00Z","start_at":null,"end_at":"2030-01-31T00:00:00Z","jitter_seconds":3.0,'
    '"dst":"skip","misfire":null}'
)
SCHEDULES = f'[{{"definition":{DEFINITION},"timetable":{TIMETABLE}}}]'
GRANTS = '{"default":{"role":"viewer","sees":"all"},"*":{"role":"admin","sees":"own"}}'
ANSWER = '{"jobId":"job_1","status":"queued","runId":"run_1","duplicate":true}'
JOBS: tuple[dict[str, Any], ...] = (
    {"name": "plain", "scheduleType": "immediate", "task": "rota.echo"},
    {
        "name": "later",
        "scheduleType": "future",
        "delaySeconds": 5,
        "task": "mail",
        "payload": {"to": "ada"},
        "maxRetries": 1,
        "retry": {"strategy": "fixed"},
        "priority": "high",
        "tags": ["a", "b"],
        "orderingKey": "customer",
        "rateLimit": {"limit": 3},
        "uniqueKey": "u",
        "uniqueSeconds": 60,
        "onDuplicate": "keep",
        "headers": {"trace": "1"},
        "idempotencyKey": "once",
    },
    {
        "name": "nightly",
        "scheduleType": "cron",
        "cronExpression": "0 2 * * *",
        "timezone": "Europe/Berlin",
        "task": "tidy",
        "startTime": "2030-02-01T00:00:00Z",
        "misfire": {"policy": "all", "cap": 3},
        "overlap": "skip",
        "concurrencyLimit": 2,
        "breaker": {"failures": 3},
    },
)


# Stored shapes


def stored_shapes() -> str:
    """Fields of what is stored as JSON, and how examples are read and written back."""
    lines = ["# Fields", ""]
    for words, kind in _KINDS.items():
        lines += [f"{words}: {_habits(kind)}", *_fields(kind), ""]
    lines += ["# Read and written back", ""]
    for words, (text, read, write) in _EXAMPLES.items():
        lines += [words, f"    stored:  {text}", f"    written: {write(read(text))}", ""]
    return "\n".join([*lines, "# Submitted in a transaction of the application", "", *_submitted_within()])


_KINDS: dict[str, Any] = {
    "options of a run": RunOptions,
    "retry, within options": RetryPolicy,
    "policies of a run": Policies,
    "misfire of a job": MisfireRule,
    "definition, within declared schedules": Definition,
    "timetable, within declared schedules": Timetable,
    "a declared schedule": DeclaredSchedule,
    "an application, as its workers describe it": Application,
    "grants of a key, by namespace": Grant,
    "the answer kept with an idempotency key": StoredAnswer,
    "limits, by the names of their columns": Limits,
    "a job for rota.submit_v1": JobRow,
    "a set for rota.submit_set_v1": SetRow,
    "an answer of rota.submit_v1": WrittenJob,
    "the payload of an HTTP job": HttpCall,
}


def _as(kind: Any) -> tuple[Callable[[str], Any], Callable[[Any], str]]:
    return lambda text: msgspec.json.decode(text, type=kind), lambda found: msgspec.json.encode(found).decode()


_EXAMPLES: dict[str, tuple[str, Callable[[str], Any], Callable[[Any], Any]]] = {
    "options": (OPTIONS, decode_options, encode_options),
    "options that are all defaults": ("{}", decode_options, encode_options),
    "options that can't be read": ("[]", decode_options, encode_options),
    "policies": (POLICIES, decode_policies, encode_policies),
    "policies that can't be read, but for the order": ('{"order":"a","most":"x"}', decode_policies, encode_policies),
    "misfire": (MISFIRE, *_as(MisfireRule)),
    "misfire that is all defaults": ("{}", *_as(MisfireRule)),
    "declared schedules": (SCHEDULES, decode_schedules, encode_schedules),
    "a declared schedule, with its job": (SCHEDULES[1:-1], *_as(DeclaredSchedule)),
    "grants": (GRANTS, *_as(dict[str, Grant])),
    "the answer to a repeated request": (ANSWER, *_as(StoredAnswer)),
}


def _habits(kind: Any) -> str:
    config = kind.__struct_config__
    defaults = "defaults are left out" if config.omit_defaults else "defaults are written"
    unknown = "unknown fields are refused" if config.forbid_unknown_fields else "unknown fields are passed over"
    tag = f", tag {config.tag}" if config.tag else ""
    return f"{'an array, ' if config.array_like else ''}{defaults}, {unknown}{tag}"


def _fields(kind: Any) -> Iterator[str]:
    (schema,), components = msgspec.json.schema_components([kind])
    described = components[schema["$ref"].rpartition("/")[2]]
    for name, shape in described["properties"].items():
        needed = "required" if name in described.get("required", ()) else "optional"
        yield f"    {name}: {needed}, {json.dumps(_shape(shape, components), sort_keys=True)}"


def _shape(schema: Any, components: Any) -> Any:
    """A schema without names of classes and descriptions; of an object within, the names of its fields."""
    if isinstance(schema, list):
        return [_shape(one, components) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _shape(components[schema["$ref"].rpartition("/")[2]], components)
    if "properties" in schema:
        return {"fields": sorted(schema["properties"])}
    return {name: _shape(one, components) for name, one in schema.items() if name not in ("title", "description")}


class _Connection:
    """A connection as any library has them, which remembers what it is asked."""

    statement = ""
    text = ""

    def cursor(self) -> _Connection:
        return self

    def execute(self, statement: str, arguments: tuple[str]) -> None:
        self.statement, (self.text,) = statement, arguments

    def fetchone(self) -> tuple[str]:
        return (json.dumps([{"status": "queued"}] * len(JOBS)),)

    def close(self) -> None:
        pass


def _submitted_within() -> list[str]:
    connection = _Connection()
    jobs = [OutgoingJob.of(msgspec.json.decode(json.dumps(job), type=BatchJobIn)) for job in JOBS]
    submit_within_sync(connection, jobs, Caller("default", "ada"), NOW, KnownFunctions())
    text = connection.text
    for job in json.loads(text):
        text = text.replace(job["id"], "<id>").replace(f'"spread":{job["spread"]},', '"spread":<part of the id>,')
    return [connection.statement, *text.replace(',{"namespace"', ',\n{"namespace"').splitlines()]


# Names that are shared


def shared_names() -> str:
    """Names and numbers by which processes of different releases find each other, each with an example."""
    sections = {
        "advisory locks": _locks(),
        "notification channels": CHANNELS,
        "application names of connections": {"": ", ".join(_application_names())},
        "object storage": asyncio.run(blob_keys(JOB)),
        "sessions and keys": _secrets(),
        "ids and times that are computed": _computed(),
        "keys of requests and jobs": _keys(),
        "declared schedules": _declared(),
        "files and processes": _files(),
        "migrations": {
            f"{one.number:04}_{one.name}": hashlib.sha256(one.sql.encode()).hexdigest() for one in migrations()
        },
    }
    lines: list[str] = []
    for title, found in sections.items():
        lines += [f"# {title}", "", *(f"{name}: {value}" if name else value for name, value in found.items()), ""]
    return "\n".join(lines)


def _locks() -> dict[str, Any]:
    gates = gates_of("default", JOB, decode_policies(POLICIES))
    return {"migrations and roles": LOCK_KEY} | {
        f"gate {gate.namespace} {gate.kind} {gate.key}": lock_number(gate) for gate in gates
    }


def _application_names() -> list[str]:
    named = {inspect.signature(Database.connect).parameters["name"].default, TASK_CONNECTION_NAME}
    for call in calls(*DATABASE_OPENERS):
        named |= {literal(keyword.value) for keyword in call.keywords if keyword.arg == "name"}
    return sorted(str(name) for name in named if name)


def _secrets() -> dict[str, str]:
    secret = {"ROTA_JWT_SECRET": "s" * 40}
    provider = {"ROTA_JWT_KEYS": "https://id.example/keys?x=1", "ROTA_JWT_AUDIENCE": "rota"}
    issuer = {"ROTA_JWT_ISSUER": "it's me", "ROTA_JWT_LEEWAY_SECONDS": "7"}
    return {
        "a JWT session's hash, own secret": _fingerprint(secret),
        "a JWT session's hash, provider": _fingerprint(provider),
        "a JWT session's hash, everything": _fingerprint(secret | provider | issuer),
        "a secret's hash": secret_hash("secret").hex(),
        "the token of a session against forged requests": csrf_token("session"),
        "its header": CSRF_HEADER,
        "cookies": f"{COOKIE}, over TLS {SECURE_COOKIE}",
        "prefixes": f"{KEY_PREFIX} {SESSION_PREFIX}",
    }


def _fingerprint(environment: dict[str, str]) -> str:
    verifier = TokenVerifier.from_settings(Settings.from_environment(environment))
    assert verifier is not None
    return verifier.fingerprint.hex()


def _computed() -> dict[str, Any]:
    spread = Cron("H H(0-7) H * H", "UTC", seed=JOB)
    return {
        "a run of a schedule": fire_id(JOB, NOW),
        "a job that is declared in code": declared_id("default", "shop", "nightly"),
        "a shard of 64": shard_of(JOB, 64),
        "jitter within an hour": jitter_of(JOB, 3600.0) / timedelta(seconds=1),
        "H H(0-7) H * H": spread.next_after(NOW),
    }


def _keys() -> dict[str, Any]:
    entries = parse_crontab("SHELL=/bin/sh\n*/5 * * * * echo a%b\n", system=False).entries
    (planned,) = plan_crontab(entries, WantedCrontab(label="ada@host", timezone="UTC"), {})
    return {
        "an idempotency key of an owner": repr(Caller("default", "ada").own("once")),
        "the hash of a request": hash_request(b'{"b": 1, "a": [1.0, "x"]}').hex(),
        "limits with a key": key_of("disk", JOB, "mail"),
        "limits of a job": key_of(None, JOB, "mail"),
        "limits of a task": key_of(None, None, "mail"),
        "a line of a file": derive_key(Line(3, b"{}", 9), "salt"),
        "a job of a crontab": json.dumps(planned.body, sort_keys=True),
    }


def _declared() -> dict[str, Any]:
    app = rota.App("shop", owner="ada")

    @app.every("5m", name="often", jitter=3, overlap="skip")
    @app.cron("0 2 * * *", timezone="Europe/Berlin", misfire="skip", arguments={"days": 3})
    @app.task(name="tidy", retries=1, timeout=60, pool="heavy", tags=["a"], rate_limit="3/1m", priority="high")
    async def tidy(days: int = 1) -> None: ...

    found = describe_app(app, ["default"])
    return {"version": found.version, "schedules": encode_schedules(found.schedules)}


def _files() -> dict[str, Any]:
    home = Path("/long") / ("home" * 30)
    far = EmbeddedPostgres(home, binaries=Path("/bin")).socket_directory
    near = EmbeddedPostgres(Path("/near"), binaries=Path("/bin"))
    settings = Settings.from_environment({"ROTA_HOME": "/near"})
    main = importlib.import_module(COMMAND_MODULE).main
    return {
        "embedded database": near.url(),
        "its socket, where the home's path is too long": str(far).replace(tempfile.gettempdir(), "<temporary>"),
        "admin token": settings.admin_token_file,
        "scripts": settings.scripts,
        "blobs": settings.blobs,
        "what a supervised process is told": SUPERVISED,
        "the command line": f"python -m {COMMAND_MODULE} calls {main.__name__}()",
    }
