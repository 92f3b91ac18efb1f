"""Every measured figure that documents quote is in one file, `benchmarks/results.json`.

Benchmarks write their rows there by `record`; what a test asserts has a row with the command of the test. Documents
quote a row between two comments, which a reader of the page does not see, or hold a table of all rows of a group:

    <!-- result: odom/walking ATE -->0.36 mm<!-- end -->

    <!-- results table: rough -->
    ...
    <!-- end of the results table -->

`python -m benchmarks.results README.md docs benchmarks/README.md` writes today's figures into documents.
`tests/test_figures.py` finds quotes that differ from the file, and measured figures that quote no row.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

FILE = Path(__file__).with_name("results.json")
_QUOTE = re.compile(r"(<!-- result: ([^\n]+?) -->)(.*?)(<!-- end -->)", re.DOTALL)
_TABLE = re.compile(r"(<!-- results table: ([^\n]+?) -->\n)(.*?)(<!-- end of the results table -->)", re.DOTALL)
#: Headings of sections, and the beginnings of paragraphs, in which each figure is a measured one.
_SECTION = re.compile(r"Measured error|What was tried")
_PARAGRAPH = re.compile(r"python -m (?:benchmarks|tests\.campaign)|\*\*Speed\.\*\*|benchmarks/README")
_UNIT = r"%|[cm]m/s|km|[cm]m|m/s|m|degrees?(?:/s)?|ms|microseconds?|s|min|hours|[KMG]i?B(?:/s)?|dB|of (?=\d)|times|x"
#: A number with its unit, or the first of several with one unit: `8.8, 13.4 and 20.9 mm`.
_FIGURE = re.compile(
    rf"(?<![\w.`-])\d[\d,]*(?:\.\d+)?(?:(?:, | and | to | or | / )\d+(?:\.\d+)?)* ?(?:{_UNIT})(?![\w`])"
)


class Row(NamedTuple):
    """A measured figure."""

    #: The number as documents show it, or a sentence with several.
    value: str
    #: Empty where the value is a sentence, or has no unit.
    unit: str
    #: What was measured, and on what.
    of: str
    world: Literal["simulated", "real"]
    #: ISO 8601.
    date: str
    machine: str
    #: The last commit that changed the package, with a `+` where it had changes besides.
    commit: str
    command: str

    def __str__(self) -> str:
        return f"{self.value}{'' if self.unit == 'x' or not self.unit else ' '}{self.unit}"


def load() -> dict[str, Row]:
    """All rows by their keys: `group/name`, or `group/row/column` of a table."""
    return {key: Row(**row) for key, row in json.loads(FILE.read_text(encoding="utf-8")).items()}


def record(key: str, value: str, unit: str = "", *, of: str, world: Literal["simulated", "real"] = "simulated") -> None:
    """Print a figure, and write it into the file of results in place of the one that was measured before."""
    row = Row(value, unit, of, world, str(datetime.date.today()), _machine(), _commit(), _command())
    print(f"{key}: {row} ({of})", flush=True)
    rows = load()
    # A new row stands behind the others of its group.
    if key not in rows:
        keys = list(rows)
        same = [at for at, each in enumerate(keys) if each.partition("/")[0] == key.partition("/")[0]]
        keys.insert(same[-1] + 1 if same else len(keys), key)
        rows = {each: rows.get(each, row) for each in keys}
    save(rows | {key: row})


def save(rows: dict[str, Row]) -> None:
    """Write the file: a row a line, so that a comparison of two states shows what has changed."""
    lines = [f"{json.dumps(key)}: {json.dumps(row._asdict(), ensure_ascii=False)}" for key, row in rows.items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def renewed(text: str, rows: dict[str, Row]) -> str:
    """The text of a document with the figures of the file in its quotes and tables."""
    text = _TABLE.sub(lambda found: f"{found[1]}{_table(found[2], rows)}{found[4]}", text)
    return _QUOTE.sub(lambda found: f"{found[1]}{_row(found[2], rows)}{found[4]}", text)


def quoted(text: str) -> list[str]:
    """Keys of the rows that a text quotes; of a table its group, followed by a slash."""
    return [key for _, key, _, _ in _QUOTE.findall(text)] + [f"{group}/" for _, group, _, _ in _TABLE.findall(text)]


def untied(text: str, rows: dict[str, Row], *, all_of_it: bool = False) -> list[str]:
    """Measured figures of a document that are not quoted from the file.

    Looked at are the sections and paragraphs that hold measured figures, or the whole document. A number that says on
    what was measured stands in the `of` of a row that the same section quotes.
    """
    found = []
    for section in re.split(r"^(?=#)", text, flags=re.MULTILINE):
        whole = all_of_it or bool(_SECTION.search(section.partition("\n")[0]))
        parts = [section] if whole else [part for part in section.split("\n\n") if _PARAGRAPH.search(part)]
        keys = quoted(section)
        known = " ".join(row.of for key, row in rows.items() if key.startswith(tuple(keys)) and keys)
        for part in parts:
            bare = re.sub(r"```.*?```|`[^`]*`", "", _QUOTE.sub("", _TABLE.sub("", part)), flags=re.DOTALL)
            found += [each for each in _FIGURE.findall(" ".join(bare.split())) if each not in known]
    return found


def documents(paths: Iterable[Path]) -> list[Path]:
    """The paths, and the pages below those that are folders."""
    return [page for path in paths for page in (sorted(path.rglob("*.md")) if path.is_dir() else [path])]


def _row(key: str, rows: dict[str, Row]) -> Row:
    if key not in rows:
        raise SystemExit(f"{FILE.name} has no row {key!r}")
    return rows[key]


def _table(group: str, rows: dict[str, Row]) -> str:
    """A table of the rows of a group, and when and how they were measured."""
    own = {tuple(key.split("/")[1:]): row for key, row in rows.items() if key.startswith(f"{group}/")}
    if not own:
        raise SystemExit(f"{FILE.name} has no rows {group}/")
    if all(len(key) == 1 for key in own):
        lines = ["| what | figure | measured |", "| --- | --- | --- |"]
        return "\n".join(lines + [f"| {row.of} | {row} | {row.date}, `{row.command}` |" for row in own.values()]) + "\n"
    columns = list(dict.fromkeys(key[1] for key in own))
    units = {name: {row.unit for key, row in own.items() if key[1] == name} for name in columns}
    heads = [f"{name}, {next(iter(unit))}" if len(unit) == 1 and unit != {""} else name for name, unit in units.items()]
    lines = ["| | " + " | ".join(heads) + " |", "| --- " * (1 + len(columns)) + "|"]
    for name in dict.fromkeys(key[0] for key in own):
        cells = [own.get((name, column)) for column in columns]
        shown = [
            "" if cell is None else cell.value if len(units[column]) == 1 else str(cell)
            for cell, column in zip(cells, columns, strict=True)
        ]
        lines.append(f"| {name} | " + " | ".join(shown) + " |")
    made: dict[tuple[str, str, str, str], list[str]] = {}
    # The notes name the rows or the columns, whichever takes fewer names to say what was measured when.
    ways = [[key[axis] for key in own] for axis in (0, 1)]
    names = min(ways, key=lambda each: len({(name, *row[4:]) for name, row in zip(each, own.values(), strict=True)}))
    for name, row in zip(names, own.values(), strict=True):
        how = made.setdefault((row.date, row.machine, row.commit, row.command), [])
        how += [] if name in how else [name]
    said = [
        f"{'; '.join(names) if len(made) > 1 else 'Measured'} on {date}, {machine}, commit {commit}: `{command}`."
        for (date, machine, commit, command), names in made.items()
    ]
    return "\n".join([*lines, "", *said]) + "\n"


def _machine() -> str:
    models = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    return f"{os.cpu_count()} processors of {models[0] if models else platform.machine()}"


def _commit() -> str:
    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=Path(__file__).parent.parent, capture_output=True, text=True
        ).stdout.strip()

    return git("log", "-1", "--format=%h", "--", "rover_pipeline") + (
        "+" if git("status", "--porcelain", "rover_pipeline") else ""
    )


def _command() -> str:
    """The command of this process, as it is typed in a checkout; folders by their last names."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    words = [Path(word).name if word.startswith(("/", "..")) else word for word in sys.argv[1:]]
    return " ".join(["python -m", spec.name if spec else Path(sys.argv[0]).name, *words])


if __name__ == "__main__":
    known = load()
    for document in documents(map(Path, sys.argv[1:])):
        document.write_text(renewed(document.read_text(encoding="utf-8"), known), encoding="utf-8")
