# SPDX-License-Identifier: Apache-2.0
"""What programs do must work inside: threads, processes, sockets, libraries; and the network must not."""
import errno
import socket

import pytest

from checkpoint_test import Repl
from execution_object import check_shape

# --- what must work inside ----------------------------------------------------------------------

INSIDE = {
    "threads": """
import threading
n = [0]; lock = threading.Lock()
def work():
    for _ in range(1000):
        with lock: n[0] += 1
ts = [threading.Thread(target=work) for _ in range(20)]
[t.start() for t in ts]; [t.join() for t in ts]
print(n[0] == 20000)
""",
    "subprocess": """
import subprocess
print(subprocess.run("echo $((40 + 2)) | tr 4 F", shell=True, capture_output=True, text=True).stdout == "F2\\n")
""",
    "multiprocessing-fork": """
import multiprocessing as m
def square(x): return x * x
with m.get_context("fork").Pool(3) as p: print(p.map(square, range(10)) == [x * x for x in range(10)])
""",
    "multiprocessing-spawn": """
import multiprocessing as m
def put(q, n): q.put(n * 2)
if __name__ == "__main__":
    c = m.get_context("spawn"); q = c.Queue()
    ps = [c.Process(target=put, args=(q, i)) for i in range(2)]
    [p.start() for p in ps]
    print(sorted(q.get() for _ in ps) == [0, 2])
    [p.join() for p in ps]
""",
    "tcp-and-udp-on-loopback": """
import socket, threading
for host, family in (("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)):
    s = socket.create_server((host, 0), family=family)
    threading.Thread(target=lambda: s.accept()[0].sendall(b"hi")).start()
    assert socket.create_connection(s.getsockname()[:2]).recv(2) == b"hi"
    u = socket.socket(family, socket.SOCK_DGRAM); u.bind((host, 0))
    v = socket.socket(family, socket.SOCK_DGRAM); v.sendto(b"yo", u.getsockname())
    assert u.recv(2) == b"yo"
print(True)
""",
    "unix-sockets": """
import socket
a, b = socket.socketpair(); a.send(b"x"); assert b.recv(1) == b"x"
for name in ("/tmp/s", "/workspace/s", "\\0abstract"):
    s = socket.socket(socket.AF_UNIX); s.bind(name); s.listen()
    c = socket.socket(socket.AF_UNIX); c.connect(name); c.send(b"y"); assert s.accept()[0].recv(1) == b"y"
print(True)
""",
    "sqlite": """
import sqlite3
for mode in ("wal", "delete"):
    d = sqlite3.connect(f"{mode}.db"); d.execute(f"pragma journal_mode={mode}")
    d.execute("create table t (x)"); d.executemany("insert into t values (?)", [(i,) for i in range(1000)]); d.commit()
    assert d.execute("select sum(x) from t").fetchone() == (499500,)
print(True)
""",
    "asyncio": """
import asyncio
async def main():
    server = await asyncio.start_server(lambda r, w: (w.write(b"ok"), w.close()), "127.0.0.1", 0)
    r, w = await asyncio.open_connection(*server.sockets[0].getsockname())
    p = await asyncio.create_subprocess_exec("echo", "sub", stdout=asyncio.subprocess.PIPE)
    print(await r.read(), (await p.communicate())[0], await asyncio.to_thread(lambda: 5))
asyncio.run(main())
""",
    "tempfile": """
import tempfile, os, mmap
with tempfile.TemporaryDirectory() as d, tempfile.NamedTemporaryFile() as f, tempfile.TemporaryFile() as t:
    f.write(b"x" * 100000); f.flush(); m = mmap.mmap(f.fileno(), 0); assert m[:1] == b"x"
    open(os.path.join(d, "y"), "w").write("y")
    from multiprocessing import shared_memory
    s = shared_memory.SharedMemory(create=True, size=4096); s.buf[0] = 7; s.close(); s.unlink()
print(True)
""",
    "pseudo-terminals": """
import os, pty, subprocess
a, b = pty.openpty(); os.write(b, b"typed\\n"); assert os.read(a, 99) == b"typed\\r\\n"; assert os.isatty(b)
p = subprocess.Popen(["sh", "-c", "test -t 1 && stty size"], stdin=b, stdout=b); p.wait()
print(os.read(a, 99).split()[0].isdigit())
""",
    "numpy-and-pandas": """
import numpy as np, pandas as pd
a = np.random.default_rng(1).normal(size=(300, 300)); assert abs((a @ np.linalg.inv(a)).trace() - 300) < 1e-3
d = pd.DataFrame({"k": list("abab"), "v": range(4)}); d.to_csv("d.csv", index=False)
print(pd.read_csv("d.csv").groupby("k").v.sum().to_dict() == {"a": 2, "b": 4})
""",
}
SHOWN = {"asyncio": "b'ok' b'sub\\n' 5\n"}


