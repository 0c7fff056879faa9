# SPDX-License-Identifier: Apache-2.0
"""The client of the first line of the Python SDK: it knows the legacy era alone, and its user has to say what is cancelled."""
import asyncio
import json

import lines
from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client


class Driver(lines.Driver):
    async def call(self, params, progress):
        self.last = self.client._request_id  # of the request that is sent next
        return await super().call(params, progress)

    async def cancel(self, wish):
        await super().cancel(wish)
        word = types.CancelledNotification(method="notifications/cancelled",
                                           params=types.CancelledNotificationParams(requestId=self.last, reason="a test wants it"))
        await self.client.send_notification(types.ClientNotification(word))


async def main():
    reader = await lines.stdin_lines()
    how = json.loads(await reader.readline())["transport"]
    opened = (streamablehttp_client(how["url"], headers={"Authorization": f"Bearer {how['token']}"}, timeout=600) if "url" in how
              else stdio_client(StdioServerParameters(**how)))
    async with opened as (read, write, *_), ClientSession(read, write) as session:
        welcome = await session.initialize()

        def hello():
            return {"version": welcome.protocolVersion, "server": lines.plain(welcome.serverInfo),
                    "capabilities": lines.plain(welcome.capabilities), "instructions": welcome.instructions}
        await Driver(session, hello, McpError).serve(reader)


asyncio.run(main())
