# SPDX-License-Identifier: Apache-2.0
"""`cove image import|list|rm|build` on stores of their own, with container images made here."""
import hashlib
import io
import json
import os
import pathlib
import pwd
import shutil
import stat
import subprocess
import tarfile
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COVE = os.environ.get("COVE", str(ROOT / "build/cove"))
EXIT_INVALID = 64
EXIT_NOT_FOUND = 66
IS_ROOT = os.geteuid() == 0

needs_tools = pytest.mark.skipif(
    not (shutil.which("skopeo") and shutil.which("umoci")), reason="skopeo and umoci are not installed")


class Store:
    """A data directory that the test has for itself."""

    def __init__(self, path):
        self.path = path

    def cove(self, *args, **kwargs):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("COVE_", "SANDBOX_"))}
        clean["HOME"] = "/nonexistent"  # no configuration of whoever runs the tests
        return subprocess.run([COVE, "image", *args, "--data-dir", str(self.path)], env=clean,
                              capture_output=True, text=True, timeout=300, **kwargs)

    def json(self, *args):
        done = self.cove(*args, "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    def error(self, *args, status):
        done = self.cove(*args, "--json")
        assert done.returncode == status, done.stdout + done.stderr
        return json.loads(done.stdout)["error"]

    def own_images(self):
        return [row for row in self.json("list")["images"] if row["data_dir"] == str(self.path)]

    def leftovers(self):
        names = {entry.name for entry in (self.path / "images").iterdir()}
        return {name for name in names if len(name) != 64} - {"tags"}

    def root_of(self, digest):
        return self.path / "images" / digest / "rootfs"


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "data")


# --- container images, by hand ------------------------------------------------------------------


