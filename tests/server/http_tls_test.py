# SPDX-License-Identifier: Apache-2.0
"""The HTTP layer behind TLS."""
import contextlib
import json
import os
import socket
import ssl
import subprocess

import pytest

from covetest import BUILD, PATIENCE, wait_for
from http_peer import (BINARY, GET, MIB, TEXT, Answer, Reader, Socket, certificate, frame, read_to_end, secure, start)  # noqa: F401


def test_tls(secure):
    server = secure()
    with server.connect() as link:
        assert link.version() == "TLSv1.3" and link.selected_alpn_protocol() == "http/1.1"
        reader = Reader(link)
        link.sendall(GET % b"/show/a/b" + GET % b"/later/20" + GET % b"/hello")
        assert json.loads(Answer(reader).body)["tls"] is True
        assert [Answer(reader).body for _ in range(2)] == [b"later\n", b"hello\n"]
        link.sendall(b"GET /hello HTTP/1.1\r\nHost: localhost\r\nOrigin: https://localhost\r\nConnection: close\r\n\r\n")
        assert Answer(reader).status == 200
        assert link.recv(1) == b""  # with a proper goodbye, else this raises


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_versions(secure, version):
    server = secure()
    server.tls.minimum_version = server.tls.maximum_version = version
    assert server.get("/hello").status == 200


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tls_1_1_and_other_protocols_are_refused(secure, certificate):
    server = secure()
    server.tls.set_ciphers("ALL:@SECLEVEL=0")
    server.tls.minimum_version = ssl.TLSVersion.TLSv1
    server.tls.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionResetError)):
        server.connect()
    server.tls = ssl.create_default_context(cafile=certificate[0])
    server.tls.set_alpn_protocols(["h2"])
    with pytest.raises((ssl.SSLError, ConnectionResetError)):
        server.connect()


def test_tls_bodies(secure):
    server = secure()
    data = os.urandom(8 * MIB)
    with server.connect() as link:
        reader = Reader(link)
        link.sendall(b"PUT /sink HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
        assert json.loads(Answer(reader).body) == {"bytes": len(data)}
        link.sendall(b"PUT /slow-sink?ms=30 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 300000\r\n\r\n" + b"x" * 300000)
        assert json.loads(Answer(reader).body) == {"bytes": 300000}
        link.sendall(GET % b"/big?bytes=30000000")
        assert Answer(reader).body == b"p" * 30000000
        link.sendall(GET % b"/given?bytes=5000000")
        assert Answer(reader).body == b"g" * 5000000


def test_tls_peer_leaves(secure):
    server = secure()
    for close in (lambda link: link.close(), lambda link: link.unwrap()):
        gone = server.stats()["gone"]
        link = server.connect()
        link.sendall(GET % b"/later/0")
        wait_for(lambda: server.stats()["open"] == 1, "the handler works")
        with contextlib.suppress(OSError):
            link.settimeout(0.05)
            close(link)
        link.close()
        wait_for(lambda: server.stats()["gone"] == gone + 1, "the leave is noticed")


def test_tls_websocket(secure):
    ws = Socket(secure(), ahead=frame(TEXT, b"early"))
    assert ws.receive() == (TEXT, b"early")
    ws.send(BINARY, b"x" * 500000)
    assert ws.receive() == (BINARY, b"x" * 500000)
    ws.link.close()


def test_tls_too_many_connections(secure):
    server = secure(connections=2)
    links = [server.connect() for _ in range(2)]
    for _ in range(20):  # there is no way to say more than that
        with pytest.raises(OSError):
            server.connect()
    links.pop().close()
    wait_for(lambda: is_served(server), "there is room again")
    links.pop().close()


def is_served(server):
    try:
        return server.get("/hello").status == 200
    except OSError:
        return False


def test_tls_handshake_has_a_deadline(secure):
    server = secure(head_ms=200)
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as link:
        assert read_to_end(link) == b""
        with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as noise:
            noise.sendall(GET % b"/hello")
            assert b"HTTP/1.1 200" not in read_to_end(noise)
    assert server.get("/hello").status == 200


@pytest.mark.parametrize("cert,key,word", [("/nonexistent", None, "certificate"), (None, "/nonexistent", "key"), (None, "other", "key")])
def test_tls_files_that_do_not_fit(certificate, tmp_path, cert, key, word):
    if key == "other":
        key = tmp_path / "other"
        subprocess.run(["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", key], check=True, capture_output=True)
    failed = subprocess.run([BUILD / "tests" / "http_peer", f"cert={cert or certificate[0]}", f"key={key or certificate[1]}"],
                            capture_output=True, text=True)
    assert failed.returncode == 1 and word in failed.stderr
