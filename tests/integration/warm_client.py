# SPDX-License-Identifier: Apache-2.0
"""A zygote and three sandboxes by it, from start to end, as one line of JSON: for users and machines that have no pytest.

    warm_client.py SPAWNER KERNEL CODE OPTIONS...

OPTIONS are the spawner's; the image is the one that is tagged `python` in its store.
"""
import array
import json
import os
import pathlib
import socket
import struct
import subprocess
import sys

VERSION = 4
HELLO, CREATE, DESTROY, SEALED, ZYGOTE = 1, 2, 5, 9, 10
FAILED = 2
HEADER, FAILURE = struct.Struct("<IHHQQ"), struct.Struct("<iii96s")
FRAME = struct.Struct("<IHHII")
EXECUTE, READY, ERROR, DONE = 2, 64, 66, 68
PATIENCE_S = 300  # an emulated processor takes its time
LIMITS = (256 << 20, 32 << 20, 4096, 1000, 64, 256, 600_000)


class Refused(Exception):
    pass


class Client:
    def __init__(self, spawner, options):
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(PATIENCE_S)
        self.process = subprocess.Popen([spawner, *options], stdin=subprocess.DEVNULL, close_fds=False,
                                        preexec_fn=lambda: os.dup2(theirs.fileno(), 3))
        theirs.close()
        self.serial = 0

    def receive(self):
        data, fds, _, _ = socket.recv_fds(self.socket, 512, 4)
        if not data:
            raise Refused("the spawner hung up")
        serial, verb, flags, sandbox, _ = HEADER.unpack(data[:HEADER.size])
        body = data[HEADER.size:]
        if flags & FAILED:
            code, error, _, step = FAILURE.unpack(body[:FAILURE.size])
            raise Refused(f"{step.split(bytes(1))[0].decode()} (code {code}, errno {error})")
        return serial, verb, sandbox, body, fds

    def ask(self, verb, body=b"", sandbox=0, fds=()):
        self.serial += 1
        data = HEADER.pack(self.serial, verb, 0, sandbox, 0) + body
        self.socket.sendmsg([data.ljust(256, b"\0")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
        while True:
            answer = self.receive()
            if answer[0] == self.serial:
                return answer[2:]

    def hello(self):
        for fd in self.ask(HELLO, struct.pack("<I", VERSION))[2]:
            os.close(fd)

    def wait_sealed(self, sandbox):
        while True:
            _, verb, about, body, _ = self.receive()
            if (verb, about) == (SEALED, sandbox):
                return struct.unpack("<III", body[:12])


def memory_file(data):
    fd = os.memfd_create("given")
    os.write(fd, data)
    return fd


def execute(channel, code):
    """What the code printed, and READY before it."""
    assert FRAME.unpack(channel.recv(70_000)[:FRAME.size])[1] == READY
    ours, theirs = os.pipe()
    null = os.open("/dev/null", os.O_RDONLY)
    rights = array.array("i", [null, theirs, theirs])
    channel.sendmsg([FRAME.pack(len(code), EXECUTE, 0, 1, 0), code], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    os.close(theirs)
    error, kind, data = None, None, b""
    while kind != DONE:
        data = data or channel.recv(70_000)
        assert data, "the kernel went away"
        length, kind = FRAME.unpack(data[:FRAME.size])[:2]
        body, data = data[FRAME.size:FRAME.size + length], data[FRAME.size + length:]
        if kind == ERROR:
            error = json.loads(body)
    with open(ours, encoding="utf-8") as output:
        return error or output.read()


def image_of(options):
    for name, value in zip(options, options[1:]):
        tag = pathlib.Path(value, "tags", "python")
        if name == "--store" and (tag.exists() or tag.is_symlink()):
            text = os.readlink(tag) if tag.is_symlink() else tag.read_text().split()[0]
            return bytes.fromhex(text.split("/")[-1].split(":")[-1])
    raise Refused("there is no image 'python'")


def use(client, digest, kernel, code):
    client.hello()
    body = struct.Struct("<32sQQQIIIIIIQ")
    config = json.dumps({"env": {"LANG": "C.UTF-8", "HOME": "/workspace"}}).encode()
    fds = [memory_file(pathlib.Path(kernel).read_bytes()), memory_file(config), 2]
    zygote = client.ask(ZYGOTE, body.pack(digest, *LIMITS, 0, 0, 0), fds=fds)[0]
    client.wait_sealed(zygote)
    made = []
    for _ in range(3):
        sandbox, _, (control, channel) = client.ask(CREATE, body.pack(digest, *LIMITS, 0, 0, zygote))
        layers, host_uid, uid = client.wait_sealed(sandbox)
        with socket.socket(fileno=channel) as frames:
            frames.settimeout(PATIENCE_S)
            made.append({"layers": layers, "host_uid": host_uid, "uid": uid, "output": execute(frames, code.encode())})
        client.ask(DESTROY, sandbox=sandbox)
        os.close(control)
    client.ask(DESTROY, sandbox=zygote)
    return made


def main():
    spawner, kernel, code, *options = sys.argv[1:]
    client = Client(spawner, options)
    result = {"failure": None, "made": []}
    try:
        result["made"] = use(client, image_of(options), kernel, code)
    except Refused as refused:
        result["failure"] = str(refused)
    client.socket.close()
    result["status"] = client.process.wait(PATIENCE_S)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
