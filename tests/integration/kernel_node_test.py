# SPDX-License-Identifier: Apache-2.0
"""The Node kernel in the image, behind the shim: JavaScript and TypeScript that live on, whatever the code does."""
import base64
import json
import shlex

import pytest

import covetest
import kernel_driver
import plain_kernel
from kernel_driver import DATA, FIRST, LAST

PROGRAM = plain_kernel.KERNELS / "node" / "kernel.cjs"
COMMAND = next(shlex.split(line.partition("=")[2]) for line in PROGRAM.with_name("kernel.conf").read_text().splitlines()
               if line.startswith("kernel_command"))
ROOT = plain_kernel.image_root("node")
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")

pytestmark = pytest.mark.skipif(not ROOT, reason="needs bubblewrap and the node image")


def start(workspace):
    workspace.chmod(0o777)
    return plain_kernel.PlainKernel(plain_kernel.Box(ROOT, workspace), COMMAND, PROGRAM)


@pytest.fixture
def kernel(tmp_path):
    with start(tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One for tests that leave nothing behind but names."""
    workspace = tmp_path_factory.mktemp("workspace")
    (workspace / "module.mjs").write_text("export const exported = 7; export default 'main';")
    (workspace / "module.cjs").write_text("module.exports = { required: 8 };")
    (workspace / "typed.ts").write_text("export enum Colour { Red, Green }\nexport const typed: number = 9;")
    with start(workspace) as running:
        yield running


def good(kernel, code, **settings):
    answer = kernel.execute(code, **settings)
    assert (answer.code, answer.error, answer.stderr) == (0, None, "")
    return answer


def value(kernel, code, **settings):
    return good(kernel, code, **settings).value


def failure(kernel, code, status=1, **settings):
    answer = kernel.execute(code, **settings)
    assert answer.code == status
    return answer.error


# --- cells ----------------------------------------------------------------------------------------


def test_it_says_what_it_is(shared):
    assert shared.ready["protocol"] == 1 and shared.ready["language"] == "javascript"


@pytest.mark.parametrize("code, shown", [
    ("1 + 1", "2"), ("'a'", "'a'"), ("null", "null"), ("undefined", None), ("", None), ("// nothing", None), ("-0", "-0"),
    ("12n", "12n"), ("Symbol('a')", "Symbol(a)"), ("const x = 5", None), ("5;;", "5"), ("if (true) 5", None),
    ("{ a: 1 }", "{ a: 1 }"), ("{ a: 1 };", None), ("[1, 2].map((x) => x * 2)", "[ 2, 4 ]"), ("new Map([[1, 2]])", "Map(1) { 1 => 2 }"),
    ("await 5", "5"), ("(await 5) // five", "5"), ("const y = await Promise.resolve(6); y", "6"), ("Promise.resolve(7)", "7"),
    ("let a, b = 2; a", None), ("const { c, ...rest } = await Promise.resolve({ c: 1, d: 2 }); [c, rest.d]", "[ 1, 2 ]"),
    ("for (var i = 0; i < 2; i++) await 0; i", "2"), ("if (true) { var q = await 1 } q", "1"), ("var w; await 1; w", None),
    ("for (var { p } = { p: 1 }; p < 3; p++) await 0; p", "3"), ("for (var k of [1, 2]) await 0; k", "2"),
    ("await 1; function h() { return 2 }; class K { static z = 3 }; h() + K.z", "5"),
    ("class A {} class B {} await 0; new A", "A {}"), ("const m = 1\nconst n = await m\n;[n].length", "1"),
    ("async function main() { await 0; return 9 }\nmain()", "9"), ("function* g() { yield 1 }; [...g()]", "[ 1 ]"),
    ("export const e1 = 1; e1", "1"), ("export default (5)", None), ("export function ef() { return 4 }; ef()", "4"),
    ("import fs, { readFileSync as r } from 'node:fs'; typeof r + typeof fs.openSync", "'functionfunction'"),
    ("import * as os from 'os'; typeof os.cpus", "'function'"), ("import 'node:path'", None),
    ("import main, { exported } from './module.mjs'; main + exported", "'main7'"), ("(await import('./module.mjs')).exported", "7"),
    ("require('./module.cjs').required", "8"), ("const crypto = require('crypto'); typeof crypto.createHash", "'function'"),
    ("typeof fs.readFileSync + typeof __dirname", "'functionstring'"), ("var t = `\n${await 1}\n`; t", "'\\n1\\n'"),
])
def test_values(shared, code, shown):
    assert value(shared, code) == shown


def test_names_live_on_and_can_be_declared_again(kernel):
    good(kernel, "const x = 1; let y = 2; class A { v() { return 'old' } } function f() { return x }")
    assert value(kernel, "const x = 10; [x, y, f(), new A().v()]") == "[ 10, 2, 10, 'old' ]"
    assert value(kernel, "class A { v() { return 'new' } } let y = await 3; new A().v() + y") == "'new3'"
    assert value(kernel, "function x() { return 'f' } x()") == "'f'"


def test_typescript(shared):
    code = "interface I { a: number }\nconst i: I = { a: 1 };\nfunction g<T>(v: T): T { return v }\ng<number>(i.a) as number"
    assert value(shared, code, language="typescript") == "1"
    assert value(shared, "enum Colour { Red, Green }\nnamespace N { export const v = 2 }\nColour.Green + N.v", language="typescript") == "3"
    assert value(shared, "import { typed, Colour as C } from './typed.ts'; typed + C.Green", language="typescript") == "10"
    assert value(shared, "const n: number = await Promise.resolve(4); n", language="typescript") == "4"
    error = failure(shared, "const a: number = 1;\nlet b: = 2;", language="typescript")
    assert error["name"] == "SyntaxError" and "let b: = 2" in error["traceback"]
    error = failure(shared, "type T = number;\nfunction z(v: T) {\n  throw new Error('typed')\n}\nz(1)", language="typescript")
    keeps_places = value(shared, "typeof require('module').stripTypeScriptTypes") == "'function'"  # esbuild moves lines
    places = (":3:9)", ":5:1") if keeps_places else ("at z (<cell", "\n    at <cell")
    assert all(place in error["traceback"] for place in places)
    assert failure(shared, "let v: number = 1", language="javascript")["name"] == "SyntaxError"


# --- errors ---------------------------------------------------------------------------------------


def test_errors_show_the_frames_of_the_code(shared):
    error = failure(shared, "function f() {\n  throw new TypeError('boo')\n}\nf()", name="<cell x>")
    assert error == {"name": "TypeError", "value": "boo", "traceback": "TypeError: boo\n    at f (<cell x>:2:9)\n    at <cell x>:4:1"}
    error = failure(shared, "const a = await 1;\nawait (async () => { null.x })()", name="<cell x>")
    assert "at <cell x>:2:27" in error["traceback"] and "node:" not in error["traceback"] and "kernel" not in error["traceback"]
    error = failure(shared, "import {\n join\n} from 'path'\nthrow new Error('5')", name="<cell x>")
    assert "<cell x>:4:7" in error["traceback"]
    error = failure(shared, "throw new Error('outer', { cause: new Error('inner') })")
    assert "outer" in error["traceback"] and "[cause]: Error: inner" in error["traceback"]
    error = failure(shared, "require('fs').readFileSync('/no/such')")
    assert "code: 'ENOENT'" in error["traceback"] and error["traceback"].count("{") == error["traceback"].count("}")
    assert failure(shared, "throw 5") == {"name": "Uncaught", "value": "5", "traceback": "Uncaught 5"}
    assert "kernel" not in good(shared, "try { null.x } catch (e) { console.log(e) }").stdout


@pytest.mark.parametrize("code, caret", [
    ("let z = ;", "let z = ;\n        ^"), ("const a = 1;\nawait f(;", "await f(;\n        ^"),
    ("import a from 'b';\nlet = = 2", "let = = 2\n      ^"), ("return 1", "return 1\n^"),
])
def test_syntax_errors_show_the_place(shared, code, caret):
    error = failure(shared, code, name="<cell y>")
    assert error["name"] == "SyntaxError" and caret in error["traceback"] and error["traceback"].startswith("<cell y>:")


@pytest.mark.parametrize("code, message", [
    ("setTimeout(() => { throw new Error('thrown') }, 1); await new Promise(() => {})", "thrown"),
    ("Promise.reject(new Error('rejected')); 1", "rejected"),
    ("process.nextTick(() => { throw new Error('ticked') })", "ticked"),
    ("(async () => { throw new Error('async') })()", "async"),
    ("require('fs').readFile('/no', (e) => { throw e }); await new Promise(() => {})", "no such file"),
])
def test_what_nobody_catches_fails_the_cell(shared, code, message):
    assert message in failure(shared, code)["value"]
    assert value(shared, "'next'") == "'next'"


def test_errors_after_the_cell_are_dropped(kernel):
    good(kernel, "setTimeout(() => { throw new Error('late') }, 1); setTimeout(() => Promise.reject(5), 1); 0")
    assert value(kernel, "await new Promise((done) => setTimeout(done, 30)); 'fine'") == "'fine'"


def test_exit(kernel):
    good(kernel, "const kept = 1")
    for code, status in [("process.exit(3); console.log('no')", 3), ("process.exit()", 0), ("process.exitCode = 4", 4),
                         ("await 0; process.exit(5)", 5), ("setTimeout(() => process.exit(6), 1); await new Promise(() => {})", 6),
                         ("process.exit(-1)", -1)]:
        answer = kernel.execute(code)
        assert (answer.code, answer.error, answer.stdout) == (status, None, "")
    assert value(kernel, "kept") == "1"


# --- streams --------------------------------------------------------------------------------------


def test_streams(shared):
    answer = shared.execute("console.log('out'); console.error('err'); process.stdout.write('more')")
    assert (answer.stdout, answer.stderr) == ("out\nmore", "err\n")
    answer = shared.execute("require('child_process').execSync('cat; echo child; echo err >&2', { stdio: 'inherit' })", stdin=b"in ")
    assert (answer.stdout, answer.stderr) == ("in child\n", "err\n")
    assert good(shared, "process.stdout.end('bye '); console.log('still')").stdout == "bye still\n"
    assert good(shared, "Promise.resolve().then(() => console.log('then'))").stdout == "then\n"


def test_much_output_is_whole_at_done(shared):
    assert len(good(shared, "process.stdout.write('x'.repeat(3_000_000)); 0").stdout) == 3_000_000
    assert good(shared, "for (let i = 0; i < 20000; i++) console.log(i)").stdout == "".join(f"{i}\n" for i in range(20000))


@pytest.mark.parametrize("code", [
    "console.log(require('fs').readFileSync(0, 'utf8'))",
    "let all = ''; for await (const piece of process.stdin) all += piece; console.log(all)",
    "const rl = require('readline').createInterface({ input: process.stdin }); for await (const line of rl) console.log(line)",
    "const { text } = require('stream/consumers'); console.log(await text(process.stdin))",
])
def test_stdin(shared, code):
    for text in ("line 1\nline 2", "again", ""):
        assert good(shared, code, stdin=text.encode()).stdout.strip() == text


def test_environment_of_one_execution(shared):
    assert value(shared, "process.env.ONCE + require('child_process').execSync('echo $ONCE')", env={"ONCE": "a=b"}) == "'a=ba=b\\n'"
    assert value(shared, "process.env.ONCE") is None


def test_arguments_of_one_execution(shared):
    assert value(shared, "JSON.stringify(process.argv.slice(2))", args=["--fast", "", "a b", "ü=1"]) == """'["--fast","","a b","ü=1"]'"""
    shared.execute("process.argv.push('mine'); throw 1", args=["1"])
    assert value(shared, "JSON.stringify(process.argv.slice(1))") == "'[]'"


def test_the_working_directory_of_one_execution(shared):
    shared.execute("const home = process.cwd(); for (const name of ['before', 'there']) require('fs').mkdirSync('/tmp/' + name);"
                   "process.chdir('/tmp/before')")
    try:
        assert value(shared, "process.cwd()", cwd="/tmp/there") == "'/tmp/there'"
        assert value(shared, "process.cwd()") == "'/tmp/before'"
        shared.execute("process.chdir('/'); throw 1", cwd="/tmp/there")
        assert value(shared, "process.cwd()") == "'/tmp/before'"
        answer = shared.execute("console.log('not run')", cwd="/tmp/nosuch")
        assert answer.code == 1 and answer.stdout == "" and answer.error["value"] == "cwd: ENOENT: '/tmp/nosuch' cannot be entered"
        assert "kernel" not in answer.error["traceback"] and value(shared, "process.cwd()") == "'/tmp/before'"
    finally:
        shared.execute("process.chdir(home)")


# --- results --------------------------------------------------------------------------------------


def test_forms(shared):
    assert good(shared, "({ a: [1, 'x', null] })").main == {"text/plain": "{ a: [ 1, 'x', null ] }", "application/json": '{"a":[1,"x",null]}'}
    assert "application/json" not in good(shared, "({ a: 1, get b() { return 2 } })").main
    assert good(shared, "({ _repr_html_() { return '<b>' } })").main["text/html"] == "<b>"
    code = "({ [Symbol.for('cove.display')]() { return { 'text/markdown': '# x', 'application/json': { a: 1 } } } })"
    assert good(shared, code).main == {"text/markdown": "# x", "application/json": '{"a":1}'}


def test_display(shared):
    png = base64.b64encode(PNG).decode()
    answer = good(shared, f"const png = Buffer.from('{png}', 'base64'); display(png); display({{ 'image/png': '{png}' }}); "
                  "display({ 'text/html': '<i>', 'text/plain': 'i' }); display([1], 'x'); 5")
    assert answer.results == [{"image/png": PNG}, {"image/png": PNG}, {"text/html": "<i>", "text/plain": "i"},
                              {"text/plain": "[ 1 ]", "application/json": "[1]"}, {"text/plain": "'x'"}, {"text/plain": "5"}]
    assert answer.main == {"text/plain": "5"}
    places = [frame.flags & (FIRST | LAST) for frame in answer.frames if frame.type == DATA]
    assert places == [FIRST | LAST] * 2 + [FIRST, LAST] * 2 + [FIRST | LAST] * 2


def test_results_are_bounded(shared):
    assert len(value(shared, "'x'.repeat(2 ** 29 - 24)")) < 100_000
    assert len(value(shared, "new Array(1e6).fill('abc')")) < 100_000
    answer = good(shared, "for (let i = 0; i < 40; i++) display({ 'text/plain': 'x'.repeat(1 << 20) })")
    assert sum(len(frame.body) for frame in answer.frames) < 16 << 20
    assert "16 MiB" in answer.results[-1]["text/plain"]


# --- interrupts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [
    "while (true);", "await new Promise(() => {})", "new Promise(() => {})", "for (;;) try { for (;;); } catch {}",
    "const b = new SharedArrayBuffer(4); await new Promise((done) => setTimeout(done, 1e6))",
    "setInterval(() => {}, 1); await new Promise(() => {})", "require('child_process').execSync('sleep 1000')",
    "({ [Symbol.for('nodejs.util.inspect.custom')]() { for (;;); } })",
])
def test_an_interrupt_ends_the_code(kernel, code):
    good(kernel, "const kept = 1")
    running = kernel.start(f"console.log('go'); {code}")
    running.wait_output("go")
    if "sleep" in code:  # a signal just before it would not reach it; a host repeats those
        covetest.wait_for(lambda: "sleep" in kernel.box.processes(), "the program to run")
    answer = running.finish_interrupted()
    if "inspect" not in code and "execSync" not in code:
        assert (answer.code, answer.error["name"]) == (130, "Interrupted")
    assert value(kernel, "kept") == "1"


def test_an_interrupt_at_rest_is_no_end(kernel):
    for _ in range(20):
        kernel.interrupt()
        assert kernel.execute("1").code in (0, 130), "it may come late, and meet the next code"
        assert kernel.execute("await 1").code in (0, 130)
    assert value(kernel, "1") == "1"


# --- questions ------------------------------------------------------------------------------------


def test_variables(kernel):
    assert kernel.variables() == {}
    good(kernel, "const text = 'é'; let list = [1, 2]; var buffer = Buffer.alloc(9); class A {} function f() {} const map = new Map(); "
         "globalThis.added = 1; const crypto = 5; const long = 'x'.repeat(999); const a = new A()")
    rows = kernel.variables()
    assert set(rows) == {"text", "list", "buffer", "A", "f", "map", "added", "crypto", "long", "a"}
    assert rows["text"] == {"name": "text", "type": "string", "size": 2, "shape": None, "preview": "'é'"}
    assert (rows["list"]["type"], rows["list"]["shape"], rows["list"]["preview"]) == ("Array", [2], "[ 1, 2 ]")
    assert (rows["buffer"]["type"], rows["buffer"]["size"]) == ("Buffer", 9)
    assert (rows["A"]["type"], rows["f"]["type"], rows["map"]["shape"], rows["a"]["type"]) == ("class", "function", [0], "A")
    assert len(rows["long"]["preview"]) <= 200
    good(kernel, "for (let i = 0; i < 1500; i++) globalThis['v' + i] = i")
    reply = kernel.ask(kernel_driver.VARIABLES).reply
    assert len(reply["variables"]) == 1000 and reply["truncated"]


def test_variable(kernel):
    good(kernel, "const o = { a: [1] }; const s = 'text'; const cycle = {}; cycle.cycle = cycle; const big = 12n; const date = new Date(0)")
    assert json.loads(kernel.variable("o").results[0]["application/json"]) == {"a": [1]}
    assert json.loads(kernel.variable("date").results[0]["application/json"]) == "1970-01-01T00:00:00.000Z"
    assert kernel.variable("s", "text").results == [{"text/plain": "text"}]
    assert "Circular" in kernel.variable("cycle", "text").results[0]["text/plain"]
    assert kernel.variable("cycle").error["name"] == kernel.variable("big").error["name"] == "TypeError"
    assert kernel.variable("nosuch").error["name"] == kernel.variable("1+1").error["name"] == "ReferenceError"


def test_complete(kernel):
    good(kernel, "const thing = { alpha: 1, alps: { peak: 1 }, get trap() { throw 1 } }; let thought = 1")
    assert kernel.complete("th")["matches"] == ["thing", "this", "thought", "throw"]
    assert kernel.complete("1 + thing.al") == {"matches": ["alpha", "alps"], "start": 10, "end": 12}
    assert kernel.complete("thing.alps.p")["matches"] == ["peak", "propertyIsEnumerable"]
    assert kernel.complete("thing?.alps.pe")["matches"] == ["peak"]
    assert kernel.complete("'é' + thing.alph; x", 16)["matches"] == ["alpha"]
    assert kernel.complete("fs.readFileS")["matches"] == ["readFileSync"]
    for code in ("thing.trap.x", "nosuch.x", "thing.alpha.y.z", "f().x", ""):
        assert isinstance(kernel.complete(code)["matches"], list)


@pytest.mark.parametrize("code, status", [
    ("1", "complete"), ("", "complete"), ("await x", "complete"), ("import a from 'b'", "complete"), ("{ a: 1 }", "complete"),
    ("function f() {", "incomplete"), ("`a", "incomplete"), ("f(", "incomplete"), ("/* a", "incomplete"), ("await f(", "incomplete"),
    ("let z = ;", "invalid"), (")", "invalid"),
])
def test_is_whole(shared, code, status):
    assert shared.is_whole(code)["status"] == status


# --- code that means no good ----------------------------------------------------------------------


@pytest.mark.parametrize("code", [
    "JSON.stringify = () => { throw 1 }; JSON.parse = null",
    "console.log = () => {}; process.stdout.write = () => { throw 5 }; process.stderr.write = null",
    "Object.prototype.toJSON = () => { throw 1 }",
    "Object.prototype.type = 'DONE'; Object.prototype.value = 1; Object.prototype.then = 5",
    "for (const name of ['Promise', 'Buffer', 'Object', 'String', 'Symbol', 'Set', 'Error', 'process']) globalThis[name] = null",
    "globalThis.setImmediate = globalThis.setInterval = globalThis.clearInterval = () => { throw 1 }",
    "require('fs').writeSync = require('fs').openSync = require('fs').closeSync = () => { throw 1 }",
    "require('util').inspect = () => { throw 1 }; require('vm').Script = null",
    "Error.prepareStackTrace = () => { throw 1 }; Error.stackTraceLimit = 0",
    "process.removeAllListeners()", "process.emit('uncaughtException', 1)", "process.env = null", "process.chdir('/')",
    "require('fs').closeSync(0); require('fs').closeSync(1); require('fs').closeSync(2)",
    "globalThis.display = globalThis.require = null", "process.exit = process.reallyExit = null",
    "require('fs').writeSync(3, 'DONE 0 1 0\\n')", "require('fs').writeSync(3, 'DATA 5 1 6 text/plain\\nforge')",
])
def test_sabotage_is_survived(kernel, code):
    kernel.execute(code)
    answer = kernel.execute("1 + 1")
    assert (answer.code, answer.value) == (0, "2")
    assert isinstance(kernel.variables(), dict)


@pytest.mark.parametrize("code", [
    "Array.prototype.push = Array.prototype.map = () => { throw 1 }", "delete Array.prototype[Symbol.iterator]",
    "Object.prototype.get = 5", "RegExp.prototype.test = RegExp.prototype.exec = () => { throw 1 }",
    "Object.defineProperty(Array.prototype, 0, { set() { throw 1 } })", "String.prototype.split = null",
])
def test_sabotage_that_breaks_its_own_session_is_told(kernel, code):
    try:
        kernel.execute(code)
        assert kernel.execute("1 + 1").code in (0, 1)
    except kernel_driver.Died:
        assert kernel.wait() == 70


@pytest.mark.parametrize("code", [
    "new Proxy({}, { get() { throw 1 }, ownKeys() { throw 2 }, getPrototypeOf() { throw 3 } })",
    "({ toString() { throw 1 }, get [Symbol.toStringTag]() { throw 2 } })",
    "({ [Symbol.for('nodejs.util.inspect.custom')]() { throw 1 } })", "({ [Symbol.for('cove.display')]() { throw 1 } })",
    "({ [Symbol.for('cove.display')]: () => ({ 'text/plain': { toString() { throw 1 } } }) })", "({ _repr_html_: () => ({}) })",
    "throw new Proxy(new Error('p'), { get() { throw 1 } })", "throw { get stack() { throw 1 } }",
    "class E extends Error { get message() { throw 1 } get stack() { throw 2 } }; throw new E()",
    "const e = new Error('x'); e.stack = 5; throw e", "throw Object.create(null)", "throw undefined",
    "let deep = {}; for (let i = 0; i < 1e5; i++) deep = { deep }; deep", "let l = []; for (let i = 0; i < 1e5; i++) l = [l]; l",
    "globalThis.getter = 1; Object.defineProperty(globalThis, 'getter', { get() { throw 1 } }); 1", "(() => { throw 1 }).call.call",
])
def test_values_that_bite(shared, code):
    assert shared.execute(code).code in (0, 1)
    assert isinstance(shared.variables(), dict)
    assert value(shared, "2 + 2") == "4"


def test_a_value_that_never_ends_is_bounded(kernel):
    endless = "({ [Symbol.for('nodejs.util.inspect.custom')]() { for (;;); } })"
    assert "cannot be shown" in value(kernel, endless)
    assert "cannot be shown" in failure(kernel, "throw { get [Symbol.toStringTag]() { for (;;); } }")["value"]


@pytest.mark.parametrize("code, status", [
    ("process.kill(process.pid, 'SIGKILL')", -9), ("process.abort()", -6), ("require('fs').closeSync(3); 1", 1),
    ("require('fs').writeSync(3, 'junk\\n'); await new Promise((done) => setTimeout(done, 1e5))", 0),
])
def test_the_end_of_the_kernel_is_told(kernel, code, status):
    with pytest.raises(kernel_driver.Died):
        kernel.execute(code)
    assert kernel.wait() == status
    covetest.wait_for(lambda: kernel.box.processes() == ["cove-init"], "the shim to end")


def test_it_ends_with_the_channel(kernel):
    good(kernel, "setInterval(() => {}, 1000); 0")
    kernel.close()
    assert kernel.wait() == 0


# --- the real thing -------------------------------------------------------------------------------


@pytest.mark.skipif(not covetest.IS_ROOT, reason="uids of their own need root")
def test_in_a_sandbox():
    with plain_kernel.PlainKernel(plain_kernel.Sandbox("node"), COMMAND, PROGRAM) as kernel:
        assert good(kernel, "const x = await 1; console.log(require('fs').readFileSync(0, 'utf8'))", stdin=b"input").stdout == "input\n"
        running = kernel.start("console.log('go'); while (true);")
        running.wait_output("go")
        assert running.finish_interrupted().code == 130
        assert value(kernel, "enum E { A = 5 }; E.A + x", language="typescript") == "6"
