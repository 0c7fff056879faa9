// SPDX-License-Identifier: Apache-2.0
// The client of the first line of the TypeScript SDK: most programs have this one, and it knows the legacy era alone.
import { load, serve } from "./lines.mjs";

const { Client } = load("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = load("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { StdioClientTransport } = load("@modelcontextprotocol/sdk/client/stdio.js");

serve(async ({ url, token, ...stdio }) => {
  const client = new Client({ name: "driver", version: "1" });
  const transport = url
    ? new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${token}` } } })
    : new StdioClientTransport(stdio);
  let version = null;
  const tell = transport.setProtocolVersion?.bind(transport);
  transport.setProtocolVersion = (agreed) => {  // the client itself forgets it
    version = agreed;
    tell?.(agreed);
  };
  await client.connect(transport);
  client.version = () => version;
  client.call = (params, options) => client.callTool(params, undefined, options);
  return client;
});
