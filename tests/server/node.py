# SPDX-License-Identifier: Apache-2.0
"""What a machine lacks that reaches Debian's packages alone: a current Node in the image, and npm beside Cove."""
import pytest

import covetest

PROXY_SINCE = 24  # the first major version whose fetch() goes through the proxy that its environment names


def skip_without_proxy(server):
    versions = {row["language"]: row["version"] for row in server.get("/api/v1/runners").json["runners"]}
    if "javascript" not in versions:
        pytest.skip("no image for javascript")
    if int(versions["javascript"].split(".")[0]) < PROXY_SINCE:
        pytest.skip(f"node {versions['javascript']} of this image knows no proxy")


def skip_without_npm():
    if not (covetest.BUILD / "installers" / "npm.tgz").exists():
        pytest.skip("there was no npm when Cove was built")
