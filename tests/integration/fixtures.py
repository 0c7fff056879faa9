# SPDX-License-Identifier: Apache-2.0
"""Options and fixtures of all tests on the compiled programs."""
import contextlib
import os
import shutil

import pytest

import covetest


def pytest_addoption(parser):
    with contextlib.suppress(ValueError):  # both folders in one run: the other has added it
        parser.getgroup("integration").addoption(
            "--long", action="store_true", default=os.environ.get("COVE_TEST_LONG") == "1",
            help="more rounds, and every case where the default takes a sample")


@pytest.fixture(scope="session")
def is_long(request):
    return request.config.getoption("--long")


@pytest.fixture(scope="session", autouse=True)
def clean_host():
    """What all tests of a session share is removed at its end."""
    yield
    if covetest.public_build.cache_info().currsize:
        shutil.rmtree(covetest.public_build().parent)
        covetest.public_build.cache_clear()  # two folders in one run: each has this fixture
    if covetest.IS_ROOT:
        covetest.remove_groups()


@pytest.fixture(autouse=True)
def no_runs_left():
    """One failure must not make others of those that look for leftovers."""
    yield
    covetest.end_started()


@pytest.fixture
def cove():
    return covetest.Cove()


@pytest.fixture(params=["root", "plain", "subids"])
def any_cove(request):
    """Cove as root, as an ordinary user, and as one with subordinate ids."""
    if request.param == "root":
        if not covetest.IS_ROOT:
            pytest.skip("not root")
        return covetest.Cove()
    if not covetest.IS_ROOT and request.param == "plain":
        return covetest.Cove()
    reason = covetest.why_no_rootless(request.param)
    if reason:
        pytest.skip(reason)
    return covetest.rootless(request.param)
