# SPDX-License-Identifier: Apache-2.0
"""The bundle for assistants and the entry for MCP's registry, judged by their own tools."""
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
import zipfile

import jsonschema
import pytest

import covetest
import npm
from mcp_packages import MCPB

MODULE, VERSION = "github.com/modelcontextprotocol/registry", "v1.8.7"
SCHEMA = "internal/validators/schemas/2025-12-11.json"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "cove"
REPOSITORY = "https://github.com/someone/cove"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """-> the folder with the bundle and its entry"""
    if covetest.BUILD != covetest.ROOT / "build":
        pytest.skip("a bundle is made of the release build alone")
    out = tmp_path_factory.mktemp("bundle")
    done = subprocess.run([covetest.ROOT / "tools/make-bundle", "--repository", REPOSITORY, "--out", out],
                          capture_output=True, text=True, timeout=covetest.PATIENCE)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def mcpb():
    try:
        modules, environment = npm.install(MCPB)
    except npm.OutOfReach as why:
        pytest.skip(str(why))

    def run(*words):
        done = subprocess.run([modules / ".bin/mcpb", *words], env=environment, capture_output=True, text=True,
                              timeout=covetest.PATIENCE)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def module_proxy():
    """-> the first address that Go would fetch modules from, or None"""
    go = shutil.which("go", path=os.environ.get("PATH", "") + ":/usr/local/go/bin:/usr/lib/go/bin")
    told = subprocess.run([go, "env", "GOPROXY"], capture_output=True, text=True, check=False).stdout if go else ""
    return next(iter(re.findall(r"https?://[^,|\s]+", os.environ.get("GOPROXY") or told)), None)


@pytest.fixture(scope="module")
def registry_schema():
    kept = CACHE / f"server-json-{VERSION}"
    if not kept.exists():
        proxy = module_proxy()
        if not proxy:
            pytest.skip("GOPROXY names no address to fetch the registry's schema from")
        try:
            with urllib.request.urlopen(f"{proxy.rstrip('/')}/{MODULE}/@v/{VERSION}.zip", timeout=60) as answer:
                archive = zipfile.ZipFile(io.BytesIO(answer.read()))
        except (urllib.error.URLError, OSError) as why:
            pytest.skip(f"the registry's schema is out of reach: {why}")
        CACHE.mkdir(parents=True, exist_ok=True)
        draft = kept.with_suffix(f".{os.getpid()}")
        draft.write_bytes(archive.read(f"{MODULE}@{VERSION}/{SCHEMA}"))
        draft.rename(kept)
    return json.loads(kept.read_text())


def bundle_of(made):
    return next(made.glob("cove-*.mcpb"))


def test_the_registry_takes_the_entry(made, registry_schema):
    entry = json.loads((made / "server.json").read_text())
    jsonschema.validate(entry, registry_schema)
    package, bundle = entry["packages"][0], bundle_of(made)
    assert entry["name"] == "io.github.someone/cove"
    assert package["identifier"] == f"{REPOSITORY}/releases/download/v{entry['version']}/{bundle.name}"
    assert package["fileSha256"] == hashlib.sha256(bundle.read_bytes()).hexdigest()


def test_assistants_take_the_bundle(made, mcpb, tmp_path):
    mcpb("unpack", bundle_of(made), tmp_path / "cove")
    assert "passes" in mcpb("validate", tmp_path / "cove/manifest.json")


def test_it_is_made_the_same_twice(made, tmp_path):
    subprocess.run([covetest.ROOT / "tools/make-bundle", "--out", tmp_path], check=True, capture_output=True)
    assert bundle_of(tmp_path).read_bytes() == bundle_of(made).read_bytes()
    assert not (tmp_path / "server.json").exists()


@pytest.fixture
def unpacked(made):
    with tempfile.TemporaryDirectory(prefix="cove-test-bundle-") as name:
        os.chmod(name, 0o755)  # started by root, the server is another user
        with zipfile.ZipFile(bundle_of(made)) as archive:
            for entry in archive.infolist():
                os.chmod(archive.extract(entry, name), entry.external_attr >> 16 & 0o777)
        yield pathlib.Path(name)


def test_what_is_unpacked_runs(unpacked, tmp_path):
    """As an assistant starts it: elsewhere, by the command of the manifest."""
    manifest = json.loads((unpacked / "manifest.json").read_text())
    config = manifest["server"]["mcp_config"]
    command = [word.replace("${__dirname}", str(unpacked)) for word in [config["command"], *config["args"]]]
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
               "params": {"name": "run_code", "arguments": {"language": "bash", "code": "echo $((6 * 7))"}}}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}) as cove:
        cove.stdin.write(json.dumps(request) + "\n")
        cove.stdin.flush()
        answer = json.loads(cove.stdout.readline())
    assert "[stdout]\n42\n" in answer["result"]["content"][0]["text"]
    assert [tool["name"] for tool in manifest["tools"]][0] == "run_code"
