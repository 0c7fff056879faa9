# SPDX-License-Identifier: Apache-2.0
"""What examples/ shows to a newcomer, as he would run it."""
import os
import subprocess
import sys

import pytest

import covetest

AGENT = covetest.ROOT / "examples/marketing/agent.py"


@pytest.fixture
def agent(tmp_path):
    """-> a function that runs the assistant and gives what it said, and its chart"""
    def run(*options, env=None):
        chart = tmp_path / "chart.png"
        done = subprocess.run([sys.executable, AGENT, "--out", chart, *options], cwd=tmp_path, capture_output=True, text=True,
                              env={**os.environ, **(env or {})}, timeout=covetest.PATIENCE * 3)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout, chart.read_bytes()

    return run


def check(said, chart):
    assert chart.startswith(b"\x89PNG\r\n") and len(chart) > 5000
    assert said.count("exception: raised KeyError") == 2 and "It is called 'revenue_eur'." in said
    assert "newsletter     12980.71    1761.41    7.37" in said


def test_the_assistant_mends_its_code_over_http(agent, shared_server):
    check(*agent("--url", f"{shared_server.url}/mcp", env={"COVE_TOKEN": shared_server.token}))


def test_the_assistant_mends_its_code_over_stdio(agent):
    check(*agent("--cove", covetest.BUILD / "cove"))


def test_the_assistant_is_told_why_it_may_not(agent, shared_server):
    with pytest.raises(AssertionError, match="answers 401"):
        agent("--url", f"{shared_server.url}/mcp", env={"COVE_TOKEN": "wrong-token-0123456789abcdef"})
