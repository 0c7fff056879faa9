# SPDX-License-Identifier: Apache-2.0
"""Large files into a session by way of the bucket: a presigned address, then into the workspace; whole or not at all."""
import contextlib
import hashlib
import os
import urllib.error
import urllib.request

import pytest

from artifact_s3_test import serve
from artifact_test import open_session, run
from covetest import PATIENCE
from s3_server import SECRET_KEY, Proxy, S3Server

API = "/api/v1/sessions"


@pytest.fixture(scope="module")
def s3():
    with S3Server() as one:
        yield one


@pytest.fixture(scope="module")
def served(s3):
    with serve(s3.endpoint, "--upload-max", "1M") as server:
        yield server


def put(url, data):
    with urllib.request.urlopen(urllib.request.Request(url, data=data, method="PUT"), timeout=PATIENCE) as answer:
        return answer.status


def begin(server, session, **body):
    answer = server.post(f"{API}/{session}/uploads", body)
    assert answer.status == 201, answer
    return answer.json


def place(server, session, upload, path, **more):
    return server.post(f"{API}/{session}/uploads/{upload['id']}", {"path": path} | more)


def sum_of(server, session, path):
    return run(server, f"import hashlib; print(hashlib.sha256(open({path!r}, 'rb').read()).hexdigest())", session)["stdout"].strip()


@pytest.mark.parametrize("size", [0, 1, 12 << 20])
def test_a_file_goes_by_way_of_the_bucket(served, s3, size):
    session, data = open_session(served), os.urandom(size)
    upload = begin(served, session)
    assert upload["method"] == "PUT" and upload["url"].startswith(s3.endpoint) and SECRET_KEY not in upload["url"]
    assert upload["url"] not in served.log_path.read_text()
    assert put(upload["url"], data) == 200
    placed = place(served, session, upload, "in/large.bin")
    # At once: what somebody puts there again is not what was to be removed.
    assert not [name for name in s3.objects() if "uploads/" in name]
    assert placed.status == 201 and placed.json["size"] == size, placed
    assert sum_of(served, session, "in/large.bin") == hashlib.sha256(data).hexdigest()
    again = place(served, session, upload, "in/other.bin")
    assert again.status == 404 and again.code == "upload_not_found"
    assert served.delete(f"{API}/{session}").status == 200


class DeafToRemovals(Proxy):
    @staticmethod
    def pump(source, sink, limit):
        with contextlib.suppress(OSError):
            while (data := source.recv(65536)) and not data.startswith(b"DELETE "):
                sink.sendall(data)


def test_a_bucket_that_does_not_answer_a_removal_keeps_nobody_waiting(s3):
    """It would be given up after minutes, and the file is there."""
    with DeafToRemovals(s3.port) as proxy, serve(proxy.endpoint) as server:
        session = open_session(server)
        upload = begin(server, session)
        assert put(upload["url"], b"bytes") == 200
        assert place(server, session, upload, "in/file").status == 201
        assert run(server, "print(open('in/file').read())", session)["stdout"] == "bytes\n"
        assert [name for name in s3.objects() if "uploads/" in name], "or it was asked otherwise"


def test_what_is_there_is_replaced_or_not(served):
    session = open_session(served)
    run(served, "open('a', 'w').write('old')", session)
    upload = begin(served, session)
    put(upload["url"], b"new")
    kept = place(served, session, upload, "a", overwrite=False)
    assert kept.status == 409, kept
    assert run(served, "print(open('a').read())", session)["stdout"] == "old\n"
    assert place(served, session, upload, "a").status == 200  # the upload is still there
    assert run(served, "print(open('a').read())", session)["stdout"] == "new\n"
    assert served.delete(f"{API}/{session}").status == 200


def test_what_cannot_be_placed(served):
    session, other = open_session(served), open_session(served)
    upload = begin(served, session, expires_in=60)
    early = place(served, session, upload, "a")
    assert early.status == 404 and early.code == "upload_not_found"
    put(upload["url"], b"x" * 1000)
    for path in "../a", "/a", "a/../../b", "":
        assert place(served, session, upload, path).status == 422, path
    assert place(served, other, upload, "a").code == "upload_not_found"  # it is the other session's
    for bad in "upl_x", "..%2f..%2fartifacts", upload["id"] + "0":
        answer = served.post(f"{API}/{session}/uploads/{bad}", {"path": "a"})
        assert answer.status in (400, 404), answer
    assert served.post(f"{API}/ses_{26 * '0'}/uploads", {}).status == 404
    with pytest.raises(urllib.error.HTTPError) as refused:
        put(upload["url"].replace(upload["id"], "upl_" + 26 * "0"), b"y")
    assert refused.value.code == 403
    for one in session, other:
        assert served.delete(f"{API}/{one}").status == 200


def test_a_file_that_does_not_fit_leaves_nothing(served):
    session = served.post(API, {"language": "python", "resources": {"disk_bytes": 4 << 20}}).json["id"]
    upload = begin(served, session)
    put(upload["url"], os.urandom(8 << 20))
    answer = place(served, session, upload, "large")
    assert answer.status in (409, 413, 507) and "full" in answer.code, answer
    assert run(served, "import os; print(os.listdir())", session)["stdout"] == "[]\n"
    assert served.delete(f"{API}/{session}").status == 200


def test_a_bucket_that_dies(served, s3):
    session, data = open_session(served), os.urandom(3 << 20)
    upload = begin(served, session)
    put(upload["url"], data)
    s3.kill()
    answer = place(served, session, upload, "a")
    assert answer.status == 503 and answer.code == "storage_unavailable"
    assert run(served, "import os; print(os.listdir())", session)["stdout"] == "[]\n"
    s3.start()
    assert place(served, session, upload, "a").status == 201
    assert sum_of(served, session, "a") == hashlib.sha256(data).hexdigest()
    assert served.delete(f"{API}/{session}").status == 200


def test_a_server_without_a_bucket_says_what_to_do(server):
    session = open_session(server)
    answer = server.post(f"{API}/{session}/uploads", {})
    assert answer.status == 409 and answer.code == "uploads_unavailable" and "--upload-max" in answer.json["error"]["hint"]