def layer(entries):
    """A tar of (name, kind, content or target, mode, more) rows."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, kind, value, mode in entries:
            info = tarfile.TarInfo(name)
            info.mode, info.type, info.mtime = mode, kind, 0
            info.uid = info.gid = 0 if not IS_ROOT else 7
            if kind == tarfile.SYMTYPE:
                info.linkname = value
            elif kind == tarfile.REGTYPE:
                info.size = len(value)
            elif kind == tarfile.CHRTYPE:
                info.devmajor, info.devminor = value
            tar.addfile(info, io.BytesIO(value) if kind == tarfile.REGTYPE else None)
    return data.getvalue()


FOLDER, FILE, LINK, DEVICE, PIPE = (tarfile.DIRTYPE, tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE,
                                    tarfile.FIFOTYPE)
TREE = [
    ("bin", FOLDER, None, 0o755),
    ("bin/tool", FILE, b"#!/bin/sh\n", 0o4755),
    ("etc", FOLDER, None, 0o700),
    ("etc/secret", FILE, b"readable now\n", 0o600),
    ("run", FOLDER, None, 0o755),
    ("run/pid", FILE, b"1", 0o644),
    ("data", LINK, "/etc", 0o777),
]
CONFIG = {"Entrypoint": ["tool"], "Cmd": ["-c", "two words"], "Env": ["PATH=/bin", "LANG=C"],
          "Labels": {"sandbox.runner": "true", "sandbox.language": "toy"}}


def oci_layout(path, entries=None, config=None):
    """Writes an OCI layout with one image of one layer."""
    blobs = path / "blobs/sha256"
    blobs.mkdir(parents=True)

    def blob(data, media):
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return {"mediaType": f"application/vnd.oci.image.{media}", "digest": f"sha256:{digest}", "size": len(data)}

    packed = layer(TREE if entries is None else entries)
    image = {"architecture": "amd64", "os": "linux", "config": CONFIG if config is None else config,
             "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(packed).hexdigest()]}}
    manifest = {"schemaVersion": 2, "config": blob(json.dumps(image).encode(), "config.v1+json"),
                "layers": [blob(packed, "layer.v1.tar")]}
    index = {"schemaVersion": 2, "manifests": [blob(json.dumps(manifest).encode(), "manifest.v1+json")]}
    (path / "index.json").write_text(json.dumps(index))
    (path / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return path


def archive_of(folder, path):
    with tarfile.open(path, "w") as tar:
        for entry in sorted(folder.iterdir()):
            tar.add(entry, entry.name)
    return path


def docker_archive(path):
    """What `docker save` writes."""
    packed = layer(TREE)
    image = {"architecture": "amd64", "os": "linux", "config": CONFIG,
             "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(packed).hexdigest()]}}
    files = {"layer.tar": packed, "config.json": json.dumps(image).encode(),
             "manifest.json": json.dumps([{"Config": "config.json", "RepoTags": ["toy:latest"],
                                           "Layers": ["layer.tar"]}]).encode()}
    with tarfile.open(path, "w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


# --- import -------------------------------------------------------------------------------------


@needs_tools
def test_import_stores_a_scrubbed_root(store, tmp_path):
    made = store.json("import", "toy", str(oci_layout(tmp_path / "layout")))["images"]
    assert len(made) == 1 and made[0]["name"] == "toy" and made[0]["languages"] == ["toy"]
    root = store.root_of(made[0]["digest"])
    assert stat.S_IMODE((root / "bin/tool").stat().st_mode) == 0o755
    assert stat.S_IMODE((root / "etc").stat().st_mode) == 0o755
    assert (root / "etc/secret").read_text() == "readable now\n"
    assert stat.S_IMODE((root / "etc/secret").stat().st_mode) == 0o644
    assert (root / "etc/secret").stat().st_uid == os.geteuid()
    for place in ("proc", "dev", "tmp", "workspace", "data", "mnt/data"):
        assert (root / place).is_dir() and not (root / place).is_symlink()
        assert not list((root / place).iterdir())
    assert not (root / "run").exists() and not (root / "sys").exists()
    assert not store.leftovers()


@needs_tools
def test_an_image_is_readable_whatever_the_umask(store, tmp_path):
    source = str(oci_layout(tmp_path / "layout"))
    assert store.cove("import", "toy", source, umask=0o077).returncode == 0
    for path in [store.path, *store.path.rglob("*")]:
        assert path.is_symlink() or path.stat().st_mode & 0o004, path


@needs_tools
def test_import_derives_a_stateless_runner(store, tmp_path):
    digest = store.json("import", "x", str(oci_layout(tmp_path / "layout")))["images"][0]["digest"]
    conf = (store.path / "images" / digest / "runner.conf").read_text()
    assert conf == '[toy]\ncommand = /bin/tool -c "two words"\nenv = PATH=/bin\nenv = LANG=C\n'


@needs_tools
def test_import_without_labels_is_named_like_the_image(store, tmp_path):
    source = oci_layout(tmp_path / "layout", config={"Cmd": ["/bin/tool"]})
    assert store.json("import", "plain", str(source))["images"][0]["languages"] == ["plain"]


@needs_tools
def test_import_takes_archives(store, tmp_path):
    folder = oci_layout(tmp_path / "layout")
    archive = archive_of(folder, tmp_path / "with:colon.tar")
    digests = {store.json("import", name, str(source))["images"][0]["digest"]
               for name, source in (("a", folder), ("b", archive), ("c", docker_archive(tmp_path / "docker.tar")))}
    assert len(digests) == 1  # the same content, however it was packed
    assert {row["name"] for row in store.own_images()} == {"a", "b", "c"}


@needs_tools
def test_import_with_a_runner_conf(store, tmp_path):
    runner = tmp_path / "runner"
    runner.mkdir()
    (runner / "runner.conf").write_text("[given]\ncommand = /bin/tool {file}\n")
    source = str(oci_layout(tmp_path / "layout"))
    assert store.json("import", "x", source, "--runner", str(runner))["images"][0]["languages"] == ["given"]
    (runner / "runner.conf").write_text("[given]\ncommand = tool\n")
    error = store.error("import", "y", source, "--runner", str(runner), status=EXIT_INVALID)
    assert "runner.conf:2" in error["message"] and "absolute path" in error["message"]
    assert [row["name"] for row in store.own_images()] == ["x"]
    assert not store.leftovers()


@needs_tools
@pytest.mark.skipif(not IS_ROOT, reason="only root can unpack devices")
def test_import_drops_devices_and_pipes(store, tmp_path):
    entries = TREE + [("bin/null", DEVICE, (1, 3), 0o666), ("bin/pipe", PIPE, None, 0o666)]
    digest = store.json("import", "x", str(oci_layout(tmp_path / "layout", entries)))["images"][0]["digest"]
    assert {entry.name for entry in (store.root_of(digest) / "bin").iterdir()} == {"tool"}


@needs_tools
def test_import_does_not_follow_links_of_the_image(store, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    (outside / "kept").chmod(0o600)
    entries = TREE + [("mnt", LINK, str(outside), 0o777), ("tmp", LINK, str(outside), 0o777)]
    store.json("import", "x", str(oci_layout(tmp_path / "layout", entries)))
    assert [entry.name for entry in outside.iterdir()] == ["kept"]
    assert stat.S_IMODE((outside / "kept").stat().st_mode) == 0o600


@needs_tools
@pytest.mark.parametrize("config, words", [
    ({}, "neither an entry point nor a command"),
    ({"Cmd": ["absent"], "Env": ["PATH=/bin"]}, "'absent' is not in its PATH"),
    ({"Cmd": ["/bin/tool", "a\nb"]}, "spans lines"),
    ({"Cmd": "tool"}, ""),
    ({"Cmd": ["/bin/tool"], "Labels": {"sandbox.runner": "true", "sandbox.language": "../x"}}, "name of a language"),
])
def test_import_refuses_what_cannot_run(store, tmp_path, config, words):
    error = store.error("import", "x", str(oci_layout(tmp_path / "layout", config=config)), status=EXIT_INVALID)
    assert words in error["message"]
    assert not store.own_images() and not store.leftovers()


def test_import_refuses_what_is_no_image(store, tmp_path):
    (tmp_path / "text").write_text("hello")
    (tmp_path / "folder").mkdir()
    missing = store.error("import", "x", str(tmp_path / "missing"), status=EXIT_NOT_FOUND)
    assert "missing" in missing["message"]
    text = store.error("import", "x", str(tmp_path / "text"), status=EXIT_INVALID)
    assert "not the archive of a container image" in text["message"] and "docker save" in text["hint"]
    folder = store.error("import", "x", str(tmp_path / "folder"), status=EXIT_INVALID)
    assert "not an OCI layout" in folder["message"]
    name = store.error("import", "../x", str(tmp_path / "text"), status=EXIT_INVALID)
    assert "'../x' cannot be the name of an image" in name["message"]
    assert not store.leftovers()


def test_import_wants_two_words(store):
    assert "takes a name and an archive" in store.error("import", "x", status=EXIT_INVALID)["message"]


# --- list and rm --------------------------------------------------------------------------------


@needs_tools
def test_list_shows_people_a_table(store, tmp_path):
    store.json("import", "toy-image", str(oci_layout(tmp_path / "layout")))
    lines = store.cove("list").stdout.splitlines()
    assert lines[0].split()[:5] == ["NAME", "LANGUAGES", "DIGEST", "SIZE", "CREATED"]
    row = next(line for line in lines if line.startswith("toy-image"))
    assert " toy " in row and "import layout" in row


@needs_tools
def test_rm_removes_an_image_with_its_last_name(store, tmp_path):
    source = str(oci_layout(tmp_path / "layout"))
    digest = store.json("import", "a", source)["images"][0]["digest"]
    store.json("import", "b", source)
    store.json("rm", "a")
    assert store.root_of(digest).exists()
    assert store.json("rm", "b")["removed"][0]["digest"] == digest
    assert not store.root_of(digest).exists()
    assert not store.own_images() and not store.leftovers()


@needs_tools
def test_rm_unused(store, tmp_path):
    first = store.json("import", "a", str(oci_layout(tmp_path / "one")))["images"][0]["digest"]
    store.json("import", "a", str(oci_layout(tmp_path / "two", TREE[:2], CONFIG)))
    assert {row["name"] for row in store.own_images()} == {"a", None}
    assert [row["digest"] for row in store.json("rm", "--unused")["removed"]] == [first]
    assert [row["name"] for row in store.own_images()] == ["a"]
    third = store.json("import", "a", str(oci_layout(tmp_path / "three", TREE[:3], CONFIG)))["images"][0]["digest"]
    gone = next(row["digest"] for row in store.own_images() if row["digest"] != third)
    assert store.json("rm", gone[:12])["removed"][0]["digest"] == gone


def test_rm_of_nothing(store):
    (store.path / "images").mkdir(parents=True)
    error = store.error("rm", "absent", status=EXIT_NOT_FOUND)
    assert "'absent'" in error["message"] and "cove image list" in error["hint"]
    assert "needs the name" in store.error("rm", status=EXIT_INVALID)["message"]


@needs_tools
def test_the_next_maker_removes_what_a_dead_one_left(store, tmp_path):
    images = store.path / "images"
    (images / "tags").mkdir(parents=True)
    half = images / ".scratch-0123456789abcdef"
    (half / "image/rootfs/closed").mkdir(parents=True)
    (half / "image/rootfs/closed").chmod(0)
    store.json("import", "a", str(oci_layout(tmp_path / "layout")))
    assert not half.exists()


# --- build --------------------------------------------------------------------------------------


def test_build_names_the_recipes_there_are(store, tmp_path):
    recipes = tmp_path / "recipes"
    for name in ("ada", "basic", "not-one"):
        (recipes / name).mkdir(parents=True)
    for name in ("ada", "basic"):
        (recipes / name / "runner.conf").write_text("[x]\ncommand = /x\n")
    error = store.error("build", "cobol", "--recipes-dir", str(recipes), status=EXIT_NOT_FOUND)
    assert "no recipe 'cobol'" in error["message"] and error["hint"] == "recipes there: ada, basic"
    missing = store.error("build", "--recipes-dir", str(tmp_path / "no"), status=EXIT_NOT_FOUND)
    assert "--recipes-dir" in missing["hint"]


def fake_tool(folder, name, script):
    path = folder / name
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)


@pytest.fixture
def toolbox(tmp_path, monkeypatch):
    """A folder before all others in PATH, for a mmdebstrap that does what the test says."""
    folder = tmp_path / "tools"
    folder.mkdir()
    folder.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


@pytest.fixture
def recipes(tmp_path):
    folder = tmp_path / "recipes"
    (folder / "common").mkdir(parents=True)
    (folder / "common/packages").write_text("# shared\nbase-one\n")
    (folder / "toy").mkdir()
    (folder / "toy/packages").write_text("two three # words\n")
    (folder / "toy/runner.conf").write_text("[toy]\ncommand = /bin/toy {file}\n")
    (folder / "toy/prepare").write_text('#!/bin/sh\necho four >"$1/packages"\n')
    (folder / "toy/prepare").chmod(0o755)
    return folder


# Makes a directory or an archive, as the last but sources argument says.
GOOD = r"""
printf '%s\n' "$@" >"$TRACE"
for word; do case $word in */rootfs | */root.tar) target=$word ;; esac; done
echo "I: downloading packages with apt..."
echo "0 upgraded, 2 newly installed, 0 to remove and 0 not upgraded."
echo "Get:1 somewhere"; echo "Get:2 somewhere"
root=$target; [ "${target%.tar}" = "$target" ] || root=$(mktemp -d)
mkdir -p "$root/bin" "$root/dev"; echo x >"$root/bin/toy"; cp "$COVE_RECIPE/runner.conf" "$root/"
[ "$root" = "$target" ] || tar -C "$root" -cf "$target" .
"""


def test_build_runs_the_recipe(store, toolbox, recipes, tmp_path, monkeypatch):
    monkeypatch.setenv("TRACE", str(tmp_path / "trace"))
    fake_tool(toolbox, "mmdebstrap", GOOD)
    done = store.cove("build", "--recipes-dir", str(recipes))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("toy: ready") and "toy: download packages" in done.stderr
    words = (tmp_path / "trace").read_text().splitlines()
    assert "--include=base-one,two,three,four" in words
    assert "--variant=extract" in words and f"--mode={'root' if IS_ROOT else 'unshare'}" in words
    assert [row["name"] for row in store.own_images()] == ["toy"]
    assert not store.leftovers()
    assert store.json("build", "--missing", "--recipes-dir", str(recipes)) == {"images": []}


def test_build_tells_why_it_failed_and_keeps_the_log(store, toolbox, recipes):
    fake_tool(toolbox, "mmdebstrap", "echo 'I: running apt-get update...'\n"
              "echo 'E: the mirror is asleep' >&2\necho 'E: giving up' >&2\nexit 1\n")
    error = store.error("build", "toy", "--recipes-dir", str(recipes), status=69)
    assert "the mirror is asleep" in error["message"] and "read the package lists" in error["message"]
    log = store.path / "images/build-toy.log"
    assert str(log) in error["hint"] and "giving up" in log.read_text()
    assert store.leftovers() == {"build-toy.log"}


def test_build_without_mmdebstrap(store, toolbox, recipes, monkeypatch):
    for name in ("cp", "chmod", "sh", "tar"):
        (toolbox / name).symlink_to(shutil.which(name))
    monkeypatch.setenv("PATH", str(toolbox))
    error = store.error("build", "toy", "--recipes-dir", str(recipes), status=EXIT_NOT_FOUND)
    assert "mmdebstrap" in error["message"] and "apt install mmdebstrap" in error["hint"]


@pytest.mark.skipif(not IS_ROOT, reason="needs another user")
def test_another_user_cannot_change_the_store(recipes):
    nobody = pwd.getpwnam("nobody")
    with tempfile.TemporaryDirectory() as folder:  # pytest's own is closed to others
        open_folder = pathlib.Path(folder)
        open_folder.chmod(0o755)
        shutil.copytree(recipes, open_folder / "recipes")
        store = Store(open_folder / "data")
        (store.path / "images/tags").mkdir(parents=True)
        done = store.cove("build", "toy", "--recipes-dir", str(open_folder / "recipes"), "--json",
                          user=nobody.pw_uid, group=nobody.pw_gid, extra_groups=[])
        error = json.loads(done.stdout)["error"]
        assert error["code"] == "denied" and "--data-dir" in error["hint"]
