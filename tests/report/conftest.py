"""A page and a browser that several tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rover_pipeline.options import PageOptions
from rover_pipeline.report.page import report_files
from rover_pipeline.report.summary import Summary
from rover_pipeline.report.templating import PAGE, SUMMARY
from tests.browser import Tab, chromium
from tests.report.scene import walk


@pytest.fixture(scope="session")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recording of a walk with every result. Tests must not change it."""
    return walk(tmp_path_factory.mktemp("scene") / "walk")


@pytest.fixture(scope="session")
def files(scene: Path) -> dict[str, bytes]:
    """The page and the summary of the walk."""
    return report_files(scene, PageOptions(outputs=("report",), instants=3, picture_width=96))


@pytest.fixture(scope="session")
def summary(files: dict[str, bytes]) -> Summary:
    return Summary.model_validate_json(files[SUMMARY])


@pytest.fixture(scope="session")
def page(files: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / PAGE
    path.write_bytes(files[PAGE])
    return path


@pytest.fixture(scope="session")
def tab() -> Iterator[Tab]:
    """A browser without a network."""
    with chromium() as tab:
        yield tab
