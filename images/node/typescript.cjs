// SPDX-License-Identifier: Apache-2.0
// typescript.cjs - loaded before each TypeScript program
//
// Node removes types and nothing else. Syntax that makes code of its own (enums, namespaces,
// parameter properties, import aliases) is an error for it; a file that seems to hold some is
// given to esbuild instead. All others keep Node's own way, in which every position in an error
// message is the source's.
'use strict';

const { registerHooks } = require('node:module');
const { readFileSync } = require('node:fs');

const ESBUILD = '/usr/bin/esbuild';
const WRAPPER = ['exports', 'require', 'module', '__filename', '__dirname'];
const MORE_THAN_TYPES = new RegExp(
    [
        String.raw`\b(?:enum|namespace|module)\s+[\w$.]+\s*\{`,
        String.raw`\b(?:public|private|protected|readonly|override)\s+[\w$]+\s*[?:,)=]`,
        String.raw`^\s*(?:export\s+)?import\s+[\w$]+\s*=`,
        String.raw`^\s*export\s*=`,
        String.raw`^\s*@[\w$]+`,
    ].join('|'),
    'm',
);

function transform(path, source) {
    const { spawnSync } = require('node:child_process');
    const args = ['--loader=ts', '--target=es2022', '--sourcemap=inline', `--sourcefile=${path}`,
        '--log-level=silent', '--tsconfig-raw={"compilerOptions":{"experimentalDecorators":true}}'];
    if (path.endsWith('.cts')) args.push('--format=cjs');
    const done = spawnSync(ESBUILD, args, { input: source, encoding: 'utf8', maxBuffer: 1 << 28 });
    return done.status === 0 ? done.stdout : null;
}

// What parses as the body of a function is CommonJS, like for Node itself.
function formatOf(path, code) {
    if (path.endsWith('.mts')) return 'module';
    if (path.endsWith('.cts')) return 'commonjs';
    try {
        require('node:vm').compileFunction(code, WRAPPER);
        return 'commonjs';
    } catch {
        return 'module';
    }
}

registerHooks({
    load(url, context, next) {
        if (!/^file:.*\.[mc]?ts$/.test(url)) return next(url, context);
        const path = require('node:url').fileURLToPath(url);
        const source = readFileSync(path, 'utf8');
        const code = MORE_THAN_TYPES.test(source) ? transform(path, source) : null;
        if (code === null) return next(url, context); // Node's own words, when it is wrong
        process.setSourceMapsEnabled(true);
        return { format: formatOf(path, code), source: code, shortCircuit: true };
    },
});
