# SPDX-License-Identifier: Apache-2.0
"""No byte that was never written leaves a process: what the modules send, by valgrind, and the spawner's messages, by their bytes."""
import os
import shutil
import subprocess

import pytest

import covetest
from spawner_protocol_test import (DESTROY, FAILURE, FREEZE, PING, SEALED_BODY, STATS, STATS_BODY, digest, fresh,  # noqa: F401
                                   spawner)

# Those that write to sockets, pipes and files.
MODULES = ["guest", "kernel", "session", "files", "shim"]


@pytest.mark.skipif(not shutil.which("valgrind") or covetest.IS_ASAN, reason="needs valgrind, and a build without sanitizers")
@pytest.mark.parametrize("module", MODULES)
def test_what_is_sent_was_written_before(module, tmp_path):
    """Not all of a module's tests can be done there, and what these leave goes with the folder."""
    done = subprocess.run(["valgrind", "-q", str(covetest.BUILD / "tests" / f"test_{module}")], capture_output=True, text=True,
                          env=os.environ | {"TMPDIR": str(tmp_path)}, timeout=covetest.PATIENCE)
    assert "ok " in done.stdout, done.stderr
    told = [line for line in done.stderr.splitlines() if "Syscall param" in line and "uninitialised" in line]
    assert not told, done.stderr


def test_valgrind_would_tell(tmp_path):
    """The check above can fail."""
    if not shutil.which("valgrind"):
        pytest.skip("needs valgrind")
    source, program = tmp_path / "leak.c", tmp_path / "leak"
    source.write_text("#include <unistd.h>\nstruct s { char c; int i; };\n"
                      "int main(void) { struct s s; s.c = 1; s.i = 2; return write(1, &s, sizeof(s)) < 0; }\n")
    subprocess.run(["gcc", "-O0", "-o", program, source], check=True)
    done = subprocess.run(["valgrind", "-q", program], capture_output=True, timeout=covetest.PATIENCE)
    assert b"Syscall param write(buf) points to uninitialised" in done.stderr


@pytest.mark.skipif(not covetest.IS_ROOT, reason="uids of their own need root")
def test_what_a_message_of_the_spawner_does_not_use_is_zero(spawner, digest):  # noqa: F811
    made = spawner.create(digest)
    answers = [(made, SEALED_BODY.size), (spawner.ask(PING), 0), (spawner.ask(STATS, made.sandbox), STATS_BODY.size),
               (spawner.ask(FREEZE, 999), None), (spawner.ask(DESTROY, made.sandbox), STATS_BODY.size)]
    for answer, used in answers:
        assert answer.reserved == 0
        if used is None:
            step = FAILURE.unpack(answer.body[:FAILURE.size])[3]
            assert answer.failure and not any(step[len(answer.failure[3]):])
            used = FAILURE.size
        assert len(answer.body) > used and not any(answer.body[used:]), answer.verb
    spawner.end()
