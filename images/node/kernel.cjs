// SPDX-License-Identifier: Apache-2.0
// kernel.cjs - Node as a session: JavaScript and TypeScript in one global scope that lives on
//
// Speaks the plain form of the kernel protocol on descriptor 3. Code runs as a script of the main
// context, so that V8's own line and column stand in errors; a small rewrite (see "cells") makes what
// it declares at its top level global, allows `await` and `import` there, and lets a name be declared
// again. The code shares this process: everything the kernel needs later is taken hold of at the
// start, and what it cannot be kept from breaking is its own session only.
//
// Wants --expose-internals for the parser that Node carries, acorn. Without it code still runs, but
// names cannot be declared twice and there is no await at the top level.
'use strict';

// The code may put anything in their place.
const root = globalThis;
const {
    Array, ArrayBuffer, Atomics, Buffer, Error, Function, Int32Array, JSON, Math, Number, Object, Promise, RangeError,
    ReferenceError, Set, SharedArrayBuffer, String, Symbol, SyntaxError, TypeError, process,
} = root;

const fs = require('node:fs');
const net = require('node:net');
const nodeModule = require('node:module');
const util = require('node:util');
const vm = require('node:vm');
const { AsyncLocalStorage } = require('node:async_hooks');
const { Writable } = require('node:stream');

const { closeSync, openSync, read: fsRead, writeSync } = fs;
const { inspect, types } = util;
const { stringify } = JSON;
const { Script } = vm;
const [nativeImmediate, nativeInterval, nativeClear] = [setImmediate, setInterval, clearInterval];
const nativeExit = process.reallyExit.bind(process);
const { argv, chdir, cwd } = process;

const CHANNEL = 3;
const WORKSPACE = '/workspace';
const FIRST = 2;
const MAIN = 4;
const LAST = 8;
const INTERRUPT_MS = 10; // how often a cell that awaits is looked at
const PATIENCE_MS = 1000; // for code of the session's that runs while a value is shown
const TEXT_MAX = 65536; // characters of one text/plain
const JSON_MAX = 65536; // characters of a result that is offered as JSON too
const VALUE_MAX = 8 << 20; // characters of one variable
const STATUS_INTERRUPTED = 130;

// An object that nothing on Object.prototype reaches into.
const plain = (fields) => Object.assign(Object.create(null), fields);

// --- the channel --------------------------------------------------------------------------------

const pause = new Int32Array(new SharedArrayBuffer(4));

// All of it, also when the other side reads slowly; false when it is gone.
function writeAll(fd, bytes) {
    for (let at = 0; at < bytes.length;) {
        try {
            at += writeSync(fd, bytes, at);
        } catch (error) {
            if (error.code !== 'EAGAIN') return false;
            Atomics.wait(pause, 0, 0, 1);
        }
    }
    return true;
}

let generation = 0; // of the request that is answered

function say(type, body = '', ...words) {
    const isText = typeof body === 'string';
    let line = `${type} ${isText ? Buffer.byteLength(body) : body.length} ${generation}`;
    for (let i = 0; i < words.length; i++) line += ` ${words[i]}`;
    const isSaid = isText ? writeAll(CHANNEL, Buffer.from(`${line}\n${body}`))
        : writeAll(CHANNEL, Buffer.from(`${line}\n`)) && writeAll(CHANNEL, body);
    if (!isSaid) nativeExit(1);
}

const reply = (fields) => say('REPLY', stringify(plain(fields)));

// A list that has nothing of Array.prototype either; JSON still takes it for one.
const bare = (list) => list && Object.setPrototypeOf(list, null);

// --- showing values -----------------------------------------------------------------------------

// Calls it with an end: a value of the session's may have a getter that never returns.
const caller = new Script(`this[Symbol.for('cove.kernel')].call()`, { filename: 'cove:kernel' });
const hook = { call: null };
Object.defineProperty(root, Symbol.for('cove.kernel'), { value: hook });

function bounded(call, otherwise) {
    hook.call = call;
    try {
        return caller.runInThisContext({ timeout: PATIENCE_MS, breakOnSigint: true, displayErrors: false });
    } catch {
        return otherwise;
    } finally {
        hook.call = null;
    }
}

const cut = (text, max) => (text.length <= max ? text : `${text.slice(0, max)}... (${text.length} characters)`);

function inspectText(value, options) {
    const chosen = plain({ depth: 4, maxArrayLength: 200, maxStringLength: TEXT_MAX, ...options });
    return cut(inspect(value, chosen), TEXT_MAX);
}

// The own field when it is plain data; for a getter undefined, which is in no JSON.
function dataOf(value, key) {
    const owned = Object.getOwnPropertyDescriptor(value, key);
    return owned?.enumerable ? owned.value : undefined;
}

