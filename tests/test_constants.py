"""Every number at the level of a module says what it is; tuned ones are counted, and may only become fewer."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.test_architecture import PACKAGE, SOURCES

#: The last words of the comment above a number.
KIND = re.compile(r"(?:^|[.:)] |#:? )(?:(Layout|Schedule)|(Physics|Noise|Tuned): \S.*)\.$")
#: The number of tuned constants by room, fields of `Tuning` models among them.
TUNED: dict[str, int] = {
    "calibrate": 12,
    "camera": 1,
    "clocks": 14,
    "draw": 2,
    "engine": 1,
    "export": 2,
    "importers": 5,
    "imu": 18,
    "kinematics": 3,
    "lidar": 3,
    "mapping": 13,
    "numerics": 3,
    "objects": 30,
    "odometry": 67,
    "radar": 21,
    "report": 4,
    "sync": 1,
    "validation": 4,
    "workflow": 1,
}
#: The number of all numbers at the level of a module, and of fields of `Tuning` models, by room.
ALL: dict[str, int] = {
    "(top)": 2,
    "calibrate": 29,
    "camera": 4,
    "clocks": 17,
    "datasets": 1,
    "draw": 28,
    "engine": 22,
    "export": 51,
    "format": 33,
    "importers": 69,
    "imu": 29,
    "kinematics": 16,
    "lidar": 11,
    "mapping": 21,
    "numerics": 19,
    "objects": 57,
    "occupancy": 3,
    "odometry": 94,
    "radar": 44,
    "reading": 2,
    "report": 17,
    "simulate": 89,
    "sync": 1,
    "validation": 17,
    "workflow": 14,
}


class Number(NamedTuple):
    """A number at the level of a module: its name, its line, and its kind (empty where no comment says it)."""

    name: str
    line: int
    kind: str


def numbers(text: str) -> Iterator[Number]:
    """Each constant of a module that holds a number.

    A comment holds for the assignments that follow it without a blank line or another comment between them. Steps and
    formats of datasets are declarations: their versions and costs are no such numbers.
    """
    lines = text.splitlines()
    for node in ast.parse(text).body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None or not _holds_a_number(node.value):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
        is_step = re.search(r"\b(Step|_of_samples|DatasetFormat)\(", ast.unparse(node.value))
        if names and all(name == name.upper() for name in names) and not is_step:
            yield Number(", ".join(names), node.lineno, _kind(lines, node.lineno - 1))


def tuned_fields(text: str) -> Iterator[str]:
    """Each field with a number of the classes of a module whose name ends in `Tuning`."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef) and node.name.endswith("Tuning"):
            for each in node.body:
                if isinstance(each, ast.AnnAssign) and each.value is not None and _holds_a_number(each.value):
                    yield ast.unparse(each.target)


def _holds_a_number(value: ast.expr) -> bool:
    return any(
        isinstance(each, ast.Constant) and isinstance(each.value, int | float) and not isinstance(each.value, bool)
        for each in ast.walk(value)
    )


def _kind(lines: list[str], index: int) -> str:
    """The kind that the comment above the line says, or that stands behind it on the line."""
    if behind := KIND.search(lines[index].partition("  # ")[2]):
        return behind[1] or behind[2]
    while index > 0 and lines[index].strip() and not lines[index].startswith("#"):
        index -= 1
    found = KIND.search(lines[index]) if lines[index].startswith("#") else None
    return (found[1] or found[2]) if found else ""


def _room(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else "(top)"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_number_of_a_module_says_its_kind(path: Path) -> None:
    silent = [f"{each.line}: {each.name}" for each in numbers(path.read_text()) if not each.kind]
    assert not silent, f"the comment above ends with its kind, see 'Constants' in CONTRIBUTING.md: {silent}"


def test_tuned_numbers_become_fewer_only() -> None:
    tuned: Counter[str] = Counter()
    every: Counter[str] = Counter()
    for path in SOURCES:
        found, fields = list(numbers(path.read_text())), list(tuned_fields(path.read_text()))
        every[_room(path)] += len(found) + len(fields)
        tuned[_room(path)] += sum(each.kind == "Tuned" for each in found) + len(fields)
    assert (dict(+tuned), dict(+every)) == (TUNED, ALL), "a count that fell is written here; one may not grow"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("#: Speed of light, m/s. Physics: SI.\nC = 3e8", "Physics"),
        ("#: Bytes of a packet. Layout.\nSIZE = 1206\nROWS = 3", "Layout"),
        ("#: Rows of a block. Schedule.\n\nROWS = 3", ""),
        ("#: Rows of a block.\nROWS = 3", ""),
        ("#: Deviation of a range, m. Noise.\nRANGE = 0.02", ""),
        ("#: Deviation of a range, m. Noise: data sheet of the OS0, Rev. D.\nRANGE = 0.02", "Noise"),
        ("ROWS = 3  # Schedule.", "Schedule"),
    ],
)
def test_the_kind_of_a_number_is_read_from_its_comment(text: str, kind: str) -> None:
    assert [each.kind for each in numbers(text)] == [kind] * text.count("=")
