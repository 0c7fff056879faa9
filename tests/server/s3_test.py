# SPDX-License-Identifier: Apache-2.0
"""Blobs in a bucket of a real S3 server: what works, and what happens when it is wrong, slow, broken or dead."""
import hashlib
import os
import subprocess
import urllib.error
import urllib.request

import pytest

from covetest import BUILD, PATIENCE, wait_for
from s3_server import ACCESS_KEY, BUCKET, SECRET_KEY, Proxy, S3Server
from server import Server

PART = 5 << 20
SECRETS = SECRET_KEY, "Signature=", "Credential="


@pytest.fixture(scope="module")
def s3():
    with S3Server() as one:
        yield one


class Peer:
    """blob_peer with one store of blobs."""

    def __init__(self, endpoint, *args, **settings):
        env = {"S3_ENDPOINT": endpoint, "S3_BUCKET": BUCKET, "S3_ACCESS_KEY": ACCESS_KEY, "S3_SECRET_KEY": SECRET_KEY,
               "S3_PREFIX": "cove/", "S3_PAUSE_MS": "20", "S3_STALL_S": "60"}
        env |= {f"S3_{name.upper()}": str(value) for name, value in settings.items()}
        self.process = subprocess.Popen([BUILD / "tests/blob_peer", *(args or ["s3"])], env=os.environ | env, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.said = self.process.stdout.readline()
        assert self.said == "ready\n", self.said

    def __call__(self, *words):
        """The words of a good answer."""
        answer = self.ask(*words)
        assert answer.startswith("ok"), answer
        return answer.split()[1:]

    def ask(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().rstrip("\n")
        assert not any(secret in answer for secret in SECRETS) or words[0] == "sign", answer
        return answer

    def fails(self, *words):
        """(code, word, message and hint)"""
        answer = self.ask(*words)
        assert answer.startswith("error "), answer
        return answer.split(" ", 3)[1:]

    @property
    def retried(self):
        return int(self("health")[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        assert self.process.wait(PATIENCE) == 0
        self.process.stdout.close()


@pytest.fixture
def peer(s3):
    with Peer(s3.endpoint) as one:
        yield one


@pytest.fixture
def proxy(s3):
    with Proxy(s3.port) as one:
        yield one


def wait_tidy(peer, s3):
    """The peer works only while it is asked for something."""
    wait_for(lambda: peer.ask("stat", "tidy") and not s3.unfinished(), "no rest of an upload")


# --- what works -----------------------------------------------------------------------------------

@pytest.mark.parametrize("size", [0, 1, PART - 1, PART, PART + 1, 3 * PART + 12345])
@pytest.mark.parametrize("order", ["put", "sized"])
def test_what_was_put_is_got(peer, s3, order, size):
    put = peer(order, f"round/{order}{size}", size, 7)
    got = peer("get", f"round/{order}{size}", 0, 0)
    assert got == [put[0], str(size), str(size)]
    assert peer("stat", f"round/{order}{size}")[0] == str(size)
    assert not s3.unfinished() and peer.retried == 0


def test_a_writer_waits_for_the_storage(peer):
    drains = int(peer("put", "waits", 6 * PART, 1)[1])
    assert drains >= 4  # it was told to wait, and then to go on


def test_ranges(peer):
    peer("put", "range", 1000, 3)
    whole = peer("get", "range", 0, 0)
    assert peer("get", "range", 0, 1000) == whole
    assert peer("get", "range", 990, 100)[1:] == ["10", "1000"]
    assert peer("get", "range", 1000, 0)[1:] == ["0", "1000"]
    assert peer.fails("get", "range", 1001, 0)[:2] == ["invalid", "range_not_satisfiable"]
    assert peer("health")[0] == "0"


def test_a_blob_is_replaced_removed_and_missing(peer):
    one, two = peer("put", "same", 100, 1)[0], peer("put", "same", 200, 2)[0]
    assert one != two and peer("get", "same", 0, 0) == [two, "200", "200"]
    peer("rm", "same")
    peer("rm", "same")
    for order in "stat", "get":
        code, word, words = peer.fails(order, "same", 0, 0)
        assert (code, word) == ("not_found", "blob_not_found") and "'same'" in words
    assert peer("health")[0] == "0"  # nobody's fault


def test_lists_in_pages(peer):
    names = [f"list/{i:03}" for i in range(25)]
    for name in names:
        peer("put", name, 1, 1)
    assert peer("ls", "list/", "-", 0) == ["0", *names]
    assert peer("ls", "list/", names[9], 10) == ["1", *names[10:20]]
    assert peer("ls", "list/", names[19], 10) == ["0", *names[20:]]
    assert peer("ls", "list/", names[24], 10) == ["0"]


def test_keys_stand_below_the_prefix(peer, s3):
    peer("put", "below/x", 1, 1)
    assert "cove/below/x" in s3.objects()


def test_an_upload_that_is_ended_early_leaves_nothing(peer, s3):
    peer("put", "early", 10, 1)
    for size in 100, PART + 1, 3 * PART:
        peer("drop", "early", size, 2)
    wait_tidy(peer, s3)
    assert peer("stat", "early")[0] == "10"


def test_a_reader_that_leaves(peer):
    peer("put", "left", PART, 1)
    for _ in range(3):
        peer("leave", "left")
    assert peer("stat", "left")[0] == str(PART)


def test_from_one_blob_into_another(peer):
    put = peer("put", "from", 2 * PART + 7, 5)[0]
    peer("copy", "from", "to")
    assert peer("get", "to", 0, 0)[0] == put


def test_many_at_once(peer):
    assert peer("crowd", "crowd/", 100, 20000) == ["0"]
    assert len(peer("ls", "crowd/", "-", 0)) == 101


def test_addresses_that_need_no_keys(peer):
    put = peer("sign", "put", "signed/x", 60)[0]
    body = os.urandom(100000)
    request = urllib.request.Request(put, data=body, method="PUT")
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        assert answer.status == 200
    assert peer("get", "signed/x", 0, 0)[0] == hashlib.sha256(body).hexdigest()
    url = peer("sign", "get", "signed/x", 60)[0]
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        assert answer.read() == body
    assert SECRET_KEY not in url
    for changed in url.replace("signed/x", "signed/y"), url.replace("Expires=60", "Expires=61"), url[:-1]:
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(changed, timeout=PATIENCE)
        assert refused.value.code in (400, 403)


def test_the_bucket_in_the_host():
    with S3Server("--virtual-domain", "localhost") as s3, \
            Peer(f"http://localhost:{s3.port}", addressing="virtual") as peer:
        put = peer("put", "virtual", PART + 1, 1)[0]
        assert peer("get", "virtual", 0, 0)[0] == put
        assert s3.objects() == ["cove/virtual"]


def test_https_with_a_certificate_of_its_own(tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert], check=True,
                   stderr=subprocess.DEVNULL)
    with S3Server("--cert", cert, "--key", key, scheme="https") as s3:
        with Peer(s3.endpoint, ca=cert) as peer:
            put = peer("put", "tls", PART + 1, 1)[0]
            assert peer("get", "tls", 0, 0)[0] == put
        with Peer(s3.endpoint, attempts=1) as stranger:  # nobody vouches for it
            assert stranger.fails("put", "tls", 1, 1)[:2] == ["unavailable", "storage_unavailable"]
            assert "certificate" in stranger.ask("health")


# --- what is set wrong ----------------------------------------------------------------------------

@pytest.mark.parametrize("settings, word, message, hint", [
    ({"access_key": "nobody"}, "storage_denied", "the access key is not known", "COVE_S3_ACCESS_KEY"),
    ({"secret_key": "wrong"}, "storage_denied", "the secret key is not the one of the access key", "COVE_S3_SECRET_KEY"),
    ({"bucket": "not-there"}, "storage_misconfigured", "there is no such bucket", "COVE_S3_BUCKET"),
    ({"region": "eu-west-1"}, "storage_misconfigured", "the bucket is in another region",
     "set s3-region (COVE_S3_REGION) to 'us-east-1'"),
])
def test_wrong_settings_say_what_to_do(s3, settings, word, message, hint):
    with Peer(s3.endpoint, **settings) as peer:
        for order in ("put", "x", 1, 1), ("put", "x", PART + 1, 1), ("ls", "-", "-", 1), ("get", "x", 0, 0):
            code, found, words = peer.fails(*order)
            assert (code, found) == ("unavailable", word), words
            assert message in words and hint in words
        assert peer("health")[0] == "1" and peer.retried == 0  # asking again would not help
    assert not s3.unfinished()


@pytest.mark.parametrize("ahead", [-3600, 3600, 86400])
def test_a_wrong_clock_is_made_up_for(s3, ahead):
    with Peer(s3.endpoint, clock_s=ahead) as peer:
        put = peer("put", "clock", 100, 1)[0]
        assert peer.retried == 1  # once, and then it is known
        assert peer("get", "clock", 0, 0)[0] == put
        assert peer.retried == 1
        url = peer("sign", "get", "clock", 60)[0]
        assert urllib.request.urlopen(url, timeout=PATIENCE).status == 200


# --- what breaks ----------------------------------------------------------------------------------

def test_a_storm_of_503(s3, proxy):
    with Peer(proxy.endpoint) as peer:
        proxy.plans = [("refuse",)] * 3
        put = peer("put", "storm", 1000, 1)[0]
        assert proxy.seen[:3] == ["refuse"] * 3 and peer.retried == 3
        proxy.plans = [("refuse",)] * 2
        assert peer("get", "storm", 0, 0)[0] == put


def test_a_storm_that_does_not_end(s3, proxy):
    with Peer(proxy.endpoint, attempts=3) as peer:
        proxy.plans = [("refuse",)] * 1000
        code, word, words = peer.fails("put", "endless", PART + 1, 1)
        assert (code, word) == ("unavailable", "storage_unavailable") and "503 SlowDown" in words
        assert peer("health")[0] == "1"
        proxy.plans = []
        peer("put", "endless", 10, 1)  # by itself
        assert peer("health")[0] == "0"


@pytest.mark.parametrize("at", [10, 1000, 300000, PART - 1000])
def test_connections_that_break_while_writing(s3, proxy, at):
    with Peer(proxy.endpoint) as peer:
        proxy.plans = [("cut_up", at), ("cut_up", at), ("cut_up", at)]
        put = peer("put", f"up{at}", 2 * PART + 9, 4)[0]
        assert peer.retried >= 1
        assert peer("get", f"up{at}", 0, 0)[0] == put
        wait_tidy(peer, s3)


@pytest.mark.parametrize("at", [10, 1000, 100000])
def test_answers_that_break(s3, proxy, at):
    """Of every request of an upload, also of the one that completes it, and of a download in its middle."""
    with Peer(proxy.endpoint) as peer:
        for count in range(1, 5):
            proxy.plans = [("cut_down", 10)] * count
            put = peer("put", f"down{at}", PART + 9, 4)[0]
            assert peer("stat", f"down{at}")[0] == str(PART + 9)
        wait_tidy(peer, s3)
    for offset, length in (0, PART + 9), (77, 4000000):
        with Peer(proxy.endpoint) as peer:  # with connections of its own: plans are for new ones
            proxy.plans = [("cut_down", at)] * 4
            got = peer("get", f"down{at}", offset, length)
            assert got[1:] == [str(length), str(PART + 9)] and peer.retried >= 3
            assert offset or got[0] == put


def test_one_that_never_answers(s3, proxy):
    with Peer(proxy.endpoint, stall_s=5, attempts=2) as peer:
        proxy.plans = [("silent",)] * 1
        peer("put", "slow", 10, 1)
        assert peer.retried == 1
        proxy.plans = [("silent",)] * 1000
    with Peer(proxy.endpoint, stall_s=1, attempts=2) as peer:
        code, word, words = peer.fails("put", "slow", 10, 1)
        assert (code, word) == ("unavailable", "storage_unavailable") and "does not answer" in words


def test_one_that_dies_and_comes_back():
    with S3Server() as s3, Peer(s3.endpoint, attempts=3) as peer:
        put = peer("put", "kept", PART + 1, 1)[0]
        s3.kill()
        for order in ("put", "kept", 10, 2), ("put", "kept", 2 * PART, 2), ("get", "kept", 0, 0), ("rm", "kept"):
            code, word, words = peer.fails(*order)
            assert (code, word) == ("unavailable", "storage_unavailable")
            assert "the storage does not answer" in words and "COVE_S3_ENDPOINT" in words
        assert str(s3.port) in peer.ask("health")  # the operator learns where
        s3.start()
        assert peer("get", "kept", 0, 0)[0] == put  # the last good one
        assert peer("health")[0] == "0"


def test_one_that_dies_in_the_middle_of_an_upload():
    """It loses nothing that was told, and what was half sent does not appear."""
    with S3Server() as s3, Proxy(s3.port) as proxy:
        with Peer(proxy.endpoint, attempts=2) as peer:
            put = peer("put", "kept", PART + 1, 1)[0]
        with Peer(proxy.endpoint, attempts=2) as peer:
            proxy.plans = [("cut_up", PART + 100000)] + [("refuse",)] * 100
            assert peer.fails("put", "kept", 4 * PART, 2)[1] == "storage_unavailable"
            proxy.plans = []
            assert peer("get", "kept", 0, 0)[0] == put


# --- the server -----------------------------------------------------------------------------------

def serve(s3, endpoint=None, **env):
    settings = {"COVE_S3_ENDPOINT": endpoint or s3.endpoint, "COVE_S3_BUCKET": BUCKET, "AWS_ACCESS_KEY_ID": ACCESS_KEY,
                "COVE_S3_SECRET_KEY": SECRET_KEY}
    return Server(env=settings | env)


def storage_of(server):
    return server.get("/health").json["components"]["storage"]


def test_the_server_keeps_blobs_in_a_bucket(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(SECRET_KEY + "\n")
    with S3Server() as s3, serve(s3, COVE_S3_SECRET_KEY="", COVE_S3_SECRET_KEY_FILE=str(secret)) as server:
        wait_for(lambda: storage_of(server)["state"] == "ok", "the bucket")
        s3.kill()
        assert server.get("/health").status == 200
        assert SECRET_KEY not in server.log_path.read_text() + server.out


def test_a_server_whose_bucket_is_dead_or_wrong_says_so_and_recovers():
    with S3Server() as s3:
        s3.kill()
        with serve(s3) as server:
            wait_for(lambda: storage_of(server)["state"] == "failing", "the trouble")
            assert "does not answer" in storage_of(server)["message"]
            assert server.post("/execute", {"code": "print(1)", "language": "python"}).json["stdout"] == "1\n"
            s3.start()
            wait_for(lambda: storage_of(server)["state"] == "ok", "the end of the trouble")
        with serve(s3, COVE_S3_SECRET_KEY="wrong-but-secret") as server:
            wait_for(lambda: storage_of(server)["state"] == "failing", "the trouble")
            assert "the secret key is not the one" in storage_of(server)["message"]
            line = next(line for line in server.log if line["message"] == "blobs cannot be kept")
            assert "COVE_S3_SECRET_KEY" in line["hint"]
            assert "wrong-but-secret" not in server.log_path.read_text() + server.out


def test_a_bucket_without_keys_does_not_start():
    with Server(env={"COVE_S3_BUCKET": BUCKET}, is_ready=False) as server:
        assert server.process.wait(PATIENCE) != 0
        assert "s3-access-key" in server.log_path.read_text() + server.out
