"""README and manual say what the code says, and their links lead somewhere."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from rover_pipeline.cli import build_parser
from rover_pipeline.table import TABLE, renewed
from tests.conftest import CHECKOUT

PAGES = sorted((CHECKOUT / "docs").rglob("*.md"))
SENSORS = CHECKOUT / "docs" / "sensors"
#: Made while the manual is built; `mkdocs build --strict` checks what leads there.
GENERATED = {CHECKOUT / "docs" / "options.md"}


def headings(page: Path) -> set[str]:
    """The places of a page that a link can name."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", [CHECKOUT / name for name in ("README.md", "CONTRIBUTING.md")] + PAGES, ids=str)
def test_links_and_pictures_are_there(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        path, _, place = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if "://" in link or target in GENERATED:
            continue
        assert target.exists(), f"{page.name} leads to {link}, which is not there"
        assert not place or place in headings(target), f"{page.name}: {target.name} has no heading {place}"


@pytest.mark.parametrize("page", [CHECKOUT / "README.md", *sorted(SENSORS.glob("*.md"))], ids=lambda page: page.name)
def test_what_documents_say_of_virtual_sensors_is_what_the_table_says(page: Path) -> None:
    said = "run `python -m rover_pipeline.table README.md docs/sensors/*.md`"
    assert renewed(page, page.read_text()) == page.read_text(), said


def test_every_virtual_sensor_has_a_page() -> None:
    assert {path.stem for path in SENSORS.glob("*.md")} == {name[1:] for name in TABLE} | {"index"}


def test_every_command_is_in_the_manual() -> None:
    written = (CHECKOUT / "docs" / "commands.md").read_text()
    for command in commands(build_parser()):
        assert f"`rover-pipeline {command}" in written, f"docs/commands.md does not mention {command}"


def commands(parser: argparse.ArgumentParser) -> list[str]:
    """Names of commands, with the second word where there is one."""
    found = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                found += [f"{name} {word}" for word in commands(below)] or [name]
    return found
