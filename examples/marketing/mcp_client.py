# SPDX-License-Identifier: Apache-2.0
"""As much of MCP 2026-07-28 as calling tools takes: each request stands for itself, so there is no handshake."""
import itertools
import json
import subprocess
import urllib.error
import urllib.request

VERSION = "2026-07-28"
META = {"io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientInfo": {"name": "marketing-example", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}}


class ToolError(Exception):
    """Cove could not do what was asked, and says why."""


class Client:
    def __init__(self):
        self.ids = itertools.count(1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def ask(self, request: dict) -> dict:
        """-> the answer to it"""
        raise NotImplementedError

    def call(self, tool: str, arguments: dict) -> list[dict]:
        """-> the parts of the result: text, pictures, links"""
        answer = self.ask({"jsonrpc": "2.0", "id": next(self.ids), "method": "tools/call",
                           "params": {"name": tool, "arguments": arguments, "_meta": META}})
        if "error" in answer:
            raise ToolError(f"{tool}: {answer['error']['message']}")
        result = answer["result"]
        if result.get("isError"):
            raise ToolError(f"{tool}: " + "\n".join(part.get("text", "") for part in result["content"]))
        return result["content"]


class HttpClient(Client):
    def __init__(self, url: str, token: str | None):
        super().__init__()
        self.url = url
        self.headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
                        "MCP-Protocol-Version": VERSION}
        if token:
            self.headers["Authorization"] = f"Bearer {token}"

    def ask(self, request):
        headers = {**self.headers, "Mcp-Method": request["method"], "Mcp-Name": request["params"]["name"]}
        post = urllib.request.Request(self.url, json.dumps(request).encode(), headers)
        try:
            with urllib.request.urlopen(post) as response:
                return json.load(response)
        except urllib.error.HTTPError as refusal:
            raise ToolError(f"{self.url} answers {refusal.code}: {refusal.read().decode(errors='replace')}") from None


class StdioClient(Client):
    """Starts the server as a child; closing its standard input ends it."""

    def __init__(self, argv: list[str]):
        super().__init__()
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()

    def ask(self, request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            answer = json.loads(line)
            if answer.get("id") == request["id"]:
                return answer
        raise ToolError("the server ended before it answered")