// JSON of nothing but plain objects, arrays and scalars; undefined for all else, and beyond a bound.
// No code of the session's runs.
function plainJson(value) {
    let budget = 2000;
    const isPlain = (item, depth) => {
        if (--budget < 0 || depth > 20) return false;
        if (item === null || typeof item === 'boolean') return true;
        if (typeof item === 'string') return item.length <= JSON_MAX;
        if (typeof item === 'number') return Number.isFinite(item);
        if (typeof item !== 'object' || types.isProxy(item)) return false;
        const prototype = Object.getPrototypeOf(item);
        const isArray = Array.isArray(item);
        if (isArray ? item.length > budget : prototype !== Object.prototype && prototype !== null) return false;
        const keys = isArray ? item.keys() : Object.keys(item);
        for (const key of keys) if (!isPlain(dataOf(item, String(key)), depth + 1)) return false;
        return Object.getOwnPropertySymbols(item).length === 0 && !('toJSON' in item);
    };
    if (typeof value !== 'object' || value === null || !isPlain(value, 0)) return undefined;
    const text = stringify(value);
    return text.length <= JSON_MAX ? text : undefined;
}

const isMime = (name) => /^[a-z]+\/[\w.+-]+$/.test(name);
const isBundle = (value) => {
    const keys = Object.keys(value);
    return keys.length > 0 && keys.length <= 20 && keys.every(isMime);
};

const SIGNATURES = [
    ['image/png', '89504e470d0a1a0a'],
    ['image/jpeg', 'ffd8ff'],
    ['image/gif', '47494638'],
];

function imageType(value) {
    const head = Buffer.from(value.buffer, value.byteOffset, Math.min(value.byteLength, 8)).toString('hex');
    return SIGNATURES.find(([, signature]) => head.startsWith(signature))?.[0];
}

function bundleForms(bundle) {
    return Object.keys(bundle).filter(isMime).map((mime) => {
        const body = bundle[mime];
        if (types.isUint8Array(body)) return [mime, Buffer.from(body)];
        if (typeof body !== 'string') return [mime, stringify(body)];
        const isBinary = mime.startsWith('image/') && mime !== 'image/svg+xml';
        return [mime, isBinary ? Buffer.from(body, 'base64') : body];
    });
}

// [MIME type, text or bytes] for each form of an object; the first that says what it is wins.
function formsOf(value) {
    for (const name of ['cove.display', 'Jupyter.display']) {
        const method = value[Symbol.for(name)];
        if (typeof method === 'function') return bundleForms(method.call(value));
    }
    if (types.isUint8Array(value) && imageType(value)) return [[imageType(value), Buffer.from(value)]];
    const forms = [['text/plain', inspectText(value)]];
    if (typeof value?._repr_html_ === 'function') forms.push(['text/html', String(value._repr_html_())]);
    return forms;
}

const UNSHOWN = [['text/plain', '[a value that cannot be shown]']];
const isObject = (value) => (typeof value === 'object' && value !== null) || typeof value === 'function';

function show(value, flags, isRaw = false) {
    const json = isRaw ? undefined : plainJson(value);
    let forms;
    if (json !== undefined) forms = [['text/plain', inspectText(value)], ['application/json', json]];
    else if (isObject(value)) forms = bounded(() => (isRaw ? bundleForms(value) : formsOf(value)), UNSHOWN);
    else forms = [['text/plain', inspectText(value)]];
    forms.forEach(([mime, body], index) => {
        const place = (index === 0 ? FIRST : 0) | (index === forms.length - 1 ? LAST : 0);
        say('DATA', body, flags | place, mime);
    });
}

function display(...values) {
    for (const value of values) if (isOwn()) show(value, 0, isObject(value) && !types.isProxy(value) && isBundle(value));
}

// A stack ends where the kernel's own frames begin, also when the code prints it.
Error.prepareStackTrace = (error, frames) => {
    let text;
    try {
        text = Error.prototype.toString.call(error);
    } catch {
        text = 'Error';
    }
    let end = frames.findIndex((frame) => frame.getFileName() === 'cove:kernel');
    if (end > 0 && frames[end - 1].getFileName() === 'node:vm') end--;
    for (const frame of end < 0 ? frames : frames.slice(0, end)) text += `\n    at ${frame}`;
    return text;
};

