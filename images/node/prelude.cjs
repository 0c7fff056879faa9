// SPDX-License-Identifier: Apache-2.0
// prelude.cjs - loaded before each program
//
// A program may use top-level await, which makes it an ES module, and still say require(),
// which ES modules do not have. People and models write that all the time; let it work.
'use strict';

Object.defineProperty(globalThis, 'require', {
    configurable: true,
    enumerable: false,
    get() {
        const value = require('node:module').createRequire(`${process.cwd()}/`);
        Object.defineProperty(globalThis, 'require', { configurable: true, writable: true, enumerable: false, value });
        return value;
    },
    set(value) {
        Object.defineProperty(globalThis, 'require', { configurable: true, writable: true, enumerable: false, value });
    },
});
