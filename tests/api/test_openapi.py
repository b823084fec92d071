"""The OpenAPI document says what the API does."""

import json
import re

import httpx
import msgspec
import pytest

from rota.access.authorization import PUBLIC
from rota.api import openapi
from rota.api.operations import decode
from rota.api.routes import OPERATIONS
from rota.contract.meanings import structs_by_name

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
    assert schema["required"] == [], "name and scheduleType follow from the rest"
    assert schema["additionalProperties"] is False
    assert {"cronExpression", "everySeconds", "scheduleTime", "maxRetries"} <= schema["properties"].keys()


def test_every_operation_has_a_tag_that_is_described_and_a_description(document):
    tags = {tag["name"]: tag["description"] for tag in document["tags"]}
    used = {tag for _, _, operation in described(document) for tag in operation["tags"]}
    assert used == tags.keys()
    assert all(tags.values())
    for path, method, operation in described(document):
        assert operation["description"].startswith(operation["summary"]), f"{method} {path}"


def test_every_parameter_has_a_description(document):
    silent = [
        (path, method, parameter["name"])
        for path, method, operation in described(document)
        for parameter in operation["parameters"]
        if not parameter.get("description")
    ]
    assert silent == []


def test_every_field_has_a_description(document):
    """Write it below the field in rota/contract, or into rota/contract/meanings.py if the name means it everywhere."""
    silent = [
        f"{name}.{field}"
        for name, schema in document["components"]["schemas"].items()
        for field, shape in schema.get("properties", {}).items()
        if not shape.get("description")
    ]
    assert silent == []


def test_descriptions_are_for_people_who_have_no_pages_to_follow_links_in(document):
    assert ".md" not in json.dumps(document)


def formats(shape):
    """The formats in a schema."""
    inner = [*shape.get("anyOf", ()), *([shape["items"]] if "items" in shape else [])]
    return {shape.get("format")} | {found for one in inner for found in formats(one)}


def test_every_time_has_its_format(document):
    times = 0
    for name, schema in document["components"]["schemas"].items():
        kind = structs_by_name().get(name)
        for field in msgspec.structs.fields(kind) if kind else ():
            is_time = "datetime" in str(field.type)
            assert ("date-time" in formats(schema["properties"][field.encode_name])) == is_time, f"{name}.{field.name}"
            times += is_time
    assert times > 40
    for path, _, operation in described(document):
        for parameter in operation["parameters"]:
            if parameter["name"].endswith("Time"):
                assert parameter["schema"]["format"] == "date-time", path


def test_the_examples_are_what_they_are_examples_of(document):
    found = {
        name: schema["examples"] for name, schema in document["components"]["schemas"].items() if "examples" in schema
    }
    bodies = {
        reference.rpartition("/")[2]
        for _, _, one in described(document)
        for reference in references(one.get("requestBody"))
    }
    assert bodies <= found.keys(), "each body has one"
    for name, examples in found.items():
        for example in examples:
            decode(json.dumps(example).encode(), structs_by_name()[name])