const FOREIGN_FRAME = /^\s+at .*(?:\(|\s)node:|^\s+\.\.\. \d+ lines matching/;

// Frames of Node's own go too, but not the bracket that opens an error's other fields.
function ownFrames(text) {
    const lines = [];
    for (const line of text.split('\n')) {
        if (!FOREIGN_FRAME.test(line)) lines.push(line);
        else if (line.endsWith(' {') && lines.length > 0) lines.push(`${lines.pop()} {`);
    }
    return lines.join('\n').trim();
}

// What was thrown, with the frames of the session's own code.
function describeError(error) {
    const name = types.isNativeError(error) || error instanceof Error ? String(error.name) : 'Uncaught';
    const value = name === 'Uncaught' ? inspectText(error) : String(error.message);
    const hasMore = name !== 'Uncaught' && (Object.keys(error).length > 0 || 'cause' in error || 'errors' in error);
    const text = name === 'Uncaught' ? `Uncaught ${value}`
        : hasMore || typeof error.stack !== 'string' ? inspectText(error, { customInspect: false }) : cut(error.stack, TEXT_MAX);
    return plain({ name: cut(name, 200), value: cut(value, TEXT_MAX), traceback: ownFrames(text) });
}

function sayError(error) {
    const unknown = plain({ name: 'Error', value: '[an error that cannot be shown]', traceback: '' });
    say('ERROR', stringify(bounded(() => describeError(error), unknown)));
}

// --- standard streams ---------------------------------------------------------------------------

const streams = [0, 1, 2]; // the descriptors; other numbers only when code grabbed one meanwhile

// There is no dup2 in Node: the lowest free number is the one just closed.
function replaceStream(index, path, flags) {
    try {
        closeSync(streams[index]);
    } catch {} // the code has closed it
    try {
        streams[index] = openSync(path, flags);
    } catch (error) {
        streams[index] = openSync('/dev/null', 'r+'); // the number must not become another file's
        throw error;
    }
}

function outlet(index) {
    const stream = new Writable({
        write(chunk, encoding, done) {
            writeAll(streams[index], chunk);
            done();
        },
    });
    stream.fd = index;
    stream._isStdio = true;
    stream.destroy = () => stream; // as with Node's own, the next line is written all the same
    stream.end = (chunk, ...rest) => {
        if (chunk !== undefined && typeof chunk !== 'function') stream.write(chunk, ...rest);
        return stream;
    };
    return stream;
}

let stdin;

function inlet() {
    const close = (fd, done) => process.nextTick(done); // the number goes on with other input
    const stream = new fs.ReadStream(null, { fd: streams[0], fs: { open: fs.open, read: fsRead, close } });
    stream.fd = 0;
    return stream;
}

const outlets = [null, outlet(1), outlet(2)];
Object.defineProperty(process, 'stdin', { configurable: true, enumerable: true, get: () => (stdin ??= inlet()) });
Object.defineProperty(process, 'stdout', { configurable: true, enumerable: true, get: () => outlets[1] });
Object.defineProperty(process, 'stderr', { configurable: true, enumerable: true, get: () => outlets[2] });

function closeStreams() {
    stdin?.destroy();
    stdin = undefined;
    for (let index = 0; index < streams.length; index++) replaceStream(index, '/dev/null', 'r+');
}

// --- cells: from code to a script ---------------------------------------------------------------

let acornModule;

function acorn() {
    acornModule ??= require('internal/deps/acorn/acorn/dist/acorn');
    return acornModule;
}

function parseCell(code) {
    return acorn().parse(code, {
        ecmaVersion: 'latest', sourceType: 'script', allowAwaitOutsideFunction: true,
        allowImportExportEverywhere: true, allowHashBang: true,
    });
}

const isFunction = (node) => /Function/.test(node.type);

// Each node that is not inside a function or class body, with its parent.
function walk(node, visit, parent) {
    visit(node, parent);
    for (const key of Object.keys(node)) {
        const child = node[key];
        for (const item of Array.isArray(child) ? child : [child]) {
            if (item && typeof item.type === 'string' && !isFunction(item) && item.type !== 'ClassBody') walk(item, visit, node);
        }
    }
}

function namesOf(pattern, names = []) {
    if (!pattern) return names;
    switch (pattern.type) {
    case 'Identifier': names.push(pattern.name); break;
    case 'ObjectPattern': for (const item of pattern.properties) namesOf(item.value ?? item.argument, names); break;
    case 'ArrayPattern': for (const item of pattern.elements) namesOf(item, names); break;
    case 'AssignmentPattern': namesOf(pattern.left, names); break;
    case 'RestElement': namesOf(pattern.argument, names); break;
    }
    return names;
}

// The text of a cell with pieces replaced; lines stay where they are.
class Rewrite {
    constructor(code) {
        this.code = code;
        this.edits = [];
        this.names = [];
    }

    replace(start, end, text) {
        const lost = this.code.slice(start, end).split('\n').length - text.split('\n').length;
        this.edits.push([start, end, text + '\n'.repeat(Math.max(lost, 0))]);
    }

    insert(at, text) {
        this.edits.push([at, at, text]);
    }

    // Of a statement, in front of its semicolon; an expression's own end is inside its brackets.
    endOf(node) {
        return this.code[node.end - 1] === ';' ? node.end - 1 : node.end;
    }

    toString() {
        let text = '', at = 0;
        for (const [start, end, piece] of this.edits.sort((a, b) => a[0] - b[0])) {
            text += this.code.slice(at, start) + piece;
            at = end;
        }
        return text + this.code.slice(at);
    }
}

// import a, { b as c } from 'x'  ->  void ({ default: a, b: c } = await import('x'));
function rewriteImport(rewrite, node) {
    const attributes = node.attributes?.length
        ? `, { with: { ${node.attributes.map((a) => `${a.key.raw ?? a.key.name}: ${a.value.raw}`).join(', ')} } }` : '';
    const module = `await import(${node.source.raw}${attributes})`;
    const whole = node.specifiers.find((item) => item.type === 'ImportNamespaceSpecifier');
    const parts = node.specifiers.filter((item) => item !== whole).map((item) => {
        const name = item.type === 'ImportDefaultSpecifier' ? 'default' : item.imported.raw ?? item.imported.name;
        return `${name}: ${item.local.name}`;
    });
    rewrite.names.push(...node.specifiers.map((item) => item.local.name));
    const pattern = `{ ${parts.join(', ')} }`;
    const target = whole ? `${whole.local.name} = ${module}${parts.length ? `, ${pattern} = ${whole.local.name}` : ''}`
        : parts.length ? `${pattern} = ${module}` : module;
    rewrite.replace(node.start, node.end, `void (${target});`);
}

// Takes `export` away; what it stands in front of is left, or null when it was all of it.
function withoutExport(rewrite, node) {
    if (node.type === 'ExportNamedDeclaration' && node.declaration) {
        rewrite.replace(node.start, node.declaration.start, ' '.repeat(node.declaration.start - node.start));
        return node.declaration;
    }
    if (node.type === 'ExportDefaultDeclaration') {
        const isNamed = node.declaration.id;
        const keywords = /^export\s+default/.exec(rewrite.code.slice(node.start))[0];
        rewrite.replace(node.start, node.start + keywords.length, isNamed ? '' : 'void (');
        if (isNamed) return node.declaration;
        rewrite.insert(rewrite.endOf(node), ')');
        return null;
    }
    if (/^Export/.test(node.type)) {
        rewrite.replace(node.start, node.end, '');
        return null;
    }
    return node;
}

// let, const and class at the top of a script cannot be declared again, var can.
function rewriteScript(rewrite, node) {
    if (node.type === 'VariableDeclaration') {
        for (const item of node.declarations) namesOf(item.id, rewrite.names);
        if (/^(let|const)$/.test(node.kind)) {
            const first = node.start;
            rewrite.replace(first, first + node.kind.length, 'var'.padEnd(node.kind.length));
            for (const item of node.declarations) if (!item.init) rewrite.insert(item.end, ' = undefined');
        }
    } else if (node.type === 'ClassDeclaration') {
        rewrite.names.push(node.id.name);
        rewrite.insert(node.start, `var ${node.id.name} = `);
        rewrite.insert(node.end, ';');
    } else if (node.type === 'FunctionDeclaration') {
        rewrite.names.push(node.id.name);
    }
}

// The same within an async function: a declaration becomes an assignment to what stands outside.
function rewriteDeclaration(rewrite, node, parent) {
    for (const item of node.declarations) namesOf(item.id, rewrite.names);
    const first = node.declarations[0], last = node.declarations.at(-1);
    const isLoop = /^For(In|Of)?Statement$/.test(parent.type) && parent.body !== node;
    const isFed = isLoop && parent.type !== 'ForStatement';
    for (const item of node.declarations) {
        if (!item.init && !isFed) rewrite.insert(item.end, ` = ${node.kind === 'var' ? item.id.name : 'undefined'}`);
    }
    if (isLoop) {
        rewrite.replace(node.start, first.start, parent.type === 'ForStatement' && first.id.type === 'ObjectPattern' ? '0, ' : '');
    } else {
        rewrite.replace(node.start, first.start, 'void (');
        rewrite.insert(last.end, ');');
    }
}

function rewriteAsync(rewrite, tree, body) {
    const functions = [];
    for (const node of body) {
        if (node.type === 'ImportDeclaration') {
            rewriteImport(rewrite, node);
        } else if (node.type === 'ClassDeclaration') {
            rewrite.names.push(node.id.name);
            rewrite.insert(node.start, `${node.id.name} = `);
            rewrite.insert(node.end, ';');
        } else if (node.type === 'FunctionDeclaration') {
            functions.push(node.id.name);
        }
    }
    walk(tree, (node, parent) => {
        if (node.type === 'VariableDeclaration' && (node.kind === 'var' || body.includes(node))) rewriteDeclaration(rewrite, node, parent);
    });
    const hoisted = rewrite.names.length ? `var ${[...new Set(rewrite.names)].join(', ')}; ` : '';
    rewrite.names.push(...functions);
    return `${hoisted}(async () => { ${functions.map((name) => `this.${name} = ${name}; `).join('')}`;
}

// { script, names, isAsync, hasValue, offset } of a cell.
function prepare(code) {
    const tree = parseCell(code);
    const rewrite = new Rewrite(code);
    const body = tree.body.map((node) => withoutExport(rewrite, node)).filter(Boolean);
    let isAsync = tree.body.some((node) => node.type === 'ImportDeclaration');
    walk(tree, (node) => {
        isAsync ||= node.type === 'AwaitExpression' || (node.type === 'ForOfStatement' && node.await);
    });
    const last = tree.body.findLast((node) => node.type !== 'EmptyStatement');
    const hasValue = last?.type === 'ExpressionStatement';
    if (!isAsync) {
        for (const node of body) rewriteScript(rewrite, node);
        return { script: rewrite.toString(), names: rewrite.names, isAsync, hasValue, offset: 0 };
    }
    let head = rewriteAsync(rewrite, tree, body);
    if (hasValue) {
        // Behind what stands before it, which is mostly on another line: so columns stay right.
        const before = tree.body[tree.body.indexOf(last) - 1];
        if (before) rewrite.insert(before.end, '; return { value: (');
        else head += 'return { value: (';
        rewrite.insert(rewrite.endOf(last), ') }');
    }
    return { script: `${head}${rewrite}\n})()`, names: rewrite.names, isAsync, hasValue, offset: -head.length };
}

const SCRIPT_ONLY = /await is only valid|import statement outside|Unexpected token 'export'|import\.meta/;

// Where acorn is wrong or missing, V8 says so; where V8 is, since this is no script for it, acorn does.
function prepareOrThrow(code, name) {
    // An object at the beginning of a line is meant, and not a block.
    if (/^\s*\{/.test(code) && !/;\s*$/.test(code)) {
        try {
            return prepare(`(${code.trimEnd()}\n)`);
        } catch {}
    }
    try {
        return prepare(code);
    } catch (error) {
        try {
            new Script(code, { filename: name });
        } catch (native) {
            if (!SCRIPT_ONLY.test(native.message) || !error.loc) throw native;
            const { line, column } = error.loc;
            const syntax = new SyntaxError(error.message.replace(/ \(\d+:\d+\)$/, ''));
            syntax.stack = `${name}:${line}\n${code.split('\n')[line - 1]}\n${' '.repeat(column)}^\n\n${syntax}`;
            throw syntax;
        }
        return { script: code, names: [], isAsync: false, hasValue: true, offset: 0 };
    }
}

// --- TypeScript ---------------------------------------------------------------------------------

const ESBUILD = '/usr/bin/esbuild';
const TS_HOOKS = '/usr/lib/cove/typescript.cjs'; // for local .ts files with more than types in them
let hasHooks = false;

// Node takes types away and leaves every position as it was. Enums and the like make code of their
// own: those are esbuild's.
function stripTypes(code, name) {
    let native;
    if (nodeModule.stripTypeScriptTypes) {
        try {
            return nodeModule.stripTypeScriptTypes(code);
        } catch (error) {
            native = error;
        }
    }
    const { spawnSync } = require('node:child_process');
    const options = '--tsconfig-raw={"compilerOptions":{"experimentalDecorators":true,"verbatimModuleSyntax":true}}';
    const args = ['--loader=ts', '--target=es2022', '--log-level=error', '--color=false', options];
    const done = spawnSync(ESBUILD, args, { input: code, encoding: 'utf8', maxBuffer: 1 << 28 });
    if (done.status === 0) return done.stdout;
    // Node puts the place and the line first, and has no name for the file; esbuild has its own order.
    const [, place] = /^:(\d+\n[^]*?)\n\nSyntaxError/.exec(native?.stack) ?? [null, null];
    const [, words, line, column] = /\[ERROR\] (.*)\n\s*<stdin>:(\d+):(\d+)/.exec(done.stderr) ?? [null, 'this is not TypeScript', 1, 0];
    const syntax = new SyntaxError(native?.message ?? words);
    const shown = place ?? `${line}\n${code.split('\n')[line - 1]}\n${' '.repeat(column)}^`;
    syntax.stack = `${name}:${shown}\n\nSyntaxError: ${syntax.message}`;
    throw syntax;
}

// Where Node itself cannot load TypeScript: the file and its local imports, as one module.
function bundleTypeScript(what) {
    const { spawnSync } = require('node:child_process');
    const path = what.startsWith('file:') ? require('node:url').fileURLToPath(what) : what;
    const args = ['--bundle', '--platform=node', '--format=esm', '--packages=external', '--target=es2022', '--log-level=error', path];
    const done = spawnSync(ESBUILD, args, { encoding: 'utf8', maxBuffer: 1 << 28 });
    if (done.status !== 0) throw new SyntaxError(done.stderr || `${what} cannot be read`);
    return `data:text/javascript;base64,${Buffer.from(done.stdout).toString('base64')}`;
}

const importModule = vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER
    ?? ((what) => import(/^(file:|\.{0,2}\/).*\.[mc]?ts$/.test(what) ? bundleTypeScript(what) : what));

function useTypeScript() {
    if (hasHooks) return;
    hasHooks = true;
    try {
        require(TS_HOOKS);
    } catch {} // another image; plain types work without
}

// --- executions ---------------------------------------------------------------------------------

class Exit {
    constructor(code) {
        this.code = code;
    }
}

class Interrupted extends Error {
    get name() {
        return 'Interrupted';
    }
}

let cell = null; // the execution under way: { fail }
let count = 0;
const noSettings = () => plain({ env: [], arg: [] });
let settings = noSettings();
let language = 'javascript'; // of the last execution; questions are taken to be in it too

process.exit = process.reallyExit = (code = process.exitCode) => {
    const exit = new Exit(Number.isInteger(Number(code)) ? Number(code) | 0 : 0);
    if (isOwn()) cell.fail(exit);
    throw exit; // ends what runs; whoever catches it only delays its own end
};

// Which cell a callback belongs to. What fails after its cell has ended is dropped.
const origin = new AsyncLocalStorage();
const isOwn = () => cell !== null && (origin.getStore() ?? cell) === cell;

for (const event of ['uncaughtException', 'unhandledRejection']) {
    process.on(event, (error) => {
        if (isOwn() && process.listenerCount(event) === 1) cell.fail(error);
        // Of no cell's: Node itself fell over what the code has broken, on the way to the next request.
        else if (cell === null && origin.getStore() === undefined) nativeExit(70);
    });
}

// That Node does not recommend what the kernel uses is no news for the session.
const { emitWarning } = process;
process.emitWarning = function (warning, ...rest) {
    const isOurs = /USE_MAIN_CONTEXT_DEFAULT_LOADER|stripTypeScriptTypes|internal\/test\/binding/.test(warning);
    if (!isOurs) emitWarning.call(process, warning, ...rest);
};

// --- interrupts ---------------------------------------------------------------------------------

// A script that runs with breakOnSigint is ended by Node's own watchdog. Switched on once and for all
// it also takes the signals that come at any other time, which would be the end of the process in the
// moments when Node changes hands. What it took while a cell awaits is looked for from time to time.
const watchdog = (() => {
    try {
        const binding = require('internal/test/binding').internalBinding('contextify');
        binding.startSigintWatchdog();
        return binding;
    } catch {
        process.on('SIGINT', interrupt);
        return null;
    }
})();

function interrupt() {
    cell?.fail(new Interrupted('the execution was interrupted'));
}

// True when a signal came since the last time it was asked.
function hadSignal() {
    if (!watchdog?.watchdogHasPendingSigint()) return false;
    watchdog.stopSigintWatchdog(); // it forgets only in this way
    watchdog.startSigintWatchdog();
    return true;
}

// Runs code that awaits; at its end nobody looks any more.
async function interruptible(promises) {
    const looking = watchdog && nativeInterval(() => hadSignal() && interrupt(), INTERRUPT_MS);
    try {
        return await Promise.race(promises);
    } finally {
        if (looking) nativeClear(looking);
    }
}

// A variable of that name, also where Node has a global that cannot be assigned to (crypto).
function claim(names) {
    for (const name of names) {
        const owned = Object.getOwnPropertyDescriptor(root, name);
        if (owned?.configurable && (owned.get || !owned.writable)) {
            Object.defineProperty(root, name, { value: undefined, writable: true, configurable: true, enumerable: true });
        }
    }
}

async function evaluate(code, name, failed) {
    const source = language === 'typescript' ? stripTypes(code, name) : code;
    const { script, names, isAsync, hasValue, offset } = prepareOrThrow(source, name);
    const compiled = new Script(script, {
        filename: name, columnOffset: offset,
        importModuleDynamically: importModule,
    });
    claim(names);
    names.forEach((item) => declared.add(item));
    let value;
    try {
        value = compiled.runInThisContext({ breakOnSigint: true, displayErrors: false });
    } catch (error) {
        throw error?.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED' ? new Interrupted('the execution was interrupted') : error;
    }
    if (isAsync) value = (await interruptible([value, failed]))?.value;
    // A promise at the end is what the code waits for: main() at the end of a program is common.
    if (hasValue && types.isPromise(value)) value = await interruptible([value, failed]);
    // What was rejected and not handled shows after the microtasks; so does what they print.
    await Promise.race([new Promise((done) => nativeImmediate(done)), failed]);
    return hasValue ? value : undefined;
}

function setEnvironment(pairs) {
    const before = pairs.map((pair) => {
        const [name] = pair.split('=', 1);
        const old = process.env[name];
        process.env[name] = pair.slice(name.length + 1);
        return [name, old];
    });
    return () => {
        for (const [name, old] of before.reverse()) {
            if (old === undefined) delete process.env[name];
            else process.env[name] = old;
        }
    };
}

function setArguments(list) {
    const before = process.argv;
    if (list.length > 0) process.argv = [argv[0], argv[1] ?? '', ...list];
    return () => {
        if (list.length > 0) process.argv = before;
    };
}

function placeNow() {
    try {
        return cwd();
    } catch {
        return WORKSPACE; // it was removed
    }
}

function enter(path) {
    const before = placeNow();
    try {
        if (path !== undefined) chdir(path);
    } catch (error) {
        throw new Error(`cwd: ${error.code}: '${path}' cannot be entered`);
    }
    return () => {
        try {
            if (path !== undefined) chdir(before);
        } catch {
            chdir(WORKSPACE);
        }
    };
}

// Node looks for a proxy when it starts, and not again; this one was started before it was known.
let hasProxy = false;
function useProxy() {
    if (hasProxy || process.env?.NODE_USE_ENV_PROXY !== '1') return;
    hasProxy = true;
    require('node:http').setGlobalProxyFromEnv?.();
}

// The same is true of certificates; what cannot be read is told by whoever meets a host that needs them.
let hasTrust = false;
function useTrust() {
    const path = process.env?.NODE_EXTRA_CA_CERTS;
    if (hasTrust || !path) return;
    hasTrust = true;
    const tls = require('node:tls');
    try {
        const more = require('node:fs').readFileSync(path, 'utf8').match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g);
        tls.setDefaultCACertificates?.([...new Set([...tls.getCACertificates('default'), ...(more ?? [])])]);
    } catch { }
}

async function run(code, name) {
    const failed = new Promise((_, reject) => { cell = { fail: reject }; });
    failed.catch(() => {});
    hadSignal(); // one that was for code which has ended
    try {
        const value = await origin.run(cell, () => evaluate(code, name, failed));
        if (value !== undefined) show(value, MAIN);
        return Number(process.exitCode) || 0;
    } catch (error) {
        if (error instanceof Exit) return error.code;
        sayError(error);
        return error instanceof Interrupted ? STATUS_INTERRUPTED : 1;
    } finally {
        cell = null;
        process.exitCode = undefined;
    }
}

async function execute(code, input, output, errors) {
    const { env, arg, ...chosen } = settings;
    settings = noSettings();
    count++;
    language = chosen.language ?? 'javascript';
    if (language === 'typescript') useTypeScript();
    let status = 1;
    const restores = [setEnvironment(env), setArguments(arg)];
    try {
        restores.push(enter(chosen.cwd));
        useProxy();
        useTrust();
        replaceStream(0, input, 'r');
        replaceStream(1, output, 'a');
        replaceStream(2, errors, 'a');
        status = await run(code, chosen.name ?? `<cell ${count}>`);
    } catch (error) {
        sayError(error);
    }
    for (const restore of restores) restore();
    closeStreams();
    say('DONE', '', status);
}

// --- questions ----------------------------------------------------------------------------------

const declared = new Set();
let given; // names of the global object before any code ran

function variableNames() {
    const added = Object.getOwnPropertyNames(root).filter((name) => !given.has(name));
    return [...new Set([...declared, ...added])].filter((name) => Object.hasOwn(root, name)).sort();
}

function typeOf(value) {
    if (typeof value === 'function') return /^class\b/.test(Function.prototype.toString.call(value)) ? 'class' : 'function';
    if (typeof value !== 'object') return typeof value;
    if (value === null) return 'null';
    const made = Object.getPrototypeOf(value)?.constructor;
    return (typeof made === 'function' && String(made.name)) || 'Object';
}

function sizeOf(value) {
    if (typeof value === 'string') return value.length > TEXT_MAX ? value.length : Buffer.byteLength(value);
    return types.isAnyArrayBuffer(value) || ArrayBuffer.isView(value) ? value.byteLength : null;
}

function shapeOf(value) {
    if (Array.isArray(value) || types.isTypedArray(value)) return [value.length];
    return types.isMap(value) || types.isSet(value) ? [value.size] : null;
}

const PREVIEW = { customInspect: false, depth: 1, maxArrayLength: 20, maxStringLength: 200, breakLength: Infinity, compact: true };

function describeVariable(name) {
    const value = root[name];
    const preview = inspectText(value, PREVIEW);
    return plain({
        name, type: cut(typeOf(value), 100), size: sizeOf(value), shape: bare(shapeOf(value)),
        preview: preview.length > 200 ? `${preview.slice(0, 197)}...` : preview,
    });
}

function variables() {
    const rows = [];
    let bytes = 0;
    const names = variableNames();
    for (const name of names) {
        const unknown = plain({ name, type: 'unknown', size: null, shape: null, preview: '' });
        const row = bounded(() => describeVariable(name), unknown);
        bytes += stringify(row).length * 2;
        if (rows.length === 1000 || bytes > 200_000) break;
        rows.push(row);
    }
    reply({ truncated: rows.length < names.length, variables: bare(rows) });
}

function variable(name, format) {
    if (!Object.hasOwn(root, name)) throw new ReferenceError(`${name} is not defined`);
    const value = root[name];
    if (format !== 'json') {
        say('DATA', bounded(() => (typeof value === 'string' ? cut(value, VALUE_MAX) : inspectText(value)), ''), FIRST, 'text/plain');
        return;
    }
    const text = bounded(() => stringify(value));
    if (text === undefined) throw new TypeError(`${name} has no form in JSON`);
    if (text.length > VALUE_MAX) throw new RangeError(`${name} is too long: ${text.length} characters of JSON`);
    say('DATA', text, FIRST, 'application/json');
}

const KEYWORDS = ('await async break case catch class const continue debugger default delete do else export extends false finally '
    + 'for function if import in instanceof let new null of return static super switch this throw true try typeof undefined var '
    + 'void while with yield').split(' ');

// Names that a value answers to; no getter of the session's is called.
function membersOf(value) {
    const names = new Set();
    let at = value === null || value === undefined ? null : Object(value);
    for (let depth = 0; at !== null && depth < 8 && !types.isProxy(at); depth++, at = Object.getPrototypeOf(at)) {
        if (types.isTypedArray(at) || types.isStringObject(at) || (Array.isArray(at) && at.length > 1000)) continue;
        for (const name of Object.getOwnPropertyNames(at)) if (/^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u.test(name)) names.add(name);
    }
    return names;
}

function memberOf(value, name) {
    for (let at = Object(value); at !== null && !types.isProxy(at); at = Object.getPrototypeOf(at)) {
        const owned = Object.getOwnPropertyDescriptor(at, name);
        if (owned) return 'value' in owned ? owned.value : at === root && given.has(name) ? at[name] : undefined;
    }
    return undefined;
}

function complete(code, cursor) {
    const before = [...code].slice(0, cursor).join('');
    const [, path, word] = /((?:[\p{ID_Start}$_][\p{ID_Continue}$]*\??\.)*)([\p{ID_Continue}$]*)$/u.exec(before);
    let value = root;
    for (const part of path.split(/\??\./).slice(0, -1)) value = value === null || value === undefined ? undefined : memberOf(value, part);
    const isDotted = path !== '' || /[\w$)\]]\??\.$/.test(before.slice(0, before.length - word.length));
    const names = path === '' && isDotted ? [] : [...membersOf(value), ...(isDotted ? [] : KEYWORDS)];
    const matches = [...new Set(names)].filter((name) => name.startsWith(word)).sort().slice(0, 200);
    reply({ matches: bare(matches), start: cursor - [...word].length, end: cursor });
}

