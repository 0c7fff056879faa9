# SPDX-License-Identifier: Apache-2.0
"""The groups in which cove-spawner puts a sandbox: which there are, and what is written to them."""
import pytest

import covetest
from spawner_protocol_test import (DESTROY, FREEZE, STATS, UNCOUNTED, Spawner, digest, fresh,  # noqa: F401  fixtures
                                   spawner)

pytestmark = pytest.mark.skipif(not covetest.IS_ROOT, reason="uids of their own need root")


def groups_of_slot(answer):
    return [path for path in covetest.sandbox_groups() if path.name == str(answer.uids[1] - covetest.SANDBOX_UIDS.start)]


def test_one_that_is_not_counted_has_its_limits_all_the_same(spawner, digest):
    made = spawner.create(digest, flags=UNCOUNTED, pids=7)
    counted = spawner.create(digest)
    held, full = groups_of_slot(made), groups_of_slot(counted)
    assert [path for path in held if (path / "pids.max").exists() and (path / "pids.max").read_text() == "7\n"]
    counts_apart = [path for path in full if not any((path / name).exists() for name in (
        "memory.limit_in_bytes", "memory.max", "pids.max", "cpu.cfs_quota_us", "cpu.max"))]
    assert len(held) == len(full) - len(counts_apart), "only what sets no limit is left out"
    stats = spawner.ask(STATS, made.sandbox).stats
    assert (stats["is_over"], stats["pids_now"]) == (0, 1)
    refusal = spawner.ask(FREEZE, made.sandbox).failure
    assert bool(refusal) == bool(counts_apart), "what would freeze it is left out, too"
    assert not refusal or refusal[3] == "it was made as one that is never frozen"
    assert spawner.ask(FREEZE, counted.sandbox).failure is None, "the host could"
    assert spawner.ask(DESTROY, made.sandbox).stats["is_over"]
    assert not any(path.exists() for path in held), "answered when all is gone"
    spawner.end()


def test_a_share_of_processors_that_may_be_exceeded(digest):
    spawner = Spawner("--cpus-burst", "2.5")
    spawner.hello()
    found = {}
    for path in groups_of_slot(spawner.create(digest, cpu_milli=500)):
        found |= {name: (path / name).read_text().split()[0] for name in ("cpu.cfs_quota_us", "cpu.max", "cpu.shares", "cpu.weight")
                  if (path / name).exists()}
    assert found in ({"cpu.cfs_quota_us": "250000", "cpu.shares": "50"}, {"cpu.max": "250000", "cpu.weight": "50"})
    spawner.end()
