// The reference of the API, made of /openapi.json when the page is opened. Everything is built by
// text nodes, never from markup, so nothing in the document or in an answer can become code.
"use strict";

const METHODS = ["get", "post", "put", "patch", "delete"];
const SAMPLE_DEPTH = 4;
const SHOWN_MAX = 500000; // characters of an answer
const BASE = location.pathname.replace(/\/docs\/?$/, ""); // whatever a proxy has put before us
let api;

// --- building -----------------------------------------------------------------------------------

function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== false && value != null) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(9).filter((child) => child != null && child !== false && child !== ""));
  return element;
}

const one = (id) => document.getElementById(id);

// Code between backticks; all else is text.
const prose = (text) => text.split(/`([^`]+)`/).map((part, i) => (i % 2 ? h("code", null, part) : part));

function table(lines) {
  const cells = lines.map((line) => line.split("|").slice(1, -1).map((cell) => cell.trim()));
  return h("table", null,
    h("thead", null, h("tr", null, cells[0].map((cell) => h("th", null, prose(cell))))),
    h("tbody", null, cells.slice(2).map((row) => h("tr", null, row.map((cell) => h("td", null, prose(cell)))))));
}

const paragraphs = (text) => (text || "").split("\n\n").map((part) =>
  part.startsWith("|") ? table(part.trim().split("\n")) : h("p", null, prose(part)));

function lazy(element, make) {
  element.addEventListener("toggle", () => {
    if (element.open && make) {
      element.append(make());
      make = null;
    }
  });
  return element;
}

function copyable(read) {
  const text = h("pre", { tabindex: 0 });
  const button = h("button", { type: "button", onclick: copy }, "Copy");
  async function copy() {
    try {
      await navigator.clipboard.writeText(text.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(text);
      button.textContent = "Selected";
    }
    setTimeout(() => (button.textContent = "Copy"), 1500);
  }
  const box = h("div", { class: "copied" }, text, button);
  box.refresh = () => (text.textContent = read());
  box.refresh();
  return box;
}

// --- schemas ------------------------------------------------------------------------------------

const follow = (ref) => ref.slice(2).split("/").reduce((at, key) => at && at[key], api);
const resolve = (thing) => (thing && thing.$ref ? { ...follow(thing.$ref), ...thing } : thing);
const nameOf = (ref) => ref.split("/").pop();

function typeOf(schema) {
  if (schema.$ref) return nameOf(schema.$ref);
  if (schema.anyOf) return [...new Set(schema.anyOf.map(typeOf))].join(" | ");
  const types = [].concat(schema.type || "any");
  return types.map((type) => {
    if (type === "array" && schema.items) return `${typeOf(schema.items)}[]`;
    if (type === "object" && schema.additionalProperties) return `map of ${typeOf(schema.additionalProperties)}`;
    return type;
  }).join(" | ");
}

const BOUNDS = [["minimum", "at least"], ["maximum", "at most"], ["minLength", "characters: at least"],
  ["maxLength", "characters: at most"], ["maxItems", "entries: at most"], ["maxProperties", "entries: at most"]];

function notes(schema) {
  const list = [];
  if (schema.enum) list.push(["one of ", ...schema.enum.flatMap((word) => [h("code", null, JSON.stringify(word)), " "])]);
  for (const [key, words] of BOUNDS) if (key in schema) list.push(`${words} ${schema[key]}`);
  if (schema.pattern) list.push(["pattern ", h("code", null, schema.pattern)]);
  if ("default" in schema) list.push(["default ", h("code", null, JSON.stringify(schema.default))]);
  if (schema.examples) list.push(["example ", h("code", null, JSON.stringify(schema.examples[0]))]);
  return list.length ? h("p", { class: "dim" }, list.flatMap((note, i) => [i ? " · " : "", note])) : null;
}

// The objects that a schema leads to, each to be opened.
function inner(schema) {
  if (schema.$ref) return [[nameOf(schema.$ref), resolve(schema)]];
  if (schema.anyOf) return schema.anyOf.flatMap(inner);
  if (schema.items) return inner(schema.items);
  if (schema.contentSchema) return inner(schema.contentSchema);
  if (schema.additionalProperties) return inner(schema.additionalProperties);
  return schema.properties ? [[schema.title || "object", schema]] : [];
}

function field(name, schema, required, help) {
  return h("li", null,
    h("span", { class: "field" }, name), " ", h("span", { class: "dim" }, typeOf(schema)), " ",
    required ? h("span", { class: "tagged" }, "required") : null,
    help || schema.description ? h("p", null, prose(help || schema.description)) : null,
    notes(schema),
    inner(schema).filter(([, of]) => of.properties).map(([title, of]) =>
      lazy(h("details", { class: "more" }, h("summary", null, title)), () => fields(of))));
}

function fields(schema) {
  const required = new Set(schema.required || []);
  return h("ul", { class: "fields" }, Object.entries(schema.properties || {}).map(([name, of]) =>
    field(name, of, required.has(name))));
}

function sample(schema, depth = 0) {
  const of = resolve(schema);
  if (of.examples) return of.examples[0];
  if ("default" in of) return of.default;
  if (of.enum) return of.enum[0];
  if (of.anyOf) return sample(of.anyOf[0], depth);
  const type = [].concat(of.type)[0];
  if (type === "array") return depth < SAMPLE_DEPTH && of.items ? [sample(of.items, depth + 1)] : [];
  if (type === "object" && depth < SAMPLE_DEPTH)
    return Object.fromEntries(Object.entries(of.properties || {}).map(([key, value]) => [key, sample(value, depth + 1)]));
  if (of.format === "date-time") return "2026-01-02T03:04:05.678Z";
  return { string: "", integer: 0, number: 0, boolean: false, object: {} }[type] ?? null;
}

// --- one request --------------------------------------------------------------------------------

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const needsToken = (operation) => operation.security.length > 0;

// What a form says: an address, headers and a body.
function request(operation, inputs, body) {
  let path = BASE + operation.path;
  const query = new URLSearchParams(), headers = {};
  for (const [parameter, input] of inputs) {
    const value = input.value;
    if (parameter.in === "path")
      path = path.replace(`{${parameter.name}}`, () =>
        value ? encodeURIComponent(value).replaceAll("%2F", "/") : `{${parameter.name}}`);
    else if (value !== "" && parameter.in === "query") query.append(parameter.name, value);
    else if (value !== "" && parameter.in === "header") headers[parameter.name] = value;
  }
  if (body) headers["Content-Type"] = operation.bodyType;
  const text = query.toString();
  return { url: path + (text ? `?${text}` : ""), method: operation.method.toUpperCase(), headers, body: body?.value };
}

function curl(operation, asked) {
  const parts = [`curl -X ${asked.method} ${quoted(location.origin + asked.url)}`];
  if (needsToken(operation)) parts.push('-H "Authorization: Bearer $COVE_TOKEN"');
  for (const [name, value] of Object.entries(asked.headers)) parts.push(`-H ${quoted(`${name}: ${value}`)}`);
  if (asked.body !== undefined) parts.push(`-d ${quoted(asked.body)}`);
  return parts.join(" \\\n  ");
}

function pretty(text, type) {
  if (!type.includes("json")) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

async function readInto(response, shown) {
  const type = response.headers.get("content-type") || "";
  const reader = response.body.getReader(), decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    text += done ? decoder.decode() : decoder.decode(value, { stream: true });
    if (text.length > SHOWN_MAX) {
      await reader.cancel();
      shown.textContent = `${text.slice(0, SHOWN_MAX)}\n... cut here`;
      return;
    }
    shown.textContent = done ? pretty(text, type) : text;
    if (done) return;
  }
}

async function send(operation, asked, answer, signal) {
  const token = one("token").value.trim();
  const headers = { ...asked.headers };
  if (needsToken(operation) && token) headers.Authorization = `Bearer ${token}`;
  const began = performance.now();
  const line = h("p", { role: "status" }, "Waiting"), shown = h("pre", { tabindex: 0 });
  answer.replaceChildren(line);
  try {
    const response = await fetch(asked.url, { method: asked.method, headers, body: asked.body, signal,
      credentials: "omit", redirect: "error", referrerPolicy: "no-referrer", cache: "no-store" });
    const id = response.headers.get("x-request-id");
    line.replaceChildren(h("strong", { class: response.ok ? "" : "bad" }, `${response.status} ${response.statusText}`),
      ` in ${(performance.now() - began).toFixed(1)} ms · `, h("code", null, id || "no X-Request-Id"));
    answer.append(shown);
    await readInto(response, shown);
  } catch (error) {
    line.replaceChildren(signal.aborted ? "Stopped" : h("span", { class: "bad" }, `It failed: ${error.message}`));
  }
}

function inputOf(parameter) {
  const schema = resolve(parameter.schema);
  const value = parameter.in === "path" ? parameter.example ?? "" : "";
  if (schema.enum || schema.type === "boolean")
    return h("select", null, h("option", { value: "" }, ""),
      (schema.enum || [true, false]).map((word) => h("option", null, String(word))));
  return h("input", { value, autocomplete: "off", spellcheck: "false",
    placeholder: "default" in schema ? String(schema.default) : "" });
}

function tryIt(operation) {
  const inputs = operation.parameters.map((parameter) => [parameter, inputOf(parameter)]);
  const body = operation.example === undefined ? null
    : h("textarea", { spellcheck: "false", "aria-label": "Body of the request" });
  if (body) body.value = JSON.stringify(operation.example, null, 2);
  const command = copyable(() => curl(operation, request(operation, inputs, body)));
  const answer = h("div", { class: "answer wide" });
  const go = h("button", { type: "submit" }, "Send"), stop = h("button", { type: "button", disabled: true }, "Stop");
  async function submit(event) {
    event.preventDefault();
    const control = new AbortController();
    stop.onclick = () => control.abort();
    [go.disabled, stop.disabled] = [true, false];
    await send(operation, request(operation, inputs, body), answer, control.signal);
    [go.disabled, stop.disabled] = [false, true];
  }
  const form = h("form", { class: "try", onsubmit: submit, oninput: () => command.refresh() },
    inputs.map(([parameter, input]) => {
      const id = `in-${operation.operationId}-${parameter.in}-${parameter.name}`;
      input.id = id;
      return [h("label", { for: id, class: "mono" }, parameter.name), input];
    }),
    body ? h("div", { class: "wide" }, body) : null,
    h("div", { class: "wide" }, go, " ", stop), answer);
  return [h("h3", null, "As a command"), command, h("h3", null, "Try it"), form];
}

// --- one operation ------------------------------------------------------------------------------

function requestView(operation) {
  const content = Object.values(operation.requestBody?.content || {})[0];
  return [
    operation.parameters.length ? [h("h3", null, "Parameters"), h("ul", { class: "fields" },
      operation.parameters.map((parameter) => field(`${parameter.name} (${parameter.in})`, resolve(parameter.schema),
        parameter.required, parameter.description)))] : null,
    content?.schema ? [h("h3", null, "Body"), fields(resolve(content.schema))] : null,
  ];
}

function responseView([status, reply]) {
  const response = resolve(reply);
  return h("li", null, h("span", { class: `field ${status < 400 ? "" : "bad"}` }, status), " ", prose(response.description),
    Object.entries(response.content || {}).map(([type, content]) => {
      const schema = content.schema;
      const title = schema.$ref ? nameOf(schema.$ref) : typeOf(schema);
      return lazy(h("details", { class: "more" }, h("summary", null, title, " ", h("span", { class: "dim" }, type))), () =>
        h("div", null, fields(resolve(schema)), schema.$ref
          ? lazy(h("details", { class: "more" }, h("summary", null, "Example")), () =>
            h("pre", { tabindex: 0 }, JSON.stringify(sample(schema), null, 2))) : null));
    }));
}

function operationBody(operation) {
  const scopes = operation.security.flatMap((way) => Object.values(way)[0]);
  return h("div", null,
    paragraphs(operation.description),
    h("p", { class: "dim" }, !needsToken(operation) ? "Needs no token." : scopes.length
      ? ["Needs a token with ", [...new Set(scopes)].map((scope) => [h("code", null, scope), " "])] : "Needs a token."),
    requestView(operation),
    h("h3", null, "Answers"), h("ul", { class: "fields" }, Object.entries(operation.responses).map(responseView)),
    operation.responses["101"] ? null : tryIt(operation));
}

function operationView(operation) {
  return lazy(h("details", { class: "operation", id: operation.operationId },
    h("summary", null, h("span", { class: `method ${operation.method}` }, operation.method.toUpperCase()),
      h("span", { class: "path" }, operation.path), h("span", { class: "dim" }, operation.summary))),
  () => operationBody(operation));
}

// --- the page -----------------------------------------------------------------------------------

function operations() {
  return Object.entries(api.paths).flatMap(([path, methods]) => METHODS.filter((method) => methods[method]).map((method) => {
    const operation = methods[method];
    const [bodyType, content] = Object.entries(operation.requestBody?.content || {})[0] || [];
    return { ...operation, path, method, bodyType, example: content?.example,
      parameters: (operation.parameters || []).map(resolve) };
  }));
}

const link = (operation) => h("li", null, h("a", { href: `#${operation.operationId}`, title: operation.path },
  h("span", { class: `method ${operation.method}` }, operation.method.toUpperCase()), operation.summary));

