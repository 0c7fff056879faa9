// SPDX-License-Identifier: Apache-2.0
// The client of the second line of the TypeScript SDK, which speaks both eras.
import { load, serve } from "./lines.mjs";

const { Client, StreamableHTTPClientTransport } = load("@modelcontextprotocol/client");
const { StdioClientTransport } = load("@modelcontextprotocol/client/stdio");
const MODES = { legacy: "legacy", auto: "auto", modern: { pin: "2026-07-28" } };

serve(async ({ url, token, ...stdio }, mode) => {
  const client = new Client({ name: "driver", version: "1" }, { versionNegotiation: { mode: MODES[mode] } });
  const transport = url
    ? new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${token}` } } })
    : new StdioClientTransport(stdio);
  await client.connect(transport);
  client.version = () => client.getNegotiatedProtocolVersion();
  client.call = (params, options) => client.callTool(params, options);
  return client;
});