@pytest.mark.parametrize("what", INSIDE)
def test_works_inside_python(any_cove, what):
    assert any_cove.good("--memory", "512M", "-", input=INSIDE[what]) == SHOWN.get(what, "True\n")


def test_a_figure_is_drawn_to_a_file(any_cove):
    code = ("import matplotlib\nimport matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.title('τ')\n"
            "plt.savefig('figure.png')\nprint(matplotlib.get_backend().lower())")
    run = check_shape(any_cove.json("--memory", "512M", "-c", code))
    assert run["stdout"] == "agg\n"
    picture = next(a for a in run["artifacts"] if a["path"] == "figure.png")
    assert picture["mime_type"] == "image/png" and picture["size"] > 5000


def test_streams_open_by_name(any_cove):
    done = any_cove("run", "-l", "bash", "-c", "echo out > /dev/stdout; echo err >> /dev/stderr; cat /dev/stdin", input="in")
    assert (done.returncode, done.stdout, done.stderr) == (0, "out\nin", "err\n")


def test_the_workspace_has_three_names_and_tmp_is_private(cove):
    code = ("open('/workspace/a', 'w').write('x'); print(open('/data/a').read() + open('/mnt/data/a').read());"
            "open('/tmp/t', 'w').write('t')")
    run = check_shape(cove.json("-c", code))
    assert run["stdout"] == "xx\n" and [a["path"] for a in run["artifacts"]] == ["a"]


JAVASCRIPT = {
    "top-level await": ("const x = await new Promise(r => setTimeout(() => r(7), 1)); console.log(x)", "7\n"),
    "import of a module": ("import fs from 'node:fs'; fs.writeFileSync('f', 'a'); console.log(fs.readFileSync('f', 'utf8'))",
                           "a\n"),
    "require": ("const { join } = require('path'); console.log(join('a', 'b'))", "a/b\n"),
    "workers": ("import { Worker } from 'node:worker_threads';"
                "const w = new Worker(\"require('worker_threads').parentPort.postMessage(6 * 7)\", { eval: true });"
                "w.on('message', m => console.log(m))", "42\n"),
    "child processes": ("import { execFileSync, spawn } from 'node:child_process';"
                        "console.log(execFileSync('/bin/echo', ['hi']).toString().trim());"
                        "spawn(process.execPath, ['-e', 'console.log(5)'], { stdio: 'inherit' })", "hi\n5\n"),
    "sockets on loopback": ("import net from 'node:net'; const s = net.createServer(c => c.end('pong'));"
                            "s.listen(0, '127.0.0.1', () => net.connect(s.address().port, '127.0.0.1')"
                            ".on('data', d => { console.log(d.toString()); s.close() }))", "pong\n"),
    "arguments and stdin": ("let t = ''; for await (const c of process.stdin) t += c; console.log(process.argv.slice(2), t)",
                            "[ 'x', 'y' ] in\n"),
}


@pytest.mark.parametrize("what", JAVASCRIPT)
def test_works_inside_javascript(cove, what):
    code, shown = JAVASCRIPT[what]
    assert cove.good("--memory", "512M", "-l", "javascript", "-c", code, "--", "x", "y", input="in") == shown


