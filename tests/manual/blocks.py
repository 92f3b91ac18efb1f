"""The blocks of code of a page, and what runs them as a reader does: in their order, in one folder, word for word.

A comment on the line before a block says what is not a command to paste:

    <!-- block: save mylab.py -->      the block is the content of this file, as the text before it says
    <!-- block: append mylab.py -->    it is added to this file
    <!-- block: skip REASON -->        it is not run
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

_BLOCK = re.compile(r"(?:^<!-- block: (.+?) -->\n)?^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)

#: Names that a reader replaces by his own -> where that is in the folder of the test. `{}` is the folder; it holds a
#: checkout with the demonstration processed (`demo`). The first match counts, so longer names come first.
PLACES = {
    "/data/2026-11-21": "{}/data/2026-11-21",
    "/data/2026-11-*": "{}/data/2026-11-*",
    "/data/iq1m": "{}/data",
    "/data/walk": "{}/data/2026-11-21",
    "/data": "{}/data",
    "/archive/2026": "{}/data",
    "/scratch/me": "{}/scratch",
    "REFLECTOR": "{}/reflector",
    "REPOSITORY": "{}/repository",
    "OTHER": "{}/data/2026-11-21",
    "TRACE": "{}/data/2026-11-21",
    "monday": "2026-11-21",
}
_PLACE = re.compile(
    "|".join(rf"(?<![\w/]){re.escape(name)}(?![\w-])" for name in PLACES if name != "monday") + "|monday"
)

#: Programs that would install packages, or wait for a network: the arguments are checked, nothing is installed.
_PIP = """#!{python}
import re, sys, tomllib
if "--version" not in sys.argv:
    project = tomllib.load(open({project!r}, "rb"))["project"]
    assert sys.argv[1] == "install", sys.argv
    for word in sys.argv[2:]:
        found = re.fullmatch(r"(?:-e|\\.(?:\\[([\\w,-]+)\\])?)", word)
        assert found, f"pip install {{word}}"
        for extra in filter(None, (found[1] or "").split(",")):
            assert extra in project["optional-dependencies"], f"there is no extra {{extra}}"
"""
_PYTHON3 = """#!/bin/sh
if [ "$1 $2" = "-m venv" ]; then mkdir -p "$3/bin" && touch "$3/bin/activate"; else exec {python} "$@"; fi
"""


class Block(NamedTuple):
    """A block of code of a page."""

    #: Line of the page at which its code begins.
    line: int
    #: What the comment before it says; empty without one.
    mark: str
    language: str
    code: str


def blocks(page: Path) -> list[Block]:
    """The blocks of a page in their order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(text.count("\n", 0, found.start(3)) + 1, found[1] or "", found[2], found[3])
        for found in _BLOCK.finditer(text)
    ]


def placed(code: str, folder: Path) -> str:
    """The code with the names that a reader replaces replaced."""
    return _PLACE.sub(lambda found: PLACES[found[0]].format(folder), code)


def script(page: Path, folder: Path) -> str:
    """All blocks of a page that are commands, Python or files, as one script for bash, which stops at what fails."""
    lines = ["set -euo pipefail"]
    for block in blocks(page):
        action, _, rest = block.mark.partition(" ")
        code = placed(block.code, folder)
        if action == "skip" or not block.language or block.language in ("yaml", "json"):
            continue
        lines.append(f"echo '@@@ {page.name}:{block.line}' >&2")
        if action in ("save", "append"):
            arrow = ">" if action == "save" else ">>"
            lines.append(f"cat {arrow} {shlex.quote(rest)} <<'END_OF_BLOCK'\n{code}END_OF_BLOCK")
        elif block.language == "sh":
            lines.append(code)
        elif block.language == "python":
            lines.append(f"python - <<'END_OF_BLOCK'\n{code}END_OF_BLOCK")
        else:
            raise AssertionError(f"{page}:{block.line}: nothing runs a block of {block.language!r}; mark it")
    return "\n".join(lines) + "\n"


def run(page: Path, folder: Path) -> None:
    """Run the blocks of a page in `folder`. What fails is named by its line, with the end of what it printed."""
    programs = folder / ".programs"
    programs.mkdir(exist_ok=True)
    project = str(folder / "pyproject.toml")
    for name, text in {"pip": _PIP, "python3": _PYTHON3}.items():
        (programs / name).write_text(text.format(python=sys.executable, project=project))
        (programs / name).chmod(0o755)
    path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
    home = folder / ".home"
    home.mkdir(exist_ok=True)
    place = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / "config"), "MPLBACKEND": "agg", "PATH": path}
    # The cache of compiled kernels stays where it is.
    place["XDG_CACHE_HOME"] = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    done = subprocess.run(
        ["bash", "-c", script(page, folder)], cwd=folder, env=os.environ | place, capture_output=True, text=True
    )
    if done.returncode:
        at = re.findall(r"^@@@ (.*)$", done.stderr, re.MULTILINE)
        told = done.stderr.rpartition("@@@ ")[2][-3000:]
        raise AssertionError(f"{at[-1] if at else page}: exit status {done.returncode}\n{told}\n{done.stdout[-1000:]}")
