"""README and manual say what the code says, and their links lead somewhere."""

from __future__ import annotations

import argparse
import re
import tomllib
from pathlib import Path

import cv2
import pytest

import rover_pipeline as rp
from docs import make_diagram
from docs.make_tables import renewed
from rover_pipeline import steps
from rover_pipeline.cli import build_parser
from rover_pipeline.importers.clouds import _NAMES, READERS
from rover_pipeline.table import TABLE
from tests.conftest import CHECKOUT

PAGES = sorted((CHECKOUT / "docs").rglob("*.md"))
SENSORS = CHECKOUT / "docs" / "sensors"
#: Made while the manual is built; `mkdocs build --strict` checks what leads there.
GENERATED = {CHECKOUT / "docs" / "options.md"}


def headings(page: Path) -> set[str]:
    """The places of a page that a link can name, as GitHub calls them, and as MkDocs does."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    plain = [re.sub(r"[^\w -]", "", title.lower()) for title in titles]
    return {title.replace(" ", "-") for title in plain} | {re.sub(r"[- ]+", "-", title) for title in plain}


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
    said = "run `python -m docs.make_tables README.md docs/sensors/*.md`"
    assert renewed(page, page.read_text()) == page.read_text(), said


def test_every_virtual_sensor_has_a_page() -> None:
    assert {path.stem for path in SENSORS.glob("*.md")} == {name[1:] for name in TABLE} | {"index"}


def test_every_command_is_in_the_manual() -> None:
    written = (CHECKOUT / "docs" / "commands.md").read_text()
    for command in commands(build_parser()):
        assert f"`rover-pipeline {command}" in written, f"docs/commands.md does not mention {command}"


def test_the_page_of_imports_has_every_kind_of_capture_and_every_name_of_what_is_known_of_points() -> None:
    written = (CHECKOUT / "docs" / "imports.md").read_text()
    for command in commands(build_parser()):
        kind = command.removeprefix("import ")
        assert kind == command or f"import {kind}" in written, f"docs/imports.md does not mention import {kind}"
    for name in [*_NAMES, *READERS]:
        assert f"`{name}`" in written, f"docs/imports.md does not mention `{name}`"


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/tutorial.md"])
def test_what_is_needed_is_said_before_the_first_command(page: str) -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    before = (CHECKOUT / page).read_text().partition("```")[0]
    assert f"Python {project['requires-python'].removeprefix('>=')} or later" in before and "Linux" in before


def commands(parser: argparse.ArgumentParser) -> list[str]:
    """Names of commands, with the second word where there is one."""
    found = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                found += [f"{name} {word}" for word in commands(below)] or [name]
    return found


@pytest.mark.parametrize("name", TABLE)
def test_the_page_of_a_virtual_sensor_has_a_picture_and_says_how_where_when_and_how_well(name: str) -> None:
    text = (SENSORS / f"{name[1:]}.md").read_text()
    picture = SENSORS.parent / "pictures" / f"{name[1:]}.png"
    assert f"](../pictures/{picture.name})" in text
    pixels = cv2.imread(str(picture))
    assert pixels is not None and min(pixels.shape[:2]) > 200 and pixels.std() > 10
    assert picture.stat().st_size < 120_000
    if name != "_report":  # a page, no measurement
        for section in ("Method", "Frame and instant", "Limits", "Measured error"):
            assert f"\n## {section}\n" in text, f"{name} does not say: {section}"


def test_the_pictures_of_the_manual_are_small_and_used() -> None:
    pictures = sorted((CHECKOUT / "docs" / "pictures").iterdir())
    assert sum(path.stat().st_size for path in pictures) < 2_500_000
    written = "".join(page.read_text() for page in [CHECKOUT / "README.md", *PAGES])
    assert all(f"pictures/{path.name})" in written for path in pictures)


def test_the_diagram_is_that_of_the_table() -> None:
    assert make_diagram.PICTURE.read_text() == make_diagram.svg(), "run `python -m docs.make_diagram`"
    lines = make_diagram.edges()
    assert lines["_lidar_image", "_odom"] is False and lines["imu", "_odom"] is True
    assert ("lidar", "_odom") not in lines  # it follows from lidar, _lidar_image, _odom
    drawn = {name for line in lines for name in line}
    assert drawn == {*make_diagram.RAW, *TABLE} - {"_report"}


def test_every_public_name_is_in_the_reference_of_python() -> None:
    written = (CHECKOUT / "docs" / "api.md").read_text()
    for name in rp.__all__:
        assert f"heading: rp.{name}," in written or name == "__version__"
    for name in steps.__all__:
        assert f"heading: steps.{name}," in written