TYPESCRIPT = """
import { readFileSync, writeFileSync } from "node:fs";
import { EventEmitter } from "node:events";
import type { PathLike } from "node:fs";

// A small inventory: types, generics, interfaces, unions, async iteration.
type Id = string & { readonly __brand: unique symbol };
type Money = { readonly cents: number; readonly currency: "EUR" | "USD" };
type Result<T, E extends Error = Error> = { ok: true; value: T } | { ok: false; error: E };

interface Named {
  readonly name: string;
}

interface Item extends Named {
  readonly id: Id;
  price: Money;
  tags: ReadonlyArray<string>;
  stock?: number;
}

interface Repository<K, V extends Named> {
  get(key: K): V | undefined;
  put(key: K, value: V): void;
  values(): IterableIterator<V>;
  readonly size: number;
}

class MemoryRepository<K, V extends Named> implements Repository<K, V> {
  private readonly map: Map<K, V> = new Map<K, V>();
  static readonly kind = "memory" as const;

  get(key: K): V | undefined {
    return this.map.get(key);
  }

  put(key: K, value: V): void {
    this.map.set(key, value);
  }

  values(): IterableIterator<V> {
    return this.map.values();
  }

  get size(): number {
    return this.map.size;
  }
}

class StockError extends Error {
  readonly item: Item;
  constructor(item: Item, wanted: number) {
    super(`${item.name}: ${wanted} wanted, ${item.stock ?? 0} there`);
    this.item = item;
  }
}

abstract class Shape {
  abstract area(): number;
  toString(): string {
    return `${this.constructor.name}(${this.area().toFixed(1)})`;
  }
}

class Circle extends Shape {
  #radius: number;
  constructor(radius: number) {
    super();
    this.#radius = radius;
  }
  override area(): number {
    return Math.PI * this.#radius ** 2;
  }
}

const id = (text: string): Id => text as Id;
const euro = (cents: number): Money => ({ cents, currency: "EUR" });

function take(item: Item, count: number): Result<Item, StockError> {
  const stock = item.stock ?? 0;
  if (stock < count) return { ok: false, error: new StockError(item, count) };
  return { ok: true, value: { ...item, stock: stock - count } };
}

function groupBy<T, K extends string>(rows: Iterable<T>, key: (row: T) => K): Partial<Record<K, T[]>> {
  const groups: Partial<Record<K, T[]>> = {};
  for (const row of rows) (groups[key(row)] ??= []).push(row);
  return groups;
}

async function* ticks(count: number): AsyncGenerator<number, void, unknown> {
  for (let i = 0; i < count; i++) {
    await new Promise<void>((resolve) => setTimeout(resolve, 1));
    yield i;
  }
}

function save<T>(path: PathLike, value: T): T {
  writeFileSync(path, JSON.stringify(value));
  return JSON.parse(readFileSync(path, "utf8")) as T;
}

const repository: Repository<Id, Item> = new MemoryRepository<Id, Item>();
const rows = [
  { name: "apple", price: euro(30), tags: ["fruit"], stock: 3 },
  { name: "pear", price: euro(40), tags: ["fruit", "green"] },
  { name: "nail", price: euro(5), tags: ["tool"], stock: 100 },
] satisfies Array<Omit<Item, "id">>;
rows.forEach((row, i) => repository.put(id(`i${i}`), { id: id(`i${i}`), ...row }));

const events: EventEmitter = new EventEmitter();
const seen: string[] = [];
events.on("tick", (n: number) => seen.push(`t${n}`));
for await (const n of ticks(3)) events.emit("tick", n);

const apple = repository.get(id("i0"))!;
const outcomes = [take(apple, 2), take(apple, 9)].map((r) => (r.ok ? `left ${r.value.stock}` : r.error.message));
const groups = groupBy([...repository.values()], (item) => item.tags[0] as "fruit" | "tool");
console.log(repository.size, MemoryRepository.kind, seen.join(","), outcomes.join("; "));
console.log(groups.fruit?.length, groups.tool?.[0]?.name, String(new Circle(2)), save("rows.json", rows).length);
"""
TYPESCRIPT_SHOWN = "3 memory t0,t1,t2 left 1; apple: 9 wanted, 3 there\n2 nail Circle(12.6) 3\n"