function openTarget() {
  const target = one(decodeURIComponent(location.hash.slice(1)));
  if (!target?.matches("details")) return;
  target.open = true;
  target.scrollIntoView();
  target.querySelector("summary").focus({ preventScroll: true });
}

function filter(groups) {
  const words = one("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  let found = 0;
  for (const group of groups) {
    let any = false;
    for (const { operation, item, view } of group.rows) {
      const text = `${operation.method} ${operation.path} ${operation.operationId} ${operation.summary} ${operation.description || ""}`;
      const fits = words.every((word) => text.toLowerCase().includes(word));
      item.hidden = view.hidden = !fits;
      any ||= fits;
      found += fits;
    }
    group.part.hidden = group.section.hidden = !any;
  }
  one("found").textContent = `${found} operations`;
}

function show() {
  one("version").textContent = api.info.version;
  const all = operations();
  const groups = api.tags.map((tag) => {
    const rows = all.filter((operation) => operation.tags[0] === tag.name)
      .sort((a, b) => a.path.localeCompare(b.path))
      .map((operation) => ({ operation, item: link(operation), view: operationView(operation) }));
    return { rows,
      part: h("div", null, h("h2", null, tag.name), h("ul", null, rows.map((row) => row.item))),
      section: h("section", { "aria-label": tag.name }, h("h2", null, tag.name), h("p", null, tag.description),
        rows.map((row) => row.view)) };
  }).filter((group) => group.rows.length);
  const [first, second, ...rest] = paragraphs(api.info.description);
  one("list").replaceChildren(...groups.map((group) => group.part));
  one("main").replaceChildren(first, second, h("details", { class: "more" }, h("summary", null, "Refusals of requests"), rest),
    ...groups.map((group) => group.section));
  one("search").addEventListener("input", () => filter(groups));
  addEventListener("hashchange", openTarget);
  openTarget();
}

function setTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = one("theme").value || (dark ? "dark" : "light");
}

function onKey(event) {
  const isTyping = event.target.matches("input, textarea, select");
  if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    one("search").focus();
  } else if (event.key === "Escape" && event.target === one("search")) {
    one("search").value = "";
    one("search").dispatchEvent(new Event("input"));
  }
}

async function start() {
  setTheme();
  one("theme").addEventListener("change", setTheme);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", setTheme);
  document.addEventListener("keydown", onKey);
  try {
    const response = await fetch(`${BASE}/openapi.json`, { credentials: "omit" });
    if (!response.ok) throw new Error(`status ${response.status}`);
    api = await response.json();
    show();
  } catch (error) {
    one("main").replaceChildren(h("p", { class: "bad", role: "alert" }, `openapi.json could not be read: ${error.message}`));
  }
}

start();
