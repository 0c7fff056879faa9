# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI document as programs of others read it; tests/unit/test_openapi.c checks it against the tables."""
import json
import subprocess

import jsonschema
import pytest

import pypi
from covetest import BUILD

VALIDATOR = "openapi-spec-validator==0.9.0"


@pytest.fixture(scope="module")
def text():
    return subprocess.run([BUILD / "tests/openapi_text"], stdout=subprocess.PIPE, check=True).stdout


@pytest.fixture(scope="module")
def document(text):
    return json.loads(text)


def test_public_validator_finds_nothing_wrong(text, tmp_path):
    python = pypi.python_with(VALIDATOR)
    path = tmp_path / "openapi.json"
    path.write_bytes(text)
    said = subprocess.run([python, "-m", "openapi_spec_validator", path], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    assert said.returncode == 0, said.stdout
    # and it does find what is wrong
    broken = json.loads(text)
    del broken["info"]["title"]
    path.write_text(json.dumps(broken))
    said = subprocess.run([python, "-m", "openapi_spec_validator", path], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    assert said.returncode != 0 and "title" in said.stdout


def test_every_schema_is_one(document):
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def _examples(node):
    """Every schema that has examples, or a default."""
    if isinstance(node, dict):
        if isinstance(node.get("examples"), list):
            yield from ((node, example) for example in node["examples"])
        if "default" in node and "type" in node:
            yield node, node["default"]
        for value in node.values():
            yield from _examples(value)
    elif isinstance(node, list):
        for value in node:
            yield from _examples(value)


def _validator(schema, document):
    resolver = jsonschema.RefResolver("", document)
    return jsonschema.Draft202012Validator(schema, resolver=resolver)


def test_every_example_fits_its_schema(document):
    found = list(_examples(document))
    assert len(found) > 50
    for schema, example in found:
        _validator(schema, document).validate(example)


def test_every_body_example_fits_its_schema(document):
    count = 0
    for methods in document["paths"].values():
        for operation in methods.values():
            for content in operation.get("requestBody", {}).get("content", {}).values():
                if "example" in content:
                    _validator(content["schema"], document).validate(content["example"])
                    count += 1
    assert count > 5


@pytest.mark.parametrize("body, is_good", [
    ({"ttl": 5}, True),
    ({"ttl_seconds": 5}, True),
    ({}, False),
    ({"ttl": 5, "ttl_seconds": 5}, False),
    ({"ttl": None}, False),
    ({"ttl": 5, "more": 1}, False),
])
def test_of_two_names_one_is_there(document, body, is_good):
    schema = document["components"]["schemas"]["ExtendSession"]
    assert _validator(schema, document).is_valid(body) == is_good


@pytest.mark.parametrize("name", ["mkdir", "move", "sign", "upload"])
def test_the_doors_of_files_are_names_of_files_too(shared_server, name):
    """So the methods that such a path takes are more than its own entry in the document has."""
    session = shared_server.post("/api/v1/sessions", {"language": "python"}).json["id"]
    path = f"/api/v1/sessions/{session}/files/{name}"
    assert shared_server.request("OPTIONS", path).headers["Allow"] == "GET, HEAD, POST, PUT, DELETE"
    assert shared_server.put(path, b"a file").status == 201 and shared_server.get(path).body == b"a file"
    assert shared_server.delete(path).status == 204 and shared_server.delete(f"/api/v1/sessions/{session}").status == 200