// What is wrong with it is that it ends.
function wantsMore(code) {
    try {
        parseCell(code);
        return false;
    } catch (error) {
        return error.pos >= code.trimEnd().length || /^Unterminated (template|comment)/.test(error.message);
    }
}

function isWhole(code) {
    let status = 'complete', source = code;
    try {
        if (language === 'typescript') source = stripTypes(code, '<cell>');
    } catch {} // perhaps not yet TypeScript: its rest decides
    try {
        prepareOrThrow(source, '<cell>');
    } catch {
        status = wantsMore(source) ? 'incomplete' : 'invalid';
    }
    const last = code.slice(code.lastIndexOf('\n') + 1);
    const indent = /^\s*/.exec(last)[0] + (/[{([]\s*$/.test(last) ? '    ' : '');
    reply({ status, indent: status === 'incomplete' ? indent : '' });
}

// --- the loop -----------------------------------------------------------------------------------

// The code has broken something that even the kernel needs, a prototype perhaps. It is told, and may
// mend it; a kernel that can say no more ends.
function giveUp() {
    cell = null;
    try {
        closeStreams();
        say('ERROR', '{"name": "KernelError", "value": "the code broke the interpreter it runs in", "traceback": ""}');
        say('DONE', '', 1);
    } catch {
        nativeExit(70);
    }
}

function answer(question) {
    try {
        question();
    } catch (error) {
        sayError(error);
    }
    say('DONE', '', 0);
}

const requests = plain({
    SET: (body, name) => {
        if (name === 'env' || name === 'arg') settings[name].push(body);
        else settings[name] = body;
    },
    EXECUTE: execute,
    VARIABLES: () => answer(variables),
    VARIABLE: (body, format) => answer(() => variable(body, format)),
    COMPLETE: (body, cursor) => answer(() => complete(body, Number(cursor))),
    IS_WHOLE: (body) => answer(() => isWhole(body)),
});

// One after the other: code that says DONE in the kernel's name gets the next one while it still runs.
let isBusy = false;
const waiting = [];

async function serve(type, number, body, words) {
    if (isBusy) {
        waiting[waiting.length] = [type, number, body, words];
        return;
    }
    isBusy = true;
    generation = number;
    try {
        await requests[type]?.(body, ...words);
    } catch {
        giveUp();
    }
    isBusy = false;
    if (waiting.length > 0) serve(...waiting.shift());
}

let pieces = [], pending = 0; // bytes that are no whole request yet
let wanted = 0;

function take(bytes) {
    pieces[pieces.length] = bytes;
    pending += bytes.length;
    while (pending > 0 && pending >= wanted) {
        const all = pieces.length === 1 ? pieces[0] : Buffer.concat(pieces);
        pieces = [all];
        const end = all.indexOf(10);
        if (end < 0) return;
        const [type, length, number, ...words] = all.toString('latin1', 0, end).split(' ');
        wanted = end + 1 + Number(length);
        if (pending < wanted) return;
        const body = all.toString('utf8', end + 1, wanted);
        pieces = [all.subarray(wanted)];
        pending -= wanted;
        wanted = 0;
        serve(type, Number(number), body, words);
    }
}

function start() {
    Object.defineProperty(root, 'display', { value: display, writable: true, configurable: true, enumerable: false });
    given = new Set(Object.getOwnPropertyNames(root));
    closeSync(4);
    const channel = new net.Socket({ fd: CHANNEL, readable: true, writable: false });
    channel.on('data', (bytes) => {
        try {
            take(bytes);
        } catch {
            nativeExit(70); // what cannot read any more cannot answer either
        }
    });
    channel.on('end', () => nativeExit(0));
    channel.on('error', () => nativeExit(0));
    say('READY', stringify(plain({ protocol: 1, language: 'javascript', version: process.versions.node })));
}

start();
