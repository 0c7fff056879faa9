# SPDX-License-Identifier: Apache-2.0
"""MCP over HTTP as somebody with curl would speak it: raw messages of both eras."""
import itertools
import json

MODERN, LEGACY = "2026-07-28", "2025-11-25"
BOTH_KINDS = "application/json, text/event-stream"
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri",
         "tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId"}
ids = itertools.count(1)


def message(method, params=None, **more):
    return {"jsonrpc": "2.0", "method": method} | ({"params": params} if params is not None else {}) | more


def modern(method, params=None, capabilities=None, meta=None):
    """-> the message and its headers"""
    marks = {"io.modelcontextprotocol/protocolVersion": MODERN,
             "io.modelcontextprotocol/clientCapabilities": capabilities or {}}
    params = dict(params or {}) | {"_meta": marks | (meta or {})}
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method, "Accept": BOTH_KINDS}
    if method in NAMED:
        headers["Mcp-Name"] = params[NAMED[method]]
    return message(method, params, id=next(ids)), headers


def events_of(body):
    """The messages in a body of events."""
    pieces = [line[5:].strip() for line in body.decode().split("\n") if line.startswith("data:")]
    return [json.loads(piece) for piece in pieces if piece]


class Modern:
    """A client without any state."""

    def __init__(self, server, token=True):
        self.server, self.token = server, token

    def ask(self, method, params=None, headers=None, **more):
        """-> the answer of HTTP, and all messages in it"""
        body, head = modern(method, params, **more)
        answer = self.server.post("/mcp", body, token=self.token, headers=head | (headers or {}))
        if "event-stream" in answer.headers.get("Content-Type", ""):
            return answer, events_of(answer.body)
        return answer, [answer.json]

    def request(self, method, params=None, **more):
        return self.ask(method, params, **more)[1][-1]

    def result(self, method, params=None, **more):
        last = self.request(method, params, **more)
        assert "result" in last, last
        return last["result"]

    def call(self, name, arguments=None, **more):
        return self.result("tools/call", {"name": name} | ({} if arguments is None else {"arguments": arguments}), **more)

    def text(self, name, arguments=None, **more):
        result = self.call(name, arguments, **more)
        assert not result.get("isError"), result
        return result["content"][0]["text"]


class Legacy(Modern):
    """A client with a session."""

    def __init__(self, server, token=True, version=LEGACY, capabilities=None):
        super().__init__(server, token)
        answer = server.post("/mcp", message("initialize", {
            "protocolVersion": version, "capabilities": capabilities or {},
            "clientInfo": {"name": "test", "version": "1"}}, id=0), token=token, headers={"Accept": BOTH_KINDS})
        assert answer.status == 200, answer
        self.session = answer.headers["Mcp-Session-Id"]
        self.welcome = answer.json["result"]
        assert self.tell("notifications/initialized").status == 202

    @property
    def headers(self):
        return {"Mcp-Session-Id": self.session, "MCP-Protocol-Version": self.welcome["protocolVersion"], "Accept": BOTH_KINDS}

    def tell(self, method, params=None):
        headers = {"Mcp-Session-Id": self.session, "Accept": BOTH_KINDS}
        return self.server.post("/mcp", message(method, params), token=self.token, headers=headers)

    def ask(self, method, params=None, headers=None, meta=None):
        params = dict(params or {}) | ({"_meta": meta} if meta else {})
        body = message(method, params, id=next(ids))
        answer = self.server.post("/mcp", body, token=self.token, headers=self.headers | (headers or {}))
        if "event-stream" in answer.headers.get("Content-Type", ""):
            return answer, events_of(answer.body)
        return answer, [answer.json]

    def end(self):
        return self.server.delete("/mcp", token=self.token, headers={"Mcp-Session-Id": self.session})
