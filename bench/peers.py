# SPDX-License-Identifier: Apache-2.0
"""What the figures of a bench stand beside: a plain python3, the same in bubblewrap, and how much of the machine there was."""
import contextlib
import importlib.machinery
import importlib.util
import os
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
PLAIN, SEALED = "python3 -c 'print(1)'", "the same in bubblewrap"
STEAL = 7  # column of a line of /proc/stat: what the host gave to others while we wanted it


def load_cold_bench():
    """bench/run, whose contenders are the peers elsewhere."""
    loader = importlib.machinery.SourceFileLoader("cold", str(HERE / "run"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("cold", loader))
    sys.modules["cold"] = module
    loader.exec_module(module)
    return module


def find_cold(cold, stack):
    """-> those of them that can run here"""
    found = []
    for make, name in ((cold.host, PLAIN), (cold.bubblewrap, SEALED)):
        try:
            found.append(make(name, "python", stack))
        except cold.Unavailable as why:
            print(f"not measured: {name}: {why}", file=sys.stderr)
    return found


def measure(rounds, more=()):
    """Each of them, and of `more`, in turns -> {name: milliseconds of each round}, sorted"""
    cold = load_cold_bench()
    with contextlib.ExitStack() as stack:
        peers = [*find_cold(cold, stack), *more]
        times = {peer.name: [] for peer in peers}
        for _ in range(rounds):
            for peer in peers:
                times[peer.name].append(peer.run_once())
    return {name: sorted(values) for name, values in times.items()}


def figures(values):
    """-> the columns of a table"""
    return {"min_ms": values[0], "p50_ms": statistics.median(values), "p99_ms": values[int((len(values) - 1) * 0.99)]}


class Machine:
    """How busy it was from the making of this until it is printed."""

    def __init__(self):
        self.before = self.look()

    @staticmethod
    def look():
        return [int(word) for word in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]

    def __str__(self):
        spent = [now - then for then, now in zip(self.before, self.look())]
        stolen = 100 * spent[STEAL] / max(1, sum(spent))
        return (f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; "
                f"its host gave {stolen:.0f} % of their time to others")
