#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An assistant without a model: it does by rules what a model does by thought, and speaks MCP to Cove.

It uploads a table of marketing campaigns, runs code that it wrote without having seen the table, reads what
went wrong, mends the code, draws a chart and fetches it.

  agent.py                                          over stdio: starts `cove mcp` by itself
  agent.py --url http://127.0.0.1:8080/mcp          over HTTP; the token is taken from COVE_TOKEN
"""
import argparse
import base64
import difflib
import os
import re
import shutil
import sys
from pathlib import Path

from mcp_client import HttpClient, StdioClient, ToolError

HERE = Path(__file__).resolve().parent
SESSION = "campaigns"
ATTEMPTS = 5
HEAD, TAIL = 3, 8  # lines of an answer that are shown

ANALYSIS = """\
import pandas as pd

table = pd.read_csv("campaigns.csv")
sums = table.groupby("channel")[["revenue", "spend"]].sum()
sums["return"] = sums["revenue"] / sums["spend"]
sums = sums.sort_values("return")
print(sums.round(2))
"""

CHART = """\
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(7, 3.5))
bars = axes.barh(sums.index, sums["return"], color="#2a7f8e")
axes.bar_label(bars, fmt="%.1f", padding=4)
axes.axvline(1, color="#888888", linewidth=1)
axes.set_title("Revenue for each euro spent")
axes.spines[["top", "right"]].set_visible(False)
figure.tight_layout()
figure.savefig("return.png", dpi=150)
"""


# --- what is shown ------------------------------------------------------------------------------

def paint(code: str, words: str) -> str:
    return f"\033[{code}m{words}\033[0m" if sys.stdout.isatty() and "NO_COLOR" not in os.environ else words


def think(words: str) -> None:
    print(paint("1;36", f"\n* {words}"), flush=True)


def show(words: str, colour: str) -> None:
    for line in words.rstrip().splitlines():
        print(paint(colour, f"    {line}"), flush=True)


def short(words: str) -> str:
    """How it ended, and the end of a traceback, which says what happened."""
    lines = words.rstrip().splitlines()
    return "\n".join(lines if len(lines) <= HEAD + TAIL else [*lines[:HEAD], "...", *lines[-TAIL:]])


# --- what it does -------------------------------------------------------------------------------

def run(client, code: str) -> tuple[bool, str, list]:
    """-> whether the program completed, what Cove says of it, its pictures"""
    show(code, "2")
    content = client.call("run_code", {"session_id": SESSION, "language": "python", "code": code})
    text = "\n".join(part["text"] for part in content if part["type"] == "text")
    return text.startswith("completed"), text, [part for part in content if part["type"] == "image"]


def columns(client) -> list[str]:
    completed, text, _ = run(client, 'print(",".join(table.columns))')
    if not completed:
        raise SystemExit(f"agent: the table cannot be looked at:\n{text}")
    return next(line for line in text.splitlines() if "," in line and " " not in line).split(",")


def mend(client, code: str, text: str) -> str:
    """A column that is not there is replaced by the one that is meant."""
    missing = re.search(r"^KeyError: .*?'(\w+)'", text, re.MULTILINE)
    if "raised KeyError" not in text or not missing:
        raise SystemExit(f"agent: this is beyond my rules:\n{text}")
    think(f"A KeyError: there is no column '{missing[1]}'. Which ones are there?")
    there = columns(client)
    meant = difflib.get_close_matches(missing[1], there, n=1, cutoff=0.4)
    if not meant:
        raise SystemExit(f"agent: none of {', '.join(there)} looks like '{missing[1]}'")
    think(f"It is called '{meant[0]}'.")
    return code.replace(f'"{missing[1]}"', f'"{meant[0]}"')


def analyse(client) -> None:
    code = ANALYSIS
    for _ in range(ATTEMPTS):
        completed, text, _ = run(client, code)
        show(short(text), "32" if completed else "31")
        if completed:
            return
        code = mend(client, code, text)
    raise SystemExit(f"agent: it still fails after {ATTEMPTS} attempts")


def draw(client) -> None:
    completed, text, pictures = run(client, CHART)
    show(short(text), "32" if completed else "31")
    if not completed or not pictures:
        raise SystemExit("agent: there is no chart")


def fetch(client, target: Path) -> None:
    content = client.call("read_artifact", {"session_id": SESSION, "path": "return.png"})
    picture = next(part for part in content if part["type"] == "image")
    target.write_bytes(base64.b64decode(picture["data"]))
    show(f"{target}: {target.stat().st_size} bytes, {picture['mimeType']}", "32")


def work(client, target: Path) -> None:
    think("I put the table into a session of my own.")
    content = client.call("upload_file", {"session_id": SESSION, "path": "campaigns.csv",
                                          "content": (HERE / "campaigns.csv").read_text()})
    show(content[0]["text"], "32")
    think("Which channel brings the most for each euro? I have not seen the table, so I guess its columns.")
    analyse(client)
    think("Now a chart of it.")
    draw(client)
    think("The user wants the file.")
    fetch(client, target)
    client.call("close_session", {"session_id": SESSION})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="the address of a server's /mcp; without one, `cove mcp` is started")
    parser.add_argument("--cove", default=shutil.which("cove") or str(HERE.parents[1] / "build" / "cove"),
                        help="the program for stdio (%(default)s)")
    parser.add_argument("--out", type=Path, default=Path("return.png"), help="where the chart goes (%(default)s)")
    options = parser.parse_args()
    opened = HttpClient(options.url, os.environ.get("COVE_TOKEN")) if options.url else StdioClient([options.cove, "mcp"])
    try:
        with opened as client:
            work(client, options.out)
    except (ToolError, OSError) as failure:
        raise SystemExit(f"agent: {failure}") from None


if __name__ == "__main__":
    main()
