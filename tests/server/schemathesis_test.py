# SPDX-License-Identifier: Apache-2.0
"""Requests that a machine makes up from /openapi.json: none breaks the server, none is answered by what the document has not.

Two of its checks are left out. Wrong tokens are refused with 429 after a while, which is on purpose (ignored_auth;
contract_test.py tries every route without a token, and with a narrow one). And not all that fits a schema can be done: a cursor must be
one that was given out, a template must be there (positive_data_acceptance). That it finds few wrong ones where nearly every text is right, as for the
path of a file, is no failure (filter_too_much)."""
import re
import subprocess

import pytest

import pypi
from covetest import SLOWNESS
from server import Server

SCHEMATHESIS = "schemathesis==4.32.5"
TOKEN, INTERNAL_TOKEN = "schemathesis-token-0123456789", "schemathesis-internal-0123456789"
SHORT_SEED = "4"  # --long takes another one each time, which it prints
EXAMPLES, EXAMPLES_LONG = 10, 60  # of each operation, made up at random
PHASES, PHASES_LONG = "examples,fuzzing", "examples,coverage,fuzzing"  # coverage: every limit of every field, both sides
CASES, CASES_LONG = 300, 5000  # that there must have been in all
SESSIONS = 40
WORKERS = "1"  # with more, ast.parse() of its interpreter breaks now and then: "recursion depth mismatch"

# TRACE is no method that this server knows, and so is answered with 501, as RFC 9110 (9.1) has it. What is too long or too many is
# refused with 413. And "mkdir" is a good name for a file, too: what is below /files takes the methods of a file besides, and says
# so (openapi_test.py).
CONFIG = """
[phases.coverage]
unexpected-methods = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]

[[operations]]
include-path-regex = "/files/(mkdir|move|sign|upload)$"
checks.allow_header_conformance.enabled = false

[checks.negative_data_rejection]
expected-statuses = ["400", "401", "403", "404", "405", "409", "413", "415", "422", "429"]
"""


@pytest.fixture(scope="module")
def program():
    return pypi.python_with(SCHEMATHESIS).parent / "schemathesis"


def run(program, url, folder, token, is_long, *options):
    """Answers how many requests there were."""
    config = folder / "schemathesis.toml"
    config.write_text(CONFIG)
    examples = EXAMPLES_LONG if is_long else EXAMPLES
    said = subprocess.run(
        [program, "--config-file", config, "run", f"{url}/openapi.json", "--no-color", "--header", f"Authorization: Bearer {token}",
         "--workers", WORKERS, "--phases", PHASES_LONG if is_long else PHASES, "--max-examples", str(examples), "--warnings", "off",
         "--exclude-checks", "ignored_auth,positive_data_acceptance", "--suppress-health-check", "filter_too_much", "--request-timeout", str(60 * SLOWNESS), *options,
         *([] if is_long else ["--seed", SHORT_SEED])],
        cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert said.returncode == 0, said.stdout[-20000:]
    return int(re.search(r"(\d+) generated", said.stdout)[1])


def test_made_up_requests(program, is_long, tmp_path):
    with Server("--max-sessions", str(SESSIONS), env={"COVE_TOKEN": TOKEN, "COVE_INTERNAL_TOKEN": INTERNAL_TOKEN}) as server:
        coved = server.coved
        count = run(program, server.url, tmp_path, TOKEN, is_long, "--exclude-tag", "internal")
        count += run(program, server.url, tmp_path, INTERNAL_TOKEN, is_long, "--include-tag", "internal")
        print(f"{count} requests")
        assert count >= (CASES_LONG if is_long else CASES)
        assert server.coved == coved, "it died on the way"
        assert not [line for line in server.log if line["level"] == "error"]
