# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests over HTTP; the others are those of the integration tests."""
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "integration")]

import server as serving  # noqa: E402  (needs the path above)
from fixtures import *  # noqa: E402,F401,F403


@pytest.fixture
def server():
    """A server of the test's own."""
    with serving.Server() as one:
        yield one


@pytest.fixture(scope="session")
def shared_server():
    """One for all tests that leave it as they found it."""
    with serving.Server() as one:
        yield one
