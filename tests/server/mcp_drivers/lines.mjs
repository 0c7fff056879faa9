// SPDX-License-Identifier: Apache-2.0
// What drivers for Node share: a wish is a line of JSON on stdin, its answer one on stdout, in the order in which they end.
//
//   {"transport": {"url", "token"} or {"command", "args", "env"}, "mode": "legacy"}   comes first
//   {"id": 1, "do": "call", "params": {"name", "arguments"}, "progress": true}   ->   {"id": 1, "result", "progress": [...]}
//   {"id": 2, "do": "cancel", "which": 1}                                        ->   {"id": 1, "error"}, {"id": 2, "result"}
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

// Modules are looked up below the cache and not beside this file.
export const load = createRequire(`${process.env.HOME}/`);

function say(line) {
  process.stdout.write(JSON.stringify(line) + "\n");
}

const actions = {
  hello: (client) => ({ version: client.version(), server: client.getServerVersion(), capabilities: client.getServerCapabilities(),
    instructions: client.getInstructions() }),
  tools: (client) => client.listTools(),
  prompts: (client) => client.listPrompts(),
  prompt: (client, params) => client.getPrompt(params),
  resources: (client) => client.listResources(),
  templates: (client) => client.listResourceTemplates(),
  read: (client, params) => client.readResource(params),
  call: (client, params, options) => client.call(params, options),
};

async function answer(client, wish, under_way) {
  const stop = new AbortController();
  const progress = [];
  const options = { signal: stop.signal, timeout: 600_000, ...(wish.progress ? { onprogress: (one) => progress.push(one) } : {}) };
  under_way.set(wish.id, stop);
  try {
    const result = await actions[wish.do](client, wish.params, options);
    say({ id: wish.id, result, ...(wish.progress ? { progress } : {}) });
  } catch (error) {
    say({ id: wish.id, error: { code: error.code ?? null, message: String(error.message ?? error) } });
  }
  under_way.delete(wish.id);
}

// connect(transport, mode) -> a client that also has version() and call().
export async function serve(connect) {
  const under_way = new Map(), complaints = [];
  let client = null;
  for await (const line of createInterface({ input: process.stdin })) {
    const wish = JSON.parse(line);
    if (!client) {
      client = await connect(wish.transport, wish.mode);
      client.onerror = (error) => complaints.push(String(error));
      say({ id: 0, result: {} });
    } else if (wish.do === "cancel") {
      under_way.get(wish.which).abort("a test wants it");
      say({ id: wish.id, result: {} });
    } else if (wish.do === "complaints") {
      say({ id: wish.id, result: complaints });
    } else {
      answer(client, wish, under_way);
    }
  }
  await client?.close();
  process.exit(0);
}
