"""The OpenAPI document says what the API does."""

import json
import re

import httpx
import msgspec
import pytest

from rota.access.authorization import PUBLIC
from rota.api import openapi
from rota.api.routes import OPERATIONS

METHODS = {"get", "put", "post", "delete"}


@pytest.fixture(name="document")
def as_json():
    """The document as a client reads it."""
    return json.loads(msgspec.json.encode(openapi.document(OPERATIONS, "test")))


def described(document):
    """(path, method, operation) of all operations in the document."""
    return [
        (path, method, item[method]) for path, item in document["paths"].items() for method in METHODS & item.keys()
    ]


def references(node):
    """Every $ref below a node."""
    if isinstance(node, dict):
        found = [node["$ref"]] if "$ref" in node else []
        return found + [reference for child in node.values() for reference in references(child)]
    if isinstance(node, list):
        return [reference for child in node for reference in references(child)]
    return []


async def test_the_server_gives_the_document_without_a_token(api, document):
    async with httpx.AsyncClient(transport=api._transport, base_url="http://rota") as stranger:
        answer = await stranger.get("/openapi.json")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == document


def test_the_document_is_openapi_3_1(document):
    assert re.fullmatch(r"3\.1\.\d+", document["openapi"])
    assert document["info"]["title"]
    assert document["info"]["version"] == "test"


def test_every_operation_is_in_the_document_and_nothing_else(document):
    expected = {(operation.path, operation.method.lower()) for operation in OPERATIONS}
    assert {(path, method) for path, method, _ in described(document)} == expected


def test_operation_ids_are_unique(document):
    names = [operation["operationId"] for _, _, operation in described(document)]
    assert len(names) == len(set(names))


def test_all_references_resolve(document):
    found = references(document)
    assert found
    for reference in found:
        node = document
        for part in reference.removeprefix("#/").split("/"):
            node = node[part]
        assert node


def test_every_schema_is_used(document):
    used = {reference.rsplit("/", 1)[1] for reference in references(document)}
    assert used == document["components"]["schemas"].keys()


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: f"{operation.method} {operation.path}")
def test_an_operation_declares_parameters_body_answers_and_token(document, operation):
    found = document["paths"][operation.path][operation.method.lower()]
    places = {(parameter["name"], parameter["in"]) for parameter in found["parameters"]}
    assert places == {
        *((name, "path") for name in re.findall(r"\{(\w+)\}", operation.path)),
        *((name, "query") for name in operation.query),
        *((name, "header") for name in operation.headers),
        *([] if operation.needs == PUBLIC else [("Rota-Namespace", "header")]),
    }
    assert ("requestBody" in found) == (operation.body is not None)
    assert str(operation.status) in found["responses"]
    refusals = {status: answer for status, answer in found["responses"].items() if status >= "400"}
    assert refusals.keys() >= {str(status) for status in operation.errors} | {"400"}
    assert all(answer["content"].keys() == {"application/problem+json"} for answer in refusals.values())
    public = operation.needs == PUBLIC
    assert "401" in refusals or public
    assert found.get("security", document["security"]) == ([] if public else [{"bearer": []}])


def test_a_submission_names_its_required_fields_and_allows_no_others(document):
    schema = document["components"]["schemas"]["JobIn"]
    assert set(schema["required"]) == {"name", "scheduleType"}
    assert schema["additionalProperties"] is False
    assert {"cronExpression", "everySeconds", "scheduleTime", "maxRetries"} <= schema["properties"].keys()
