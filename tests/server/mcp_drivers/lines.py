# SPDX-License-Identifier: Apache-2.0
"""What drivers for Python share; lines.mjs tells how they are spoken to."""
import asyncio
import json
import logging
import sys


def say(line):
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def plain(result):
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


ACTIONS = {
    "tools": lambda client, params: client.list_tools(),
    "prompts": lambda client, params: client.list_prompts(),
    "prompt": lambda client, params: client.get_prompt(params["name"], params.get("arguments")),
    "resources": lambda client, params: client.list_resources(),
    "templates": lambda client, params: client.list_resource_templates(),
    "read": lambda client, params: client.read_resource(params["uri"]),
}


class Complaints(logging.Handler):
    """What the SDK found worth a warning."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.texts = []
        logging.getLogger().addHandler(self)

    def emit(self, record):
        self.texts.append(record.getMessage())


class Driver:
    """hello() is what the client knows of the server."""

    def __init__(self, client, hello, Error):
        self.client, self.hello, self.Error, self.tasks = client, hello, Error, {}
        self.complaints = Complaints()

    async def call(self, params, progress):
        async def on_progress(now, total, message):
            progress.append({"progress": now, "message": message})
        wants = {"progress_callback": on_progress} if progress is not None else {}
        return await self.client.call_tool(params["name"], params.get("arguments"), **wants)

    async def answer(self, wish):
        progress = [] if wish.get("progress") else None
        try:
            if wish["do"] == "hello":
                result = self.hello()
            elif wish["do"] == "call":
                result = plain(await self.call(wish["params"], progress))
            else:
                result = plain(await ACTIONS[wish["do"]](self.client, wish.get("params")))
            say({"id": wish["id"], "result": result, "progress": progress})
        except self.Error as err:
            say({"id": wish["id"], "error": {"code": err.error.code, "message": err.error.message}})
        except asyncio.CancelledError:
            say({"id": wish["id"], "error": {"code": None, "message": "cancelled"}})

    async def cancel(self, wish):
        self.tasks[wish["which"]].cancel()

    async def serve(self, lines):
        say({"id": 0, "result": {}})
        async for line in lines:
            wish = json.loads(line)
            if wish["do"] == "cancel":
                await self.cancel(wish)
                say({"id": wish["id"], "result": {}})
            elif wish["do"] == "complaints":
                say({"id": wish["id"], "result": self.complaints.texts})
            else:
                self.tasks[wish["id"]] = asyncio.create_task(self.answer(wish))


async def stdin_lines():
    reader = asyncio.StreamReader(limit=1 << 26)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader
