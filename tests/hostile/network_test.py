"""A way out that is no way in: what code inside says to the egress proxy reaches nothing of the host."""
from __future__ import annotations

import pytest

import checks
from cases import limits
from hostile_test import check_host, take_baseline

# Named by the policy, but nobody of the operators vouches for them.
NAMED = ["localhost", "127.0.0.1", "127.0.0.2", "0.0.0.0", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]",
         "[2002:7f00:1::]", "169.254.169.254", "[fd00:ec2::254]", "10.0.0.1", "192.168.0.1", "100.64.0.1", "224.0.0.1"]
REFUSED = {"=HTTP/1.1_400", "=HTTP/1.1_403", "=HTTP/1.1_414", "=HTTP/1.1_431", "=HTTP/1.1_405", "=HTTP/1.1_505", "=closed"}


def words(policy: str, port: int) -> tuple[str, ...]:
    if policy == "packages":
        return ("--network", policy)
    return ("--network", policy, *(word for host in NAMED for word in ("--allow", f"{host}:{port}", "--allow", host)))


@pytest.mark.parametrize("policy", ["allow", "packages"])
def test_D111_what_is_said_to_the_proxy(bench, policy):
    base = take_baseline(bench)
    options = limits(timeout=100, memory="1G") + words(policy, bench.doors.port)
    run = bench.cove.run("egress.py", options=options, limit=150)
    check_host(bench, base, run)
    lines = checks.complete(run)
    asked = {name: answer for name, answer in lines.items() if name.startswith(("get:", "connect:", "raw:"))}
    wrong = {name: answer for name, answer in asked.items() if answer not in REFUSED}
    assert not wrong and len(asked) > 190, f"{len(asked)} asked, not refused: {wrong}\n{run.describe()}"
    assert run.document["state"] == "completed" and int(lines["held"][1:]) > 100, run.describe()
