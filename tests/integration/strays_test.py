# SPDX-License-Identifier: Apache-2.0
"""What code in a session sends to its host besides words: the sandbox ends for it, or the kernel has refused it; nobody waits."""
import json

import pytest

import strays
from covetest import PATIENCE, nothing_is_left
from sessions import Session

UNAVAILABLE = 69


@pytest.fixture
def open_session(cove):
    opened = []

    def open_one():
        opened.append(Session(cove))
        return opened[-1]
    yield open_one
    for session in opened:
        if session.process.returncode is None:
            session.end()
    nothing_is_left()


@pytest.mark.parametrize("kind", strays.KINDS)
def test_descriptors_from_inside_end_their_sandbox_alone(open_session, kind):
    neighbour, session = open_session(), open_session()
    run = session.run(strays.attack(kind))
    if strays.kernel_refuses():
        assert (run["state"], run["stdout"]) == ("completed", "refused\nrefused\n"), run
    else:
        assert (run["state"], run["reason"]["kind"]) == ("failed", "runner_died"), run
        while (line := session.receive_line()) is not None:  # its end, which ends the program
            assert json.loads(line)["error"]["message"] == "the sandbox is gone"
        assert session.process.wait(PATIENCE) == UNAVAILABLE
    assert neighbour.printed("print(1)") == "1\n"
