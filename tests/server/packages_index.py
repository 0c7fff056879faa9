# SPDX-License-Identifier: Apache-2.0
"""An index of Python packages and a registry of npm's on loopback, with packages that tests make."""
import base64
import hashlib
import http.server
import io
import json
import os
import socket
import struct
import tarfile
import threading
import zipfile


def wheel(name, version="1.0", files=None, tag="py3-none-any"):
    """(file name, bytes) of a wheel whose modules are `files`; without any, one that knows its version."""
    files = dict(files or {f"{name}.py": f"VERSION = {version!r}\n"})
    info = f"{name}-{version}.dist-info"
    files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n"
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return f"{name}-{version}-{tag}.whl", memory.getvalue()


def tar(files):
    memory = io.BytesIO()
    with tarfile.open(fileobj=memory, mode="w:gz") as archive:
        for path, text in files.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(text.encode()), 0o644
            archive.addfile(entry, io.BytesIO(text.encode()))
    return memory.getvalue()


BACKEND = '''import base64, os, sys
def build_wheel(directory, settings=None, metadata=None):
    evil()
    with open(os.path.join(directory, {file!r}), "wb") as out:
        out.write(base64.b64decode({data!r}))
    return {file!r}
'''


def source(name, code, version="1.0"):
    """(file name, bytes) of a source package that runs `code` (the body of a function) when it is built."""
    file, data = wheel(name, version)
    body = "def evil():\n" + "".join(f"    {line}\n" for line in code.splitlines())
    folder = f"{name}-{version}"
    return f"{folder}.tar.gz", tar({
        f"{folder}/pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
        f"{folder}/backend.py": body + BACKEND.format(file=file, data=base64.b64encode(data).decode()),
        f"{folder}/PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"})


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # uv opens dozens of connections at once; those that find no place wait for seconds


class Index:
    """`python` and `npm` are its addresses; `asked` has the paths that were asked for."""

    def __init__(self):
        self.files, self.npm_packages, self.asked = {}, {}, []
        self.hold = threading.Event()  # files are not handed out before it is set
        self.hold.set()
        self.resets = 0  # so many requests are not answered
        index = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def send_head(self):
                status, kind, body = index.answer(self.path)
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                return body

            def do_HEAD(self):  # as uv does, before it fetches
                self.send_head()

            def do_GET(self):
                index.asked.append(self.path)
                if index.resets:
                    index.resets -= 1
                    self.close_connection = True
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    os.close(self.connection.detach())  # without a word
                    return
                self.wfile.write(self.send_head())

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.python, self.npm = f"http://127.0.0.1:{self.port}/simple/", f"http://127.0.0.1:{self.port}/npm/"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.hold.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def add(self, package):
        name, data = package
        self.files[name] = data

    def add_npm(self, name, files, version="1.0.0", **more):
        manifest = {"name": name, "version": version, **more}
        data = tar({"package/package.json": json.dumps(manifest)} | {f"package/{path}": text for path, text in files.items()})
        self.files[f"{name.replace('/', '-')}-{version}.tgz"] = data
        self.npm_packages[name] = (manifest, data)

    def answer(self, path):
        kind, _, rest = path.lstrip("/").partition("/")
        if kind == "simple":
            name = rest.strip("/")
            links = "".join(f'<a href="/files/{file}">{file}</a>' for file in self.files
                            if file.split("-")[0].lower().replace("_", "-") == name)
            return (200, "text/html", f"<!DOCTYPE html><html><body>{links}</body></html>".encode()) if links else \
                (404, "text/plain", b"no such package")
        if kind == "npm" and rest.replace("%2f", "/") in self.npm_packages:
            manifest, data = self.npm_packages[rest.replace("%2f", "/")]
            tarball = f"http://127.0.0.1:{self.port}/files/{manifest['name'].replace('/', '-')}-{manifest['version']}.tgz"
            integrity = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
            version = manifest | {"dist": {"tarball": tarball, "integrity": integrity}}
            return 200, "application/json", json.dumps({"name": manifest["name"], "dist-tags": {"latest": manifest["version"]},
                                                        "versions": {manifest["version"]: version}}).encode()
        if kind == "files" and rest in self.files:
            self.hold.wait(60)
            return 200, "application/octet-stream", self.files[rest]
        return 404, "text/plain", b"not here"

    def count(self, part):
        return sum(part in path for path in self.asked)
