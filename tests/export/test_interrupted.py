"""A kill, a full disk or a second export change no byte of a dataset. More kills: `ROVER_PIPELINE_WHOLE=1`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rover_pipeline.datasets.table import DATASETS
from tests.campaign.faults import LIBRARY, build
from tests.conftest import CHECKOUT
from tests.kit import WHOLE, environment

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that disturbs calls to the operating system."""
    if not shutil.which("cc"):
        assert not os.environ.get("CI"), "the fault campaign needs a C compiler, cc"
        pytest.skip("no C compiler, cc")
    return build(tmp_path_factory.mktemp("faults"))


@pytest.mark.parametrize("name", DATASETS)
def test_an_export_that_is_killed_or_finds_the_disk_full_gives_the_same_bytes_when_it_is_run_again(
    name: str, library: Path
) -> None:
    """And while one is stopped in its middle, another one into the same folder says so."""
    pytest.importorskip("rasterio" if name == "rslearn" else "pyarrow")
    command = [sys.executable, "-m", "tests.export.interrupted", "60" if WHOLE else "6", name]
    preloaded = {**environment(), "LD_PRELOAD": str(library), LIBRARY: str(library)}
    done = subprocess.run(command, cwd=CHECKOUT, env=preloaded, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 wrong" in done.stdout.splitlines()[-1]
