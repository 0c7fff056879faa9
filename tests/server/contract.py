# SPDX-License-Identifier: Apache-2.0
"""The contract of the API: operations as /openapi.json has them, and answers held against it."""
import functools
import json
import re
import subprocess
import urllib.parse

import jsonschema

from covetest import BUILD

METHODS = ["get", "post", "put", "patch", "delete"]
AT_ROOT = "AtRoot"  # ends the id of an operation that is served a second time, at the root


@functools.cache
def document():
    """As a program with the server's tables prints it: needed before there is a server."""
    text = subprocess.run([BUILD / "tests/openapi_text"], stdout=subprocess.PIPE, check=True).stdout
    return json.loads(text)


def follow(node):
    while "$ref" in node:
        node = functools.reduce(lambda at, key: at[key], node["$ref"][2:].split("/"), document())
    return node


@functools.cache
def validator(name):
    schema = {"$ref": f"#/components/schemas/{name}"}
    return jsonschema.Draft202012Validator(schema, resolver=jsonschema.RefResolver("", document()))


def check_schema(schema, value):
    resolver = jsonschema.RefResolver("", document())
    jsonschema.Draft202012Validator(schema, resolver=resolver).validate(value)


class Operation:
    def __init__(self, path, method, row):
        self.path, self.method, self.row = path, method.upper(), row
        self.id = row["operationId"]
        self.base_id = self.id.removesuffix(AT_ROOT)
        self.parameters = [follow(p) for p in row.get("parameters", [])]
        self.is_open = not row["security"] or {} in row["security"]
        self.is_internal = any("internal" in way for way in row["security"])
        self.scopes = [scope for way in row["security"][:1] for words in way.values() for scope in words]
        content = row.get("requestBody", {}).get("content", {})
        self.body = content.get("application/json")  # None: it takes no JSON
        self.has_body = bool(content)
        self.is_upgrade = "101" in row["responses"]

    def __repr__(self):
        return f"{self.method} {self.path}"

    @property
    def places(self):
        return re.findall(r"\{(\w+)\}", self.path)

    def url(self, places=None, query=None):
        fill = {name: urllib.parse.quote(value) for name, value in (places or {}).items()}
        return self.path.format(**fill) + (f"?{urllib.parse.urlencode(query)}" if query else "")

    def body_schema(self):
        return follow(self.body["schema"])

    def check(self, answer):
        """Its status, headers and body are what the document says."""
        responses = self.row["responses"]
        assert str(answer.status) in responses, f"{self}: {answer.status} is not documented: {answer}"
        response = follow(responses[str(answer.status)])
        for name, header in response.get("headers", {}).items():
            assert name in answer.headers or not follow(header).get("required"), f"{self}: no {name}"
        content = response.get("content", {})
        kind = (answer.headers["Content-Type"] or "").split(";")[0]
        if kind not in content and "*/*" in content:
            assert kind, f"{self}: it has no type: {answer}"
        else:
            assert kind in content if content else not answer.body, f"{self}: '{kind}' is not documented: {answer}"
        if kind == "application/json" and kind in content:
            check_schema(content[kind]["schema"], answer.json)
        if answer.status >= 400:
            check_error(answer)
        return answer


def operations():
    paths = document()["paths"]
    return [Operation(path, method, paths[path][method]) for path in paths for method in METHODS
            if method in paths[path]]


def check_error(answer):
    """What holds of every error."""
    validator("Error").validate(answer.json)
    error = answer.json["error"]
    assert error["message"] and error["request_id"] == answer.headers["X-Request-Id"]
    return answer


def check_event(event):
    """(id, name, data) as server.events() has it."""
    number, name, data = event
    whole = {"event": name, "data": json.dumps(data)} | ({"id": number} if number else {})
    validator("Event").validate(whole)
    kinds = {"started": "StartedEvent", "stdout": "OutputEvent", "stderr": "OutputEvent", "result": "Result",
             "artifact": "Artifact", "ended": "Execution", "missed": "MissedEvent",
             "heartbeat": "HeartbeatEvent"}
    validator(kinds[name]).validate(data)
    return event
