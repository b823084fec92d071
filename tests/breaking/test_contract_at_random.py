"""The API against its own OpenAPI document: what it answers to data at random is what the document says it may."""

from __future__ import annotations

import asyncio
import itertools

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from scenarios.fleet import Fleet
from support import LONG

EXAMPLES = 30 if LONG else 4  # of each operation, right ones and wrong ones
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
AT_RANDOM = settings(
    max_examples=EXAMPLES,
    derandomize=True,  # the same data each time: what fails here fails again
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
# Each of a batch has a result of its own, so that one that is wrong is no reason to refuse the others.
JUDGED_ONE_BY_ONE = ("POST /v1/jobs/batch",)
# What is no HTTP, such as a header with a quote in its name, gets no further than the parser of the server.
NO_HTTP = b"Invalid HTTP request received."
REQUEST_SECONDS = 120


@pytest.fixture
async def fleet(database_url):
    """A server as a process of its own."""
    fleet = Fleet({"ROTA_DATABASE_URL": database_url})
    await fleet.start_api()
    yield fleet
    await fleet.stop()


@pytest.fixture(params=["admin", "nobody"])
def bearer(request, fleet):
    """On whose behalf: a token, or None for none at all."""
    return (fleet.home / "admin.token").read_text().strip() if request.param == "admin" else None


async def real_ids(fleet):
    """What can be in a path and is there: without it, all that is asked for would be missing."""
    made = await fleet.submit("rota.echo", payload={"a": 1})
    return {"jobId": made["jobId"], "runId": made["runId"], "pool": "default"}


def is_endless(case):
    """Streams are followed elsewhere (test_logs, test_event_tail)."""
    return str((case.query or {}).get("follow")).lower() == "true"


def has_body(operation):
    """Whether wrong data must be refused. Without a body what is wrong may be a missing token, and that we add."""
    return "requestBody" in operation.definition.raw and operation.label not in JUDGED_ONE_BY_ONE


def differences(operation, mode, url, bearer, real):
    """What is not as the document says, in words; None when all is."""
    headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
    checks = [*CHECKS, negative_data_rejection] if has_body(operation) else CHECKS
    turns = itertools.count()

    @AT_RANDOM
    @given(operation.as_strategy(generation_mode=mode))
    def compare(case):
        assume(not is_endless(case))
        if "subject" in (case.path_parameters or {}):
            case.path_parameters["subject"] = "somebody"  # any text, also one that clients take for a path
        elif mode is GenerationMode.POSITIVE and next(turns) % 2:
            given = case.path_parameters or {}
            case.path_parameters = {name: real.get(name, value) for name, value in given.items()}
        answer = case.call(base_url=url, headers=headers, timeout=REQUEST_SECONDS)
        assume(answer.content != NO_HTTP)
        case.validate_response(answer, checks=checks)
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == ["application/problem+json"]
            assert answer.json()["status"] == answer.status_code
        if bearer is None and operation.definition.raw.get("security") != []:
            assert answer.status_code == 401

    try:
        compare()
    except Unsatisfiable:
        return None  # an operation that takes nothing can't be given anything wrong
    except BaseException as error:  # noqa: BLE001 - all of them are told together
        return f"{operation.label} ({mode.value}): {error}"
    return None


async def test_the_api_does_what_its_document_says(fleet, bearer):
    url, real = f"http://127.0.0.1:{fleet.port}", await real_ids(fleet)
    schema = await asyncio.to_thread(schemathesis.openapi.from_url, f"{url}/openapi.json")
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) > 20
    found = [
        await asyncio.to_thread(differences, operation, mode, url, bearer, real)
        for operation in operations
        for mode in GenerationMode
    ]
    assert [one for one in found if one] == []
