# SPDX-License-Identifier: Apache-2.0
"""Artifacts with a bucket: kept while it is dead, moved there when it lives, fetched from it, and never twice."""
import hashlib
import urllib.error
import urllib.request

import pytest

from artifact_test import blobs, fetch, one, open_session, run, writing
from covetest import PATIENCE, wait_for
from s3_server import ACCESS_KEY, BUCKET, SECRET_KEY, Proxy, S3Server
from server import Server

SMALL, LARGE = b"small" * 100, 7 << 20
MAKE = writing("small.txt", SMALL) + f"\nopen('large.bin', 'wb').write(bytes(range(256)) * ({LARGE} // 256))"
LARGE_DATA = bytes(range(256)) * (LARGE // 256)


def serve(endpoint, *args):
    return Server(*args, env={"COVE_S3_ENDPOINT": endpoint, "COVE_S3_BUCKET": BUCKET, "COVE_S3_ACCESS_KEY": ACCESS_KEY,
                              "COVE_S3_SECRET_KEY": SECRET_KEY})


@pytest.fixture
def s3():
    with S3Server() as one_:
        yield one_


def names_of(execution):
    """The objects that an execution is to have in the bucket, once its hashes are known."""
    return {f"cove/artifacts/{execution['id']}/{a['sha256']}" for a in execution["artifacts"]}


def reread(server, execution):
    return wait_for(lambda: (lambda e: e if all(a["sha256"] for a in e["artifacts"]) else None)(
        server.get(f"/api/v1/executions/{execution['id']}").json), "all hashes")


def wait_moved(server, s3, *executions):
    """Until the bucket has all of them and nothing else, and the disk nothing."""
    wanted = set().union(*(names_of(reread(server, e)) for e in executions))
    wait_for(lambda: set(s3.objects()) == wanted, "all objects")
    wait_for(lambda: blobs(server) == [], "nothing that waits")
    wait_for(lambda: not s3.unfinished(), "no part that is left")


def check_both(server, execution):
    large, small = reread(server, execution)["artifacts"]
    answer = fetch(server, small["download_url"])
    assert answer.status == 200 and answer.body == SMALL
    answer = fetch(server, large["download_url"])
    assert answer.status == 200 and answer.body == LARGE_DATA
    part = fetch(server, large["download_url"], headers={"Range": "bytes=300-999"})
    assert part.status == 206 and part.body == LARGE_DATA[300:1000]


def test_artifacts_go_to_the_bucket_and_outlive_session_and_restart(s3):
    with serve(s3.endpoint) as server:
        session = open_session(server)
        in_session, alone = run(server, MAKE, session), run(server, MAKE)
        wait_moved(server, s3, in_session, alone)
        check_both(server, in_session)
        assert server.delete(f"/api/v1/sessions/{session}").status == 200
        server.kill_coved()
        for execution in in_session, alone:
            check_both(server, execution)


def test_a_bucket_that_is_dead_when_an_execution_ends_loses_and_doubles_nothing(s3):
    with serve(s3.endpoint) as server:
        session = open_session(server)
        s3.kill()
        first = run(server, MAKE, session)
        check_both(server, first)  # from the disk, though the bucket is dead
        assert server.delete(f"/api/v1/sessions/{session}").status == 200
        wait_for(lambda: [line for line in server.log
                          if line["message"] == "artifacts wait on the disk for the storage"], "a word to the operator")
        wait_for(lambda: server.get("/health").json["components"]["storage"]["state"] == "failing", "the trouble")
        server.kill_coved()  # who comes next knows what waits
        second = run(server, MAKE)
        check_both(server, first)
        check_both(server, second)
        assert len(blobs(server)) == 4
        s3.start()
        wait_moved(server, s3, first, second)
        check_both(server, first)
        check_both(server, second)
        assert SECRET_KEY not in server.log_path.read_text() + server.out


def test_a_bucket_that_breaks_off_gets_each_object_once(s3):
    with Proxy(s3.port) as proxy, serve(proxy.endpoint) as server:
        proxy.plans = [("cut_up", 1000), ("refuse",), ("cut_down", 10), ("cut_up", 3 << 20), ("refuse",)] * 3
        executions = [run(server, MAKE) for _ in range(2)]
        wait_moved(server, s3, *executions)
        for execution in executions:
            check_both(server, execution)


def test_a_bucket_that_is_dead_when_somebody_fetches_is_told(s3):
    with serve(s3.endpoint) as server:
        execution = run(server, MAKE)
        wait_moved(server, s3, execution)
        s3.kill()
        answer = fetch(server, execution["artifacts"][0]["download_url"])
        assert (answer.status, answer.code) == (503, "storage_unavailable"), answer
        assert "does not answer" in answer.json["error"]["message"]
        assert ACCESS_KEY not in str(answer.body) and "127.0.0.1" not in str(answer.body)
        s3.start()
        check_both(server, execution)


def test_what_is_in_the_bucket_goes_in_time(s3):
    with serve(s3.endpoint, "--artifact-retention", "1s") as server:
        execution = run(server, MAKE)
        wait_for(lambda: fetch(server, execution["artifacts"][0]["download_url"]).status == 404, "its end")
        wait_for(lambda: s3.objects() == [] and blobs(server) == [], "nothing that is left")


class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


def ask_where(server, url):
    """-> (status, headers) of an answer that is not followed"""
    try:
        with urllib.request.build_opener(Stay).open(url, timeout=PATIENCE) as answer:
            return answer.status, answer.headers
    except urllib.error.HTTPError as refused:
        return refused.code, refused.headers


def test_large_artifacts_are_fetched_from_the_bucket_itself(s3):
    with serve(s3.endpoint, "--s3-redirect", "1M") as server:
        execution = run(server, "open('b\\u00fc \\\"x\\\".html', 'wb').write(bytes(range(256)) * 28672)\n"
                        + writing("small.txt", SMALL))
        wait_moved(server, s3, execution)
        large, small = (a["download_url"] for a in reread(server, execution)["artifacts"])
        status, headers = ask_where(server, large)
        where = headers["Location"]
        assert status == 307 and where.startswith(f"{s3.endpoint}/{BUCKET}/cove/artifacts/{execution['id']}/")
        assert headers["Cache-Control"] == "no-store" and SECRET_KEY not in where
        with urllib.request.urlopen(large, timeout=PATIENCE) as answer:  # follows, without a token of either
            assert answer.url.startswith(s3.endpoint) and answer.read() == LARGE_DATA
            assert answer.headers["Content-Type"] == "text/html"
            assert answer.headers["Content-Disposition"].startswith("attachment; filename=")
            assert "%C3%BC" in answer.headers["Content-Disposition"]
        assert ask_where(server, small)[0] == 200
        assert where not in server.log_path.read_text()
        known = fetch(server, large, headers={"If-None-Match": f'"{hashlib.sha256(LARGE_DATA).hexdigest()}"'})
        assert known.status == 304
        s3.kill()
        answer = fetch(server, large)
        assert (answer.status, answer.code) == (503, "storage_unavailable")


def test_a_large_artifact_that_is_still_here_needs_no_bucket(s3):
    with serve(s3.endpoint, "--s3-redirect", "1M") as server:
        s3.kill()
        execution = run(server, MAKE)
        check_both(server, execution)
        s3.start()
        wait_moved(server, s3, execution)
        assert ask_where(server, one({"artifacts": reread(server, execution)["artifacts"][:1]})["download_url"])[0] == 307
