# SPDX-License-Identifier: Apache-2.0
"""What an operator changes while addresses are outstanding and sessions run: the secret of files, and the file of options, also
to something that is no good."""
import signal
import urllib.parse

import pytest

import covetest
from covetest import EXIT_INVALID
from crashers import create, execute, read, settled, value
from server import Server

SECRET = "canary-of-the-rotation-0123456789"


def fetch(server, url):
    """Without a token, as a browser does; wherever the server is now."""
    parts = urllib.parse.urlsplit(url)
    return server.get(f"{parts.path}?{parts.query}", token=None)


def address(server, execution):
    artifact, = settled(server, execution)["artifacts"]
    return artifact["download_url"]


def leave_file(server, text):
    """The execution that made it. Who fetches it waits until it is kept."""
    execution = execute(server, create(server)["id"], f"open('a.txt', 'w').write('{text}')")["id"]
    assert fetch(server, address(server, execution)).body == text.encode()
    return execution


def hang_up(server):
    """Asks for another coved in place of this one, as after an upgrade."""
    server.kill_coved(signal.SIGHUP)


def test_addresses_outlive_the_secret_that_was_made_at_the_first_start():
    """Two secrets are good at a time, whatever becomes of the process meanwhile; then one."""
    with Server() as server:
        first = leave_file(server, "first")
        old, made = address(server, first), (server.data_dir / "server/file-secret").read_text().strip()
        server.stop()
        both = {"COVE_FILE_SECRET": SECRET, "COVE_FILE_SECRET_PREVIOUS": made}
        with Server(env=both, data_dir=server.data_dir) as second:
            for happens in (lambda _: None, Server.kill_coved, hang_up):
                happens(second)
                assert fetch(second, old).body == b"first"
                new = address(second, first)
                assert fetch(second, new).body == b"first"
            newer = address(second, leave_file(second, "second"))
            assert fetch(second, newer).body == b"second"
            said = second.say()
            second.stop()
        with Server(env={"COVE_FILE_SECRET": SECRET}, data_dir=server.data_dir) as third:
            assert (fetch(third, old).status, fetch(third, old).code) == (403, "link_invalid")
            assert fetch(third, new).body == b"first" and fetch(third, newer).body == b"second"
            said += third.say()
            third.stop()
        with Server(data_dir=server.data_dir) as fourth:  # back to what was made at first
            assert fetch(fourth, old).body == b"first"
            assert fetch(fourth, newer).code == "link_invalid"
        assert SECRET not in said and made not in said


def test_an_old_secret_alone_signs_nothing():
    """A secret that leaked is worth nothing as soon as it is not named any more, and while it is, it opens what it signed."""
    with Server(env={"COVE_FILE_SECRET": SECRET}) as server:
        execution = leave_file(server, "x")
        url = address(server, execution)
        server.stop()
        with Server(env={"COVE_FILE_SECRET": SECRET[::-1], "COVE_FILE_SECRET_PREVIOUS": SECRET}, data_dir=server.data_dir) as second:
            signed_again = address(second, execution)
            second.stop()
        with Server(env={"COVE_FILE_SECRET": SECRET}, data_dir=server.data_dir) as third:
            assert fetch(third, url).status == 200
            assert fetch(third, signed_again).code == "link_invalid", "it was not signed with the old one"


BAD = {
    "no such option": "tll = 1h\n",
    "out of range": "ttl = 0\n",
    "no number": "max-sessions = many\n",
    "none of the choices": "sync = sometimes\n",
    "above its ceiling": "memory = 2G\nmemory-max = 1G\n",
    "no line of options": "just some words\n",
    "a secret that is empty": "file-secret =\n",
    "a secret that is too long": f"file-secret = {SECRET * 200}\n",
    "a token with blanks": f"token = {SECRET} {SECRET}\n",
    "the same secret twice": f"token = {SECRET}\ninternal-token = {SECRET}\n",
    "bytes that are no text": "ttl = \x00\x01\n",
    "cut off": "ttl = 1h\nsyn",
}


@pytest.mark.parametrize("name", BAD)
def test_bad_options_in_a_file_stop_the_start_and_change_nothing(tmp_path, name):
    conf = tmp_path / "cove.conf"
    conf.write_text(BAD[name])
    done = covetest.Cove()("serve", "--config", conf, "--data-dir", tmp_path / "data", "--listen", "127.0.0.1:0")
    assert done.returncode == EXIT_INVALID and done.stdout == "", (done.returncode, done.stdout, done.stderr)
    option = BAD[name].split(" ")[0]
    assert str(conf) in done.stderr or option in done.stderr, done.stderr
    assert SECRET not in done.stderr
    assert not (tmp_path / "data").exists(), "nothing was made"


def test_a_file_that_is_spoilt_while_the_server_runs_matters_at_the_next_start(tmp_path):
    """Until then it is as it was, also for a coved that is replaced; and when the file is mended all is there."""
    conf, good = tmp_path / "cove.conf", f"file-secret = {SECRET}\n"
    conf.write_text(good)
    with Server("--config", conf) as server:
        session, done = create(server)["id"], leave_file(server, "kept")
        execute(server, session, "x = 41")
        url, ended_at = address(server, done), read(server, done)["ended_at"]
        conf.write_text(BAD["no number"])
        for happens in (Server.kill_coved, hang_up):
            happens(server)
            assert value(server, session, "x") == "41"
            assert fetch(server, url).body == b"kept"
        server.stop()
        refused = covetest.Cove()("serve", "--config", conf, "--data-dir", server.data_dir, "--listen", "127.0.0.1:0")
        assert refused.returncode == EXIT_INVALID and str(conf) in refused.stderr, refused.stderr
        conf.write_text(good)
        with Server("--config", conf, data_dir=server.data_dir) as second:
            assert fetch(second, url).body == b"kept"
            assert read(second, done)["ended_at"] == ended_at
