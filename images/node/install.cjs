// SPDX-License-Identifier: Apache-2.0
// Installs npm packages into /workspace/node_modules, which becomes a layer: runs in a sandbox of its own, with nothing
// else in it. Standard input has one package a line. Which registry to ask, and by which proxy, npm reads from its own
// variables. What it prints is what people get to read when it fails, so nothing is added to it.
'use strict';
const { execFileSync, spawnSync } = require('child_process');
const fs = require('fs');
const path = require('path');

const TARGET = '/workspace';
const TOOLS = '/tmp/.cove';

// What Cove hands in comes before what the image has.
function npm() {
    const packed = path.join(TOOLS, 'npm.tgz');
    if (!fs.existsSync(packed)) return ['npm'];
    execFileSync('tar', ['-xzf', packed, '-C', TOOLS]);
    return [process.execPath, path.join(TOOLS, 'npm', 'bin', 'npm-cli.js')];
}

// Everybody may read it, nobody is anybody by it: so a layer wants its files.
function share(folder) {
    for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
        const name = path.join(folder, entry.name);
        if (entry.isSymbolicLink()) continue;
        fs.chmodSync(name, entry.isDirectory() || fs.statSync(name).mode & 0o111 ? 0o755 : 0o644);
        if (entry.isDirectory()) share(name);
    }
}

const packages = fs.readFileSync(0, 'utf8').split('\n').filter(Boolean);
fs.cpSync(path.join(TARGET, '.cove'), TOOLS, { recursive: true });
fs.rmSync(path.join(TARGET, '.cove'), { recursive: true });
const certificates = path.join(TOOLS, 'ca.pem');
if (fs.existsSync(certificates)) process.env.NODE_EXTRA_CA_CERTS = certificates;
const [program, ...words] = npm();
const options = ['install', '--prefix', TARGET, '--no-audit', '--no-fund', '--no-update-notifier', '--no-package-lock',
    '--no-progress', '--loglevel', 'error', '--cache', '/tmp/.npm', '--fetch-retries', '2', '--fetch-retry-mintimeout', '500',
    '--fetch-retry-maxtimeout', '2000'];
const done = spawnSync(program, [...words, ...options, '--', ...packages], { stdio: ['ignore', 'inherit', 'inherit'] });
if (done.error) throw done.error;
if (done.status === 0) {
    fs.rmSync('/tmp/.npm', { recursive: true, force: true });
    share(TARGET);
}
process.exitCode = done.status === null ? 1 : done.status;
