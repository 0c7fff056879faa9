# SPDX-License-Identifier: Apache-2.0
"""Installs packages into /workspace, which becomes a layer: runs in a sandbox of its own, with nothing else in it.

Standard input has one requirement a line. Which index to ask, and by which proxy, the installers read from their own
variables. What they print is what people get to read when it fails, so nothing is added to it.
"""
import os
import shutil
import stat
import subprocess
import sys

TARGET = "/workspace"
HANDED = os.path.join(TARGET, ".cove")
TOOLS = "/tmp/.cove"


def installer():
    """The command that installs, and whether it is uv: that comes before pip, and what Cove hands in before what the image has."""
    uv, pip = os.path.join(TOOLS, "uv"), os.path.join(TOOLS, "pip.whl")
    found = uv if os.path.exists(uv) else shutil.which("uv")
    if found:
        return [found, "pip"], True
    return [sys.executable, *([os.path.join(pip, "pip")] if os.path.exists(pip) else ["-m", "pip"])], False


def command(requirements):
    words, is_uv = installer()
    words += ["install", "--target", TARGET, "--no-cache-dir" if not is_uv else "--no-cache"]
    if is_uv:
        words += ["--python", sys.executable, "--compile-bytecode", "--no-config", "--link-mode", "copy", "--no-progress"]
    else:
        words += ["--disable-pip-version-check", "--no-input", "--retries", "2", "--progress-bar", "off", "--no-warn-script-location",
                  "--root-user-action", "ignore"]
    return [*words, "--", *requirements]


def share(path):
    """Everybody may read it, nobody is anybody by it: so a layer wants its files."""
    for folder, folders, files in os.walk(path):
        for name in folders + files:
            entry = os.path.join(folder, name)
            mode = os.lstat(entry).st_mode
            if not stat.S_ISLNK(mode):
                os.chmod(entry, 0o755 if stat.S_ISDIR(mode) or mode & 0o111 else 0o644)


def main():
    requirements = sys.stdin.read().splitlines()
    shutil.move(HANDED, TOOLS)
    certificates = os.path.join(TOOLS, "ca.pem")
    if os.path.exists(certificates):
        os.environ["PIP_CERT"] = os.environ["SSL_CERT_FILE"] = certificates
    status = subprocess.run(command(requirements), stdin=subprocess.DEVNULL, check=False).returncode
    if status == 0:
        share(TARGET)
    return status


if __name__ == "__main__":
    sys.exit(main())