def test_a_long_typed_program_runs(any_cove):
    assert len(TYPESCRIPT.strip().splitlines()) >= 100
    assert any_cove.good("--memory", "512M", "-l", "typescript", "-", input=TYPESCRIPT) == TYPESCRIPT_SHOWN


def test_bash_does_what_scripts_do(cove):
    code = ("set -euo pipefail; declare -A m=([a]=1 [b]=2); for k in \"${!m[@]}\"; do echo $k=${m[$k]}; done | sort;"
            "diff <(echo x) <(echo x) && cat <<< here; printf '%s\\n' c a b | sort | tr '\\n' ' '; seq 3 | awk '{s+=$1} END {print s}';"
            "exec 3> f; echo late >&3; grep -c late f; wait $(sleep 0.01 & echo $!) 2> /dev/null || echo waited")
    assert cove.good("-l", "bash", "-c", code) == "a=1\nb=2\nhere\na b c 6\n1\nwaited\n"


def test_files_are_followed_by_looking_again_and_again(any_cove):
    """There is no inotify inside, and tail says so and polls."""
    code = ("echo a > f; tail -f f > out 2> /dev/null & until grep -q a out 2> /dev/null; do :; done; echo b >> f;"
            "until grep -q b out; do :; done; kill $!; cat out")
    assert any_cove.good("-l", "bash", "-c", code) == "a\nb\n"


# --- the network --------------------------------------------------------------------------------


def test_nothing_but_loopback_is_reachable(any_cove):
    with socket.create_server(("0.0.0.0", 0)) as listener:
        listener.settimeout(0)
        port = listener.getsockname()[1]
        code = f"""
import errno, socket
def why(family, kind, address):
    s = socket.socket(family, kind); s.settimeout(5)
    try: s.connect(address); s.send(b"x"); return "reached"
    except OSError as e: return errno.errorcode.get(e.errno, str(e))
print(why(socket.AF_INET, socket.SOCK_STREAM, ("192.0.2.1", 80)), why(socket.AF_INET, socket.SOCK_DGRAM, ("8.8.8.8", 53)),
      why(socket.AF_INET6, socket.SOCK_STREAM, ("2001:db8::1", 80)), why(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", {port})))
try: socket.getaddrinfo("example.com", 80); print("resolved")
except OSError as e: print("unresolved")
"""
        shown = any_cove.good("-c", code)
        assert shown.split() == ["ENETUNREACH", "ENETUNREACH", "ENETUNREACH", "ECONNREFUSED", "unresolved"]
        with pytest.raises(OSError) as refused:
            listener.accept()
        assert refused.value.errno in (errno.EAGAIN, errno.EWOULDBLOCK), "the host's listener was reached"


# --- the line of the memory killer ----------------------------------------------------------------

STEP_BACK = """
import os, subprocess
def step_back(pid="self"):
    try:
        with open(f"/proc/{pid}/oom_score_adj", "r+") as score:
            score.write("0")
    except OSError as error:
        return error.errno
print(step_back(), open("/proc/self/oom_score_adj").read().strip(),
      subprocess.run("echo 0 2>/dev/null >/proc/self/oom_score_adj; cat /proc/self/oom_score_adj", shell=True,
                     capture_output=True, text=True).stdout.strip())
"""
STAYS = f"{errno.EACCES} 500 500"


def test_code_cannot_step_back_in_the_line_of_the_memory_killer(any_cove):
    """It is found before the server, whose score is 0: in a cold start and in a warm one, after a reset, and in a rollback."""
    assert any_cove.good("-c", STEP_BACK).strip() == STAYS
    with Repl(cove=any_cove) as session:
        assert session.run(STEP_BACK) == STAYS
        assert session.ask("checkpoint", name="c")["checkpoint"]
        assert session.ask("rollback", checkpoint="c")["checkpoint"]
        assert session.run(STEP_BACK) == STAYS
        assert session.ask("reset")["session"]["state"] == "ready"
        assert session.run(STEP_BACK) == STAYS
