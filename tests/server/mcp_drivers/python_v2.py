# SPDX-License-Identifier: Apache-2.0
"""The client of the second line of the Python SDK, which speaks both eras."""
import asyncio
import json

import httpx2
import lines
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

MODES = {"legacy": "legacy", "auto": "auto", "modern": "2026-07-28"}


async def main():
    reader = await lines.stdin_lines()
    wish = json.loads(await reader.readline())
    how = wish["transport"]
    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {how.get('token')}"}, timeout=600)
    place = streamable_http_client(how["url"], http_client=http) if "url" in how else StdioServerParameters(**how)
    async with http, Client(place, mode=MODES[wish["mode"]]) as client:
        def hello():
            return {"version": client.protocol_version, "server": client.server_info and lines.plain(client.server_info),
                    "capabilities": lines.plain(client.server_capabilities), "instructions": client.instructions}
        await lines.Driver(client, hello, MCPError).serve(reader)


asyncio.run(main())
